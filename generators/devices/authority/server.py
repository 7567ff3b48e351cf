"""The lease authority: one process, HTTP and JSON, over the state machine of `generators.devices.authority.leases`.

Everything under `/v1` wants `Authorization: Bearer <API key>`. Errors are `{"error": …}` with 400 (what was sent), 401,
403 (the key's role), 404, 409 (the lease has ended; `state` says how). While it is down nobody gets a lease; those that
live hold to their TTL, since nodes need only the token.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
import logging
import resource
import secrets
import signal
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from generators.devices.authority.authority_metrics import AuthorityMetrics, why_refused
from generators.devices.authority.leases import Leases
from generators.devices.authority.routes import ROUTES, Answer, AuthorityCall, node_json
from generators.devices.config import ApiKey, AuthorityConfig
from generators.devices.metrics import CONTENT_TYPE
from generators.devices.probes import probe
from generators.devices.records import DeviceLease, DeviceRecord, LeaseEnded, Unknown
from generators.devices.rendezvous import rank
from generators.devices.strangers import Strangers
from generators.devices.tokens import Access, Tokens
from pipelines.ports import named_port

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

log = logging.getLogger(__name__)
# bytes
MAX_BODY = 1 << 20
# seconds, of which an overdue lease lives on at most so many
TICK_S = 0.5
COPY_LOG_S = 2.0
KEY_S = 10.0
"""How long a connection may go on that has shown no key."""


class Authority:
    """State machine, tokens, and who waits for a change."""

    def __init__(self, config: AuthorityConfig, strangers: Strangers) -> None:
        self.config, self.strangers = config, strangers
        clients = sum("client" in key.roles for key in config.keys)
        # where only one holder can be, its word must do: it takes a device from nobody else
        holders = max(1, min(config.rules.quarantine_holders, clients))
        self.leases = Leases(config.database, replace(config.rules, quarantine_holders=holders))
        self.metrics = AuthorityMetrics()
        self.tokens = Tokens(config.secret)
        self.epoch = secrets.token_hex(8)  # a node that knows another starts over
        self._keys = [(hashlib.sha256(key.key.encode()).digest(), key) for key in config.keys]
        self._changed = asyncio.Event()
        self._newest = 0

    def who(self, authorization: str) -> ApiKey | None:
        """The API key of a header; digests are compared in constant time, all of them."""
        scheme, _, given = authorization.partition(" ")
        digest = hashlib.sha256(given.strip().encode()).digest()
        found = None
        # all of them, found or not: the time says nothing of which key it was
        for known, key in self._keys:
            if hmac.compare_digest(known, digest) and scheme.lower() == "bearer":
                found = key
        return found

    def changed(self) -> None:
        """Wake all who wait."""
        # those who wait hold the old event, and the next to come wait for the new one
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait(self, until: float) -> bool:
        """Until something changes; False once `until` (monotonic) has passed."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(until - time.monotonic()):
                await self._changed.wait()
        return time.monotonic() < until

    async def tick(self) -> None:
        """End what is overdue; wake those who wait for it."""
        self.leases.tick()
        newest = self.leases.newest_change()
        if newest != self._newest:
            self._newest = newest
            self.changed()

    async def probe_all(self) -> None:
        """Probe every device. A leased ADB device is left alone: its holder's connection is the probe."""
        gate = asyncio.Semaphore(self.config.probes_at_once)

        async def look(device: DeviceRecord) -> None:
            async with gate:
                wrong = await probe(device, self.config.probe_limit_s)
            with contextlib.suppress(Unknown):  # it was removed meanwhile
                # it may have been registered anew with another address
                if self.leases.device(device.id).record == device:
                    self.leases.set_health(device.id, not wrong, wrong)

        states = self.leases.devices()
        looked = [state.record for state in states if state.lease is None or state.record.protocol != "adb"]
        await asyncio.gather(*(look(device) for device in looked))
        self.changed()

    async def copy_log(self) -> None:
        """What waits for the disk, in a thread."""
        await asyncio.to_thread(self.leases.copy_log)

    def grant(self, lease: DeviceLease) -> dict[str, object]:
        """What is sent to a holder. Nodes stand in the device's order, its owner first."""
        record, now = self.leases.device(lease.device).record, self.leases.now()
        access = Access(
            record.id, record.protocol, record.host, record.port, lease.fence, lease.expires_at, record.node
        )
        return {
            "state": "granted",
            "lease": lease.id,
            "device": record.id,
            "protocol": record.protocol,
            "fence": lease.fence,
            "expires_in_s": lease.expires_at - now,
            "heartbeat_s": self.config.rules.heartbeat_s,
            "dead_s": self.config.rules.dead_s,
            "token": self.tokens.sign(access),
            "options": dict(record.options),
            "labels": list(record.labels),
            "nodes": self.order(record),
        }

    def order(self, device: DeviceRecord) -> list[dict[str, object]]:
        """The living nodes in the device's order."""
        nodes = {node.id: node for node in self.leases.nodes()}
        return [node_json(nodes[name]) for name in rank(device.id, nodes, device.node)]


