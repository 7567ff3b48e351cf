"""A web app in Chromium as a world. What is an app's own (snapshot, truth, how one is signed in) is its `Data`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from generators.devices.browser import Camera, Viewport, key_chord, open_browser
from generators.tasks.world_interface import Observation, ScreenElement, WorldError
from generators.worlds.browser_world import ARROWS, BrowserWorld
from generators.worlds.webapps.reading import STILL, element_of, read_elements
from generators.worlds.webapps.server import WebAppServer
from schemas import action_types
from schemas.actions import Action, direction_of
from schemas.ids import digest

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Dialog, Page, Request, Response

VIEW = Viewport(1280, 800)
SCROLL_PX, HOLD_MS, WAIT_MS = 400, 700, 1000
LOAD_MS = 20_000
"""Limit on loading a page; one that takes longer is an error."""
REST_S = 8.0
"""Limit on coming to rest after an action: an app that polls for ever is observed as it stands."""
WINDOW_S = 3.0
"""Limit on the coming of a window that a page said it opens; one that is refused never comes."""
NOWHERE = "http://127.0.0.1:9"  # as a proxy: the port for throwing things away, so what is to go through is refused
CLOCK = "2026-01-15T12:00:00Z"
"""What the browser's clock says, always, where `Data.still_clock`: "2 minutes ago" doesn't change from run to run."""
_FRAMES = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))"
_PENDING = ("document", "xhr", "fetch", "script", "stylesheet")


class Data(Protocol):
    """What a world needs to know of its app."""

    name: str
    quiet_s: float
    """For so long no request may be under way before a screen counts as settled (0: a page is loaded, and done)."""

    still_clock: bool
    """Whether the page's clock stands still. An app that waits by its clock (a debounce) would wait for ever."""

    def restore(self, start: Mapping[str, object]) -> None:
        """Put the app's data back to the snapshot of `start`. Raises `WorldError` for a start that it doesn't know."""
        ...

    def cookies(self) -> list[tuple[str, str]]:
        """Names and values that sign the user in."""
        ...

    def truth(self, path: str) -> dict[str, object]:
        """The data as they are now, read from the database or the API; `path` = the address that is shown."""
        ...


