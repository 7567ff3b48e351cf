"""A site in real Chromium: `runtime.js` carries out the spec, `FsmWorld` works it by mouse and keyboard."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from generators.devices.browser import DESKTOP, Camera, Viewport, evaluate_json, open_browser
from generators.tasks.world_interface import Observation, ScreenElement
from generators.worlds.browser_world import BrowserWorld
from generators.worlds.fsm.choices import choose
from generators.worlds.fsm.interpreted import Resolve, chord_of, one_line, site_of
from generators.worlds.fsm.layout import SCROLL_PX
from generators.worlds.fsm.machine import Fired, Machine, address_of
from generators.worlds.fsm.sites import make_site
from generators.worlds.nano_text import nano_text_css
from schemas import action_types
from schemas.actions import Action, direction_of
from schemas.coordinates import box_to_unit
from schemas.ids import digest

if TYPE_CHECKING:
    from playwright.sync_api import Page

FOLDER = Path(__file__).parent
NANO = Viewport(320, 448)
NANO_SCROLL_PX = 220
SIGNS = ".mark,.art,.arrow"
"""Pictures made of letters: nano's text isn't for them."""
_HEARD = frozenset(
    {
        "Alt",
        "Control",
        "Shift",
        "Meta",
        "ArrowLeft",
        "ArrowRight",
        "ArrowUp",
        "ArrowDown",
        "Enter",
        "Tab",
        "Escape",
        "Delete",
        "Backspace",
        "Home",
        "End",
    }
)
"""Keys that may be pressed alone, or held for the last one; others do nothing on a site."""


class FsmWorld(BrowserWorld):
    """One browser page that shows any site (see `World`).

    `start`: see `interpreted.site_of`; what it doesn't name is as on the first visit.
    """

    name = "fsm"
    platform = "web"
    refusal = "fsm: a web page has no action"

    def __init__(self, page: Page, viewport: Viewport, resolve: Resolve = make_site) -> None:
        self.page, self._resolve = page, resolve
        self.size_px = (viewport.width, viewport.height)
        self.stroke_px = NANO_SCROLL_PX if viewport == NANO else SCROLL_PX
        self.camera = Camera(page, viewport)
        self._fired: list[Fired] = []
        self._open = False

    @property
    def fired(self) -> list[Fired]:
        """Edges taken since the world was made, as the browser counted them."""
        # Of earlier visits and the present one: the page counts from its last opening.
        return [*self._fired, *(self._now() if self._open else ())]

    def _now(self) -> list[Fired]:
        return [(page, element, number) for page, element, number in evaluate_json(self.page, "fsmFired()")]

    def reset(self, start: Mapping[str, Any]) -> None:
        """Raises `WorldError` for a page, variable or value that the site doesn't have."""
        site = site_of(start, self._resolve)
        machine, self._site, self.said = Machine(site), site, ""
        # Raises for what the site doesn't have before the browser is touched.
        machine.start(start.get("page", ""), start.get("variables"))
        if self._open:
            self._fired += self._now()
        # Out of the way: a hover would change the first picture.
        self.page.mouse.move(0, 0)
        snapshot = {"page": start.get("page", ""), "variables": dict(start.get("variables") or {})}
        # As JSON text, which no prototype of the page can alter.
        self.page.evaluate("given => fsmOpen(...JSON.parse(given))", json.dumps([site.plain(), snapshot]))
        self._open = True

    @property
    def address(self) -> str:
        """The site's own, which `Launch` opens."""
        return address_of(self._site, self.state()["page"])

    def state(self) -> dict[str, Any]:
        """{"page", "variables", "history": digest}, as `Machine.state`."""
        state = evaluate_json(self.page, "fsmState()")
        # The history as a digest: it distinguishes states, and nobody reads it.
        return {"page": state["page"], "variables": state["variables"], "history": digest(state["past"])[:16]}

    def elements(self) -> tuple[ScreenElement, ...]:
        """What shows, hit-tested, without a picture."""
        return tuple(self._element(raw) for raw in evaluate_json(self.page, "fsmPlaces()"))

    def _element(self, raw: Mapping[str, Any]) -> ScreenElement:
        left, top, right, bottom = box_to_unit(raw["box"], self.size_px)
        return ScreenElement(
            (left, top, right, bottom), raw["role"], raw["text"], raw["name"], raw["key"], raw["clickable"]
        )

    def observe(self) -> Observation:
        return Observation(self.camera.shoot(), self.elements(), digest(self.state()), self.said)

    def act(self, action: Action) -> None:
        """See `World.act`."""
        with self.browser_errors(action):
            super().act(action)
            if isinstance(action, action_types.Type | action_types.Hotkey | action_types.PressEnter):
                # Typing redraws nothing by itself; now what is shown follows what was typed.
                self.page.evaluate("fsmHold()")

    def _hotkey(self, action: action_types.Hotkey) -> None:
        *held, last = [chord_of((key,)) for key in action.keys]
        # Other keys do nothing on a site; sent to Chromium they might do something of the browser's.
        if all(key in _HEARD for key in held) and (held or last in _HEARD):
            self.page.keyboard.press("+".join((*held, last)))


FsmWorld.acts = {
    action_types.Click: lambda world, action: world.page.mouse.click(*world.pixel(action.box)),
    action_types.DoubleClick: lambda world, action: world.page.mouse.dblclick(*world.pixel(action.box)),
    action_types.Hover: lambda world, action: world.page.mouse.move(*world.pixel(action.box)),
    action_types.Type: lambda world, action: world.page.keyboard.insert_text(one_line(action.content)),
    action_types.Scroll: lambda world, action: world.page.evaluate(
        "by => fsmScroll(by)", {"down": world.stroke_px, "up": -world.stroke_px}.get(direction_of(action), 0)
    ),
    action_types.Hotkey: FsmWorld._hotkey,
    action_types.PressEnter: lambda world, _: world.page.keyboard.press("Enter"),
    action_types.PressBack: lambda world, _: world.page.evaluate("fsmBack()"),
    action_types.Launch: lambda world, action: world.page.evaluate("url => fsmLaunch(url)", action.url),
    action_types.SelectOption: choose,
    action_types.Wait: lambda world, _: None,
    action_types.Finished: lambda world, _: None,
    action_types.CallUser: lambda world, _: None,
}


@contextmanager
def open_fsm(*, nano: bool = False, resolve: Resolve = make_site) -> Iterator[FsmWorld]:
    """A browser of its own that shows any site. Raises `BrowserMissing` without a Chromium.

    `nano`: the same sites on a screen of 320 x 448 pixels (`nano.css`, `nano.js`): less shows at once, text is nano's
    (`worlds.nano_text`), a scroll is shorter. Sites, starts and truth are the same, the points of a task's path are
    not. `resolve`: what gives the site of a kind and a seed, of sites other than those of `fsm.sites`.
    """
    viewport = NANO if nano else DESKTOP
    with open_browser(viewport) as context:
        page = context.new_page()
        page.goto((FOLDER / "site.html").as_uri())
        if nano:
            # After the page's own style, so that these rules win.
            page.add_style_tag(content=(FOLDER / "nano.css").read_text(encoding="utf-8"))
            page.add_style_tag(content=nano_text_css(but=SIGNS))
            page.add_script_tag(content=(FOLDER / "nano.js").read_text(encoding="utf-8"))
        yield FsmWorld(page, viewport, resolve)
