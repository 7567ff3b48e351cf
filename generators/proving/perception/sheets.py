"""Element sheets: a hundred and some elements of one style, drawn by Chromium, with the box of each.

A sheet is a PNG and a JSON file. Screens are pasted together from one sheet's elements, so that every position of
every element is as likely as any other and no answer can be known without looking.
"""

from __future__ import annotations

import html
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from generators.proving.perception.vocabulary import COLOURS, ICONS, SHAPES, WIDGETS, WORDS
from generators.worlds.nano_text import nano_text_css

if TYPE_CHECKING:
    import numpy as np
    from playwright.sync_api import Page

VERSION = 4
"""Raise it when the same seed draws other pixels."""

GROUNDS = ("#ffffff", "#ffffff", "#ffffff", "#f4f5f7", "#fdf6e3", "#e8eef7", "#eef5ea")
INK = "#1b1b1b"
"""Colour of text and strokes."""
TEXT_KINDS = ("text", "button", "link", "field", "checkbox", "radio", "tab")
ROLES = dict(
    pair.split("=")
    for pair in str.split(
        "text=text, button=button, link=link, field=text field, checkbox=checkbox, radio=radio button, tab=tab, "
        "icon=icon, shape=shape, widget=widget",
        ", ",
    )
)
WIDTH = 960


@dataclass(frozen=True)
class SheetElement:
    """An element of a sheet. `box` = left, top, right, bottom in the sheet's pixels.

    `kind`: shape, icon, widget or one of `TEXT_KINDS`; `name` is what it is called ("circle", "search", "Save"),
    `colour` that of a shape ("" where colour says nothing). `letters`: each character that it shows with its centre, in
    pixels from the box's left and top.
    """

    kind: str
    name: str
    colour: str
    box: tuple[int, int, int, int]
    letters: tuple[tuple[str, float, float], ...] = ()


def names_of(drawn: SheetElement) -> list[str]:
    """What an element may be asked for, the plainest first."""
    if drawn.kind == "shape":
        return [f"{drawn.colour} {drawn.name}"]
    if drawn.kind == "widget":
        return [drawn.name]
    if drawn.kind == "icon":
        return [f"{drawn.name} icon"]
    return [drawn.name, f"{drawn.name} {ROLES[drawn.kind]}"]


def identity(drawn: SheetElement, attribute: str = "both") -> set[str]:
    """What no second element of a screen may share; a shape's one `attribute` where it is asked for by that."""
    if drawn.kind == "shape" and attribute == "colour":
        return {drawn.colour}
    if drawn.kind == "shape" and attribute == "shape":
        return {drawn.name}
    return {name.casefold() for name in names_of(drawn)}


@dataclass(frozen=True)
class Sheet:
    """`pixels` uint8 [height, width, 3], `ground` the colour behind everything, `elements` in order of drawing."""

    pixels: np.ndarray
    ground: tuple[int, int, int]
    elements: tuple[SheetElement, ...]


@dataclass(frozen=True)
class Style:
    """How one sheet looks, beside what all share: nano's text (`generators.worlds.nano_text`)."""

    ground: str
    button: str
    radius: int


def style_of(seed: str) -> Style:
    """A style drawn from the seed."""
    rng = Random(f"style/{VERSION}/{seed}")
    return Style(rng.choice(GROUNDS), rng.choice(("#e3e6ea", "#ffffff", "#d7e3fa")), rng.choice((0, 3, 6, 14)))


def label(rng: Random) -> str:
    """A word of interfaces (mostly), two of them, or a number below 100."""
    draw = rng.random()
    if draw < 0.84:
        return rng.choice(WORDS)
    return f"{rng.choice(WORDS)} {rng.choice(WORDS)}" if draw < 0.95 else str(rng.randrange(100))


def wanted(seed: str) -> list[tuple[str, str, str]]:
    """(kind, name, colour) of the elements of a sheet, in a shuffled order; names of texts are all different."""
    rng = Random(f"sheet/{VERSION}/{seed}")
    found = [("shape", rng.choice(list(SHAPES)), colour) for colour in COLOURS for _ in range(4)]
    found += [("icon", name, "") for name in ICONS for _ in range(2)]
    found += [("widget", name, "") for name in WIDGETS for _ in range(3)]
    names: dict[str, None] = {}
    # Ninety different texts, so that none is asked for twice on a sheet.
    while len(names) < 90:
        names.setdefault(label(rng))
    kinds = ("text", "text", "button", "button", "link", "field", "checkbox", "radio", "tab")
    found += [(kinds[i % len(kinds)], name, "") for i, name in enumerate(names)]
    rng.shuffle(found)
    return found


