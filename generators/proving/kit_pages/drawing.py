"""Drawing pages in Chromium, and reading them back: a PNG, and a JSON file with elements and letters.

A page is a pure function of its name and of what was found to draw with (`Material`), which is noted once a folder.
Names begin with their split: "train" and "test" are drawn from the families and styles that training may see, "held"
from those that it never does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np

from generators.devices.browser import Camera, Viewport, evaluate_json, open_browser
from generators.proving.kit_pages import styles
from generators.proving.kit_pages.families import FAMILIES, HELD_OUT_FAMILIES, WORD, PageBuilder
from generators.proving.kit_pages.vocabulary import KIT_ICONS, LANGUAGES, SAMPLES
from generators.proving.perception.page_letters import LETTERS_JS
from generators.proving.perception.sheets import TEXT_KINDS
from generators.proving.perception.vocabulary import ICONS
from pipelines.whole_files import whole_file

if TYPE_CHECKING:
    from playwright.sync_api import Page

VERSION = 1
"""Raise it when the same name draws another page."""
HELD_OUT = "held"
"""How the names of pages of held-out families and styles begin."""
KITS = "ui_kits"
"""Folder of fetched kits, beside that of the pages."""
MATERIAL = "material.json"
FIRST = Viewport(1280, 800)
"""Of the browser before the first page; each page sets its own."""
ELEMENTS_JS = Path(__file__).with_name("kit_elements.js").read_text(encoding="utf-8")
PROBE_JS = Path(__file__).with_name("probe.js").read_text(encoding="utf-8")
PixelBox = tuple[int, int, int, int]


@dataclass(frozen=True)
class KitElement:
    """An element of a page. `kind`: one of `TEXT_KINDS`, icon, switch, box, slider or `WORD`; `name`: its text, or what
    it is; `beside`: the text that it stands beside. `box` in pixels; `shown`: all of it and of its name's letters."""

    kind: str
    name: str
    beside: str
    box: PixelBox
    shown: bool


@dataclass(frozen=True)
class KitPage:
    """A drawn page: its picture's file and its (width, height) in pixels, its elements, and each letter with its centre
    in pixels."""

    picture: Path
    size_px: tuple[int, int]
    elements: tuple[KitElement, ...]
    letters: tuple[tuple[str, float, float], ...]
    language: str


def page_files(folder: Path, name: str) -> tuple[Path, Path]:
    """The PNG and the JSON of a page; what another version drew has another name."""
    stem = folder / f"{name}-v{VERSION}"
    return stem.with_suffix(".png"), stem.with_suffix(".json")


def draw_kit_pages(folder: Path, names: Sequence[str], on_done: Callable[[int], Any] = lambda count: None) -> None:
    """Draw the pages that don't lie in the folder yet, in one browser, with the kits in `ui_kits` beside the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    missing = [name for name in names if not page_files(folder, name)[1].exists()]
    if not missing:
        return
    kits = folder.resolve().parent / KITS
    # A page of the file system may load the kits' fonts and style sheets, which one of another origin may not.
    blank = folder / "blank.html"
    blank.write_text("<!doctype html>", encoding="utf-8")
    with open_browser(FIRST) as context:
        page = context.new_page()
        camera = Camera(page, FIRST)
        page.goto(blank.resolve().as_uri())
        material = _material(page, folder, kits)
        for count, name in enumerate(missing, 1):
            _draw(page, camera, folder, name, material, kits)
            on_done(count)


def read_material(folder: Path) -> styles.Material:
    """What the pages of a folder are drawn with. Raises `OSError` if none was drawn."""
    plain = json.loads((folder / MATERIAL).read_text(encoding="utf-8"))
    return styles.Material(**{name: tuple(some) for name, some in plain.items()})


def _material(page: Page, folder: Path, kits: Path) -> styles.Material:
    """As noted in the folder, else what is found now."""
    # Noted once: fonts installed later would change what a page's name draws.
    if (folder / MATERIAL).exists():
        return read_material(folder)
    # Fonts load only once a page uses their family; the probe then measures which really differ.
    page.set_content(f"<!doctype html><meta charset=utf-8><style>{_font_faces(kits)}</style>")
    found = page.evaluate(PROBE_JS, {"fonts": [*styles.FONTS, *styles.HELD_OUT_FONTS], "samples": SAMPLES})
    looks = [
        look.name for look in (*styles.LOOKS, *styles.HELD_OUT_LOOKS) if not look.sheet or (kits / look.sheet).is_file()
    ]
    icons = [styles.OWN_ICONS, *(name for name, place in styles.KIT_ICON_SETS.items() if (kits / place).is_dir())]
    languages = [name for name in LANGUAGES if name in found["languages"]]
    material = styles.Material(tuple(found["fonts"]), tuple(looks), tuple(icons), tuple(languages))
    with whole_file(folder / MATERIAL) as part:
        part.write_text(json.dumps(asdict(material)), encoding="utf-8")
    return material


def _font_faces(kits: Path) -> str:
    """Rules for the fonts that the folder of kits holds."""
    return "".join(
        f"@font-face{{font-family:'{font}';font-weight:{weight};src:url('{file.as_uri()}')}}"
        for font, place in styles.KIT_FONTS.items()
        for weight in (400, 700)
        if (file := kits / place.format(weight=weight)).is_file()
    )


@lru_cache(maxsize=8)
def _icons(kits: Path, icon_set: str) -> dict[str, str]:
    """Icon → SVG; what a kit doesn't have is drawn as on the sheets."""
    own = (
        '<svg viewBox="0 0 24 24" fill=none stroke=currentColor stroke-width=2 stroke-linecap=round '
        "stroke-linejoin=round>{}</svg>"
    )
    # Own icons first, so that every name is there; a kit replaces those that it has.
    found = {name: own.format(drawn) for name, drawn in ICONS.items()}
    if icon_set != styles.OWN_ICONS:
        for name, files in KIT_ICONS.items():
            there = [file for file in files if (kits / styles.KIT_ICON_SETS[icon_set] / f"{file}.svg").is_file()]
            if there:
                found[name] = (kits / styles.KIT_ICON_SETS[icon_set] / f"{there[0]}.svg").read_text(encoding="utf-8")
    return found


