"""The odd pages as a world: time is a count of actions, so a trace that is performed again shows the same pictures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from generators.devices.browser import Camera, evaluate_json, key_chord
from generators.tasks.world_interface import Observation, ScreenElement
from generators.worlds.browser_world import BrowserWorld
from generators.worlds.pages.own_pages import VIEWPORTS, PageElement, read_elements
from schemas import action_types
from schemas.actions import Action
from schemas.ids import digest

if TYPE_CHECKING:
    from playwright.sync_api import Page


PLATFORM = {"phone": "mobile", "desktop": "desktop"}
WHEEL_PX = 250


class OddWorld(BrowserWorld):
    """One browser page that shows any of the apps (see `World`)."""

    name = "odd"

    def __init__(self, page: Page, kind: str) -> None:
        self.page = page
        self.kind = kind
        self.platform = PLATFORM[kind]
        self.refusal = f"the odd pages on {self.platform} have no action"
        viewport = VIEWPORTS[kind]
        self.size_px = (viewport.width, viewport.height)
        self._camera = Camera(page, viewport)

    def reset(self, start: Mapping[str, object]) -> None:
        """`start` = {"app", "seed", "anim", "waits", "rows"}: anim as in `MOVING` or "", waits = actions that loading
        lasts, rows = whether every row of a list surely has its button."""
        # Or what the pointer rested on before stays lit on the first screen.
        self.page.mouse.move(0, 0)
        self.page.evaluate("config => oddStart(config)", {**start, "platform": self.kind})

    def page_elements(self) -> list[PageElement]:
        return read_elements(self.page)

    def observe(self) -> Observation:
        elements = (self.place(seen) for seen in self.page_elements())
        return Observation(self._camera.shoot(), tuple(one for one in elements if one), digest(self.state()))

    def place(self, seen: PageElement) -> ScreenElement | None:
        """An element in the frame of the schema; a secret shows as dots, as on the screen."""
        text = "•" * len(seen.value) if "secret" in seen.classes else seen.text
        return ScreenElement.on_screen(seen.box, self.size_px, seen.role, text, seen.name, seen.key, seen.clickable)

    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = evaluate_json(self.page, "oddState()")
        return state

    def act(self, action: Action) -> None:
        """See `World.act`; every action but Finished and CallUser lets one tick pass."""
        # Neither touches the page, so no time passes.
        if isinstance(action, action_types.Finished | action_types.CallUser):
            return
        super().act(action)
        self.page.evaluate("oddTick()")

    def _scroll(self, action: action_types.Scroll) -> None:
        if self.platform == "mobile" and action.start and action.end:
            (x, y), (_, y2) = self.pixel(action.start), self.pixel(action.end)
            path = [x, y, y - y2]
        else:
            # A wheel turns over the middle of the page, where no other part scrolls.
            path = [*self.pixel((500, 500)), {"down": WHEEL_PX, "up": -WHEEL_PX}.get(action.direction, 0)]
        self.page.evaluate("([x, y, dy]) => oddScroll(x, y, dy)", path)

    def _hotkey(self, action: action_types.Hotkey) -> None:
        if tuple(key.lower() for key in action.keys) == ("alt", "left"):
            self.page.evaluate("oddBack()")
            return
        self.page.keyboard.press(key_chord(action.keys))


OddWorld.acts = {
    action_types.Click: BrowserWorld.click,
    action_types.DoubleClick: BrowserWorld.click,
    action_types.LongPress: BrowserWorld.click,
    action_types.Scroll: OddWorld._scroll,
    action_types.Hotkey: OddWorld._hotkey,
    action_types.Type: lambda world, action: world.page.keyboard.type(action.content),
    action_types.PressEnter: lambda world, _: world.page.keyboard.press("Enter"),
    action_types.PressBack: lambda world, _: world.page.evaluate("oddBack()"),
    action_types.Hover: lambda world, _: None,  # nothing shows a hover
    action_types.Drag: lambda world, _: None,  # nothing can be dragged
    action_types.Wait: lambda world, _: None,  # the tick does it
}
