"""The CDP driver on a real Chromium: every action, byte-exact text, pages that come, go and crash, lying endpoints."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from cdp_pages import opened, run

from generators.devices.device import AsyncDevice
from generators.devices.drivers.cdp import CdpDevice, CdpOptions
from generators.devices.drivers.frames import read_options
from generators.devices.keyboard import find_key
from generators.tasks.world_interface import UnsupportedAction, WorldError
from schemas import actions

pytestmark = pytest.mark.slow

NASTY = [
    "emoji 👩‍👩‍👧‍👦🇨🇭 and 你好,世界",
    "'\"`$(rm -rf /);rm -rf / && echo %s %d \\n \\\\",
    "tab\there\nline\n\n  two",
    "e\u0301 \u200b\u202e\ufeff \x01\x7f",
    "<script>alert(1)</script>&amp;",
    "\U0010ffff\uffff",
    "x" * 4095 + "😀" + "é" * 6000,
]


async def at(device: CdpDevice, element: str) -> tuple[int, int]:
    """The centre of an element in 0..1000, by the driver's own reading of the page."""
    place = (await device.observe()).element(element)
    assert place is not None, element
    return place.centre


async def until(device: CdpDevice, title: str) -> None:
    """Until the page in front has a title: opening and closing pages is the browser's own doing, in its own time."""
    for _ in range(100):
        await device.observe()
        if await device.page.evaluate("document.title") == title:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"no page called {title} came to the front")


async def log(device: CdpDevice, kind: str) -> list[list[Any]]:
    return [entry for entry in await device.page.evaluate("log") if entry[0] == kind]


def test_every_action_where_it_exists(chromium: int, site: str) -> None:
    async def work() -> None:
        async with opened(chromium, site) as device:
            assert isinstance(device, AsyncDevice)
            await device.act(actions.Click(await at(device, "go")))
            assert [entry[1] for entry in await log(device, "click")] == ["go"]
            await device.act(actions.DoubleClick(await at(device, "go")))
            assert [entry[1] for entry in await log(device, "dblclick")] == ["go"]
            await device.act(actions.Hover(await at(device, "ask")))
            assert (await log(device, "mousemove"))[-1][1] == "ask"
            await device.act(actions.LongPress(await at(device, "go")))
            down, up = (await log(device, "mousedown"))[-1], (await log(device, "mouseup"))[-1]
            assert up[4] - down[4] >= 450
            await device.act(actions.Drag(await at(device, "thing"), await at_point(device, "place")))
            assert [entry[2] for entry in await log(device, "drop")] == ["carried"]
            await device.act(actions.Scroll(direction="down"))
            assert await device.page.evaluate("scrollY") == pytest.approx(
                0.4 * await device.page.evaluate("innerHeight"), abs=2
            )
            await device.act(actions.Scroll((500, 300), (500, 700)))
            assert await device.page.evaluate("scrollY") == 0
            await device.act(actions.Click(await at(device, "box")))
            await device.act(actions.Type("ab"))
            await device.act(actions.PressEnter())
            await device.act(actions.Type("c"))
            assert (await device.page.evaluate("box.value")) == "ab\nc"
            await device.act(actions.Hotkey(("ctrl", "a")))
            await device.act(actions.Hotkey(("Delete",)))
            assert (await device.page.evaluate("box.value")) == ""
            await device.act(actions.Click(await at(device, "other")))
            assert await device.page.evaluate("document.title") == "second"
            await device.act(actions.PressBack())
            assert await device.page.evaluate("document.title") == "t"
            await device.act(actions.PressBack())  # about:blank was before
            await device.act(actions.Launch(url=f"{site}/second.html"))
            assert await device.page.evaluate("document.title") == "second"
            before = (await device.observe()).sha256
            for quiet in (actions.Wait(), actions.Finished("x"), actions.CallUser("y")):
                await device.act(quiet)
            assert (await device.observe()).sha256 == before
            for missing in (actions.PressHome(), actions.PressRecent(), actions.Launch(app="Clock")):
                with pytest.raises(UnsupportedAction, match=type(missing).__name__):
                    await device.act(missing)

    run(work())


LISTS = """<select id=sort><option>Name<option>Date</select><div id=own role=combobox>Pick</div>
<div id=options hidden><div role=option>Red</div></div>"""
WIRING = """
    sort.addEventListener('change', () => log.push(['change', sort.value]));
    own.addEventListener('click', () => { options.hidden = false; });
    options.addEventListener('click', (e) => { own.textContent = e.target.textContent; options.hidden = true; });
    document.addEventListener('contextmenu', (e) => { e.preventDefault(); log.push(['menu', e.target.id]); });
"""


