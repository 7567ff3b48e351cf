"""Element sheets: a hundred and some elements of one style, drawn by Chromium, with the box of each.

A sheet is a PNG and a JSON file. Screens are pasted together from one sheet's elements, so that every position of
every element is as likely as any other and no answer can be known without looking.
"""

from __future__ import annotations

import html
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from generators.perception.vocabulary import COLOURS, ICONS, SHAPES, WIDGETS, WORDS

if TYPE_CHECKING:
    import numpy as np
    from playwright.sync_api import Page

VERSION = 2
"""Raise it when the same seed draws other pixels."""

FONTS = ("Liberation Sans", "Liberation Sans", "DejaVu Sans", "Liberation Serif")
"""What nano pages are drawn in (Arial is Liberation Sans there); every further font is to be learned anew."""
GROUNDS = ("#ffffff", "#ffffff", "#f4f5f7", "#fdf6e3", "#e8eef7", "#20242c", "#123047", "#2b2b2b", "#eef5ea")
DARK = {"#20242c", "#123047", "#2b2b2b"}
TEXT_KINDS = ("text", "button", "link", "field", "checkbox", "radio", "tab")
ROLES = {"text": "text", "button": "button", "link": "link", "field": "text field", "checkbox": "checkbox",
         "radio": "radio button", "tab": "tab", "icon": "icon",
         "shape": "shape", "widget": "widget"}  # fmt: skip
WIDTH = 960


@dataclass(frozen=True)
class Drawn:
    """An element of a sheet. `box` = left, top, right, bottom in the sheet's pixels.

    `kind`: shape, icon, widget or one of `TEXT_KINDS`; `name` is what it is called ("circle", "search", "Save"),
    `colour` that of a shape ("" where colour says nothing).
    """

    kind: str
    name: str
    colour: str
    box: tuple[int, int, int, int]


def names_of(drawn: Drawn) -> list[str]:
    """What an element may be asked for, the plainest first."""
    if drawn.kind == "shape":
        return [f"{drawn.colour} {drawn.name}"]
    if drawn.kind == "widget":
        return [drawn.name]
    if drawn.kind == "icon":
        return [f"{drawn.name} icon"]
    return [drawn.name, f"{drawn.name} {ROLES[drawn.kind]}"]


def identity(drawn: Drawn, attribute: str = "both") -> set[str]:
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
    elements: tuple[Drawn, ...]


@dataclass(frozen=True)
class Style:
    """How one sheet looks."""

    ground: str
    font: str
    text_px: int
    weight: int
    button: str
    radius: int

    @property
    def ink(self) -> str:
        """Colour of text and strokes."""
        return "#f0f0f0" if self.ground in DARK else "#1b1b1b"


def style_of(seed: str) -> Style:
    """A style drawn from the seed; text is 16 to 28 px high."""
    rng = Random(f"style/{VERSION}/{seed}")
    ground = rng.choice(GROUNDS)
    plain = ("#3a3f4b", "#4a5160") if ground in DARK else ("#e3e6ea", "#ffffff", "#d7e3fa")
    return Style(ground, rng.choice(FONTS), rng.choice((16, 18, 20, 20, 22, 24, 28)),
                 rng.choice((400, 400, 700)), rng.choice(plain), rng.choice((0, 3, 6, 14)))  # fmt: skip


def label(rng: Random) -> str:
    """A word of interfaces (mostly), two of them, a number, or a made-up word."""
    draw = rng.random()
    if draw < 0.62:
        return rng.choice(WORDS)
    if draw < 0.76:
        return f"{rng.choice(WORDS)} {rng.choice(WORDS)}"
    if draw < 0.88:
        return str(rng.randrange(10 ** rng.randint(1, 4)))
    return "".join(rng.choice("bcdfghjklmnprstvw") + rng.choice("aeiou") for _ in range(rng.randint(2, 3))).title()


def wanted(seed: str) -> list[tuple[str, str, str]]:
    """(kind, name, colour) of the elements of a sheet, in a shuffled order; names of texts are all different."""
    rng = Random(f"sheet/{VERSION}/{seed}")
    ground = style_of(seed).ground
    colours = [
        c for c in COLOURS if not (c == "white" and ground not in DARK) and not (c == "black" and ground in DARK)
    ]
    found = [("shape", rng.choice(list(SHAPES)), colour) for colour in colours for _ in range(4)]
    found += [("icon", name, "") for name in ICONS for _ in range(2)]
    found += [("widget", name, "") for name in WIDGETS for _ in range(3)]
    names: dict[str, None] = {}
    while len(names) < 90:
        names.setdefault(label(rng))
    kinds = ("text", "text", "button", "button", "link", "field", "checkbox", "radio", "tab")
    found += [(kinds[i % len(kinds)], name, "") for i, name in enumerate(names)]
    rng.shuffle(found)
    return found


