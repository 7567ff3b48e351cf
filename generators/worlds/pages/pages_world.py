"""Our own pages (phone, desktop and web) as a world: eight apps whose state says what was reached."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from generators.devices.browser import key_chord
from generators.tasks.world_interface import Observation, ScreenElement, WorldError
from generators.worlds.browser_world import BrowserWorld
from generators.worlds.pages.own_pages import APPS, OwnPages, PageElement, open_pages
from generators.worlds.pages.page_task import TITLES
from generators.worlds.start_checks import check_start
from schemas import action_types
from schemas.actions import direction_of
from schemas.ids import digest

PLATFORM = {"phone": "mobile", "desktop": "desktop", "web": "web"}
WHEEL_PX = 250


class PagesWorld(BrowserWorld):
    """One browser page that shows any of our apps, as a `phone`, a `desktop` or a site (see `World`)."""

    def __init__(self, pages: OwnPages, kind: str) -> None:
        self.name = f"pages/{kind}"
        self.refusal = f"{self.name}: there is no action"
        self.pages, self.page = pages, pages.page
        self.platform = PLATFORM[kind]
        self.size_px = (pages.viewport.width, pages.viewport.height)

    def reset(self, start: Mapping[str, object]) -> None:
        """`start` = {"app", "seed"}, and "home": true to begin on the phone's launcher. Raises `WorldError` for an
        app that there isn't."""
        check_start(start, self.name, ("app", "seed"), ("home",))
        if start["app"] not in APPS or type(start["seed"]) is not int:
            found = f"{start['app']!r:.60}, {start['seed']!r:.60}"
            raise WorldError(
                f"{self.name}: reset: expected an app of {', '.join(APPS)} and a whole seed, found {found}"
            )
        # `home` counts on a phone alone; the other kinds have no launcher.
        self.pages.start(start["app"], start["seed"], home=bool(start.get("home")))

    def observe(self) -> Observation:
        elements = (self._element(element) for element in self.pages.elements())
        return Observation(self.pages.screenshot(), tuple(p for p in elements if p), digest(self.state()))

    def _element(self, seen: PageElement) -> ScreenElement | None:
        box = seen.box
        return ScreenElement.on_screen(box, self.size_px, seen.role, seen.text, seen.name, seen.key, seen.clickable)

    def state(self) -> dict[str, Any]:
        return self.pages.state()

    def _scroll(self, action: action_types.Scroll) -> None:
        # With two points the finger's path decides how far; without them a wheel's notch does.
        if self.platform == "mobile" and action.start and action.end:
            path = [*self.pixel(action.start), *self.pixel(action.end)]
            self.page.evaluate("([a, b, c, d]) => vesperSwipe(a, b, c, d)", path)
            return
        down = {"down": 1, "up": -1}.get(direction_of(action))
        if down is None:
            return  # nothing scrolls sideways here
        page = self.page
        # Wheel events arrive some frames later: how many the page has heard says when this one has.
        seen = page.evaluate("vesperWheels()")
        page.mouse.move(*self.pixel((500, 500)))
        page.mouse.wheel(0, WHEEL_PX * down)
        page.wait_for_function("n => vesperWheels() > n", arg=seen, timeout=5000)
        # Out of the way, so that no hover shows in the next picture.
        page.mouse.move(0, 0)

    def _drag(self, action: action_types.Drag) -> None:
        self.drag(action)
        self.page.mouse.move(0, 0)

    def _launch(self, action: action_types.Launch) -> None:
        # By the title, which is what the screen shows; keys of apps are ours.
        app = next((app for app, title in TITLES.items() if title == action.app), None)
        if app is not None:  # an app that isn't there opens nothing
            self.page.evaluate("app => vesperOpen(app)", app)

    def _hotkey(self, action: action_types.Hotkey) -> None:
        self.page.keyboard.press(key_chord(action.keys))


PagesWorld.acts = {
    action_types.Click: BrowserWorld.click,
    action_types.DoubleClick: BrowserWorld.click,
    action_types.LongPress: BrowserWorld.click,
    action_types.Scroll: PagesWorld._scroll,
    action_types.Drag: PagesWorld._drag,
    action_types.Launch: PagesWorld._launch,
    action_types.Hotkey: PagesWorld._hotkey,
    action_types.Hover: lambda world, action: world.page.mouse.move(*world.pixel(action.box)),
    action_types.Type: lambda world, action: world.page.keyboard.type(action.content),
    action_types.PressBack: lambda world, _: world.page.evaluate("vesperBack()"),
    action_types.PressHome: lambda world, _: world.page.evaluate("vesperHome()"),
    action_types.PressEnter: lambda world, _: world.page.keyboard.press("Enter"),
    action_types.Wait: lambda world, _: world.page.evaluate("vesperTick()"),
    action_types.Finished: lambda world, _: None,
    action_types.CallUser: lambda world, _: None,
}


@contextmanager
def open_pages_world(kind: str) -> Iterator[PagesWorld]:
    """Our apps on a `phone`, a `desktop` or the `web`, in their own browser. Raises `BrowserMissing` without one."""
    with open_pages(kind) as pages:
        yield PagesWorld(pages, kind)