def sheet_html(seed: str) -> str:
    """The page of a sheet: one element after the other, each in an inline box of its own."""
    style, rng = style_of(seed), Random(f"size/{VERSION}/{seed}")
    body = "".join(
        f"<span class=e>{element_html(kind, name, colour, style, rng)}</span>" for kind, name, colour in wanted(seed)
    )
    return f"""<!doctype html><meta charset=utf-8><style>{style_css(style)}
body{{margin:8px;width:{WIDTH - 16}px}} .e{{margin:5px}}</style>{body}"""


def style_css(style: Style) -> str:
    """The rules that draw elements in a style."""
    return f"""{nano_text_css()} *{{line-height:1.25 !important}} body{{background:{style.ground};color:{INK}}}
.e{{display:inline-block;vertical-align:middle;white-space:nowrap}} .e>*{{display:block}}
.b{{padding:5px 12px;border:1px solid #8886;border-radius:{style.radius}px;background:{style.button};color:{INK}}}
.p{{background:#2563c9;color:#fff;border-color:#2563c9}} .t{{border-bottom:3px solid #2563c9;padding:4px 8px}}
a{{color:#1a4fb4;text-decoration:underline}}
.f{{border:1px solid #888;border-radius:{min(6, style.radius)}px;padding:5px 8px;min-width:90px;background:#fff;
color:#222}} .l>i{{vertical-align:-3px;margin-right:7px}} i{{display:inline-block;width:18px;height:18px;
border:2px solid {INK};box-sizing:border-box}} i.r{{border-radius:50%}} svg{{display:block}}"""


def element_html(kind: str, name: str, colour: str, style: Style, rng: Random) -> str:
    """HTML of one element; sizes and variants come from `rng`."""
    text = html.escape(name)
    if kind == "shape":
        side = rng.randint(26, 56)
        return f'<svg width={side} height={side} viewBox="0 0 24 24" fill="{COLOURS[colour]}">{SHAPES[name]}</svg>'
    if kind == "icon":
        side, ink = rng.choice((24, 28, 32)), rng.choice((INK, INK, INK, "#2563c9"))
        svg = (
            f'<svg width={side} height={side} viewBox="0 0 24 24" fill=none stroke="{ink}" stroke-width=2 '
            f"stroke-linecap=round stroke-linejoin=round>{ICONS[name]}</svg>"
        )
        return svg if rng.random() < 0.6 else f'<span class=b style="padding:6px">{svg}</span>'
    if kind == "widget":
        return _widget(name, style, rng)
    return {
        "text": f"<span>{text}</span>",
        "button": f'<span class="b{" p" if rng.random() < 0.4 else ""}">{text}</span>',
        "link": f"<a>{text}</a>",
        "field": f"<span class=f>{text}</span>",
        "tab": f"<span class=t>{text}</span>",
        "checkbox": f"<span class=l>{_tick(rng.random() < 0.5, style)}{text}</span>",
        "radio": f"<span class=l>{_dot(rng.random() < 0.5, style)}{text}</span>",
    }[kind]


def _tick(on: bool, style: Style) -> str:
    tick = (
        '<svg width=14 height=14 viewBox="0 0 24 24" fill=none stroke="#fff" stroke-width=4><path d="m4 13 5 5L20 6"/>'
    )
    return f"<i style='background:#2563c9;border-color:#2563c9'>{tick}</svg></i>" if on else "<i></i>"


def _dot(on: bool, style: Style) -> str:
    return "<i class=r style='border-width:6px;border-color:#2563c9'></i>" if on else "<i class=r></i>"


def _widget(name: str, style: Style, rng: Random) -> str:
    scale = rng.choice((1.3, 1.5, 1.8))
    if "checkbox" in name or "radio" in name:
        drawn = (_tick if "checkbox" in name else _dot)(not name.startswith("empty"), style)
        return f'<span style="zoom:{scale}">{drawn}</span>'
    if name.startswith("switch"):
        on = name.endswith("on")
        return (
            f'<span style="zoom:{scale};display:block;width:36px;height:20px;border-radius:10px;position:relative;'
            f'background:{"#2a9d3f" if on else "#9aa0a6"}"><b style="position:absolute;top:2px;width:16px;'
            f'height:16px;border-radius:8px;background:#fff;{"right" if on else "left"}:2px"></b></span>'
        )
    if name == "slider":
        at = rng.randint(10, 90)
        return (
            f'<span style="display:block;width:120px;height:26px;position:relative"><b style="position:absolute;'
            f'top:11px;width:120px;height:4px;background:#9aa0a6"></b><b style="position:absolute;left:{at}px;'
            f'top:3px;width:20px;height:20px;border-radius:10px;background:#2563c9"></b></span>'
        )
    arrow = '<svg width=16 height=16 viewBox="0 0 24 24" style="float:right"><path d="M4 8h16l-8 10z"/></svg>'
    return f'<span class=f style="width:110px;height:22px">{arrow if name == "dropdown" else ""}</span>'


