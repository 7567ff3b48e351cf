"""How a page is drawn: font, size, theme, density, accent, language, look, icons and viewport, drawn from a seed.

The looks of this module need Chromium alone. Fonts, looks and icons of known kits join where a folder holds them
(`deploy/get_ui_kits.sh` fetches them). What is held out is held out by name, and never drawn for training.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random

SHARED_CSS = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
VIEWPORTS = ((540, 960), (540, 960), (800, 1024), (1280, 800))
"""(width, height) in pixels: phones, a tablet, a desktop."""
SIZES_PX = (13, 16, 20)
"""Text of a page; captions are smaller by a tenth, titles larger by a fifth: 12 to 24 pixels."""
ACCENTS = ("#2563c9", "#b3261e", "#1b7f4b", "#7a3fb0", "#b45309", "#0f766e", "#be185d", "#374151")
BACKDROPS = ("#ffffff", "#f3f4f6", "#fdf6e3", "#e8eef7"), ("#121212", "#1e293b", "#1c1917", "#0b1f2a")
"""Ground of a light page, and of a dark one."""
FONTS = (
    "Inter",
    "Roboto",
    "Noto Sans",
    "Noto Sans SC",
    "Liberation Sans",
    "DejaVu Sans",
    "Nimbus Sans",
    "Ubuntu",
    "DejaVu Serif",
    "P052",
)
HELD_OUT_FONTS = ("Open Sans", "Lato", "Cantarell", "URW Gothic", "C059")
GENERIC_FONT = "sans-serif"
KIT_FONTS = {
    "Inter": "fontsource-inter/files/inter-latin-{weight}-normal.woff2",
    "Roboto": "fontsource-roboto/files/roboto-latin-{weight}-normal.woff2",
    "Open Sans": "fontsource-open-sans/files/open-sans-latin-{weight}-normal.woff2",
    "Noto Sans SC": "fontsource-noto-sans-sc/files/noto-sans-sc-chinese-simplified-{weight}-normal.woff2",
}
"""Font → its files in the folder of kits, for the weights 400 and 700."""
KIT_ICON_SETS = {"lucide": "lucide-static/icons", "bootstrap": "bootstrap-icons/icons"}
"""Icon set → the folder of its SVG files in the folder of kits."""
OWN_ICONS = "own"
HELD_OUT_ICONS = ("bootstrap",)


@dataclass(frozen=True)
class Look:
    """Skin of the widgets. `css` has the rules, over the variables that `page_css` sets; `sheet` is a kit's style sheet
    in the folder of kits, `classes` the kit's classes by kind of element ("" sheet: one of our own)."""

    name: str
    css: str = ""
    sheet: str = ""
    classes: tuple[tuple[str, str], ...] = ()

    def css_class(self, kind: str) -> str:
        """The kit's classes of a kind of element."""
        return dict(self.classes).get(kind, "")


def _own(name: str, radius: str, button: str, field: str, panel: str) -> Look:
    return Look(
        name,
        f".v-button{{border-radius:{radius};padding:.4em 1em;{button}}}.v-field,.v-select{{border-radius:{radius};"
        f"padding:.4em .7em;{field}}}.v-panel{{border-radius:{radius};{panel}}}",
    )


_FILLED = "background:var(--accent);color:#fff;border:1px solid var(--accent)"
_LINED = "border:1px solid var(--accent);color:var(--accent);background:transparent"
LOOKS = (
    _own("flat", "0", _FILLED, "border:0;background:var(--tint)", "background:var(--tint)"),
    _own("outlined", "4px", _LINED, "border:1px solid var(--muted)", "border:1px solid var(--line)"),
    _own("pills", "20px", _FILLED, "border:1px solid var(--line)", "background:var(--tint)"),
    _own(
        "raised",
        "6px",
        "background:var(--tint);color:var(--ink);border:1px solid var(--line);box-shadow:0 1px 3px #0006",
        "border:1px solid var(--line);box-shadow:inset 0 1px 3px #0004",
        "box-shadow:0 2px 8px #0004",
    ),
    Look(
        "bootstrap",
        sheet="bootstrap/dist/css/bootstrap.min.css",
        classes=(
            ("button", "btn btn-primary"),
            ("field", "form-control"),
            ("select", "form-select"),
            ("panel", "card"),
            ("check", "form-check-input"),
            ("range", "form-range"),
        ),
    ),
    Look("pico", sheet="picocss-pico/css/pico.min.css", classes=(("check", "kit"),)),
)
HELD_OUT_LOOKS = (
    _own(
        "underlined",
        "2px",
        "color:var(--accent);background:transparent;border:0;text-transform:none;font-weight:700",
        "border:0;border-bottom:2px solid var(--muted)",
        "border-left:4px solid var(--accent)",
    ),
    Look(
        "bulma",
        sheet="bulma/css/bulma.min.css",
        classes=(("button", "button is-link"), ("field", "input"), ("select", "input"), ("panel", "box")),
    ),
)


