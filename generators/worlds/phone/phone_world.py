"""The phone as a `World`: real touches on a Chromium page, one document as its truth.

The page's JavaScript API, all that another backend (a device daemon) needs besides touches:
    phone.reset(snapshot)   put exactly this moment on the screen (`snapshot.make_snapshot(seed)`, or an earlier state)
    phone.state()           the whole document, as plain JSON data; phone.reset(phone.state()) changes nothing
    phone.key(name)         BACK, HOME, APP_SWITCH, ENTER or DEL, as the system's keys do
    phone.open(link)        vesper://app/screen?name=value; throws with the known apps and screens if there is none
    phone.show(app)         bring an app to the front as it was left, as its icon does
    phone.commit(text)      what an input method commits to the focused field, unchanged; false if none has the focus
    phone.tree()            every visible, hit-tested element: k (key), role, name, text, box (CSS px), clickable, ...
    phone.where(key)        box of an element drawn off screen as well, and the part of the screen it scrolls in
    phone.wait(seconds)     let the phone's clock run;  phone.apps(), phone.screens(): what there is to open
Touches and the mouse are read from pointer events: moved ≤ 10 px and held < 450 ms is a tap, longer a long press (by
the events' own times), an upward or downward path scrolls by its length, up on home opens all apps, down from the
status bar quick settings. No animation, no clock: after the touch's acknowledgement the screen is the next one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from generators.devices.browser import PHONE, Camera, Viewport, open_browser
from generators.tasks.world_interface import Observation, ScreenElement, UnsupportedAction, WorldError
from generators.worlds.browser_world import BrowserWorld
from generators.worlds.nano_text import nano_text_css
from generators.worlds.phone.snapshot import START_KEYS, TITLES, start_snapshot
from generators.worlds.start_checks import check_start
from schemas import action_types
from schemas.actions import SYNTHESISED_PATHS
from schemas.ids import digest

if TYPE_CHECKING:
    from playwright.sync_api import Page

FOLDER = Path(__file__).parent
NANO = Viewport(320, 448, mobile=True)
SIGNS = ".bigclock b,.avatar,.big,.digits"
"""Large figures and initials, which no task is about: nano's text isn't for them."""
TAP_S = 0.05
HOLD_S = 0.8
WAIT_S = 2
# By JSON texts: a page may change prototypes, and numbers keep their type.
_CALL = """text => {
    const [method, ...args] = JSON.parse(text);
    return JSON.stringify(phone[method](...args));
}"""
"""A method of the page's API; see `evaluate_json` for why by texts."""
MOVES = 6
"""Touch events between the two ends of a path."""