def test_the_actions_that_v2_has_beside(chromium: int, site: str) -> None:
    async def work() -> None:
        async with opened(chromium, site) as device:
            await device.page.evaluate(f"document.body.insertAdjacentHTML('beforeend', {json.dumps(LISTS)})")
            await device.page.evaluate(f"document.body.style.cssText = 'margin-top: 200px'; {WIRING}")
            await device.act(actions.RightClick(await at(device, "go")))
            assert [entry[1] for entry in await log(device, "menu")] == ["go"] and await log(device, "click") == []
            await device.act(actions.SelectOption(await at_point(device, "sort"), "date"))
            assert [entry[1] for entry in await log(device, "change")] == ["Date"]
            await device.act(actions.SelectOption(await at_point(device, "own"), "Red"))
            assert await device.page.evaluate("own.textContent") == "Red"
            for place, option in (("sort", "Size"), ("go", "Red")):
                with pytest.raises(WorldError, match=f"no option '{option}'"):
                    await device.act(actions.SelectOption(await at_point(device, place), option))
            seen = await device.observe()
            await device.act(actions.TakeNote("kept"))
            assert await device.observe() == seen
            await device.act(actions.GetUrl())
            assert (await device.observe()).said == f"{site}/first.html"
            await device.act(actions.Launch(url=f"{site}/second.html"))
            assert (await device.observe()).said == ""
            await device.act(actions.GetUrl())
            assert (await device.observe()).said == f"{site}/second.html"

    run(work())


def test_a_finger_has_no_other_button(chromium: int, site: str) -> None:
    async def work() -> None:
        async with opened(chromium, site, width=400, height=600, mobile=True) as device:
            with pytest.raises(UnsupportedAction, match="RightClick: a finger"):
                await device.act(actions.RightClick((500, 500)))

    run(work())


async def at_point(device: CdpDevice, element: str) -> tuple[int, int]:
    """The centre of an element that the reader does not name (it has no text), from the page itself."""
    box = await device.page.evaluate(f"(b => [b.left, b.top, b.right, b.bottom])({element}.getBoundingClientRect())")
    width, height = await device.page.evaluate("[innerWidth, innerHeight]")
    return int((box[0] + box[2]) / 2 * 1000 / width), int((box[1] + box[3]) / 2 * 1000 / height)


def test_text_arrives_as_it_is(chromium: int, site: str) -> None:
    async def work() -> None:
        async with opened(chromium, site, tree=False) as device:
            await device.page.evaluate("box.focus()")
            for text in NASTY:
                await device.page.evaluate("box.value = ''")
                await device.act(actions.Type(text))
                assert await device.page.evaluate("box.value") == text
            # a text field of HTML keeps every line end as \\n: a pair is one end, also where parts meet
            await device.page.evaluate("box.value = ''")
            await device.act(actions.Type("x" * 4095 + "\r\ny"))
            assert await device.page.evaluate("box.value") == "x" * 4095 + "\ny"

    run(work())


def test_a_phone_in_a_browser_is_touched(chromium: int, site: str) -> None:
    async def work() -> None:
        async with opened(chromium, site, width=412, height=732, mobile=True, platform="mobile") as device:
            assert device.platform == "mobile"
            assert (await device.observe()).png and device.size_px == (412, 732)
            await device.act(actions.Click(await at_point(device, "go")))
            assert [entry[1] for entry in await log(device, "touchstart")] == ["go"]
            assert [entry[1] for entry in await log(device, "click")] == ["go"]
            with pytest.raises(UnsupportedAction, match="Hover"):
                await device.act(actions.Hover((10, 10)))

    run(work())


def test_popups_come_to_the_front_and_go(chromium: int, site: str) -> None:
    async def work() -> None:
        async with opened(chromium, site) as device:
            await device.act(actions.Click(await at(device, "popup")))
            await until(device, "second")
            await device.act(actions.Launch(url=f"{site}/second.html?again"))  # it goes on in the new page
            close = next(place for place in (await device.observe()).elements if place.name == "Close")
            await device.act(actions.Click(close.centre))
            await until(device, "t")
            await device.act(actions.Click(await at(device, "go")))
            assert (await log(device, "click"))[-1][1] == "go"
            await device.act(actions.Click(await at(device, "popup")))
            await until(device, "second")
            await device.reset({"url": f"{site}/first.html"})
            assert await device.page.evaluate("document.title") == "t" and len(device._pages) == 1

    run(work())