class WebAppWorld(BrowserWorld):
    """One browser on one app (see `World`). `start` = {"world", "seed"?, "page"?}: `page` is a path of the app."""

    platform = "web"
    size_px = (VIEW.width, VIEW.height)

    def __init__(self, context: BrowserContext, server: WebAppServer, data: Data) -> None:
        self.refusal = f"{data.name}: a web page has no action"
        self.name, self.server, self.data, self._context = data.name, server, data, context
        self._pages: list[Page] = []
        self._cameras: dict[Page, Camera] = {}
        self._open: dict[Request, Page] = {}
        self._busy_at = 0.0
        self._awaited: list[float] = []
        # Windows that the app opens by itself are followed as well.
        context.on("page", self._follow)
        for page in context.pages or [context.new_page()]:
            self._follow(page)

    # --- the browser
    @property
    def page(self) -> Page:  # type: ignore[override]
        """The newest window that is open."""
        # Popups close themselves; the first window stays.
        while len(self._pages) > 1 and self._pages[-1].is_closed():
            self._pages.pop()
        return self._pages[-1]

    def _follow(self, page: Page) -> None:
        if page in self._pages:
            return
        self._pages.append(page)
        # One announced window has come.
        del self._awaited[:1]
        page.on("dialog", _answer)
        page.on("request", lambda request: self._begun(request, page))
        page.on("requestfinished", self._ended)
        page.on("requestfailed", self._ended)
        page.on("close", self._closed)
        page.on("response", self._answered)
        session = self._context.new_cdp_session(page)
        # Chromium announces a window before it exists; for a while its coming is waited for.
        session.on("Page.windowOpen", lambda _: self._awaited.append(time.monotonic() + WINDOW_S))
        session.send("Page.enable")

    def _begun(self, request: Request, page: Page) -> None:
        # Images and fonts don't change what can be done and may take for ever.
        if request.resource_type in _PENDING and not page.is_closed():
            self._open[request] = page
            self._busy_at = time.monotonic()

    def _answered(self, response: Response) -> None:
        # A document that answers begins to load what it needs.
        if response.request.resource_type == "document":
            self._busy_at = time.monotonic()

    def _ended(self, request: Request) -> None:
        if self._open.pop(request, None) is not None:
            self._busy_at = time.monotonic()

    def _closed(self, page: Page) -> None:
        """No end is reported for the requests of a window that closes itself, as a popup's Save does."""
        # A list first: ending a request changes the dict.
        for request in [request for request, its in self._open.items() if its is page]:
            self._ended(request)
        self._cameras.pop(page, None)

    def _camera(self) -> Camera:
        page = self.page
        if page not in self._cameras:
            # Popups have sizes of their own; pictures are all of one size.
            page.set_viewport_size({"width": VIEW.width, "height": VIEW.height})
            self._cameras[page] = Camera(page, VIEW)
        return self._cameras[page]

    def _settle(self) -> None:
        """Until what was done is drawn, a navigation that it began has loaded, and requests are answered."""
        from playwright.sync_api import Error

        # A bound: an app that polls never comes to rest.
        end = time.monotonic() + REST_S
        while time.monotonic() < end:
            page = self.page
            try:
                # Two frames: what was done is drawn.
                page.evaluate(_FRAMES)
                page.wait_for_load_state("load", timeout=max(1.0, (end - time.monotonic()) * 1000))
                # a window was announced: two frames of the old page can be drawn before the browser reports the new one
                if self._awaited and time.monotonic() < self._awaited[0]:
                    page.wait_for_timeout(20)
                    continue
                # Quiet for a while, since one answer starts the next request.
                if self._open or time.monotonic() - self._busy_at < self.data.quiet_s:
                    page.wait_for_timeout(20)
                    continue
                # Once more: the last answer may have changed what is drawn.
                page.evaluate(_FRAMES)
            except Error:  # it went elsewhere, or closed, in the meantime
                self._pause()
                continue
            if not self._open:
                return

    def _pause(self) -> None:
        """A moment for the browser to report what it did; the page in front may close in it."""
        from playwright.sync_api import Error

        # The page may be gone; what counts is that events are handled.
        with suppress(Error):
            self.page.wait_for_timeout(20)

    def _go(self, path: str) -> None:
        from playwright.sync_api import Error

        try:
            self.page.goto(self.server.origin + path, wait_until="load", timeout=LOAD_MS)
        except Error as error:
            said = str(error).partition("\n")[0][:120]
            raise WorldError(f"{self.name}: {path[:80]!r} didn't load: {said}: {self.server.condition()}") from None
        self._settle()

    # --- the world
    def reset(self, start: Mapping[str, object]) -> None:
        """See `World.reset`."""
        path = start.get("page", "/")
        # "//" would be another host.
        if not isinstance(path, str) or not path.startswith("/") or path.startswith("//"):
            raise WorldError(f"{self.name}: page: expected a path of the app as '/shop', found {path!r:.80}")
        # Popups of the last episode.
        for page in self._pages[1:]:
            page.close()
        del self._pages[1:]
        self.said = ""
        # Away from the app first, so that no script of the old page writes after the restore.
        self.page.goto("about:blank")
        self._open.clear()
        self._awaited.clear()
        self._context.clear_cookies()
        # After the browser is empty and before anything is loaded.
        self.data.restore(start)
        for name, value in self.data.cookies():
            self._context.add_cookies([{"name": name, "value": value, "url": self.server.origin}])
        session = self._context.new_cdp_session(self.page)
        # Filters and widths that the app remembers in the browser would carry over.
        session.send("Storage.clearDataForOrigin", {"origin": self.server.origin, "storageTypes": "local_storage"})
        self.page.mouse.move(0, 0)
        self._go(path)
        # The episode begins here: Back must not lead out of it.
        session.send("Page.resetNavigationHistory")
        session.detach()

    @property
    def path(self) -> str:
        # An error page or another site isn't the app's address.
        """Path and query of the address that is shown; "" for anything that isn't the app's."""
        url = self.page.url
        return url.removeprefix(self.server.origin) if url.startswith(self.server.origin + "/") else ""

    @property
    def address(self) -> str:
        """Without the port, which is another in each run; `Launch` opens it on any."""
        return f"http://127.0.0.1{self.path}" if self.path else self.page.url

    def state(self) -> dict[str, Any]:
        """{"path", …}: the address that is shown, and the app's own data."""
        return {"path": self.path, **self.data.truth(self.path)}

    def elements(self) -> tuple[ScreenElement, ...]:
        """Visible, hit-tested elements. An open list of a `select` is drawn by the system, as no picture shows."""
        made = (element_of(seen, self.size_px) for seen in read_elements(self.page))
        return tuple(element for element in made if element is not None)

    def observe(self) -> Observation:
        return Observation(self._camera().shoot(), self.elements(), digest(self.state()), self.said)

    def act(self, action: Action) -> None:
        """See `World.act`."""
        from playwright.sync_api import Error

        page = self.page
        try:
            super().act(action)
        except Error as error:
            self._pause()
            # Its own window is gone: the action worked.
            if page.is_closed() and page is not self.page:  # it closed its own window, as a popup's Save does
                return self._settle()
            said = str(error).partition("\n")[0][:120]
            raise WorldError(f"{self.name}: {type(action).__name__} failed: {said}") from None
        if not isinstance(action, action_types.Finished | action_types.CallUser):
            self._settle()

    def _hold(self, action: action_types.LongPress) -> None:
        # By hand: Playwright's click has no duration that pages notice.
        self.page.mouse.move(*self.pixel(action.box))
        self.page.mouse.down()
        self.page.wait_for_timeout(HOLD_MS)
        self.page.mouse.up()

    def _scroll(self, action: action_types.Scroll) -> None:
        x, y = ARROWS.get(direction_of(action), (0, 0))
        self.page.mouse.move(*self.pixel(action.start or (500, 500)))
        self.page.mouse.wheel(x * SCROLL_PX, y * SCROLL_PX)
        # Wheel events come later, without any request to wait for.
        self.page.wait_for_timeout(50)  # the wheel's turn reaches the page by itself, after the call

    def _type(self, action: action_types.Type) -> None:
        """Text goes in as a paste would, byte for byte; a list (`select`) chooses by the keys that are typed."""
        # A native list takes keys and no pasted text.
        focused = self.page.evaluate("document.activeElement ? document.activeElement.localName : ''")
        if focused == "select":
            self.page.keyboard.type(action.content)
            return
        # Enter between lines, as a person breaks them.
        for at, line in enumerate(action.content.split("\n")):
            if at:
                self.page.keyboard.press("Enter")
            if line:
                self.page.keyboard.insert_text(line)

    def _hotkey(self, action: action_types.Hotkey) -> None:
        if tuple(key.lower() for key in action.keys) == ("alt", "left"):
            self._back(action)
            return
        self.page.keyboard.press(key_chord(action.keys))

    def _back(self, _: object) -> None:
        session = self._context.new_cdp_session(self.page)
        past = session.send("Page.getNavigationHistory")["currentIndex"]
        session.detach()
        # On the first page Back does nothing.
        if past > 0:
            self.page.go_back(wait_until="load", timeout=LOAD_MS)

    def _launch(self, action: action_types.Launch) -> None:
        """A path of the app, alone or behind a loopback host (any port); what isn't the app's opens nothing."""
        try:
            parts = urlsplit(action.url)
        except ValueError:  # no address
            return
        # Any port: recorded addresses are of another run.
        if action.url.startswith("/") and not parts.netloc or parts.hostname in ("127.0.0.1", "localhost"):
            self._go((parts.path or "/") + (f"?{parts.query}" if parts.query else ""))


