"""Reads the elements of any page that is open in Chromium; they are named by `keys.js`, the page needs nothing."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from generators.devices.browser import page_text
from generators.tasks.world_interface import ScreenElement
from generators.worlds.web_reader import READER, ObservedElement, seen_of

if TYPE_CHECKING:
    from playwright.sync_api import Page

MOST_ELEMENTS = 5000
STILL = """(() => { const still = new CSSStyleSheet();
  still.replaceSync('*, *::before, *::after { animation: none !important; transition: none !important; '
    + 'scroll-behavior: auto !important; caret-color: transparent !important; }');
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, still]; })()"""
"""Init script: nothing moves by itself, so the same page gives the same pixels."""


@cache
def reader_script() -> str:
    """`vesperSee`, `vesperHits`, `vesperLands` and the names of elements that they need; a page may get it twice."""
    keys = (Path(__file__).parent / "keys.js").read_text("utf-8")
    reader = READER.read_text("utf-8")
    # Once a page: a second definition would give elements new names.
    return f"(() => {{ if (window.vesperSee && window.vesperKey) return true; {keys}\n{reader}\nreturn true; }})()"


def read_elements(page: Page) -> list[ObservedElement]:
    """What the page shows now: visible, hit-tested, clipped to the screen, in document order."""
    page.evaluate(reader_script())
    raw = json.loads(page.evaluate("vesperSee(false)"))
    # At most 5000, so that no page makes a step endless; without a key nothing can be told of it.
    return [seen_of(one) for one in raw[:MOST_ELEMENTS] if one["k"]]


def element_of(seen: ObservedElement, size_px: tuple[int, int]) -> ScreenElement | None:
    """An element in the frame 0..1000; None where rounding leaves nothing of it on the screen."""
    text, name, key = page_text(seen.text), page_text(seen.label), page_text(seen.key)
    return ScreenElement.on_screen(seen.box, size_px, seen.role, text, name, key, seen.clickable)
