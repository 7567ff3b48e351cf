"""Finding a Chromium and driving it headless, the same way for every world and for the embedded data."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from generators.devices.keyboard import find_key
from generators.tasks.world_interface import WorldError

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page, Playwright

UNWANTED = (
    # what the window's address bar opens: two pages of Chromium's own a window, redrawn with every frame
    "WebUIOmniboxPopup",
    "WebUIOmniboxAimPopup",
    "WebUIOmniboxFullPopup",
    "SpareRendererForSitePerProcess",  # a process that waits for a second site
    # Playwright's own list: of two such flags the last one counts
    "AimEnabled",
    "AvoidCorsURLLoaderRestartOnRedirect",
    "AvoidUnnecessaryBeforeUnloadCheckSync",
    "DestroyProfileOnBrowserClose",
    "HttpsFirstBalancedModeAutoEnable",
    "HttpsUpgrades",
    "LensOverlay",
    "MediaRouter",
    "NetworkTimeServiceQuerying",
    "OptimizationHints",
    "PaintHolding",
    "PreconnectToSearch",
    "ThirdPartyStoragePartitioning",
)
"""Features of Chromium that are off. A headless window has an address bar too, and its popups took two thirds of what a
screenshot costs and half of what a page does to open."""
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # the same pixels on every run: no blinking, no sub-pixel text, no scrolling that takes time
    "--disable-smooth-scrolling",
    "--disable-lcd-text",
    "--font-render-hinting=none",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
    "--disable-partial-raster",  # a screen is drawn whole, so its edges do not depend on what stood there before
    f"--disable-features={','.join(UNWANTED)}",
)
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MAC_CHROME = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
"""The same places, in the same order, as in `deploy/get_browser.sh`."""


class BrowserMissing(RuntimeError):
    """No Chromium was found; the message says how to get one."""


@dataclass(frozen=True)
class Viewport:
    """A screen in CSS pixels; `scale` device pixels a CSS pixel."""

    width: int
    height: int
    mobile: bool = False
    scale: float = 1.0


PHONE = Viewport(360, 640, mobile=True)
RICO = Viewport(360, 640, mobile=True, scale=1.5)  # 540 x 960, one of Rico's two picture sizes
DESKTOP = Viewport(1024, 640)
MINIWOB = Viewport(160, 210)


class _Own(threading.local):
    """What a thread has open, and how many use it: Playwright's driver and a Chromium. A second driver can't be started
    in a thread, and what Playwright made belongs to the thread that made it."""

    users = 0
    driver: Playwright
    keepers = 0
    browser: Browser | None = None

    def __init__(self) -> None:
        self.held = ExitStack()
        """The driver, for as long as the Chromium is kept."""


_own = _Own()


@contextmanager
def _playwright() -> Iterator[Playwright]:
    """The thread's Playwright, started by the first user and stopped after the last."""
    from playwright.sync_api import sync_playwright

    if not _own.users:
        _own.driver = sync_playwright().start()
    _own.users += 1
    try:
        yield _own.driver
    finally:
        _own.users -= 1
        if not _own.users:
            _own.driver.stop()


def find_chromium() -> str | None:
    """Path of a Chromium: $VESPER_BROWSER, the usual names on PATH, Chrome on a Mac; None means Playwright's own.

    Raises `BrowserMissing` when there is none at all, or when $VESPER_BROWSER names no file.
    """
    if named := os.environ.get("VESPER_BROWSER"):
        if not Path(named).is_file():
            raise BrowserMissing(f"VESPER_BROWSER: expected an executable, found nothing at {named!r}; fix or unset it")
        return named
    # before Playwright's own, which isn't the Chromium that people have
    for name in NAMES:
        if path := shutil.which(name):
            return path
    if os.access(MAC_CHROME, os.X_OK):
        return MAC_CHROME
    with _playwright() as playwright:
        if Path(playwright.chromium.executable_path).is_file():
            return None
    raise BrowserMissing(
        f"no Chromium found (tried $VESPER_BROWSER, {', '.join(NAMES)} on PATH, and Playwright's own); "
        "install one with `apt-get install chromium` or `python -m playwright install chromium`"
    )


@contextmanager
def keep_browser() -> Iterator[None]:
    """Within, one Chromium stays open for all that this thread opens, one after another: launching one costs as much as
    a world does in it. The first `open_browser` launches it; blocks may nest, the outermost closes it.

    One that has died is replaced by the next `open_browser`; what was open in it has died with it. From the first
    launch to the end the thread has Playwright's event loop, so that `asyncio.run` can't be used in it.
    """
    _own.keepers += 1
    try:
        yield
    finally:
        _own.keepers -= 1
        if not _own.keepers:
            browser, _own.browser = _own.browser, None
            with _own.held:
                if browser is not None:
                    browser.close()


