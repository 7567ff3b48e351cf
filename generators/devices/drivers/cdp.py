"""The CDP driver: a real Chromium by its DevTools address, straight or through a gateway.

    async with connect(Endpoint("cdp", "127.0.0.1", 9222)) as browser: ...

It acts on one page and follows what a user would see: a page that a click opens comes to the front, and when it closes
the one before is there again. A page may close at any moment, by a script of its own too: that is no fault of the
device.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import SplitResult, urlsplit

from generators.devices.device import DeviceEndpoint, DeviceError
from generators.devices.drivers.cdp_page import CdpPage
from generators.devices.drivers.frames import png_size, read_options, to_px
from generators.devices.keyboard import find_key
from generators.devices.protocols.cdp_session import CdpConnection, CommandFailed, open_connection
from generators.tasks.world_interface import Observation, UnsupportedAction, WorldError
from schemas import actions

T = TypeVar("T")
MAX_CLOSED = 20
"""So many pages may close one after the other while they are observed; more are a page that opens them for ever."""
LIST_S = 5.0
"""Limit on the browser's list of its pages, which is requested when a page fails."""
_FUNCTION = re.compile(r"[A-Za-z_$][\w$]*(\.[A-Za-z_$][\w$]*){0,4}", re.ASCII)


@dataclass(frozen=True)
class CdpOptions:
    """`DeviceEndpoint.options` of this driver. Times in seconds."""

    target: str = ""  # id of the page; empty: the first one, or a new one
    platform: str = "web"
    width: int = 0  # CSS pixels of an emulated screen; 0: the browser's own
    height: int = 0
    scale: float = 1.0
    mobile: bool = False  # with an emulated screen: a phone's, touched by a finger
    tree: bool = True  # read the elements with every observation
    schemes: tuple[str, ...] = ("http", "https", "about")  # of addresses that Launch and reset may open
    reset_function: str = ""  # of the page, called with what `reset` is given beside `url`
    state_function: str = ""  # of the page, gives its truth
    call_s: float = 20.0
    load_s: float = 10.0
    wait_s: float = 1.0
    press_s: float = 0.8
    drag_s: float = 0.25

    def __post_init__(self) -> None:
        for name in (self.reset_function, self.state_function):
            if name and not _FUNCTION.fullmatch(name):
                raise ValueError(f"cdp options: expected the name of a function, found {name!r}")
        if bool(self.width) != bool(self.height):
            raise ValueError("cdp options: expected both width and height or neither")


async def _address(page: CdpPage) -> str:
    """What the address bar of a page would show."""
    history = await page.send("Page.getNavigationHistory")
    return str(history["entries"][int(history["currentIndex"])]["url"])


