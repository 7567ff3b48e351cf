"""A local port that leads to a leased device through the gateway, so that `adb connect 127.0.0.1:PORT`, `ssh -p PORT
127.0.0.1`, `connect_over_cdp("http://127.0.0.1:PORT")` and any other client of a TCP port work unchanged.

Who reaches the port has the lease, so it is on loopback. A browser's (CDP) is in reach of every page that is open on
this machine, too: its requests are read, one a connection, and those of pages are refused. The leased browser answers
discovery with the port's own address, since that is what it is asked as.
"""

import asyncio
import contextlib
import logging
import signal
from collections.abc import AsyncIterator, Callable

from generators.devices.client.sdk import Client, Session
from generators.devices.device import DeviceError
from generators.devices.protocols.http_head import END, HttpHead, read_head, write_head, write_reply
from generators.devices.protocols.tunnel import open_tunnel
from pipelines.http_guard import LOOPBACK, Guard, Scope
from pipelines.ports import named_port

log = logging.getLogger(__name__)
# bytes
CHUNK = 65_536
HOST = "127.0.0.1"
HEAD_S, REPLY_S = 10.0, 30.0
MAX_ANSWER = 16 << 20


@contextlib.asynccontextmanager
async def forward(session: Session, port: int = 0) -> AsyncIterator[int]:
    """Listens on loopback while it is open; gives the port. Every connection is tunnelled to the session's device; all
    end with the lease. A connection that finds no way to the device is closed, and the log says why."""
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await _serve(session, reader, writer)
        except asyncio.CancelledError:
            pass  # the port is being closed
        finally:
            tasks.discard(task)
            writer.close()

    with named_port(HOST, port):
        server = await asyncio.start_server(serve, HOST, port)

    def stop() -> None:
        for task in tuple(tasks):
            task.cancel()

    session.on_lost.append(stop)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        session.on_lost.remove(stop)
        server.close()
        stop()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _serve(session: Session, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    # of other protocols the client speaks first and nothing is read: every byte is its own
    head = None
    if session.protocol == "cdp":
        try:
            head = await asyncio.wait_for(_read_request(reader), HEAD_S)
        except (OSError, EOFError, TimeoutError, ValueError, asyncio.LimitOverrunError) as error:
            writer.write(write_reply(400, f"forward: expected a request of CDP: {error}\n".encode()))
            return
    try:
        up_reader, up_writer = await _reach(session)
    except DeviceError as error:
        log.warning("forward: %s", error)
        if head is not None:
            writer.write(write_reply(502, f"forward: {error}\n".encode()))
        else:
            # without a protocol in which to say why, the end of the connection is the answer
            writer.transport.abort()
        return
    try:
        if head is not None:
            up_writer.write(write_head(" ".join(head.start), head.headers))
        if head is None or head.get("Upgrade").lower() == "websocket":
            both = [_pump(reader, up_writer, session.touch), _pump(up_reader, writer, session.touch)]
            await asyncio.gather(*both)
        else:
            session.touch()
            await asyncio.wait_for(_answer_once(up_reader, writer), REPLY_S)
    except (OSError, EOFError, TimeoutError, ValueError, asyncio.LimitOverrunError):
        writer.transport.abort()
    finally:
        up_writer.close()


async def _read_request(reader: asyncio.StreamReader) -> HttpHead:
    """The head of a request that a program on this machine sent. Raises `ValueError` for another page's, and for what
    is none."""
    head = read_head(await reader.readuntil(END))
    method, target, _ = head.start
    scope: dict[str, object] = {
        "type": "http",
        "method": method,
        "path": target,
        "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in head.headers],
    }
    if refusal := _GUARD.refuses(scope):
        raise ValueError(refusal.message)
    return head


async def _answer_once(upstream: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One answer of the browser's discovery, after which the connection ends."""
    head = read_head(await upstream.readuntil(END))
    length = head.get("Content-Length")
    # bounded, since it is a device that answers
    if not (length.isascii() and length.isdigit() and int(length) <= MAX_ANSWER):
        raise ValueError(f"expected an answer of at most {MAX_ANSWER} bytes, found {length[:20]!r}")
    body = await upstream.readexactly(int(length))
    writer.write(write_head(" ".join(head.start), [*head.without("Connection"), ("Connection", "close")]) + body)
    await writer.drain()


async def _nowhere(scope: Scope, receive: object, send: object) -> None:
    """What the guard would pass requests on to, if it served them."""


_GUARD = Guard(_nowhere, hosts=LOOPBACK, untyped=True)


async def _reach(session: Session) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Over the first node that answers."""
    failure: DeviceError | None = None
    for endpoint in session.endpoints():
        try:
            return await open_tunnel(endpoint)
        except DeviceError as error:
            failure = error
    assert failure is not None
    raise failure


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, touch: Callable[[], None]) -> None:
    while data := await reader.read(CHUNK):
        touch()
        writer.write(data)
        await writer.drain()
    with contextlib.suppress(OSError, RuntimeError):  # it has gone meanwhile
        writer.write_eof()


async def hold_forward(authority_url: str, api_key: str, protocol: str, device: str, port: int, priority: int) -> str:
    """Lease a device and keep its local port open until SIGINT, SIGTERM or the loss of the lease; says which ended it.
    Raises what `Client.lease` raises."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    lost: list[str] = []

    def lose() -> None:
        lost.append("the lease was lost")
        ended.set()

    async with (
        Client(authority_url, api_key) as client,
        client.lease(protocol, device=device, priority=priority) as session,
        forward(session, port) as local,
    ):
        session.on_lost.append(lose)
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, ended.set)
        print(f"device {session.device} on {'http://' if protocol == 'cdp' else ''}{HOST}:{local}", flush=True)
        await ended.wait()
        return lost[0] if lost else "stopped"


def serve_forward(authority_url: str, api_key: str, protocol: str, device: str, port: int, priority: int) -> str:
    """`hold_forward` for a command line."""
    return asyncio.run(hold_forward(authority_url, api_key, protocol, device, port, priority))
