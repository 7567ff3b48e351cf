"""Whole pages laid out by Chromium: bars, tabs, forms, lists, cards and toolbars in random order and size.

Pasted screens teach to see; these teach what screens look like: neighbours that touch, panels, rows that line up. A
layout is a PNG and a JSON file, like a sheet; every element is one that a question may be about.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from generators.devices.browser import Viewport, open_browser
from generators.proving.perception import sheets
from generators.proving.perception.screens import SIZES, Pasted, PastedScreen
from generators.proving.perception.sheets import VERSION as SHEET_VERSION
from generators.proving.perception.vocabulary import COLOURS, ICONS, SHAPES, WIDGETS

if TYPE_CHECKING:
    from playwright.sync_api import Page

VERSION = 4
"""Raise it when the same seed gets another page."""
MOST_BLOCKS = 9
TRIES = 60


class _Page:
    """A page in the making: its elements in the order of the HTML, no two of one name.

    Whoever calls `one` calls it in the order in which the elements stand on the page: boxes are read by that order.
    """

    def __init__(self, seed: str) -> None:
        self.rng = Random(f"layout/{VERSION}/{seed}")
        self.style: sheets.Style = sheets.style_of(f"layout/{seed}")
        self.size = self.rng.choice(SIZES)
        self.elements: list[tuple[str, str, str]] = []
        self._taken: set[str] = set()

    def one(self, kind: str) -> str:
        """HTML of a new element of a kind; nothing if all names of that kind are taken."""
        # Some names are left: a page may lack the element rather than draw one of a name that is taken.
        for _ in range(TRIES):
            drawn = sheets.SheetElement(kind, *self._name(kind), (0, 0, 0, 0))
            if not sheets.identity(drawn) & self._taken:
                self._taken |= sheets.identity(drawn)
                self.elements.append((drawn.kind, drawn.name, drawn.colour))
                html = sheets.element_html(drawn.kind, drawn.name, drawn.colour, self.style, self.rng)
                return f"<span class=e>{html}</span>"
        return ""

    def _name(self, kind: str) -> tuple[str, str]:
        rng = self.rng
        if kind == "shape":
            return rng.choice(list(SHAPES)), rng.choice(list(COLOURS))
        if kind in ("icon", "widget"):
            return rng.choice(list(ICONS) if kind == "icon" else WIDGETS), ""
        return sheets.label(rng), ""

    def html(self) -> str:
        """The page."""
        rng, blocks = self.rng, []
        if rng.random() < 0.6:
            # Order of the calls is the order on the page: `drawn_on` reads boxes by it.
            blocks.append(f"<div class='row bar'>{self.one('icon')}{self.one('text')}<u></u>{self.one('icon')}</div>")
        if rng.random() < 0.35:
            blocks.append(f"<div class='row line'>{''.join(self.one('tab') for _ in range(rng.randint(2, 3)))}</div>")
        for _ in range(rng.randint(3, MOST_BLOCKS)):
            blocks.append(rng.choice(BLOCKS)(self))
        gap = rng.choice((4, 8, 12))
        return f"""<!doctype html><meta charset=utf-8><style>{sheets.style_css(self.style)}
