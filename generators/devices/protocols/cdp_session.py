"""A connection to a Chromium by its DevTools protocol: discovery, commands with time limits, events.

One WebSocket to the browser; pages are attached to it as flat sessions (`sessionId` in every message).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from generators.devices.device import DeviceEndpoint, DeviceError, LeaseLost
from generators.devices.protocols.http_head import END, read_head, write_head
from generators.devices.protocols.tunnel import authorization

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

# bytes; of a full-page screenshot in base64
MAX_MESSAGE = 128 << 20
DISCOVERY = "/json/version"
MAX_DISCOVERY = 1 << 20
Event = Callable[[str, str, dict[str, Any]], None]
"""Called with session ("" = the browser's own), method and parameters; it must return at once."""


class CommandFailed(DeviceError):
    """The browser answered a command with an error; `code` is its number."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class CdpConnection:
    """Commands out, answers and events in. When it ends, whatever waits gets `DeviceError` with the reason."""

    def __init__(self, socket: ClientConnection, name: str, on_event: Event) -> None:
        self._socket, self._name, self._on_event = socket, name, on_event
        self._waiting: dict[int, tuple[str, asyncio.Future[dict[str, Any]]]] = {}
        self._last = 0
        self.error: DeviceError | None = None
        self._reading = asyncio.ensure_future(self._read())

    async def send(
        self, method: str, params: Mapping[str, object] | None = None, *, session: str = "", limit_s: float
    ) -> dict[str, Any]:
        """A command and its answer. Raises `DeviceError`, of it `CommandFailed` where the browser refuses."""
        from websockets.exceptions import ConnectionClosed

        if self.error is not None:
            raise self.error
        self._last += 1
        number = self._last
        message = {"id": number, "method": method, "params": params or {}}
        if session:
            message["sessionId"] = session
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = (session, answer)
        try:
            async with asyncio.timeout(limit_s):
                await self._socket.send(json.dumps(message))
                return await answer
        except TimeoutError as error:
            raise DeviceError(f"{self._name}: {method} took longer than {limit_s:g} s") from error
        except ConnectionClosed as error:
            raise self.error or DeviceError(f"{self._name}: {method}: the browser is gone ({error})") from error
        finally:
            # whatever came of it: a late answer finds nobody waiting, and is dropped
            self._waiting.pop(number, None)

    def fail(self, session: str, reason: str) -> None:
        """Give up what waits for a session, for a page that crashed."""
        # a copy: the waiting calls take themselves out
        for waited, answer in list(self._waiting.values()):
            if waited == session and not answer.done():
                answer.set_exception(DeviceError(f"{self._name}: {reason}"))

    async def close(self) -> None:
        """The browser goes on."""
        self._reading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reading
        with contextlib.suppress(TimeoutError, OSError):
            async with asyncio.timeout(2):
                await self._socket.close()

    async def _read(self) -> None:
        from websockets.exceptions import ConnectionClosed

        reason = "the browser is gone"
        try:
            async for text in self._socket:
                self._take(text)
        except ConnectionClosed as error:
            reason = f"the browser is gone ({error})"
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            reason = f"expected messages of the DevTools protocol, found something else ({error})"
        finally:
            self.error = DeviceError(f"{self._name}: {reason}")
            for _, answer in list(self._waiting.values()):
                if not answer.done():
                    answer.set_exception(self.error)

    def _take(self, text: str | bytes) -> None:
        message = json.loads(text)
        if "id" not in message:
            self._on_event(str(message.get("sessionId", "")), str(message["method"]), dict(message.get("params", {})))
            return
        _, answer = self._waiting.get(message["id"], ("", None))
        if answer is None or answer.done():
            return
        if refused := message.get("error"):
            detail = f"{refused.get('message')} {refused.get('data', '')}".strip()[:300]
            answer.set_exception(CommandFailed(f"{self._name}: the browser refused: {detail}", refused.get("code", 0)))
        else:
            answer.set_result(dict(message.get("result", {})))


async def discover(endpoint: DeviceEndpoint, name: str) -> object:
    """JSON of `DISCOVERY` of the browser or the gateway. The caller limits its time.

    A browser serves only hosts that are local by name, so straight to it the head says localhost.
    """
    host = "localhost" if endpoint.token is None else endpoint.host
    reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
    try:
        headers = {"Host": f"{host}:{endpoint.port}", "Connection": "close", **authorization(endpoint)}
        writer.write(write_head(f"GET {DISCOVERY} HTTP/1.1", headers.items()))
        head = read_head(await reader.readuntil(END))
        status, length = head.start[1], head.get("Content-Length")
        if status in ("401", "403"):
            raise LeaseLost(f"{name}: the gateway refuses the token (status {status}); take a new lease")
        # an endpoint that gives no length could send without end
        if status != "200" or not length.isdecimal() or int(length) > MAX_DISCOVERY:
            raise DeviceError(
                f"{name}: {DISCOVERY}: expected status 200 and a length, found {' '.join(head.start)[:80]!r}"
            )
        return json.loads(await reader.readexactly(int(length)))
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
        raise DeviceError(
            f"{name}: {DISCOVERY}: expected a DevTools endpoint, found something else ({error})"
        ) from error
    finally:
        writer.close()


async def open_connection(endpoint: DeviceEndpoint, name: str, on_event: Event, limit_s: float) -> CdpConnection:
    """A connection to the browser's own target. Raises `DeviceError`, `LeaseLost`."""
    from urllib.parse import urlsplit

    from websockets.asyncio.client import connect
    from websockets.exceptions import InvalidStatus, WebSocketException

    try:
        async with asyncio.timeout(limit_s):
            version = await discover(endpoint, name)
            address = version.get("webSocketDebuggerUrl") if isinstance(version, dict) else None
            if not isinstance(address, str):
                raise DeviceError(f"{name}: {DISCOVERY}: expected webSocketDebuggerUrl, found {version!r:.120}")
            # only the path is the browser's: where it is reached, we know better than it does
            host = "localhost" if endpoint.token is None else endpoint.host
            host = f"[{host}]" if ":" in host else host
            socket = await connect(
                f"ws://{host}:{endpoint.port}{urlsplit(address).path}",
                host=endpoint.host,
                port=endpoint.port,
                additional_headers=authorization(endpoint),
                max_size=MAX_MESSAGE,
                # local pictures aren't worth the time that compressing takes
                compression=None,
                # a proxy of this machine's environment leads elsewhere
                proxy=None,
                open_timeout=limit_s,
                # a page that computes for a minute answers no ping
                ping_interval=None,
                close_timeout=2,
            )
    except TimeoutError as error:
        raise DeviceError(f"{name}: no DevTools connection within {limit_s:g} s") from error
    except InvalidStatus as error:
        kind = LeaseLost if error.response.status_code in (401, 403) else DeviceError
        raise kind(f"{name}: the WebSocket was refused with status {error.response.status_code}") from error
    except (OSError, WebSocketException, ValueError) as error:
        raise DeviceError(f"{name}: no DevTools connection at {endpoint.host}:{endpoint.port} ({error})") from error
    return CdpConnection(socket, name, on_event)
