"""A local port that leads to a leased Chromium: for clients that take only host and port, and for no page."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import gateway_parts as parts
import pytest
from chromium_device import chromium

from generators.devices.client.forward import forward
from generators.devices.client.sdk import Client


def test_playwright_and_plain_http_work_over_a_local_port(tmp_path: Path) -> None:
    import httpx

    async def work(gateway: parts.Gateway) -> None:
        from playwright.async_api import async_playwright

        async with (
            Client(gateway.url, parts.CLIENT) as client,
            client.lease("cdp") as session,
            forward(session) as local,
            asyncio.timeout(90),
            async_playwright() as play,
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{local}") as http,
        ):
            for host in (f"127.0.0.1:{local}", f"localhost:{local}"):
                said = (await http.get("/json/version", headers={"Host": host})).json()
                assert said["webSocketDebuggerUrl"].startswith(f"ws://{host}/devtools/browser/")
            assert all(
                f"ws=127.0.0.1:{local}/" in page["devtoolsFrontendUrl"] for page in (await http.get("/json")).json()
            )
            for _ in range(2):
                browser = await play.chromium.connect_over_cdp(f"http://127.0.0.1:{local}")
                page = await (await browser.new_context()).new_page()
                await page.set_content("<button id=a onclick='this.textContent=6*7'>go</button>")
                await page.click("#a")
                assert await page.inner_text("#a") == "42"
                await browser.close()
            fresh = (await http.put("/json/new?about:blank")).json()
            assert fresh["webSocketDebuggerUrl"].startswith(f"ws://127.0.0.1:{local}/devtools/page/")
            assert (await http.get("/nowhere")).status_code == 404

            for headers in (
                {"Host": "evil.example"},
                {"Origin": "http://evil.example"},
                {"Sec-Fetch-Site": "cross-site"},
            ):
                refused = await http.get(f"/json/close/{fresh['id']}", headers=headers)
                assert refused.status_code == 400 and "expected a request of CDP" in refused.text
            upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Origin": "http://evil.example"}
            upgrade |= {"Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
            path = fresh["webSocketDebuggerUrl"].partition(str(local))[2]
            assert (await http.get(path, headers=upgrade)).status_code == 400
            assert fresh["id"] in {page["id"] for page in (await http.get("/json")).json()}, "it is open still"
            await asyncio.to_thread(_nonsense, local)

    with chromium(tmp_path / "profile") as port, parts.gateway(tmp_path, 2) as gateway:
        gateway.register("web", port, "cdp")
        asyncio.run(work(gateway))


def _nonsense(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as one:
        one.sendall(b"SSH-2.0-client\r\n\r\n")
        assert one.recv(1000).startswith(b"HTTP/1.1 400 ")


def test_the_command_holds_the_lease_until_it_is_stopped(tmp_path: Path) -> None:
    with chromium(tmp_path / "profile") as port, parts.gateway(tmp_path, 1) as gateway:
        gateway.register("web", port, "cdp")
        words = [sys.executable, "-m", "dagster_project.cli", "devices", "forward", "cdp", "--authority", gateway.url]
        process = subprocess.Popen(
            words,
            stdout=subprocess.PIPE,
            text=True,
            cwd=parts.ROOT,
            env={**os.environ, "VESPER_GATEWAY_KEY": parts.CLIENT, "VESPER_HOME": str(tmp_path)},
        )
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("device web on http://127.0.0.1:"), line
            with urllib.request.urlopen(f"{line.split()[-1]}/json/version", timeout=20) as answer:
                assert json.load(answer)["webSocketDebuggerUrl"].startswith(line.split()[-1].replace("http", "ws"))
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0 and process.stdout.read() == "stopped\n"
        finally:
            process.kill()
            process.wait(10)
        [listed] = gateway.call("GET", "/v1/devices")[1]["devices"]
        assert listed["holder"] is None


def test_a_browser_that_is_gone_is_named(tmp_path: Path) -> None:
    import httpx

    async def work(gateway: parts.Gateway) -> None:
        async with (
            Client(gateway.url, parts.CLIENT) as client,
            client.lease("cdp") as session,
            forward(session) as local,
        ):
            async with httpx.AsyncClient() as http:
                answer = await http.get(f"http://127.0.0.1:{local}/json/version")
            assert answer.status_code == 502 and "web" in answer.text

    with parts.gateway(tmp_path, 1) as gateway:
        gateway.register("web", 9, "cdp")
        asyncio.run(work(gateway))


@pytest.mark.parametrize("word", ["adb", "cdp", "ssh"])
def test_every_protocol_can_be_forwarded(word: str) -> None:
    from dagster_project.cli import main

    with pytest.raises(SystemExit) as ended:
        main(["devices", "forward", word, "--help"])
    assert ended.value.code == 0