body{{margin:0;width:{self.size[0]}px;overflow:hidden}} .row{{display:flex;align-items:center;gap:10px;
padding:{gap}px 10px}} .row u{{flex:1}} .bar{{background:#8882;border-bottom:1px solid #8886}}
.line{{border-bottom:1px solid #8886}} .card{{margin:{gap}px 10px;border:1px solid #8888;border-radius:6px}}
.mid{{justify-content:center}} .end{{justify-content:flex-end}} .wrap{{flex-wrap:wrap}}</style>{"".join(blocks)}"""


def _form_row(page: _Page) -> str:
    return f"<div class=row>{page.one('text')}<u></u>{page.one('field')}</div>"


def _buttons(page: _Page) -> str:
    side = page.rng.choice(("", "mid", "end"))
    return f"<div class='row wrap {side}'>{''.join(page.one('button') for _ in range(page.rng.randint(1, 3)))}</div>"


def _list_row(page: _Page) -> str:
    first = page.one("icon") if page.rng.random() < 0.7 else ""
    text = page.one("text")
    last = page.one(page.rng.choice(("icon", "button", "link"))) if page.rng.random() < 0.6 else ""
    return f"<div class='row line'>{first}{text}<u></u>{last}</div>"


def _choices(page: _Page) -> str:
    kind = page.rng.choice(("checkbox", "radio"))
    return "".join(f"<div class=row>{page.one(kind)}</div>" for _ in range(page.rng.randint(1, 3)))


def _card(page: _Page) -> str:
    return f"<div class=card><div class=row>{page.one('text')}</div>{_buttons(page)}</div>"


def _toolbar(page: _Page) -> str:
    return f"<div class='row mid wrap'>{''.join(page.one('icon') for _ in range(page.rng.randint(2, 5)))}</div>"


def _palette(page: _Page) -> str:
    return f"<div class='row wrap'>{''.join(page.one('shape') for _ in range(page.rng.randint(1, 4)))}</div>"


def _links(page: _Page) -> str:
    return f"<div class='row wrap'>{''.join(page.one('link') for _ in range(page.rng.randint(1, 3)))}</div>"


def _widget_row(page: _Page) -> str:
    return f"<div class=row>{page.one('text')}<u></u>{page.one('widget')}</div>"


BLOCKS: tuple[Callable[[_Page], str], ...] = (
    _form_row,
    _buttons,
    _list_row,
    _list_row,
    _choices,
    _card,
    _toolbar,
    _palette,
    _links,
    _widget_row,
)
"""What a page is made of."""


def _drawing(folder: Path, seed: str) -> Path:
    return sheets.drawing(folder, seed, f"{SHEET_VERSION}.{VERSION}")


def draw_layout(page: Page, seed: str, folder: Path) -> None:
    """Draw a layout unless it lies there: a PNG and, last, the JSON file."""
    target = _drawing(folder, seed)
    if target.exists():
        return
    made = _Page(seed)
    html = made.html()
    width, height = made.size
    page.set_viewport_size({"width": width, "height": height})
    page.set_content(html)
    drawn = sheets.drawn_on(page, ".e>*", made.elements, f"layout {seed}")
    # The picture first and the JSON last, by a rename: a killed run leaves no page that counts as drawn.
    page.screenshot(path=str(target.with_suffix(".png")))
    shown: list[dict[str, Any]] = []
    cut: list[dict[str, Any]] = []
    for one in drawn:
        left, top, right, bottom = one.box
        inside = left >= 0 and top >= 0 and right <= width and bottom <= height
        (shown if inside else cut).append(asdict(one))
    partial = target.with_suffix(".partial")
    partial.write_text(json.dumps({"elements": shown, "cut": cut}), encoding="utf-8")
    os.replace(partial, target)


def draw_layouts(folder: Path, seeds: Sequence[str], on_done: Callable[[int], Any] = lambda count: None) -> None:
    """Draw the layouts that don't lie in the folder yet, in one browser."""
    folder.mkdir(parents=True, exist_ok=True)
    missing = [seed for seed in seeds if not _drawing(folder, seed).exists()]
    if not missing:
        return
    with open_browser(Viewport(320, 448)) as context:
        page = context.new_page()
        for count, seed in enumerate(missing, 1):
            draw_layout(page, seed, folder)
            on_done(count)


def read_layout(folder: Path, seed: str) -> tuple[PastedScreen, tuple[sheets.SheetElement, ...]]:
    """A drawn layout, and the elements that its lower or right edge cuts off (nothing is asked about those)."""
    import numpy as np
    from PIL import Image

    target = _drawing(folder, seed)
    with Image.open(target.with_suffix(".png")) as opened:
        pixels = np.asarray(opened.convert("RGB"))
    plain = json.loads(target.read_text(encoding="utf-8"))
    shown, cut = ([sheets.read_drawn(one) for one in plain[key]] for key in ("elements", "cut"))
    return PastedScreen(pixels, tuple(Pasted(drawn, drawn.box) for drawn in shown)), tuple(cut)
