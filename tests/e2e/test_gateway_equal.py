"""One script, straight to a device and through the gateway (a lease, its owner node, a node that streams to the owner):
the same screens, elements and truth after every action, over all three protocols."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import http.server
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gateway_parts as parts
import pytest
from chromium import open_chromium

from generators.devices.browser import BrowserMissing, find_chromium
from generators.devices.client.sdk import DRIVERS, Client, load_driver
from generators.devices.device import DeviceEndpoint, LeaseLost
from generators.tasks.world_interface import ScreenElement
from schemas.actions import Action, Click, Drag, Hotkey, Launch, PressBack, Scroll, Type, format

pytestmark = pytest.mark.slow

TEXT = 'emoji 👩‍👩‍👧 中文 "quotes" \'; rm -rf / #\nline $(reboot) `x` %s\n' + "0123456789" * 1000
FORM = """<!doctype html><title>form</title><style>* {caret-color: transparent} a:visited {color: blue}
a {color: blue} body {height: 3000px}</style>
<textarea id=words rows=6 cols=60></textarea><button id=go onclick="pressed += 1; this.textContent = 'Pressed'">Press
</button><a id=next href="second.html">Next page</a>
<script>var pressed = 0; function truth() {return {page: document.title, pressed, top: Math.round(scrollY),
  text: document.getElementById('words').value}}</script>"""
SECOND = """<!doctype html><title>second</title><h1>Second</h1>
<script>function truth() {return {page: document.title}}</script>"""

Step = Action | Callable[[Sequence[ScreenElement]], Action]
"""An action, or what makes one from the elements on the screen."""


@dataclass(frozen=True)
class Script:
    """What is done to a device of a protocol. `pictures`: its screen is the same to the pixel in every run; `sampled`:
    only the end is compared, and the owner node's way is left to another script."""

    start: dict[str, Any]
    steps: tuple[Step, ...]
    pictures: bool = True
    sampled: bool = False


def tap(*names: str) -> Callable[[Sequence[ScreenElement]], Action]:
    """Click on the first element that one of these names, roles or keys fits."""

    def find(elements: Sequence[ScreenElement]) -> Action:
        for name in names:
            for element in elements:
                if name in (element.name.strip(), element.text.strip(), element.role, element.key):
                    return Click(element.centre)
        raise AssertionError(f"no element {names} among {[(p.key, p.role, p.name, p.text) for p in elements]}")

    return find


async def play(device: Any, script: Script) -> list[tuple[Any, ...]]:
    """Everything a client can see, after the reset and after each action: (action, picture, elements, state, frame)."""
    await device.reset(script.start)
    told: list[tuple[Any, ...]] = []
    done = "reset"
    for number, step in enumerate((*script.steps, None)):
        if not script.sampled or step is None or callable(step):
            seen = await device.observe()
        if not script.sampled or step is None:
            picture = hashlib.sha256(seen.png).hexdigest() if script.pictures else ""
            told.append((done, picture, seen.elements, await device.state(), device.size_px, device.platform))
        if step is not None:
            action = step(seen.elements) if callable(step) else step
            await device.act(action)
            done = f"{number} {format(action)}"
    return told