LETTERS_JS = """element => {
  const box = element.getBoundingClientRect(), walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  const left = Math.floor(box.left), top = Math.floor(box.top + scrollY), found = [];
  for (let node; (node = walker.nextNode());)
    for (let at = 0; at < node.length; at++) {
      const range = document.createRange();
      range.setStart(node, at); range.setEnd(node, at + 1);
      const one = range.getBoundingClientRect();
      if (node.data[at].trim())
        found.push([node.data[at], (one.left + one.right) / 2 - left, (one.top + one.bottom) / 2 + scrollY - top]);
    }
  return {box: [left, top, Math.ceil(box.right), Math.ceil(box.bottom + scrollY)], letters: found};
}"""
"""An element's box on the whole page, in whole pixels, and the centres of its letters."""


def drawn_on(page: Page, selector: str, wanted: Sequence[tuple[str, str, str]], what: str) -> list[SheetElement]:
    """The elements of an open page, in the order of (kind, name, colour). Raises `RuntimeError` if there are more or
    fewer, or one shows other letters than those of its name; `what` is the page's name."""
    found = page.evaluate(f"[...document.querySelectorAll({selector!r})].map({LETTERS_JS})")
    if len(found) != len(wanted):
        raise RuntimeError(f"{what}: expected {len(wanted)} elements, the page shows {len(found)}")
    drawn = [
        SheetElement(*named, tuple(one["box"]), _letters(one["letters"]))
        for named, one in zip(wanted, found, strict=True)
    ]
    for one in drawn:
        shown, spelled = "".join(letter for letter, _, _ in one.letters), "".join(one.name.split())
        # The letters prove that order and boxes belong together; icons and shapes show none.
        if shown != (spelled if one.kind in TEXT_KINDS else ""):
            raise RuntimeError(
                f"{what}: the {one.kind} {one.name!r} shows the letters {shown!r}: "
                "the page has its elements in another order"
            )
    return drawn


def read_drawn(plain: Mapping[str, Any]) -> SheetElement:
    """An element as it was written to JSON."""
    return SheetElement(plain["kind"], plain["name"], plain["colour"], tuple(plain["box"]), _letters(plain["letters"]))


def _letters(found: Sequence[Sequence[Any]]) -> tuple[tuple[str, float, float], ...]:
    # A tenth of a pixel: finer digits differ between machines.
    return tuple((str(letter), round(x, 1), round(y, 1)) for letter, x, y in found)


def drawing(folder: Path, seed: str, version: str = str(VERSION)) -> Path:
    """The JSON file of a drawing; its PNG has the same stem. What another version drew has another name."""
    return folder / f"{seed}-v{version}.json"


def draw_sheet(page: Page, seed: str, folder: Path) -> None:
    """Draw a sheet unless it lies there: a PNG and, last, the JSON file."""
    target = drawing(folder, seed)
    if target.exists():
        return
    page.set_content(sheet_html(seed))
    drawn = drawn_on(page, ".e", wanted(seed), f"sheet {seed}")
    # The JSON is written last and by a rename: only with it does a sheet count as drawn.
    page.screenshot(path=str(target.with_suffix(".png")), full_page=True)
    partial = target.with_suffix(".partial")
    plain = {"ground": style_of(seed).ground, "elements": [asdict(one) for one in drawn]}
    partial.write_text(json.dumps(plain), encoding="utf-8")
    os.replace(partial, target)


def draw_sheets(folder: Path, seeds: Sequence[str], on_done: Callable[[int], Any] = lambda count: None) -> None:
    """Draw the sheets that don't lie in the folder yet, in one browser."""
    from generators.devices.browser import Viewport, open_browser

    folder.mkdir(parents=True, exist_ok=True)
    missing = [seed for seed in seeds if not drawing(folder, seed).exists()]
    if not missing:
        return
    with open_browser(Viewport(WIDTH, 800)) as context:
        page = context.new_page()
        for count, seed in enumerate(missing, 1):
            draw_sheet(page, seed, folder)
            on_done(count)


def read_sheet(folder: Path, seed: str) -> Sheet:
    """A drawn sheet. Raises `OSError` or `ValueError` if it isn't there or can't be read."""
    import numpy as np
    from PIL import Image

    target = drawing(folder, seed)
    with Image.open(target.with_suffix(".png")) as opened:
        pixels = np.asarray(opened.convert("RGB"))
    plain = json.loads(target.read_text(encoding="utf-8"))
    ground = tuple(int(plain["ground"][i : i + 2], 16) for i in (1, 3, 5))
    return Sheet(pixels, ground, tuple(read_drawn(one) for one in plain["elements"]))  # type: ignore[arg-type]
