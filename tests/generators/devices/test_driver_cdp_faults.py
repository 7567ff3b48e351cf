"""The CDP driver where something is wrong: pages that crash or hang, a dead browser, endpoints that lie."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from cdp_pages import opened, run
from chromium import open_chromium

from generators.devices.device import DeviceError

pytestmark = pytest.mark.slow


def test_a_crashed_page_is_told_and_reset_goes_on(chromium: int, site: str) -> None:
    async def work() -> None:
        async with opened(chromium, site) as device:
            with pytest.raises(DeviceError, match="crashed"):
                await device.page.send("Page.crash")
            with pytest.raises(DeviceError, match="crashed"):
                await device.observe()
        async with opened(chromium, site) as device:  # the next one finds it so
            assert (await device.observe()).element("go")
            with pytest.raises(DeviceError, match="crashed"):
                await device.page.send("Page.crash")
            await device.reset({"url": f"{site}/first.html"})
            assert (await device.observe()).element("go")

    run(work())


def test_a_page_that_hangs_ends_in_time(chromium: int, site: str) -> None:
    async def work() -> None:
        async with opened(chromium, site) as device:
            device.page._call_s = 1.5
            began = time.monotonic()
            with pytest.raises(DeviceError, match="longer than"):
                await device.page.evaluate("(() => { for (const end = Date.now() + 4000; Date.now() < end;); })()")
            assert time.monotonic() - began < 3.9

    run(work())


def test_a_dead_browser_is_told(site: str) -> None:
    async def work() -> None:
        browser = open_chromium()
        with browser as port:
            async with opened(port, site) as device:
                await device.observe()
                asyncio.get_running_loop().call_later(0.2, browser.process.kill)
                with pytest.raises(DeviceError, match="browser is gone"):
                    await device.page.evaluate("new Promise(() => 0)")
                with pytest.raises(DeviceError, match="browser is gone"):
                    await device.observe()

    run(work())


Peer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


def _http(body: bytes, status: str = "200 OK", length: int | None = None) -> Peer:
    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        said = len(body) if length is None else length
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {said}\r\n\r\n".encode() + body)
        await writer.drain()
        writer.close()

    return peer


async def _silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


@pytest.mark.parametrize(
    ("peer", "message"),
    [
        (_http(b"{}"), "webSocketDebuggerUrl"),
        (_http(b"[1"), "something else"),
        (_http(b"{}", length=1 << 40), "status 200 and a length"),
        (_http(b"{}", length=100), "something else"),
        (_http(b"x", "401 Unauthorized"), "refuses the token"),
        (_http(json.dumps({"webSocketDebuggerUrl": "ws://elsewhere/devtools/x"}).encode()), "WebSocket was refused"),
        (_silent, "within 1 s"),
    ],
)
def test_endpoints_that_lie(peer: Peer, message: str) -> None:
    async def work() -> None:
        server = await asyncio.start_server(peer, "127.0.0.1", 0)
        try:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(DeviceError, match=message):
                async with opened(port, call_s=1.0 if peer is _silent else 10.0):
                    pass
        finally:
            server.close()

    run(work())