class PhoneWorld(BrowserWorld):
    """A phone on an open page. `answer` is the text of the last CallUser since the reset ("" before one)."""

    name = "phone"
    platform = "mobile"
    refusal = "the phone has no action"

    def __init__(self, page: Page, viewport: Viewport = PHONE) -> None:
        from playwright.sync_api import Error

        self.page = page
        self.size_px = (viewport.width, viewport.height)
        self.answer = ""
        self._camera = Camera(page, viewport)
        # A session of its own for touches: Playwright's own touch has no duration.
        self._touch = page.context.new_cdp_session(page)
        # End of the last touch: events of one page must never go back in time.
        self._now = 0.0
        self._error = Error

    def call(self, method: str, *args: object) -> Any:
        """A method of the page's API. Raises `WorldError` with the page's own words."""
        try:
            text = self.page.evaluate(_CALL, json.dumps([method, *args]))
            return None if text is None else json.loads(text)
        except self._error as error:
            first = str(error).splitlines()[0]
            # The page's message without Chromium's prefixes, which differ between versions.
            raise WorldError(
                f"phone.{method}: {first.removeprefix('Page.evaluate: ').removeprefix('Error: ')}"
            ) from error

    def reset(self, start: Mapping[str, object]) -> None:
        """`start` = {"seed": n} or {"snapshot": a document that `state` gave}, with "extras" (see
        `snapshot.start_snapshot`) and "open", a deep link, if wanted."""
        check_start(start, self.name, (), START_KEYS)
        try:
            snapshot = start_snapshot(start)
        except ValueError as error:
            raise WorldError(str(error)) from error
        self.answer = ""
        self.call("reset", snapshot)
        if start.get("open"):
            self.call("open", start["open"])

    def observe(self) -> Observation:
        elements = (self._element(raw) for raw in self.call("tree"))
        # Without scrolling: the same screen further down is the same state.
        return Observation(self._camera.shoot(), tuple(p for p in elements if p), digest(unscrolled(self.state())))

    def elements(self) -> tuple[ScreenElement, ...]:
        """The elements alone, without a picture."""
        return tuple(p for p in (self._element(raw) for raw in self.call("tree")) if p)

    def _element(self, raw: Mapping[str, Any]) -> ScreenElement | None:
        # Headings can be tapped in the page's sense and do nothing.
        clickable = bool(raw["clickable"]) and raw["role"] not in ("heading", "none")
        box = tuple(raw["box"])
        return ScreenElement.on_screen(box, self.size_px, raw["role"], raw["text"], raw["name"], raw["k"], clickable)

    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = self.call("state")
        return state

    def touch(self, path: Sequence[tuple[float, float]], seconds: float) -> None:
        """One finger along a path of CSS pixels; the time it takes stands in the events, nobody waits for it."""
        begin = max(self._now + 0.1, time.time())  # Chromium wants times since the epoch; only differences count
        last = len(path) - 1
        for index, (x, y) in enumerate(path):
            kind = "touchStart" if index == 0 else "touchMove"
            # Times of the events decide between tap and hold; nobody waits.
            when = begin + seconds * index / max(last, 1) if last else begin
            self._send(kind, [{"x": x, "y": y}], when)
        self._now = begin + seconds
        self._send("touchEnd", [], self._now)

    def _send(self, kind: str, points: list[dict[str, float]], when: float) -> None:
        self._touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points, "timestamp": when})

    def _swipe(self, start: Sequence[float], end: Sequence[float]) -> None:
        (x1, y1), (x2, y2) = self.pixel(start), self.pixel(end)
        # Several moves: the page reads direction and speed from the path.
        steps = [(x1 + (x2 - x1) * i / MOVES, y1 + (y2 - y1) * i / MOVES) for i in range(MOVES + 1)]
        self.touch(steps, 0.3)

    def _scroll(self, action: action_types.Scroll) -> None:
        if action.start and action.end:
            self._swipe(action.start, action.end)
        else:
            # Without points the platform's usual path for that direction.
            self._swipe(*SYNTHESISED_PATHS[action.direction])

    def _launch(self, action: action_types.Launch) -> None:
        if action.url:
            # Links of other schemes would leave the phone.
            if not action.url.startswith("vesper://"):
                raise UnsupportedAction(f"the phone opens vesper:// links only, found {action.url[:80]!r}")
            self.call("open", action.url)
            return
        app = next((app for app, title in TITLES.items() if title.lower() == action.app.strip().lower()), None)
        if app is not None:  # an app that isn't there opens nothing
            self.call("show", app)

    def _call_user(self, action: action_types.CallUser) -> None:
        self.answer = action.content


PhoneWorld.acts = {
    action_types.Click: lambda world, action: world.touch([world.pixel(action.box)], TAP_S),
    action_types.LongPress: lambda world, action: world.touch([world.pixel(action.box)], HOLD_S),
    action_types.Drag: lambda world, action: world._swipe(action.start, action.end),
    action_types.Scroll: PhoneWorld._scroll,
    action_types.Type: lambda world, action: world.call("commit", action.content),
    action_types.Launch: PhoneWorld._launch,
    action_types.Wait: lambda world, _: world.call("wait", WAIT_S),
    action_types.PressBack: lambda world, _: world.call("key", "BACK"),
    action_types.PressHome: lambda world, _: world.call("key", "HOME"),
    action_types.PressEnter: lambda world, _: world.call("key", "ENTER"),
    action_types.PressRecent: lambda world, _: world.call("key", "APP_SWITCH"),
    action_types.Finished: lambda world, _: None,
    action_types.CallUser: PhoneWorld._call_user,
}


# Scroll positions of all open screens, dialogs included.
def unscrolled(state: dict[str, Any]) -> dict[str, object]:
    """The document without how far its lists are scrolled, which is a matter of the picture."""
    ui = state["ui"]
    stacks = {app: [{**entry, "y": 0} for entry in stack] for app, stack in ui["stacks"].items()}
    return {**state, "ui": {**ui, "y": 0, "stacks": stacks, "dialog": ui["dialog"] and {**ui["dialog"], "y": 0}}}


@contextmanager
def open_phone(*, nano: bool = False) -> Iterator[PhoneWorld]:
    """A phone of seed 0 in a Chromium of its own; it needs no network. Raises `BrowserMissing` without a Chromium.

    `nano`: the same phone with a screen of 320 x 448 pixels (`nano.css`): less shows at once, text is nano's
    (`generators.worlds.nano_text`). Snapshots, tasks and truth are the same."""
    viewport = NANO if nano else PHONE
    with open_browser(viewport) as context:
        page = context.new_page()
        page.goto((FOLDER / "index.html").as_uri())
        # Styles only: the document, and with it every task, is the same.
        if nano:
            page.add_style_tag(content=(FOLDER / "nano.css").read_text(encoding="utf-8"))
            page.add_style_tag(content=nano_text_css(but=SIGNS))
        world = PhoneWorld(page, viewport)
        world.reset({"seed": 0})
        yield world