@pytest.mark.parametrize("open_ms", [0, 5, 20, 60, 120])
def test_a_popup_that_closes_itself_is_no_failure(chromium: int, site: str, open_ms: int) -> None:
    async def work() -> None:
        async with opened(chromium, site, state_function="truth") as device:
            await device.page.evaluate(
                f"go.onclick = () => {{ const w = open('second.html'); setTimeout(() => w.close(), {open_ms}) }}; 1"
            )
            go = await at(device, "go")
            for _ in range(3):
                await device.act(actions.Click(go))
                await device.observe()
                await until(device, "t")
                assert (await device.state())["value"] == "" and len(device._pages) == 1
            await device.act(actions.Click(go))
            await device.reset({"url": f"{site}/first.html"})
            assert await device.page.evaluate("document.title") == "t"

    run(work())


def test_a_page_that_closes_before_the_browser_tells_is_left(chromium: int, site: str) -> None:
    async def work() -> None:
        async with opened(chromium, site) as device:
            await device.act(actions.Click(await at(device, "popup")))
            await until(device, "second")
            told = asyncio.Event()
            device._forget = lambda target: told.set()  # type: ignore[method-assign]  # as if the news were under way
            await device._browser("Target.closeTarget", {"targetId": device.page.target})
            await told.wait()
            assert len(device._pages) == 2
            del device._forget  # type: ignore[method-assign]
            await until(device, "t")
            assert len(device._pages) == 1

    run(work())


def test_dialogs_are_answered_and_kept(chromium: int, site: str) -> None:
    async def work() -> None:
        async with opened(chromium, site) as device:
            await device.act(actions.Click(await at(device, "ask")))
            assert await device.page.evaluate("asked") is False
            assert device.dialogs == [("confirm", "sure?")]

    run(work())


def test_reset_forgets_and_state_is_read(chromium: int, site: str) -> None:
    async def work() -> None:
        hooks = {"reset_function": "begin", "state_function": "truth"}
        async with opened(chromium, **hooks) as device:
            odd = {"__proto__": {"x": 1}, "quote": "');alert(1)//\u2028", "n": [1, None]}
            await device.reset({"url": f"{site}/first.html", **odd})
            assert (await device.state())["started"] == odd
            await device.page.evaluate("document.cookie = 'seen=1'; localStorage.setItem('a', 'b')")
            await device.reset({"url": f"{site}/first.html"})
            assert (await device.state())["cookie"] == "" and await device.page.evaluate("localStorage.length") == 0
        async with opened(chromium, site) as device:
            assert await device.state() == {}
            with pytest.raises(WorldError, match="reset_function"):
                await device.reset({"seed": 1})

    run(work())


def test_the_page_cannot_lie_to_the_reader(chromium: int, site: str) -> None:
    async def work() -> None:
        async with opened(chromium, site) as device:
            await device.page.evaluate("document.elementFromPoint = () => null; Array.prototype.slice = () => ['lie']")
            await device.page.evaluate("go.textContent = 'half \\ud800 pair', 1")
            seen = await device.observe()
            place = seen.element("go")
            assert place is not None and place.text == "half \ufffd pair"
            "".join(item.text for item in seen.elements).encode()

    run(work())


@pytest.mark.parametrize("url", ["javascript:alert(1)", "file:///etc/hostname", "data:text/html,x", "chrome://crash"])
def test_only_allowed_addresses_open(chromium: int, url: str) -> None:
    async def work() -> None:
        async with opened(chromium) as device:
            with pytest.raises(WorldError, match="begins with one of"):
                await device.act(actions.Launch(url=url))
            with pytest.raises(WorldError, match="did not open"):
                await device.act(actions.Launch(url="http://127.0.0.1:1/"))
            for none in ("http://[news", "http://a b/", "http://"):
                with pytest.raises(WorldError, match="Launch: "):
                    await device.act(actions.Launch(url=none))
                with pytest.raises(WorldError, match="Launch: "):
                    await device.reset({"url": none})

    run(work())


def test_options_and_keys() -> None:
    with pytest.raises(ValueError, match="expected names of"):
        read_options(CdpOptions, {"colour": 1}, "cdp")
    for wrong in ({"width": "5"}, {"mobile": 1}, {"call_s": None}, {"width": True}, {"schemes": "http"}):
        with pytest.raises(ValueError, match=f"option {next(iter(wrong))}: expected"):
            read_options(CdpOptions, wrong, "cdp")
    assert read_options(CdpOptions, {"schemes": ["https"], "call_s": 3}, "cdp").schemes == ("https",)
    with pytest.raises(ValueError, match="name of a function"):
        read_options(CdpOptions, {"state_function": "x();y"}, "cdp")
    found = [find_key(name) for name in ("Control", "PAGE_DOWN", "a", "/", " ", "F12", "return")]
    assert [key.code for key in found if key] == ["ControlLeft", "PageDown", "KeyA", "Slash", "Space", "F12", "Enter"]
    assert find_key("nonsense") is None and find_key("é") is None