async def compare(gateway: parts.Gateway, device: DeviceEndpoint, script: Script) -> list[tuple[Any, ...]]:
    """Straight; over a lease; over the second node under that lease; and not at all with a foreign token or that of a
    lease that has ended. Returns what was seen."""
    connect = load_driver(DRIVERS[device.protocol])
    async with asyncio.timeout(120), connect(device) as straight:
        expected = await play(straight, script)
    options = dict(device.options or {})
    await asyncio.to_thread(gateway.register, device.protocol, device.port, device.protocol, options=options)
    client = Client(gateway.url, parts.CLIENT)
    async with asyncio.timeout(120), client, client.lease(device.protocol) as session:
        await session.open()
        found = {} if script.sampled else {"owner": await play(session, script)}
        owner, other = session.endpoints()
        assert {(way.host, way.port) for way in (owner, other)} == {gateway.at(name) for name in gateway.nodes}
        async with connect(other) as relayed:
            found["second node"] = await play(relayed, script)
    for name, way in found.items():
        for one, two in zip(expected, way, strict=True):
            assert one == two, name
    for token in ("no.such.token", str(owner.token)):  # foreign; of a lease that has ended
        with pytest.raises(LeaseLost):
            async with connect(
                DeviceEndpoint(device.protocol, owner.host, owner.port, device.protocol, token, options)
            ) as ended:
                await ended.observe()
    return expected


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[parts.Gateway]:
    with parts.gateway(tmp_path_factory.mktemp("gateway"), 2) as found:
        yield found


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "form.html").write_text(FORM)
    (folder / "second.html").write_text(SECOND)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/form.html"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_browser_is_the_same_through_the_gateway(gateway: parts.Gateway, site: str) -> None:
    script = Script(
        {"url": site},
        (
            tap("words"),
            Type(TEXT),
            tap("go"),
            Scroll(direction="down"),
            Scroll(direction="up"),
            tap("next"),
            PressBack(),
            Drag((500, 600), (500, 500)),
        ),
    )
    with open_chromium() as port:
        device = DeviceEndpoint("cdp", "127.0.0.1", port, options={"state_function": "truth", "wait_s": 0.1})
        told = asyncio.run(compare(gateway, device, script))
    states = [look[3] for look in told]
    assert states[2]["text"] == TEXT and states[3]["pressed"] == 1 and states[4]["top"] > states[5]["top"]
    assert states[6]["page"] == "second" and states[7]["page"] == "form"


def test_a_phone_is_the_same_through_the_gateway(gateway: parts.Gateway) -> None:
    from generators.worlds.android.adbd import serve_adb
    from generators.worlds.android.emulated_phone import EmulatedPhone
    from generators.worlds.android.phone_screen import open_phone_screen

    script = Script(
        {"seed": 4, "open": "vesper://notes"},
        (
            Scroll(direction="down"),
            tap("New note"),
            tap("Text note"),
            tap("field:body"),
            Type(TEXT),
            tap("Save note"),
            PressBack(),
            Launch(app="Shop"),
            Scroll((500, 700), (500, 300)),
        ),
    )

    @contextlib.asynccontextmanager
    async def phone() -> AsyncIterator[DeviceEndpoint]:
        async with open_phone_screen() as screen, serve_adb(EmulatedPhone(screen)) as adbd:
            yield DeviceEndpoint("adb", "127.0.0.1", adbd.port, options={"wait_s": 0.1})

    async def work() -> list[tuple[Any, ...]]:
        async with phone() as device:
            return await compare(gateway, device, script)

    try:
        find_chromium()
    except BrowserMissing as missing:
        pytest.skip(str(missing))
    told = asyncio.run(work())
    assert TEXT in [field for look in told for field in _texts(look[3])]
    assert len({look[1] for look in told}) >= 6


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


def test_a_desktop_is_the_same_through_the_gateway(gateway: parts.Gateway) -> None:
    pytest.importorskip("asyncssh", reason="needs the extra devices (asyncssh)")
    from generators.worlds.desktop.session import DesktopMissing, open_desktop

    editor = {"files": {"a.txt": ""}, "program": "mousepad", "open": "a.txt"}  # its cursor blinks: no picture
    script = Script(editor, (Type(TEXT), Hotkey(("ctrl", "s"))), pictures=False, sampled=True)
    sums = Script({}, (Launch(app="Calculator"), tap("7")), sampled=True)
    try:
        with open_desktop((800, 600)) as device:
            told = asyncio.run(compare(gateway, device, script))
            counted = asyncio.run(_straight_and_leased(gateway, device, sums))
    except DesktopMissing as missing:
        pytest.skip(str(missing))
    assert told[-1][3]["files"][0]["sha256"] == hashlib.sha256(TEXT.encode()).hexdigest()
    assert "7" in [item["text"] for item in counted[-1][3]["window"]["texts"] if item["role"] == "text"]


async def _straight_and_leased(gateway: parts.Gateway, device: DeviceEndpoint, script: Script) -> list[tuple[Any, ...]]:
    async with load_driver(DRIVERS["ssh"])(device) as straight:
        expected = await play(straight, script)
    async with Client(gateway.url, parts.CLIENT) as client, client.lease("ssh") as session:
        assert await play(session, script) == expected
    return expected