def sheet_html(seed: str) -> str:
    """The page of a sheet: one element after the other, each in an inline box of its own."""
    style, rng = style_of(seed), Random(f"size/{VERSION}/{seed}")
    body = "".join(f"<span class=e>{element_html(kind, name, colour, style, rng)}</span>"
                   for kind, name, colour in wanted(seed))  # fmt: skip
    return f"""<!doctype html><meta charset=utf-8><style>{style_css(style)}
body{{margin:8px;width:{WIDTH - 16}px}} .e{{margin:5px}}</style>{body}"""


def style_css(style: Style) -> str:
    """The rules that draw elements in a style."""
    return f"""body{{background:{style.ground};color:{style.ink};
font:{style.weight} {style.text_px}px '{style.font}',sans-serif;line-height:1.2}}
.e{{display:inline-block;vertical-align:middle;white-space:nowrap}} .e>*{{display:block}}
.b{{padding:5px 12px;border:1px solid #8886;border-radius:{style.radius}px;background:{style.button};color:{style.ink}}}
.p{{background:#2563c9;color:#fff;border-color:#2563c9}} .t{{border-bottom:3px solid #2563c9;padding:4px 8px}}
a{{color:{"#8ab4f8" if style.ground in DARK else "#1a4fb4"};text-decoration:underline}}
.f{{border:1px solid #888;border-radius:{min(6, style.radius)}px;padding:5px 8px;min-width:90px;background:#fff;
color:#222}} .l>i{{vertical-align:-3px;margin-right:7px}} i{{display:inline-block;width:18px;height:18px;
border:2px solid {style.ink};box-sizing:border-box}} i.r{{border-radius:50%}} svg{{display:block}}"""


def element_html(kind: str, name: str, colour: str, style: Style, rng: Random) -> str:
    """HTML of one element; sizes and variants come from `rng`."""
    text = html.escape(name)
    if kind == "shape":
        side = rng.randint(26, 64)
        return f'<svg width={side} height={side} viewBox="0 0 24 24" fill="{COLOURS[colour]}">{SHAPES[name]}</svg>'
    if kind == "icon":
        side, ink = rng.randint(24, 44), rng.choice((style.ink, style.ink, "#2563c9", "#c0392b", "#2a9d3f"))
        svg = (f'<svg width={side} height={side} viewBox="0 0 24 24" fill=none stroke="{ink}" stroke-width=2 '
               f'stroke-linecap=round stroke-linejoin=round>{ICONS[name]}</svg>')  # fmt: skip
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
        return (f'<span style="display:block;width:120px;height:26px;position:relative"><b style="position:absolute;'
                f'top:11px;width:120px;height:4px;background:#9aa0a6"></b><b style="position:absolute;left:{at}px;'
                f'top:3px;width:20px;height:20px;border-radius:10px;background:#2563c9"></b></span>')  # fmt: skip
    arrow = '<svg width=16 height=16 viewBox="0 0 24 24" style="float:right"><path d="M4 8h16l-8 10z"/></svg>'
    return f'<span class=f style="width:110px;height:22px">{arrow if name == "dropdown" else ""}</span>'


_BOXES = """() => [...document.querySelectorAll('.e')].map(e => { const r = e.getBoundingClientRect();
return [Math.floor(r.left), Math.floor(r.top + scrollY), Math.ceil(r.right), Math.ceil(r.bottom + scrollY)] })"""


def draw_sheet(page: Page, seed: str, folder: Path) -> None:
    """Draw a sheet unless it lies there: `<seed>.png` and, last, `<seed>.json`."""
    target = folder / f"{seed}.json"
    if target.exists():
        return
    page.set_content(sheet_html(seed))
    boxes: Sequence[Sequence[int]] = page.evaluate(_BOXES)
    names = wanted(seed)
    if len(boxes) != len(names):
        raise RuntimeError(f"sheet {seed}: expected {len(names)} elements, the page shows {len(boxes)}")
    page.screenshot(path=str(folder / f"{seed}.png"), full_page=True)
    drawn = [asdict(Drawn(*what, tuple(box))) for what, box in zip(names, boxes, strict=True)]  # type: ignore[arg-type]
    partial = target.with_suffix(".partial")
    partial.write_text(json.dumps({"ground": style_of(seed).ground, "elements": drawn}), encoding="utf-8")
    os.replace(partial, target)


def draw_sheets(folder: Path, seeds: Sequence[str], on_done: Callable[[int], Any] = lambda count: None) -> None:
    """Draw the sheets that don't lie in the folder yet, in one browser."""
    from generators.browser import Viewport, open_browser

    folder.mkdir(parents=True, exist_ok=True)
    missing = [seed for seed in seeds if not (folder / f"{seed}.json").exists()]
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

    with Image.open(folder / f"{seed}.png") as opened:
        pixels = np.asarray(opened.convert("RGB"))
    plain = json.loads((folder / f"{seed}.json").read_text(encoding="utf-8"))
    ground = tuple(int(plain["ground"][i : i + 2], 16) for i in (1, 3, 5))
    elements = tuple(Drawn(e["kind"], e["name"], e["colour"], tuple(e["box"])) for e in plain["elements"])
    return Sheet(pixels, ground, elements)  # type: ignore[arg-type]