@dataclass(frozen=True)
class Material:
    """What may be drawn here: names of fonts, looks, icon sets and languages, those that were found."""

    fonts: tuple[str, ...]
    looks: tuple[str, ...]
    icons: tuple[str, ...]
    languages: tuple[str, ...]


@dataclass(frozen=True)
class PageStyle:
    """How one page is drawn; colours are CSS, sizes pixels."""

    font: str
    size_px: int
    dark: bool
    dense: bool
    accent: str
    backdrop: str
    language: str
    look: Look
    icons: str
    viewport: tuple[int, int]
    margin: tuple[int, int]


def style_of(rng: Random, material: Material, held_out: bool) -> PageStyle:
    """A style of what was found; held out: fonts, looks and icons that training never sees, where there are any."""
    fonts, looks = (HELD_OUT_FONTS, HELD_OUT_LOOKS) if held_out else (FONTS, LOOKS)
    # Icons by name, so that no held-out set is drawn for training and no other for the held-out pages.
    icon_sets = [name for name in material.icons if (name in HELD_OUT_ICONS) == held_out]
    dark = rng.random() < 0.4
    viewport = rng.choice(VIEWPORTS)
    return PageStyle(
        rng.choice(_found(fonts, material.fonts) or [GENERIC_FONT]),
        rng.choice(SIZES_PX),
        dark,
        rng.random() < 0.5,
        rng.choice(ACCENTS),
        rng.choice(BACKDROPS[dark]),
        rng.choice(material.languages),
        rng.choice([look for look in looks if look.name in material.looks]),
        rng.choice(icon_sets or [OWN_ICONS]),
        viewport,
        _margin(rng, viewport),
    )


def _found(wanted: Iterable[str], there: Iterable[str]) -> list[str]:
    return [name for name in wanted if name in set(there)]


def _margin(rng: Random, viewport: tuple[int, int]) -> tuple[int, int]:
    """(left and right, top) in pixels of what lies around a page: without it a bar would always stand at the top of a
    window and its icons at the sides, and their places could be known unseen."""
    if rng.random() < 0.3:
        return 0, 0
    return rng.randint(0, viewport[0] // 6), rng.randint(0, viewport[1] // 3)


def page_css(style: PageStyle) -> str:
    """The rules that all looks share, and the style's own."""
    ink, muted = ("#f1f5f9", "#a3adba") if style.dark else ("#1b1b1b", "#5b6470")
    side, top = style.margin
    # Noto Sans SC stands behind each font: texts in Chinese would show as boxes in most of them.
    fonts = ",".join(f"'{name}'" for name in dict.fromkeys((style.font, "Noto Sans SC")) if name != GENERIC_FONT)
    variables = {
        "accent": style.accent,
        "ink": ink,
        "muted": muted,
        "line": f"{muted}66",
        "tint": f"{muted}26",
        "gap": ".35em" if style.dense else ".8em",
        "around": f"{style.accent}22",
        "backdrop": style.backdrop,
    }
    return f"""html{{font-size:{style.size_px}px;{"".join(f"--{name}:{one};" for name, one in variables.items())}}}
*{{font-family:{fonts},{GENERIC_FONT}!important}} {SHARED_CSS}
#page{{margin:{top}px {side}px 0;background:{style.backdrop};min-height:100vh;overflow:hidden}}
{style.look.css}"""
