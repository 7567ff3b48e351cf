"""A Chromium with DevTools, two pages on loopback for it, and the CDP driver opened on them."""

from __future__ import annotations

import asyncio
import functools
import http.server
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from chromium import open_chromium

from generators.devices.device import DeviceEndpoint
from generators.devices.drivers.cdp import CdpDevice, connect

PAGE = """<!doctype html><meta charset=utf-8><title>t</title>
<style>body{margin:0;height:3000px} div,textarea,button,a{position:absolute}</style>
<textarea id=box style="left:0;top:0;width:200px;height:60px"></textarea>
<button id=go style="left:300px;top:0;width:100px;height:40px">Go &lt;b&gt;</button>
<a id=other href="second.html" style="left:300px;top:60px">Second</a>
<button id=popup style="left:300px;top:100px" onclick="window.open('second.html')">Popup</button>
<button id=ask style="left:300px;top:150px;width:100px;height:40px" onclick="asked=confirm('sure?')">Ask</button>
<div id=thing draggable=true style="left:0;top:300px;width:60px;height:60px;background:red">D</div>
<div id=place style="left:300px;top:300px;width:100px;height:100px;background:blue"></div>
<script>
var log=[], asked=null;
for (const kind of ['click','dblclick','mousemove','mousedown','mouseup','keydown','touchstart','touchend'])
  document.addEventListener(kind,
    e => log.push([kind, e.target.id||'', e.key||'', !!e.ctrlKey, Math.round(performance.now())]));
thing.addEventListener('dragstart', e => e.dataTransfer.setData('text/plain','carried'));
place.addEventListener('dragover', e => e.preventDefault());
place.addEventListener('drop',
  e => { e.preventDefault(); log.push(['drop','place',e.dataTransfer.getData('text/plain'),false,0]); });
function truth(){ return {value: box.value, cookie: document.cookie, started: window.started||null} }
function begin(config){ window.started = config }
</script>"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[int]:
    """Port of a Chromium's DevTools."""
    with open_chromium() as port:
        yield port


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of the pages."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "first.html").write_text(PAGE)
    (folder / "second.html").write_text(
        "<title>second</title><h1>Second</h1><button onclick=window.close()>Close</button>"
    )

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@asynccontextmanager
async def opened(port: int, site: str = "", **options: Any) -> AsyncIterator[CdpDevice]:
    """The driver on a Chromium's port, on the first page of a site if one is given."""
    wanted = {"call_s": 15.0, "wait_s": 0.01, "press_s": 0.5, "drag_s": 0.05, **options}
    async with connect(DeviceEndpoint("cdp", "127.0.0.1", port, options=wanted)) as device:
        if site:
            await device.reset({"url": f"{site}/first.html"})
        yield device


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """What the coroutine gives, within a minute."""

    async def limited() -> Any:
        async with asyncio.timeout(60):
            return await work

    return asyncio.run(limited())
