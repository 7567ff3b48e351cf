"""Turns a page that is open in Chromium into screens with elements and expressions: any page, as it stands.

A long page is read window by window. Every element was hit-tested by the reader; `confirm` asks again in another way:
it clicks at each box's centre on a freshly loaded page and looks at what the click landed on and what took the focus.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from generators.devices.browser import QUICK_PNG
from generators.harvesting.web_expressions import Box, ExpressionElement, Expressions, fold, sayable
from generators.worlds.web_reader import ObservedElement
from generators.worlds.webapps.reading import read_elements
from schemas.coordinates import centre

if TYPE_CHECKING:
    from playwright.sync_api import CDPSession, Page


LEAST_PX, LEAST_SHARE = 5.0, 0.7
"""Smaller elements, and those that show less of themselves, are nothing to point at (but count as alike)."""
FIELDS = frozenset({"textbox", "searchbox", "spinbutton"})
CONFIRMED = ("event", "focus", "hit")
ABSENT = 2
"""Names of other pages that a screen doesn't have, for refusals."""


@dataclass(frozen=True)
class WebElement:
    """`box_px` in pixels of the picture; `path` = its place in the document (child numbers from the root)."""

    box_px: Box
    role: str
    name: str
    text: str
    expressions: tuple[str, ...]
    path: str

    @property
    def centre(self) -> tuple[float, float]:
        return centre(self.box_px)


@dataclass(frozen=True)
class WebScreen:
    """One window of a page. `words` = everything that the whole page says, folded (never written)."""

    page: str
    png: bytes
    size_px: tuple[int, int]
    scroll_px: int
    elements: tuple[WebElement, ...]
    words: str = ""

    def as_row(self, platform: str, app: str, absent: Sequence[str] = ()) -> dict[str, object]:
        """A line of `screens.jsonl` (read by `pipelines.sources.harvested`)."""
        return {
            "screenshot": self.picture_name,
            "size_px": list(self.size_px),
            "platform": platform,
            "app": app,
            "page": self.page,
            "scroll_px": self.scroll_px,
            "absent": list(absent),
            "elements": [
                {
                    "box_px": [round(side, 2) for side in e.box_px],
                    "role": e.role,
                    "name": e.name,
                    "text": e.text,
                    "expressions": list(e.expressions),
                }
                for e in self.elements
            ],
        }

    @property
    def picture_name(self) -> str:
        return f"images/{hashlib.sha256(self.png).hexdigest()}.png"


def _script() -> str:
    return (Path(__file__).parent / "web_check.js").read_text("utf-8")


def _plain(text: object) -> str:
    """Text of a page on one line, without halves of surrogate pairs, which no UTF-8 has."""
    return " ".join(str(text).encode("utf-16", "surrogatepass").decode("utf-16", "replace").split())


def _item(seen: ObservedElement, at: Mapping[str, str]) -> ExpressionElement:
    name, text = _plain(seen.label), _plain(seen.text)
    whole = seen.clickable or not text or fold(name) == fold(text)
    return ExpressionElement(seen.key, seen.role, name, text, seen.box, seen.clickable, at["group"], at["word"], whole)


@contextmanager
def _session(page: Page) -> Iterator[CDPSession]:
    session = page.context.new_cdp_session(page)
    try:
        yield session
    finally:
        session.detach()


def _shoot(session: CDPSession) -> bytes:
    return base64.b64decode(session.send("Page.captureScreenshot", QUICK_PNG)["data"])


