"""A gateway node: a stateless relay for CDP, ADB and SSH. One coroutine a connection.

A request carries a signed token (`Authorization: Bearer`, or the path `/t/TOKEN/…` for CDP). Then
- `CONNECT <device> HTTP/1.1`: raw bytes both ways (ADB, SSH, anything over TCP);
- `GET /json/…`: CDP discovery, answered with the gateway's own addresses;
- a WebSocket upgrade: its head goes to the browser, everything after it is bytes;
- `/metrics` and `/healthz` need no token and name no device.
All connections of one device stand at its owner, found by rendezvous hashing; other nodes stream to it.
"""

import asyncio
import contextlib
import logging
import os
import resource
import signal
import time
from collections.abc import Callable

from generators.devices.config import NodeConfig
from generators.devices.gateway import cdp_discovery
from generators.devices.gateway.fence_feed import FenceFeed
from generators.devices.gateway.node_metrics import NodeMetrics
from generators.devices.gateway.relay import HeadReader, Relay, Still, close_soon
from generators.devices.metrics import CONTENT_TYPE
from generators.devices.protocols.http_head import END, LIMIT, BadHead, HttpHead, read_head, write_head, write_reply
from generators.devices.records import NodeRecord
from generators.devices.rendezvous import rank
from generators.devices.strangers import one_to_go
from generators.devices.tokens import Access, BadToken, Tokens
from pipelines.ports import named_port

log = logging.getLogger(__name__)
MARK = "Vesper-Forwarded"
SWEEP_S = 0.5
DOWN_S = 10.0
"""How long a node that couldn't be reached is passed over."""
# bytes; a browser with many pages has a long list
DISCOVERY_LIMIT = 16 << 20
BACKLOG = 4096


class _Refusal(Exception):
    """A reply other than the one asked for."""

    def __init__(self, status: int, reason: str, why: str) -> None:
        super().__init__(reason)
        self.status, self.why = status, why