def make_app(config: AuthorityConfig, strangers: Strangers) -> Starlette:
    """The ASGI application; it opens the database when it starts and closes it when it stops."""
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

    @contextlib.asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        authority = app.state.authority = Authority(config, strangers)
        chores = [(authority.tick, TICK_S), (authority.copy_log, COPY_LOG_S)]
        if config.probe_s:
            chores.append((authority.probe_all, config.probe_s))
        tasks = [asyncio.create_task(_again_and_again(work, pause_s)) for work, pause_s in chores]
        yield
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        authority.leases.close()

    async def health(request: Request) -> Response:
        return JSONResponse({"ok": True})

    async def metrics(request: Request) -> Response:
        authority: Authority = request.app.state.authority
        return Response(authority.metrics.text(authority.leases), media_type=CONTENT_TYPE)

    routes = [
        Route(path, _endpoint(f"{method} {path}", roles, handler, wakes), methods=[method])
        for method, path, roles, handler, wakes in ROUTES
    ]
    return Starlette(routes=[Route("/healthz", health), Route("/metrics", metrics), *routes], lifespan=life)


async def _again_and_again(work: Callable[[], Awaitable[None]], pause_s: float) -> None:
    """Run until cancelled; a failure is logged, and the next turn tries again."""
    while True:
        try:
            await work()
        except Exception:
            log.exception("lease authority: %s failed", work.__name__)
        await asyncio.sleep(pause_s)


def _endpoint(
    route: str, roles: tuple[str, ...], handler: Callable[[AuthorityCall], Awaitable[Answer]], wakes: bool
) -> Callable[[Request], Awaitable[Response]]:
    from starlette.responses import JSONResponse

    async def answer(request: Request) -> Response:
        authority: Authority = request.app.state.authority
        began, refused = time.monotonic(), authority.metrics.refused
        key = authority.who(request.headers.get("authorization", ""))
        if key is None:
            refused.add(1, "key")
            return JSONResponse({"error": "API key: missing or unknown"}, 401, {"WWW-Authenticate": "Bearer"})
        # from here on it is no stranger's connection
        authority.strangers.know(request.scope["client"])
        if not key.roles.intersection(roles):
            refused.add(1, "role")
            return JSONResponse({"error": f"API key {key.name}: expected a role of {', '.join(roles)}"}, 403)
        try:
            status, answer_json = await handler(
                AuthorityCall(authority, key, dict(request.path_params), await _body(request))
            )
        except (ValueError, OverflowError, Unknown, LeaseEnded) as error:
            refused.add(1, why_refused(error))
            ended = {"state": error.state} if isinstance(error, LeaseEnded) else {}
            status = 409 if ended else 404 if isinstance(error, Unknown) else 400
            return JSONResponse({"error": str(error.args[0]), **ended}, status)
        finally:
            authority.metrics.answers.observe(time.monotonic() - began, route)
        # after the answer is known: a change that failed wakes nobody
        if wakes:
            authority.changed()
        return JSONResponse(answer_json, status)

    return answer


async def _body(request: Request) -> dict[str, Any]:
    raw = b""
    async for part in request.stream():
        raw += part
        if len(raw) > MAX_BODY:
            raise ValueError(f"body: expected at most {MAX_BODY} bytes")
    try:
        # NaN and Infinity are no JSON, and would be sent on as they are
        found = json.loads(raw, parse_constant=_no_number) if raw else {}
        json.dumps(found, ensure_ascii=False).encode()  # a lone surrogate would break every answer that holds it
    except RecursionError:
        raise ValueError("body: expected JSON, found lists or objects too deep inside each other") from None
    if not isinstance(found, dict):
        raise ValueError(f"body: expected a JSON object, found {type(found).__name__}")
    return found


def _no_number(word: str) -> None:
    raise ValueError(f"body: expected JSON, found {word}")


def serve_authority(config: AuthorityConfig) -> None:
    """Run the authority until SIGTERM or SIGINT. Prints where it listens once it answers."""
    import uvicorn

    with named_port(config.host, config.port, "`port` in its configuration"):
        # opened here, so that a port that is taken is told in one line
        listener = socket.create_server((config.host, config.port), backlog=1024)
    host, port = listener.getsockname()[:2]

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                print(f"lease authority on http://{host}:{port}", flush=True)

        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            """A signal ends it in good order, with exit code 0."""
            # uvicorn's own would raise the signal again once it has ended
            for number in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(number, self.handle_exit, number, None)
            yield

    more: dict[str, Any] = {"log_level": "warning", "access_log": False, "timeout_graceful_shutdown": 2}
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    # a quarter of the descriptors at most: the rest is for those who show a key
    strangers = Strangers(max(64, min(1024, descriptors // 4)), KEY_S)
    # the peer's own address counts, whatever a header says of it
    more |= {"http": strangers.protocol(), "ws": "none", "proxy_headers": False}
    server = Server(uvicorn.Config(make_app(config, strangers), **more))
    server.run(sockets=[listener])
    if not server.started:
        raise SystemExit("lease authority: it didn't start; its log says why")
