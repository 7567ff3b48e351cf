"""The browser that is leased to strangers, as deploy/ starts it: no file, no inner address, but the web."""

from __future__ import annotations

import asyncio
import contextlib
import http.server
import os
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from gateway_parts import until
from ports import free_port

from generators.devices.browser import BrowserMissing, find_chromium

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext

ROOT = Path(__file__).parents[3]
SITE = "site.test"


class _Site(http.server.BaseHTTPRequestHandler):
    reached: list[str] = []

    def do_GET(self) -> None:
        self.reached.append(self.headers["Host"])
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<h1>welcome</h1>")

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture(scope="module")
def site() -> Iterator[int]:
    """A server on all of this machine's addresses of IPv4; its port."""
    server = http.server.ThreadingHTTPServer(("0.0.0.0", 0), _Site)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield server.server_port
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def sealed(site: int) -> Iterator[int]:
    """The port of its CDP. One host stands for the web: it leads to the server above."""
    try:
        path = find_chromium()
    except BrowserMissing as missing:
        pytest.skip(str(missing))
    may = shutil.which("unshare") and subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode == 0
    if path is None or not may or not (Path("/etc/chromium").is_dir() or Path("/etc/opt/chrome").is_dir()):
        pytest.skip("needs Chromium of the system, its folder for policies, and user namespaces")
    port = free_port()
    words = [str(ROOT / "deploy" / "sealed_browser" / "start.sh"), str(port), path]
    process = subprocess.Popen(
        words,
        env={**os.environ, "SEALED_RULES": f"MAP {SITE} 127.0.0.9"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:

        def answers() -> bool:
            assert process.poll() is None, "it ended"
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                return True
            return False

        until(answers, 60)
        yield port
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)


@contextlib.asynccontextmanager
async def driven(port: int) -> AsyncIterator[Browser]:
    from playwright.async_api import async_playwright

    async with asyncio.timeout(120), async_playwright() as play:
        browser = await play.chromium.connect_over_cdp(f"http://127.0.0.1:{port}")
        yield browser
        await browser.close()


async def _opens(context: BrowserContext, url: str) -> str:
    """What a navigation gives: the page's text, or the error."""
    from playwright.async_api import Error

    page = await context.new_page()
    try:
        await page.goto(url, timeout=20_000)
        return await page.inner_text("body")
    except Error as error:
        return str(error).splitlines()[0]
    finally:
        await page.close()


@pytest.mark.parametrize("given", ["the first context", "a new one", "one with a proxy that is bypassed"])
def test_no_file_and_no_inner_address_is_opened(sealed: int, site: int, given: str) -> None:
    inner = [
        "127.0.0.1",
        "localhost",
        "127.1.2.3",
        "0.0.0.0",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "2130706433",
        "a.localhost",
    ]
    inner += ["10.1.2.3", "172.20.0.1", "192.168.0.1", "100.64.0.1", "169.254.169.254", "[fd00::1]"]
    urls = [*(f"http://{host}:{site}/" for host in inner), f"http://127.0.0.1:{sealed}/json/version"]
    urls += ["file:///etc/passwd", "file:///", "view-source:file:///etc/passwd", "chrome://version"]
    if given != "the first context":  # rules of names are the whole browser's: of each kind one is enough in the others
        others = (*inner[2:4], *inner[5:8], *inner[9:13])
        urls = [url for url in urls if not any(f"//{host}:" in url for host in others)]

    async def work() -> None:
        async with driven(sealed) as browser:
            context = browser.contexts[0]
            if given == "a new one":
                context = await browser.new_context()
            elif given != "the first context":
                context = await browser.new_context(proxy={"server": "http://192.0.2.1:9", "bypass": "*"})
            _Site.reached.clear()
            urls.append(f"view-source:http://{SITE}:{site}/")
            for url in urls:
                found = await _opens(context, url)
                assert "ERR_BLOCKED_BY_ADMINISTRATOR" in found or "ERR_NAME_NOT_RESOLVED" in found, (url, found)
            assert _Site.reached == []
            assert await _opens(context, f"http://{SITE}:{site}/") == "welcome"

    asyncio.run(work())


def test_a_page_reaches_no_inner_address_either(sealed: int, site: int) -> None:
    async def work() -> None:
        async with driven(sealed) as browser:
            page = await browser.contexts[0].new_page()
            await page.goto(f"http://{SITE}:{site}/")
            _Site.reached.clear()
            for host in ("127.0.0.1", "localhost", "127.0.0.2", "[::ffff:127.0.0.1]", "0.0.0.0"):
                asked = await page.evaluate(
                    "url => fetch(url, {mode: 'no-cors'}).then(() => 'reached', () => 'refused')",
                    f"http://{host}:{site}/",
                )
                assert asked == "refused", host
            asked_of_others = [
                name for name in _Site.reached if not name.startswith(SITE)
            ]  # its own icon may come late
            assert asked_of_others == []
            await page.close()

    asyncio.run(work())


def test_home_folders_look_empty_to_it(sealed: int, tmp_path: Path) -> None:
    """A file field takes any path that the browser's process can read."""
    mine = tmp_path / "secret.txt"
    mine.write_text("mine")

    async def work() -> None:
        async with driven(sealed) as browser:
            page = await browser.contexts[0].new_page()
            await page.set_content("<input type=file id=a>")
            session = await page.context.new_cdp_session(page)
            root = (await session.send("DOM.getDocument"))["root"]["nodeId"]
            field = (await session.send("DOM.querySelector", {"nodeId": root, "selector": "#a"}))["nodeId"]
            await session.send("DOM.setFileInputFiles", {"nodeId": field, "files": [str(mine)]})
            read = "document.querySelector('#a').files[0].text().then(text => text, () => 'nothing')"
            assert await page.evaluate(read) == "nothing"
            await page.close()

    asyncio.run(work())