class GatewayNode:
    """A running node; `start` to listen, `drain` to end."""

    def __init__(self, config: NodeConfig) -> None:
        self.config = config
        self._tokens = Tokens(config.secret)
        self._relays: dict[str, set[Relay]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._down: dict[str, float] = {}
        self._open = 0
        self._strangers: dict[HeadReader, str] = {}
        """Connections that have shown no token yet, the oldest first, and where each comes from."""
        self._holders: set[HeadReader] = set()
        self._draining = False
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        # an eighth of the descriptors for those who have shown no token
        self._most_strangers = max(64, min(1024, descriptors // 8))
        # two descriptors a relay; 200 stay for files, logs and the way to the authority
        self.cap = config.max_connections or max(1, (descriptors - 200 - self._most_strangers) // 2)
        self.metrics = NodeMetrics(lambda: self._open, lambda: self.feed.age_s(), lambda: len(self.feed.nodes))
        self.feed: FenceFeed

    async def start(self) -> NodeRecord:
        """Listen, and follow the authority in the background. Gives the address for clients."""
        config, loop = self.config, asyncio.get_running_loop()
        with named_port(config.host, config.port, "`port` in its configuration"):
            self._server = await loop.create_server(
                lambda: HeadReader(LIMIT, END, self._accept), config.host, config.port, backlog=BACKLOG
            )
        port = self._server.sockets[0].getsockname()[1]
        me = NodeRecord(config.id, config.public_host or config.host, config.public_port or port)
        self.feed = FenceFeed(config, me, self._cut_below_floor)
        self._background = [loop.create_task(self.feed.run()), loop.create_task(self._sweep())]
        return me

    async def drain(self) -> None:
        # in this order: no new connection, no new device, then what runs may end
        """Accept nothing more, report to the authority, let relays end for `drain_s`, cut what is left."""
        self._draining = True
        self._server.close()
        await self.feed.retire()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self.config.drain_s)
        for relay in self._all_relays():
            relay.cut("drained")
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=2)

    # -- a connection -----------------------------------------------------------------------------------------------

    def _accept(self, reader: HeadReader) -> None:
        if len(self._strangers) >= self._most_strangers:
            self._push_out(reader)
        self._open += 1
        self._strangers[reader] = str((reader.transport.get_extra_info("peername") or ("",))[0])
        task = asyncio.get_running_loop().create_task(self._serve(reader))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _push_out(self, newcomer: HeadReader) -> None:
        """Make room among those who have shown no token. Who has one shows it within a round trip."""
        # one whose head is there already is about to be answered
        silent = {reader: place for reader, place in self._strangers.items() if not reader.ready.done()}
        oldest = one_to_go(silent, newcomer)
        self.metrics.refused.add(1, "capacity")
        self._strangers.pop(oldest, None)
        oldest.transport.abort()

    async def _serve(self, reader: HeadReader) -> None:
        transport = reader.transport
        try:
            await self._answer(reader)
        except _Refusal as refusal:
            self.metrics.refused.add(1, refusal.why)
            more = {"Retry_After": "1"} if refusal.status == 503 else {}
            if refusal.status == 401:
                more["WWW_Authenticate"] = "Bearer"
            self._reply(transport, write_reply(refusal.status, f"{refusal}\n".encode(), **more))
        # a fault of ours: it ends this connection and no other
        except Exception:
            log.exception("node %s: a connection failed", self.config.id)
            transport.abort()
        finally:
            self._open -= 1
            self._strangers.pop(reader, None)
            self._holders.discard(reader)

    def _reply(self, transport: asyncio.Transport, reply: bytes) -> None:
        if not transport.is_closing():
            transport.write(reply)
            close_soon(transport)

    async def _answer(self, reader: HeadReader) -> None:
        try:
            raw = await asyncio.wait_for(reader.ready, self.config.head_s)
        except TimeoutError:
            raise _Refusal(408, f"no request within {self.config.head_s:g} s", "slow") from None
        if raw is None:
            if reader.too_long:
                raise _Refusal(431, f"head: expected at most {LIMIT} bytes", "head")
            reader.transport.close()
            return
        try:
            head = read_head(raw)
            method, target, _ = head.start
            if target in ("/metrics", "/healthz") and method == "GET":
                self._reply(reader.transport, self._about(target))
                return
            token, prefix, path = _credentials(head)
            mark = head.get(MARK)
            host = head.get("Host")
        except BadHead as error:
            raise _Refusal(400, str(error), "head") from None
        # after the head was read, so that the answer is one
        if self._draining:
            raise _Refusal(503, "this node is going; try another", "draining")
        access = self._check(token)
        # by those who hold a valid token: strangers are counted apart
        if len(self._holders) >= self.cap:
            raise _Refusal(503, f"this node holds its {self.cap} connections; try another", "capacity")
        self._strangers.pop(reader, None)
        self._holders.add(reader)
        if method == "CONNECT" and path not in (access.device, f"{access.device}:{access.port}"):
            raise _Refusal(403, "token: made for another device", "token")
        if method != "CONNECT" and access.protocol != "cdp":
            raise _Refusal(400, f"device {access.device} speaks {access.protocol}: use CONNECT", "head")
        # marked by another node of this gateway: it has looked for the owner, and found this one
        local = bool(mark) and self._tokens.is_forwarded(mark, token, self.config.id)
        owner = None if local else await self._reach_owner(access)
        if owner is not None:
            await self._stream_to(owner, reader, head, token, access)
        elif method == "CONNECT":
            await self._tunnel(reader, access)
        elif head.get("Upgrade").lower() == "websocket":
            await self._websocket(reader, head, path, access)
        elif path.startswith("/json"):
            await self._discover(reader, method, path, prefix, host, access)
        else:
            raise _Refusal(404, "expected /json/…, a WebSocket at /devtools/…, or CONNECT", "head")

    def _check(self, token: str) -> Access:
        try:
            access = self._tokens.check(token, time.time())
        except BadToken as error:
            raise _Refusal(401, str(error), "token") from None
        self._admit(access)
        return access

    def _admit(self, access: Access) -> None:
        if not self.feed.admit(access.device, access.fence):
            raise _Refusal(403, "token: its lease has ended", "fence")

    def _about(self, target: str) -> bytes:
        if target == "/metrics":
            return write_reply(200, self.metrics.text(self._all_relays()), CONTENT_TYPE)
        return write_reply(503 if self._draining else 200, b"draining\n" if self._draining else b"ok\n")

    # -- the device's owner -----------------------------------------------------------------------------------------

    async def _reach_owner(self, access: Access) -> tuple[NodeRecord, Still] | None:
        """A connection to the first node in the device's order that answers; None if that is this one."""
        now = time.monotonic()
        # the same order on every node, so that all of them end at the same owner
        for name in rank(access.device, self.feed.nodes, access.node):
            if name == self.config.id:
                return None
            node = self.feed.nodes.get(name)
            # not asked again for a while, or every connection would wait for it to time out
            if node is None or self._down.get(name, 0) > now:
                continue
            try:
                return node, await self._connect(node.host, node.port)
            except OSError:
                self._down[name] = time.monotonic() + DOWN_S
                log.warning("node %s: can't reach node %s", self.config.id, name)
        return None

    async def _stream_to(
        self, owner: tuple[NodeRecord, Still], reader: HeadReader, head: HttpHead, token: str, access: Access
    ) -> None:
        node, upstream = owner
        # a mark from outside is taken off: only nodes may set it
        headers = [*head.without(MARK), (MARK, self._tokens.forward_mark(token, node.id))]
        upstream.transport.write(write_head(" ".join(head.start), headers))
        await self._relay(reader, upstream, access, forwarded=True)

    async def _connect(self, host: str, port: int) -> Still:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            _, still = await asyncio.wait_for(loop.create_connection(Still, host, port), self.config.connect_s)
        except TimeoutError:
            raise TimeoutError(f"no connection within {self.config.connect_s:g} s") from None
        self.metrics.connect.observe(loop.time() - began)
        return still

    async def _reach_device(self, access: Access) -> Still:
        try:
            return await self._connect(access.host, access.port)
        except OSError as error:
            status = 504 if isinstance(error, TimeoutError) else 502
            why = os.strerror(error.errno) if error.errno else str(error)
            raise _Refusal(status, f"device {access.device}: {why}", "device") from None

    # -- what is relayed --------------------------------------------------------------------------------------------

    async def _tunnel(self, reader: HeadReader, access: Access) -> None:
        upstream = await self._reach_device(access)
        reader.transport.write(write_head("HTTP/1.1 200 Connection established", ()))
        await self._relay(reader, upstream, access)

    async def _websocket(self, reader: HeadReader, head: HttpHead, path: str, access: Access) -> None:
        """The browser sees itself as local: it refuses other hosts and origins, and the token has been checked."""
        upstream = await self._reach_device(access)
        # `Authorization` is the gateway's own, and none of the browser's business
        headers = [("Host", f"localhost:{access.port}"), *head.without("Host", "Origin", "Authorization", MARK)]
        upstream.transport.write(write_head(f"GET {path} HTTP/1.1", headers))
        await self._relay(reader, upstream, access)

    async def _relay(self, reader: HeadReader, upstream: Still, access: Access, forwarded: bool = False) -> None:
        loop = asyncio.get_running_loop()
        relay = Relay(
            access.protocol, access.fence, access.expires_at, forwarded, loop.create_future(), self.metrics.count
        )
        try:
            self._admit(access)  # it may have been cut off while the upstream was being reached
        except _Refusal:
            upstream.transport.abort()
            reader.transport.abort()
            return
        beside = self._relays.setdefault(access.device, set())
        beside.add(relay)
        self.metrics.relays.add(1, access.protocol, "node" if forwarded else "device")
        try:
            relay.join(reader, upstream, self.config.buffer)
            how = await relay.done
            self.metrics.ended.add(1, how)
        finally:
            beside.discard(relay)
            if not beside:
                self._relays.pop(access.device, None)

    async def _discover(
        self, reader: HeadReader, method: str, path: str, prefix: str, host: str, access: Access
    ) -> None:
        if method not in ("GET", "PUT"):
            raise _Refusal(405, f"discovery: expected GET or PUT, found {method[:20]}", "head")
        try:
            status, kind, body = await asyncio.wait_for(self._fetch(method, path, access), self.config.reply_s)
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
            detail = str(error) or f"no answer within {self.config.reply_s:g} s"
            raise _Refusal(502, f"device {access.device}: {path[:80]}: {detail}", "device") from None
        self._admit(access)
        # the client's own word for this node is what it can reach, if it is one
        if not cdp_discovery.HOST.fullmatch(host):
            me = self.feed.me
            host = f"[{me.host}]:{me.port}" if ":" in me.host else f"{me.host}:{me.port}"
        if status == 200 and kind.startswith("application/json"):
            with contextlib.suppress(ValueError, RecursionError):  # not JSON after all: it goes through as it is
                body = cdp_discovery.rewrite(body, self.config.websocket, host + prefix)
        # a browser's other answers are no affair of the client's
        self._reply(reader.transport, write_reply(status if status in (200, 404, 405) else 502, body, kind))

    async def _fetch(self, method: str, path: str, access: Access) -> tuple[int, str, bytes]:
        """Status, content type and body of one request to the browser."""
        upstream, writer = await asyncio.wait_for(
            asyncio.open_connection(access.host, access.port), self.config.connect_s
        )
        try:
            headers = [("Host", f"localhost:{access.port}"), ("Connection", "close"), ("Content-Length", "0")]
            writer.write(write_head(f"{method} {path} HTTP/1.1", headers))
            head = read_head(await upstream.readuntil(END))
            length = head.get("Content-Length")
            if length:
                if not length.isdecimal() or int(length) > DISCOVERY_LIMIT:
                    raise ValueError(f"expected a body of at most {DISCOVERY_LIMIT} bytes, found {length[:20]}")
                body = await upstream.readexactly(int(length))
            else:
                body = await upstream.read(DISCOVERY_LIMIT)
            return int(head.start[1]), head.get("Content-Type") or "application/octet-stream", body
        finally:
            writer.transport.abort()

    # -- in the background ------------------------------------------------------------------------------------------

    def _all_relays(self) -> list[Relay]:
        return [relay for beside in self._relays.values() for relay in beside]

    def _cut_below_floor(self, device: str) -> None:
        floor = self.feed.floors[device]
        # a copy: cutting takes relays out of the set
        for relay in tuple(self._relays.get(device, ())):
            if relay.fence < floor:
                relay.cut("fenced")

    async def _sweep(self) -> None:
        """Cut relays whose token has run out or over which nothing was said for too long."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(SWEEP_S)
            now, silent = time.time(), loop.time() - self.config.idle_s
            for relay in self._all_relays():
                if relay.expires_at <= now:
                    relay.cut("expired")
                elif relay.last < silent:
                    relay.cut("idle")


def _credentials(head: HttpHead) -> tuple[str, str, str]:
    """(token, path prefix that held it, path without it). The header wins over the path."""
    target = head.start[1]
    prefix, path, token = "", target, ""
    if target.startswith("/t/"):
        token, slash, rest = target[3:].partition("/")
        prefix, path = f"/t/{token}", slash + rest
    scheme, _, given = head.get("Authorization").partition(" ")
    if scheme.lower() == "bearer" and given:
        token = given.strip()
    return token, prefix, path


def serve_node(config: NodeConfig) -> None:
    """Run a node until SIGTERM or SIGINT, then drain. Prints where it listens. uvloop is used if it is installed."""
    factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    with contextlib.suppress(ImportError):
        import uvloop

        factory = uvloop.new_event_loop

    async def run() -> None:
        node = GatewayNode(config)
        me = await node.start()
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        print(f"gateway node {me.id} on {me.host}:{me.port}", flush=True)
        await stop.wait()
        await node.drain()

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(run())