def read_screen(page: Page, session: CDPSession, name: str) -> WebScreen:
    """What the page shows now. The picture is taken before and after the elements were read, and once more where the
    two differ: boxes and pixels belong together."""
    size = page.viewport_size or {"width": 1280, "height": 800}
    png = _shoot(session)
    seen: list[ObservedElement] = []
    # Three times: a page that moves on and on is taken as it is.
    for _ in range(3):
        seen = [one for one in read_elements(page) if min(one.box[2] - one.box[0], one.box[3] - one.box[1]) >= LEAST_PX]
        after = _shoot(session)
        if after == png:
            break
        png = after
    page.evaluate(_script())
    around = page.evaluate("keys => vesperSteps(keys)", [one.key for one in seen])
    # Elements that vanished between the two calls.
    kept = [(one, at) for one, at in zip(seen, around, strict=True) if at]
    items = [_item(one, at) for one, at in kept]
    # Over all elements, also those that show too little to be kept.
    said = Expressions(items).all()
    elements = tuple(
        WebElement(one.box, one.role, item.name, item.text, said.get(one.key, ()), at["path"])
        for (one, at), item in zip(kept, items)
        if one.share >= LEAST_SHARE
    )
    words = fold(_plain(page.evaluate("vesperWords()")))
    scrolled = int(page.evaluate("Math.round(scrollY)"))
    return WebScreen(name, png, (size["width"], size["height"]), scrolled, elements, words)


def scroll_to(page: Page, top: int) -> int:
    """Scroll the page as a whole as far towards `top` as it goes; gives where it is then."""
    page.evaluate("top => window.scrollTo(0, top)", top)
    page.wait_for_timeout(60)
    return int(page.evaluate("Math.round(scrollY)"))


def read_windows(page: Page, name: str, windows: int) -> list[WebScreen]:
    """The page from its top down, at most so many screens high."""
    height = (page.viewport_size or {"height": 800})["height"]
    found: list[WebScreen] = []
    with _session(page) as session:
        for number in range(windows):
            # Scrolled no further: the page's end was reached.
            if number and scroll_to(page, number * height) <= found[-1].scroll_px:
                break
            found.append(read_screen(page, session, name))
    return found


def _click(session: CDPSession, x: float, y: float) -> None:
    """A press and a release as they come from a mouse, without the way there (nothing is hovered over)."""
    # The way of the mouse is left out, since hovering would open menus.
    for kind in ("mousePressed", "mouseReleased"):
        event = {"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1}
        session.send("Input.dispatchMouseEvent", event)


def confirm(page: Page, screen: WebScreen) -> list[str]:
    """For each element how a real click at its centre confirmed it, on a page that was just loaded and shows the same
    window: "event" (it landed on the element, or on its label), "focus" (a field that also took the focus), "hit" (a
    disabled control, for which browsers report no click: it is what lies there), else why not. The page's own handlers
    see nothing of the clicks."""
    page.evaluate(_script())
    page.evaluate("vesperListen()")
    took_focus: dict[int, bool] = {}
    with _session(page) as session:
        for number, element in enumerate(screen.elements):
            _click(session, *element.centre)
            if element.role in FIELDS:
                # Right after its click, before the next one takes the focus away.
                took_focus[number] = bool(page.evaluate("path => vesperFocused(path)", element.path))
    clicks = [[element.path, *element.centre] for element in screen.elements]
    said: list[str] = page.evaluate("clicks => vesperTook(clicks)", clicks)
    return ["focus" if how == "event" and took_focus.get(number) else how for number, how in enumerate(said)]


def keep(screen: WebScreen, verdicts: Sequence[str]) -> WebScreen:
    """The screen with its confirmed elements alone."""
    pairs = zip(screen.elements, verdicts, strict=True)
    return replace(screen, elements=tuple(element for element, how in pairs if how in CONFIRMED))


def absent_names(screen: WebScreen, pool: Sequence[str]) -> list[str]:
    """Up to two names of other pages that this whole page nowhere says, drawn by the picture's hash."""
    # By the picture: the same screen always lacks the same names.
    start = int(hashlib.sha256(screen.png).hexdigest()[:12], 16)
    found: list[str] = []
    for step in range(min(len(pool), 50)):
        # 7919, a prime: steps through the pool without meeting a name twice soon.
        name = pool[(start + step * 7919) % len(pool)]
        if sayable(name) and len(fold(name)) > 3 and fold(name) not in screen.words and name not in found:
            found.append(name)
        if len(found) == ABSENT:
            break
    return found
