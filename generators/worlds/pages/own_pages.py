"""Opening our own pages: seeded phone, desktop and web screens whose truth is `window.vesperState()`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from generators.devices.browser import DESKTOP, PHONE, Camera, Viewport, evaluate_json, open_browser
from schemas.coordinates import centre

if TYPE_CHECKING:
    from playwright.sync_api import Page

FOLDER = Path(__file__).parent
APPS = ("contacts", "mail", "news", "profile", "settings", "shop", "todo", "tools")
WEB = DESKTOP
VIEWPORTS: dict[str, Viewport] = {"phone": PHONE, "desktop": DESKTOP, "web": WEB}


@dataclass(frozen=True)
class PageElement:
    """A visible element; `box` = left, top, right, bottom in CSS pixels of the screen, clipped to what shows."""

    key: str
    role: str
    name: str
    text: str
    box: tuple[float, float, float, float]
    icon: str
    tag: str
    element_id: str
    classes: str
    value: str
    parent: int  # index in the list, -1 at the top
    depth: int
    visible_share: float  # of the element's own box
    clickable: bool
    editable: bool
    checkable: bool
    checked: bool
    focused: bool
    system: bool  # the phone's own navigation bar

    @property
    def centre(self) -> tuple[float, float]:
        return centre(self.box)


def element_of(raw: dict[str, Any]) -> PageElement:
    """One entry of `window.vesperRead()` as an Element; boxes rounded to 1/100 px."""
    # Hundredths: sub-pixel noise between machines would change every digest.
    left, top, right, bottom = (round(float(value), 2) for value in raw["box"])
    same = ("role", "name", "text", "icon", "tag", "value", "parent", "depth", "visible_share")
    flags = ("clickable", "editable", "checkable", "checked", "focused", "system")
    return PageElement(
        key=raw["k"],
        box=(left, top, right, bottom),
        element_id=raw["id"],
        classes=raw["cls"],
        **{name: raw[name] for name in (*same, *flags)},
    )


def read_elements(page: Page) -> list[PageElement]:
    """Every visible, hit-tested element in reading order of the DOM, from one call into the page."""
    return [element_of(raw) for raw in evaluate_json(page, "vesperRead()")]


class OwnPages:
    """A page that shows any of our apps; `start` is cheap, so one serves thousands of screens. As a `World`: see
    `pages.pages_world`."""

    def __init__(self, page: Page, platform: str, viewport: Viewport) -> None:
        self.page = page
        self.platform = platform
        self.viewport = viewport
        self.camera = Camera(page, viewport)
        self.started: dict[str, Any] = {}
        """What the last `start` began, as a start of `pages.pages_world`: {"app", "seed", "home"}."""

    def start(self, app: str, seed: int, *, home: bool = False, **options: object) -> None:
        """Build the app's seeded screen; `home` starts on the phone's launcher."""
        # "start" is the page's word; the phone's launcher is a screen of its own.
        config = {"platform": self.platform, "app": app, "seed": seed, "start": "home" if home else "app", **options}
        self.started = {"app": app, "seed": seed, "home": home}
        # Out of the way: a pointer that rests over an element would colour it.
        self.page.mouse.move(0, 0)
        self.page.evaluate("config => vesperStart(config)", config)

    def state(self) -> dict[str, Any]:
        """The truth: what the page's model holds now."""
        state: dict[str, Any] = evaluate_json(self.page, "vesperState()")
        return state

    def elements(self) -> list[PageElement]:
        return read_elements(self.page)

    def screenshot(self, *, full_page: bool = False, jpeg_quality: int = 0) -> bytes:
        return self.camera.shoot(full_page=full_page, jpeg_quality=jpeg_quality)


@contextmanager
def open_pages(platform: str, viewport: Viewport | None = None) -> Iterator[OwnPages]:
    """Our pages on a `phone`, a `desktop` or the `web` (a page that scrolls as a whole). It needs no network."""
    viewport = viewport or VIEWPORTS[platform]
    with open_browser(viewport) as context:
        page = context.new_page()
        page.goto((FOLDER / "index.html").as_uri())
        yield OwnPages(page, platform, viewport)
