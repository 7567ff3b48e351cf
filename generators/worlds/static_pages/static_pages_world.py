"""A folder of static html pages as a world: real pages that others wrote, made to look the same on every visit.

Time, chance and motion are held still (see runtime.js). A link or a form leads to another page of the folder or
nowhere. Nothing is loaded from the network, and no file outside the folder is shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from generators.devices.browser import Camera, Viewport, key_chord, open_browser
from generators.tasks.world_interface import Observation, ScreenElement, WorldError
from generators.worlds.browser_world import ARROWS, BrowserWorld
from generators.worlds.web_reader import READER, ObservedElement, seen_of
from schemas import action_types
from schemas.actions import Action, direction_of
from schemas.ids import digest

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page, Route

RUNTIME = Path(__file__).parent / "runtime.js"
HTML = (".html", ".htm")
"""How a page's file ends, in letters of either case."""
VIEW = Viewport(1280, 800)
SCROLL_PX = 400
LOAD_MS, ACT_MS, WAIT_MS = 1000, 500, 1000
"""Time of the page's own that passes after it has loaded, after an action, and at a Wait."""
_INTEGRITY = re.compile(rb"""\sintegrity\s*=\s*("[^"]*"|'[^']*')""")


def pages_of(folder: Path) -> tuple[str, ...]:
    """Relative names of the folder's html pages (`HTML`), sorted. Raises `ValueError` where there are none."""
    inside = (path for path in folder.rglob("*") if path.suffix.lower() in HTML and path.is_file())
    found = sorted(path.relative_to(folder).as_posix() for path in inside) if folder.is_dir() else []
    # Libraries bring example pages that nobody means.
    found = [page for page in found if not page.startswith(("libs/", "node_modules/"))]
    if not found:
        raise ValueError(f"{folder}: expected a folder of html pages, found none; get some with deploy/get_pages.sh")
    return tuple(found)


class WebWorld(BrowserWorld):
    """One browser page that shows any page of the folder (see `World`)."""

    platform = "web"
    size_px = (VIEW.width, VIEW.height)

    def __init__(self, page: Page, folder: Path, name: str) -> None:
        self.page, self.folder, self.name = page, folder, name
        self.camera = Camera(page, VIEW)
        self.pages = frozenset(pages_of(folder))
        self._cdp = page.context.new_cdp_session(page)
        self._sent: dict[str, Any] | None = None
        self._blocked = 0
        self._seen: list[ObservedElement] | None = None

    # --- where it is
    def reset(self, start: Mapping[str, object]) -> None:
        """`start` = {"page": relative name, "seed": number}. Raises `WorldError` for a page the folder hasn't."""
        if start["page"] not in self.pages:
            raise WorldError(f"{self.name}: no page {start['page']!r} in {self.folder.name}/")
        self._sent, self._blocked, self.said = None, 0, ""
        # What pages stored belongs to the last episode.
        if self.page.url.startswith("file:"):
            self.page.evaluate("() => { localStorage.clear(); sessionStorage.clear(); }")
        self.page.mouse.move(0, 0)
        self._go((self.folder / start["page"]).as_uri())
        self._cdp.send("Page.resetNavigationHistory")

    def inner(self, url: str) -> str:
        """Relative name of the folder's page that a URL leads to; "" for anything else."""
        try:
            parts = urlsplit(url)
            if parts.scheme != "file":
                return ""
            # Resolved: ".." and links can't lead out of the folder.
            path = Path(unquote(parts.path)).resolve()
            path = path / "index.html" if path.is_dir() else path
            name = path.relative_to(self.folder).as_posix()
        except (ValueError, OSError):
            return ""
        return name if name in self.pages else ""

    def _go(self, url: str) -> None:
        from playwright.sync_api import Error

        try:
            self.page.goto(url, wait_until="load", timeout=30_000)
        except Error as error:
            raise WorldError(f"{self.name}: {self.inner(url) or url!r} didn't load: {str(error)[:120]}") from None
        self._settle(LOAD_MS)

    def _settle(self, ms: int) -> None:
        """Let the page's time pass, then follow the link or the form that was used, if it stays in the folder."""
        from playwright.sync_api import Error

        # Whatever happened, the list of elements is old.
        self._seen = None
        # Four times: pages that redirect on and on don't come to rest.
        for _ in range(4):
            try:
                report = self.page.evaluate("ms => vesperSettle(ms)", ms)
                break
            except Error:  # the page itself went elsewhere: wait for where it went
                self.page.wait_for_load_state("load")
        else:
            raise WorldError(f"{self.name}: {self.page.url[-80:]!r} doesn't come to rest")
        if not self.inner(self.page.url):
            raise WorldError(f"{self.name}: a script left the folder")
        # What a form sent is part of the truth, though nobody receives it.
        if report["sent"] is not None:
            self._sent = {"page": self.inner(self.page.url), "values": report["sent"]}
        if report["wish"]:
            self._follow(report["wish"])

    def _follow(self, url: str) -> None:
        name = self.inner(url)
        # Links that lead out are counted and not followed.
        if not name:
            self._blocked += 1
            return
        parts = urlsplit(url)
        tail = (f"?{parts.query}" if parts.query else "") + (f"#{parts.fragment}" if parts.fragment else "")
        self._go((self.folder / name).as_uri() + tail)

    # --- what it shows
    def see(self, *, everything: bool = False) -> list[ObservedElement]:
        """The elements on the screen, or with `everything` those of the whole page that scrolling can bring there."""
        # Kept until something happens: reading a large page takes as long as drawing it.
        if everything or self._seen is None:
            found = [seen_of(raw) for raw in json.loads(self.page.evaluate("all => vesperSee(all)", everything))]
            found = [seen for seen in found if seen.key]
            if everything:
                return found
            self._seen = found
        return self._seen

    def hits(self, key: str, point: Sequence[float]) -> bool:
        """Whether a click at a point of 0..1000 lands on the element (or what works it)."""
        return bool(self.page.evaluate("([key, x, y]) => vesperHits(key, x, y)", [key, *self.pixel(point)]))

    def element(self, seen: ObservedElement) -> ScreenElement | None:
        """None where the element doesn't show."""
        box = seen.box
        return ScreenElement.on_screen(box, self.size_px, seen.role, seen.text, seen.name, seen.key, seen.clickable)

    def observe(self) -> Observation:
        png = self.camera.shoot()
        elements = (self.element(seen) for seen in self.see())
        return Observation(png, tuple(element for element in elements if element), digest(self.state()), self.said)

    @property
    def address(self) -> str:
        """Within the folder: where that lies is no part of the page's address."""
        return f"file:///{self.inner(self.page.url)}"

    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.page.evaluate("vesperState()"))
        return {"page": self.inner(self.page.url), "sent": self._sent, "blocked": self._blocked, **found}

    # --- what can be done
    def act(self, action: Action) -> None:
        """See `World.act`."""
        with self.browser_errors(action):
            super().act(action)

    def _click(self, action: action_types.Click | action_types.DoubleClick) -> None:
        self.click(action)
        self._settle(ACT_MS)

    def _right_click(self, action: action_types.RightClick) -> None:
        self.right_click(action)
        self._settle(ACT_MS)

    def _select(self, action: action_types.SelectOption) -> None:
        self.select(action)
        self._settle(ACT_MS)

    def _hover(self, action: action_types.Hover) -> None:
        self.page.mouse.move(*self.pixel(action.box))
        self._settle(ACT_MS)

    def _scroll(self, action: action_types.Scroll) -> None:
        x, y = ARROWS.get(direction_of(action), (0, 0))
        at = self.pixel(action.start) if action.start else self.pixel((500, 500))
        # By script: the wheel is animated, and its end depends on the machine.
        self.page.evaluate("([x, y, dx, dy]) => vesperScroll(x, y, dx, dy)", [*at, x * SCROLL_PX, y * SCROLL_PX])
        self._settle(ACT_MS)

    def _type(self, action: action_types.Type) -> None:
        self.page.keyboard.type(action.content)
        self._settle(ACT_MS)

    def _press(self, keys: Sequence[str]) -> None:
        self.page.keyboard.press(key_chord(keys))
        self._settle(ACT_MS)

    def _hotkey(self, action: action_types.Hotkey) -> None:
        if tuple(key.lower() for key in action.keys) == ("alt", "left"):
            self._back(action)
        else:
            self._press(action.keys)

    def _back(self, _: object) -> None:
        if self._cdp.send("Page.getNavigationHistory")["currentIndex"] > 0:
            self.page.go_back(wait_until="load")
            self._settle(LOAD_MS)

    def _launch(self, action: action_types.Launch) -> None:
        """A page by its relative name or its URL; what isn't there opens nothing."""
        name = action.url if action.url in self.pages else self.inner(action.url)
        if name:
            self._go((self.folder / name).as_uri())


