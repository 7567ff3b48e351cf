"""A real Chromium behind the gateway: discovery and WebSocket as standard clients use them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from pathlib import Path

import gateway_parts as parts
import pytest
from chromium_device import chromium

from generators.devices.gateway.cdp_discovery import rewrite
from generators.devices.rendezvous import rank
from generators.devices.tokens import Access, Tokens


def test_playwright_works_through_any_node_with_header_or_path(tmp_path: Path) -> None:
    import httpx

    with chromium(tmp_path / "profile") as port, parts.gateway(tmp_path, 2) as gateway:
        leave = Tokens(parts.SECRET).sign(Access("web", "cdp", "127.0.0.1", port, 1, time.time() + 60))
        owner = rank("web", gateway.nodes)[0]
        other = next(name for name in gateway.nodes if name != owner)
        header = {"Authorization": f"Bearer {leave}"}
        for name in (owner, other):
            base = "http://{}:{}".format(*gateway.at(name))
            said = httpx.get(f"{base}/json/version", headers=header).json()
            assert said["webSocketDebuggerUrl"].startswith(base.replace("http", "ws") + "/devtools/browser/")
            listed = httpx.get(f"{base}/t/{leave}/json/list").json()
            prefix = base.replace("http", "ws") + f"/t/{leave}/devtools/page/"
            assert listed and all(page["webSocketDebuggerUrl"].startswith(prefix) for page in listed)
            assert httpx.get(f"{base}/json/version").status_code == 401
            assert httpx.get(f"{base}/devtools/x.html", headers=header).status_code == 404

        async def work() -> None:
            from playwright.async_api import async_playwright

            async with asyncio.timeout(60), async_playwright() as play:
                for name in (owner, other):
                    base = "http://{}:{}".format(*gateway.at(name))
                    url, headers = (f"{base}/t/{leave}", {}) if name == owner else (base, header)
                    browser = await play.chromium.connect_over_cdp(url, headers=headers)
                    page = await (await browser.new_context()).new_page()
                    await page.set_content("<input id=a>")
                    await page.focus("#a")
                    await page.keyboard.insert_text("😀 中文")
                    assert await page.input_value("#a") == "😀 中文"
                    assert (await page.screenshot()).startswith(b"\x89PNG")
                    await browser.close()

        asyncio.run(work())
        gateway.register("web", port, "cdp")
        assert gateway.authority is not None
        gateway.authority.stop()
        gateway.start_authority(probe_s=0.2)
        parts.until(lambda: gateway.call("GET", "/v1/devices")[1]["devices"][0]["health"] == "up")


def test_probes_tell_what_answers_and_what_does_not(tmp_path: Path) -> None:
    from generators.devices.probes import probe
    from generators.devices.records import DeviceRecord

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            await reader.read()
        writer.close()

    async def phone(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert (await reader.readexactly(24))[:4] == b"CNXN"
        writer.write(b"CNXN" + bytes(20))
        await silent(reader, writer)

    async def work() -> None:
        async with parts.echo_device() as echo:
            servers = [await asyncio.start_server(serve, "127.0.0.1", 0) for serve in (silent, phone)]
            ports = [server.sockets[0].getsockname()[1] for server in servers]

            async def look(protocol: str, port: int) -> str:
                return await probe(DeviceRecord("d", protocol, "127.0.0.1", port), 0.5)

            assert await look("ssh", echo.port) == ""
            assert await look("adb", ports[1]) == ""
            for protocol in ("cdp", "adb", "ssh"):
                began = time.monotonic()
                assert await look(protocol, ports[0]) == "no answer within 0.5 s"
                assert time.monotonic() - began < 20
            assert "expected" in await look("adb", echo.port) or "closed" in await look("adb", echo.port)
            assert await look("cdp", echo.port) != ""
            for server in servers:
                server.close()
            assert "refused" in (await look("ssh", ports[0])).lower()

    asyncio.run(work())


def test_addresses_in_discovery_become_the_gateways() -> None:
    page = {
        "id": "1",
        "webSocketDebuggerUrl": "ws://localhost:9222/devtools/page/1",
        "title": "ws://elsewhere/x",
        "devtoolsFrontendUrl": "https://a.example/i.html?ws=localhost:9222/devtools/page/1&x=2",
    }
    [found] = json.loads(rewrite(json.dumps([page]).encode(), "wss", "gate:1/t/abc"))
    assert found == {
        **page,
        "webSocketDebuggerUrl": "wss://gate:1/t/abc/devtools/page/1",
        "devtoolsFrontendUrl": "https://a.example/i.html?wss=gate:1/t/abc/devtools/page/1&x=2",
    }
    assert json.loads(rewrite(b'"text"', "ws", "g")) == "text"
    with pytest.raises(ValueError):
        rewrite(b"<html>", "ws", "g")