def _kept_browser() -> Browser:
    """The thread's Chromium, launched if there is none or it has died. Raises `BrowserMissing`."""
    browser = _own.browser
    if browser is None or not browser.is_connected():
        executable = find_chromium()
        # the driver is started once a thread, however often its Chromium is launched anew
        if browser is None:
            _own.held.enter_context(_playwright())
        browser = _own.driver.chromium.launch(headless=True, executable_path=executable, args=list(FLAGS))
        _own.browser = browser
    return browser


def _new_context(options: dict[str, Any]) -> BrowserContext:
    """A context of the thread's Chromium, or of a new one where it turns out only now that it has died."""
    from playwright.sync_api import Error

    browser = _kept_browser()
    try:
        return browser.new_context(**options)
    except Error:
        # the context was refused by a living Chromium: another one would refuse it, too
        if browser.is_connected():
            raise
    return _kept_browser().new_context(**options)


@contextmanager
def open_browser(view: Viewport, init_script: str = "", proxy: str = "", direct: str = "") -> Iterator[BrowserContext]:
    """A headless Chromium with a new, empty profile that goes when the block ends; `init_script` runs in every page.
    With a `proxy` (its address) every request goes through it once the context is online, those to this machine too,
    but for those to the one HOST:PORT that `direct` names.

    It has no page yet. Nothing is loaded from the network: requests for anything but file:, data: and about: are
    refused. The process is the thread's, if one is open in it (see `keep_browser`), else its own. Raises
    `BrowserMissing`.
    """
    with keep_browser():
        context = _new_context(
            {
                "viewport": {"width": view.width, "height": view.height},
                "device_scale_factor": view.scale,
                "is_mobile": view.mobile,
                "has_touch": view.mobile,
                "locale": "en-GB",
                "timezone_id": "UTC",
                # animations would make a screenshot a matter of time
                "reduced_motion": "reduce",
                # the real network is never reached; a proxy sets the context online for itself
                "offline": True,
                # Chromium would pass requests to this machine by the proxy
                **({"proxy": {"server": proxy, "bypass": f"<-loopback>,{direct}".rstrip(",")}} if proxy else {}),
            }
        )
        try:
            if init_script:
                context.add_init_script(init_script)
            yield context
        finally:
            context.close()


_SHIFTED = frozenset('~!@#$%^&*()_+{}|:"<>?')
"""What keys type together with shift; Playwright takes these as keys of their own."""


def key_chord(keys: Sequence[str]) -> str:
    """Keys, as `Hotkey` names them, as the one text that Playwright's `keyboard.press` takes; the case of a letter
    stays. Raises `WorldError` for a name that no key has."""
    found = []
    for name in keys:
        key = find_key(name)
        if key is None and name not in _SHIFTED:
            raise WorldError(f"Hotkey: no key is named {name!r:.40}")
        # Playwright calls the blank by its name
        found.append(name if key is None else "Space" if key.key == " " else key.key)
    return "+".join(found)


def evaluate_json(page: Page, expression: str) -> Any:
    """What an expression of a page gives, as JSON values. They come as one text: Playwright takes objects apart and
    checks them one by one, which for the elements of a screen takes three times as long as all the rest."""
    text = page.evaluate(f"JSON.stringify({expression})")
    return None if text is None else json.loads(text)


QUICK_PNG = {"format": "png", "optimizeForSpeed": True}
"""Of `Page.captureScreenshot`: the same pixels in two thirds of the time, and a third more bytes."""


MOST_TEXT = 2000
"""Characters of an element's text that are read."""


def page_text(value: object) -> str:
    """Text of a page: cut, and without halves of surrogate pairs, which no UTF-8 has."""
    # JSON may hold half a pair; neither a file nor a table may
    return str(value)[:MOST_TEXT].encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class Camera:
    """Takes screenshots through one CDP session, faster than `page.screenshot`; PNG bytes as Chromium writes them."""

    def __init__(self, page: Page, viewport: Viewport) -> None:
        self._page = page
        self._viewport = viewport
        self._session = page.context.new_cdp_session(page)

    def shoot(self, *, full_page: bool = False, jpeg_quality: int = 0) -> bytes:
        """The visible screen, or with `full_page` the whole page, as PNG (or JPEG of the given quality)."""
        import base64

        options: dict[str, Any] = {"format": "jpeg", "quality": jpeg_quality} if jpeg_quality else QUICK_PNG
        view = self._viewport
        clip = {"x": 0, "y": 0, "width": view.width, "height": view.height, "scale": view.scale}
        if full_page:
            # the page's own height: a clip below it would be cut
            clip["height"] = self._page.evaluate("Math.max(document.documentElement.scrollHeight, innerHeight)")
        if full_page or view.scale != 1:  # without a clip the picture comes at one pixel a CSS pixel
            options = {**options, "captureBeyondViewport": full_page, "clip": clip}
        return base64.b64decode(self._session.send("Page.captureScreenshot", options)["data"])