WebWorld.acts = {
    action_types.Click: WebWorld._click,
    action_types.DoubleClick: WebWorld._click,
    action_types.RightClick: WebWorld._right_click,
    action_types.SelectOption: WebWorld._select,
    action_types.Hover: WebWorld._hover,
    action_types.Scroll: WebWorld._scroll,
    action_types.Type: WebWorld._type,
    action_types.Hotkey: WebWorld._hotkey,
    action_types.PressBack: WebWorld._back,
    action_types.Launch: WebWorld._launch,
    action_types.PressEnter: lambda world, _: world._press(("enter",)),
    action_types.Wait: lambda world, _: world._settle(WAIT_MS),
    action_types.Finished: lambda world, _: None,
    action_types.CallUser: lambda world, _: None,
}


@contextmanager
def open_web(folder: Path, name: str) -> Iterator[WebWorld]:
    """The folder's world in a browser of its own. Raises `ValueError` for a folder without html pages."""
    folder = folder.resolve()
    pages_of(folder)
    script = RUNTIME.read_text(encoding="utf-8").replace("__ROOT__", folder.as_uri() + "/")
    with open_browser(VIEW, script + READER.read_text(encoding="utf-8")) as context:
        _serve(context, folder)
        page = context.new_page()
        yield WebWorld(page, folder, name)


def _serve(context: BrowserContext, folder: Path) -> None:
    """Serve the folder's html without `integrity` marks, which Chromium can't check on file: pages and refuses."""

    def hand_out(route: Route) -> None:
        # Resolved before it is compared, for the same reason as in `inner`.
        path = Path(unquote(urlsplit(route.request.url).path)).resolve()
        if not path.is_relative_to(folder) or not path.is_file():
            route.abort()
            return
        route.fulfill(body=_INTEGRITY.sub(b"", path.read_bytes()), content_type="text/html; charset=utf-8")

    # Playwright's driver reads these as JavaScript, which can't ignore the case of one part alone.
    page, inside = r"file:[^?#]*\.[hH][tT][mM][lL]?([?#].*)?$", re.escape(folder.as_uri() + "/")
    context.route(re.compile("^" + page), hand_out)
    # Files outside of the folder are refused, html or not.
    context.route(re.compile(f"^(?!{page})(?!{inside})file:"), lambda route: route.abort())