def _answer(dialog: Dialog) -> None:
    """A question (confirm, prompt) is answered with Cancel: nobody said yes."""
    if dialog.type in ("alert", "beforeunload"):
        dialog.accept()
    else:
        dialog.dismiss()


WebAppWorld.acts = {
    action_types.Click: lambda world, action: world.page.mouse.click(*world.pixel(action.box)),
    action_types.DoubleClick: lambda world, action: world.page.mouse.dblclick(*world.pixel(action.box)),
    action_types.Hover: lambda world, action: world.page.mouse.move(*world.pixel(action.box)),
    action_types.RightClick: BrowserWorld.right_click,
    action_types.SelectOption: BrowserWorld.select,
    action_types.LongPress: WebAppWorld._hold,
    action_types.Drag: lambda world, action: world.drag(action, steps=8),
    action_types.Scroll: WebAppWorld._scroll,
    action_types.Type: WebAppWorld._type,
    action_types.Hotkey: WebAppWorld._hotkey,
    action_types.PressBack: WebAppWorld._back,
    action_types.Launch: WebAppWorld._launch,
    action_types.PressEnter: lambda world, _: world.page.keyboard.press("Enter"),
    action_types.Wait: lambda world, _: world.page.wait_for_timeout(WAIT_MS),
    action_types.Finished: lambda world, _: None,
    action_types.CallUser: lambda world, _: None,
}


@contextmanager
def open_app(server: WebAppServer, data: Data) -> Iterator[WebAppWorld]:
    """A browser of its own on a running app; requests to anywhere else are refused."""
    # Nothing but the app: a page can't fetch from the network, and no run depends on it. By a proxy that isn't there:
    # requests that pass through Playwright cost as much as the rest of a page, and none of them comes from the cache.
    with open_browser(VIEW, STILL, NOWHERE, server.origin.removeprefix("http://")) as context:
        # Loopback counts as online; the context would otherwise refuse it.
        context.set_offline(False)
        if data.still_clock:
            # "2 minutes ago" and the like stay the same.
            context.clock.set_fixed_time(CLOCK)
        yield WebAppWorld(context, server, data)