class CdpDevice:
    """An open browser (`AsyncDevice`). `dialogs` = (kind, text) of the page's dialogs, which are answered at once."""

    def __init__(self, name: str, options: CdpOptions) -> None:
        self.platform = options.platform
        self.size_px = (options.width, options.height)
        self._name, self._options = name, options
        self._connection: CdpConnection
        self._pages: list[CdpPage] = []  # the last is in front
        self._front: CdpPage | None = None
        self._newcomers: list[str] = []  # targets that our pages opened, not attached yet
        self._said = ""  # what the next observation answers to the action before it

    async def begin(self, connection: CdpConnection) -> None:
        """Attach to the page."""
        self._connection = connection
        await self._browser("Target.setDiscoverTargets", {"discover": True})
        targets = (await self._browser("Target.getTargets")).get("targetInfos", [])
        pages = [item for item in targets if item.get("type") == "page"]
        wanted = [item for item in pages if item.get("targetId") == self._options.target]
        if self._options.target and not wanted:
            raise DeviceError(f"{self._name}: no page with the id {self._options.target[:64]!r}")
        plain = [item for item in pages if not str(item.get("url", "")).startswith(("devtools:", "chrome-extension:"))]
        found = wanted or plain
        try:
            await self._attach(str(found[0]["targetId"]) if found else await self._new_page())
        except DeviceError:
            # somebody else's crashed page is left alone: a new one is opened beside it
            if wanted or not (self._pages and self.page.crashed):
                raise
            await self._attach(await self._new_page())  # whoever was here before left a crashed page
        await self._in_front(self._measure)

    @property
    def page(self) -> CdpPage:
        """The page in front."""
        return self._pages[-1]

    @property
    def dialogs(self) -> list[tuple[str, str]]:
        return [dialog for page in self._pages for dialog in page.dialogs]

    # -- AsyncDevice ------------------------------------------------------------------------------------------------

    async def observe(self) -> Observation:
        """PNG of the viewport, its elements, and after a GetUrl the page's address."""
        return await self._in_front(self._look)

    async def _look(self, page: CdpPage) -> Observation:
        png = await page.screenshot()
        self.size_px = png_size(png, self._name)
        elements = await page.elements(await page.css_size()) if self._options.tree else ()
        return Observation(png, elements, said=self._said)

    async def act(self, action: actions.Action) -> None:
        """See `AsyncDevice.act`."""
        self._said = await self._in_front(_address) if isinstance(action, actions.GetUrl) else ""
        if isinstance(action, actions.Finished | actions.CallUser | actions.TakeNote | actions.GetUrl):
            return
        if isinstance(action, actions.Wait):
            await asyncio.sleep(self._options.wait_s)
            return
        await self._follow()
        page = self.page
        # a click may close the very page that it was sent to
        async with self._may_close(page.target):  # as a click on Close does
            await self._act(page, action)
            await page.settle(self._options.load_s)
        await self._follow()

    async def reset(self, start: Mapping[str, Any]) -> None:
        """Close the other pages, forget cookies and what the address had stored, open `url` (if given) and call the
        page's reset function with the rest."""
        self._said = ""
        url, rest = start.get("url", ""), {name: value for name, value in start.items() if name != "url"}
        if rest and not self._options.reset_function:
            raise WorldError(f"{self._name}: reset: nothing takes {sorted(rest)}; name the option reset_function")
        await self._follow()
        if self.page.crashed:
            await self._attach(await self._new_page())
        await self._in_front(lambda page: self._reset(page, url, rest))

    async def _reset(self, page: CdpPage, url: str, rest: Mapping[str, object]) -> None:
        for other in [found for found in self._pages if found is not page]:
            async with self._may_close(other.target):
                await self._browser("Target.closeTarget", {"targetId": other.target})
        self._pages = [found for found in self._pages if found is page]
        if url:
            parts = self._check_url(url)
            await page.send("Network.clearBrowserCookies")
            if parts.scheme in ("http", "https"):
                origin = f"{parts.scheme}://{parts.netloc}"
                await page.send("Storage.clearDataForOrigin", {"origin": origin, "storageTypes": "all"})
            await self._open(page, url)
        await page.settle(self._options.load_s)  # the function is there when the page has loaded
        if self._options.reset_function:
            await page.call(self._options.reset_function, rest)
        await page.settle(self._options.load_s)

    async def state(self) -> dict[str, Any]:
        """What the page's state function gives; {} without one."""
        if not self._options.state_function:
            return {}
        state = await self._in_front(lambda page: page.evaluate(f"{self._options.state_function}()"))
        if not isinstance(state, dict):
            raise DeviceError(f"{self._name}: {self._options.state_function}: expected an object, found {state!r:.80}")
        return state

    async def close(self) -> None:
        await self._connection.close()

    # -- actions ----------------------------------------------------------------------------------------------------

    async def _act(self, page: CdpPage, action: actions.Action) -> None:
        on_page, options = page.input, self._options
        if isinstance(
            action, actions.Click | actions.DoubleClick | actions.LongPress | actions.Hover | actions.RightClick
        ):
            [at] = await self._css(page, action.box)
            if isinstance(action, actions.Hover | actions.RightClick):
                if options.mobile:
                    raise UnsupportedAction(f"{type(action).__name__}: a finger has no such action")
                await (on_page.hover if isinstance(action, actions.Hover) else on_page.right_click)(at)
            else:
                hold = options.press_s if isinstance(action, actions.LongPress) else 0.0
                await on_page.click(at, 2 if isinstance(action, actions.DoubleClick) else 1, hold)
        elif isinstance(action, actions.SelectOption):
            [at] = await self._css(page, action.box)
            await page.select(action, at, options.load_s)
        elif isinstance(action, actions.Drag):
            start, end = await self._css(page, action.start, action.end)
            await on_page.drag(start, end, options.drag_s)
        elif isinstance(action, actions.Scroll):
            path = (
                (action.start, action.end)
                if action.start and action.end
                else actions.SYNTHESISED_PATHS[action.direction]
            )
            start, end = await self._css(page, *path)
            await on_page.scroll(start, end, options.drag_s)
        elif isinstance(action, actions.Type):
            await on_page.type(action.content)
        elif isinstance(action, actions.PressEnter | actions.Hotkey):
            await self._press(page, action.keys if isinstance(action, actions.Hotkey) else ("enter",))
        elif isinstance(action, actions.PressBack):
            await self._back(page)
        elif isinstance(action, actions.Launch) and action.url:
            self._check_url(action.url)
            await self._open(page, action.url)
        else:
            raise UnsupportedAction(f"{type(action).__name__}: a browser has no such action")

    async def _css(self, page: CdpPage, *points: actions.Point) -> list[tuple[float, float]]:
        # measured each time: a page may have been resized since
        size = await self._measure(page)
        return [to_px(point, size) for point in points]

    async def _press(self, page: CdpPage, names: tuple[str, ...]) -> None:
        keys = [find_key(name) for name in names]
        for name, key in zip(names, keys):
            if key is None:
                raise WorldError(f"Hotkey: expected names of keys, found {name[:40]!r}")
        await page.input.press([key for key in keys if key is not None])

    async def _back(self, page: CdpPage) -> None:
        """One step back in the page's history; nothing where there is none."""
        history = await page.send("Page.getNavigationHistory")
        at = int(history["currentIndex"])
        if at > 0:
            await page.send("Page.navigateToHistoryEntry", {"entryId": history["entries"][at - 1]["id"]})

    def _check_url(self, url: str) -> SplitResult:
        """The parts of an address that may be opened. Raises `WorldError`."""
        scheme = url.partition(":")[0].lower()
        if scheme not in self._options.schemes:
            allowed = ", ".join(self._options.schemes)
            raise WorldError(f"Launch: expected an address that begins with one of {allowed}, found {url[:80]!r}")
        try:
            # `javascript:` and `file:` would reach what no task may
            return urlsplit(url)
        except ValueError as error:
            raise WorldError(f"Launch: expected an address, found {url[:80]!r} ({error})") from error

    async def _open(self, page: CdpPage, url: str) -> None:
        try:
            answer = await page.send("Page.navigate", {"url": url}, limit_s=self._options.call_s + self._options.load_s)
        except CommandFailed as error:
            if page.crashed or await self._has_closed(page.target):
                raise
            raise WorldError(f"Launch: {url[:200]!r} did not open: {error}") from error  # no address for the browser
        if (reason := answer.get("errorText")) and reason != "net::ERR_ABORTED":  # that is a download
            raise WorldError(f"Launch: {url[:200]!r} did not open: {reason}")

    # -- pages ------------------------------------------------------------------------------------------------------

    async def _browser(self, method: str, params: Mapping[str, object] | None = None) -> dict[str, Any]:
        return await self._connection.send(method, params, limit_s=self._options.call_s)

    async def _new_page(self) -> str:
        return str((await self._browser("Target.createTarget", {"url": "about:blank"}))["targetId"])

    async def _attach(self, target: str) -> CdpPage:
        answer = await self._browser("Target.attachToTarget", {"targetId": target, "flatten": True})
        options = self._options
        page = CdpPage(
            self._connection, target, str(answer["sessionId"]), self._name, call_s=options.call_s, touch=options.mobile
        )
        self._pages.append(page)
        await page.begin()
        if options.width:
            await page.send(
                "Emulation.setDeviceMetricsOverride",
                {
                    "width": options.width,
                    "height": options.height,
                    "deviceScaleFactor": options.scale,
                    "mobile": options.mobile,
                },
            )
        if options.mobile:
            await page.send("Emulation.setTouchEmulationEnabled", {"enabled": True})
        return page

    async def _in_front(self, work: Callable[[CdpPage], Awaitable[T]]) -> T:
        """What `work` gives on the page in front or, when that one closes meanwhile, on the page that is left."""
        for _ in range(MAX_CLOSED):
            await self._follow()
            page = self.page
            async with self._may_close(page.target):
                return await work(page)
        raise DeviceError(f"{self._name}: {MAX_CLOSED} pages closed one after the other while they were looked at")

    async def _follow(self) -> None:
        """Bring pages that were opened to the front, and the one before to the front when one has closed."""
        for target in tuple(self._newcomers):  # those that come meanwhile are for the next time
            if target in self._newcomers:  # else it has closed by now
                self._newcomers.remove(target)
                async with self._may_close(target):
                    page = await self._attach(target)
                    await page.settle(self._options.load_s)
        # a page that crashed stays in front: it can't be brought anywhere
        while not self._pages or (self._front is not self.page and not self.page.crashed):
            if self._pages:
                page = self._front = self.page
                async with self._may_close(page.target):
                    await page.send("Page.bringToFront")
            else:
                await self._attach(await self._new_page())

    @asynccontextmanager
    async def _may_close(self, target: str) -> AsyncIterator[None]:
        """A block of commands to a page: if they fail and the page has closed, the block ends there, without error."""
        try:
            yield
        except DeviceError:
            if not await self._has_closed(target):
                raise

    async def _has_closed(self, target: str) -> bool:
        """Whether a page is gone by the browser's own list, for it may refuse a command before it reports the end.
        Then the page is forgotten here too. False where the browser doesn't answer."""
        try:
            listed = await self._connection.send("Target.getTargets", limit_s=min(LIST_S, self._options.call_s))
        except DeviceError:
            return False
        if any(item.get("targetId") == target for item in listed.get("targetInfos", [])):
            return False
        self._forget(target)
        return True

    def _forget(self, target: str) -> None:
        """A page has closed."""
        self._newcomers = [found for found in self._newcomers if found != target]
        gone = [page for page in self._pages if page.target == target]
        self._pages = [page for page in self._pages if page not in gone]
        for page in gone:
            page.end("the page has closed")

    async def _measure(self, page: CdpPage) -> tuple[int, int]:
        size = await page.css_size()
        if not self.size_px[0]:
            self.size_px = size
        return size

    def on_event(self, session: str, method: str, params: dict[str, Any]) -> None:
        """An event of the browser or of a page."""
        for page in self._pages:
            if page.session == session:
                page.on_event(method, params)
        info = params.get("targetInfo", {})
        known = {page.target for page in self._pages}
        if method == "Target.targetCreated" and info.get("type") == "page" and info.get("openerId") in known:
            self._newcomers.append(str(info.get("targetId")))
        elif method == "Target.targetCrashed":
            for page in self._pages:
                if page.target == params.get("targetId"):
                    page.crash()
        elif method == "Target.targetDestroyed":
            self._forget(str(params.get("targetId")))


@asynccontextmanager
async def connect(endpoint: DeviceEndpoint) -> AsyncIterator[CdpDevice]:
    """An open browser (`AsyncDevice`); see `CdpOptions`. Raises `DeviceError`, `LeaseLost`, and `ValueError` on options
    that are none."""
    options = read_options(CdpOptions, endpoint.options, "cdp")
    name = f"browser {endpoint.device or f'{endpoint.host}:{endpoint.port}'}"
    device = CdpDevice(name, options)
    connection = await open_connection(endpoint, name, device.on_event, options.call_s)
    try:
        await device.begin(connection)
        yield device
    finally:
        await connection.close()