def page_html(name: str, material: styles.Material, kits: Path) -> tuple[str, styles.PageStyle, str]:
    """(HTML, style, family) of a page by its name."""
    # Only the name and the version: the same name draws the same page in any order and on any machine.
    rng = Random(f"kit/{VERSION}/{name}")
    held_out = name.startswith(HELD_OUT)
    style = styles.style_of(rng, material, held_out)
    families = HELD_OUT_FAMILIES if held_out else FAMILIES
    family = rng.choice(list(families))
    body = families[family](PageBuilder(rng, style, _icons(kits, style.icons)))
    theme = "dark" if style.dark else "light"
    sheet = f'<link rel=stylesheet href="{(kits / style.look.sheet).as_uri()}">' if style.look.sheet else ""
    themes = f'data-theme={theme} data-bs-theme={theme} style="color-scheme:{theme}"'
    head = f"<meta charset=utf-8>{sheet}<style>{_font_faces(kits)}{styles.page_css(style)}</style>"
    return f"<!doctype html><html {themes}>{head}<div id=page>{body}</div></html>", style, family


def _draw(page: Page, camera: Camera, folder: Path, name: str, material: styles.Material, kits: Path) -> None:
    html, style, family = page_html(name, material, kits)
    width, height = style.viewport
    page.set_viewport_size({"width": width, "height": height})
    page.set_content(html)
    # Letters move when a web font replaces the fallback, so nothing is measured before.
    page.evaluate("document.fonts.ready.then(() => null)")
    picture, plain = page_files(folder, name)
    letters = [[letter, round(x, 1), round(y, 1)] for letter, x, y in evaluate_json(page, f"({LETTERS_JS})()")]
    elements = [checked(one, letters) for one in evaluate_json(page, f"({ELEMENTS_JS})()")]
    # The picture before the JSON: `draw_kit_pages` takes a page with JSON for finished.
    with whole_file(picture) as part:
        part.write_bytes(camera.shoot())
    made = {
        "family": family,
        "style": {**asdict(style), "look": style.look.name},
        "elements": [asdict(one) for one in elements],
        "letters": letters,
    }
    with whole_file(plain) as part:
        part.write_text(json.dumps(made, ensure_ascii=False), encoding="utf-8")


def checked(found: dict[str, Any], letters: Sequence[Sequence[Any]]) -> KitElement:
    """An element as the browser found it; shown only if the letters in its box are those of its name."""
    element = KitElement(**{**found, "box": tuple(found["box"])})
    left, top, right, bottom = element.box
    # Without spaces, which have no letters of their own in what the browser reports.
    inside = "".join(str(letter) for letter, x, y in letters if left <= x <= right and top <= y <= bottom)
    written = element.kind in TEXT_KINDS or element.kind == WORD
    spelled = inside == "".join(element.name.split()) if written else True
    return KitElement(element.kind, element.name, element.beside, element.box, element.shown and spelled)


def read_kit_page(folder: Path, name: str) -> KitPage:
    """A drawn page. Raises `OSError` if it isn't there."""
    picture, text = page_files(folder, name)
    plain = json.loads(text.read_text(encoding="utf-8"))
    elements = tuple(KitElement(**{**one, "box": tuple(one["box"])}) for one in plain["elements"])
    letters = tuple((str(letter), float(x), float(y)) for letter, x, y in plain["letters"])
    width, height = plain["style"]["viewport"]
    return KitPage(picture, (width, height), elements, letters, plain["style"]["language"])


def screen_pixels(page: KitPage, box: PixelBox | None = None) -> np.ndarray:
    """The picture of a page, or what a box of it shows: uint8 [height, width, 3]."""
    import numpy as np
    from PIL import Image

    with Image.open(page.picture) as opened:
        return np.asarray(opened.crop(box).convert("RGB"))  # all of it without a box
