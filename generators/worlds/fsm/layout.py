"""Where things lie on a site's page: one rule with fixed sizes, in CSS pixels. `layout.js` is the same rule.

Text never changes a size, except the lengths of labels as the spec writes them, so both sides agree to the pixel.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from generators.worlds.fsm.spec import SiteElement, SiteSpec

WIDTH, HEIGHT = 1024, 640
SCROLL_PX = 320
LEAST_PX = 8
"""An element of which less shows isn't listed."""
FIELD_WIDTH = 480
LINE = 84
"""Characters of a paragraph that surely fit on a line."""
INLINE = {"button": (44, 44), "tab": (40, 44), "link": (20, 32)}
"""Kind → (padding of the width, height); these stand beside each other."""
CHAR = 9
FIXED = {"heading": 56, "notice": 52, "row": 60, "check": 36, "radio": 36, "option": 40, "combobox": 44, "field": 44}
GAP = {"heading": 12, "notice": 16, "row": 8, "check": 4, "radio": 4, "option": 0, "combobox": 16, "field": 16}
LABEL = 26
"""Above a field or combobox, for its label."""
CARD, CARD_GAP = 168, 20


def extra(last: str, kind: str) -> int:
    """Space between two kinds beside their gaps: an open list hangs on its box, what follows choices stands off."""
    if kind == "option":
        return -GAP["combobox"] if last == "combobox" else 0
    return 16 if last == "option" else 12 if last in ("check", "radio", "row") and kind not in (last, "footer") else 0


@dataclass(frozen=True)
class Placed:
    """An element with its box on the page (left, top, width, height)."""

    element: SiteElement
    left: int
    top: int
    width: int
    height: int


def lay_out(site: SiteSpec, shown: Iterable[SiteElement]) -> tuple[list[Placed], int]:
    """Elements in reading order → boxes and the page's height."""
    side = site.theme.menu == "side"
    left, width = (248, 736) if side else (112, 800)
    placed: list[Placed] = []
    # Menus have their own coordinates: at the side one below the other, on top side by side.
    menu_x, menu_y = (0, 88) if side else (264, 0)
    x, y, row, last = left, (32 if side else 92), 0, ""
    for e in shown:
        # Extra space comes before the element, since it depends on what stood above.
        y += extra(last, e.kind)
        if e.kind == "brand":
            placed.append(Placed(e, 0, 0, 216 if side else 240, 64))
        elif e.kind == "nav" and side:
            placed.append(Placed(e, 0, menu_y, 216, 44))
            menu_y += 44
        elif e.kind == "nav":
            w = 28 + CHAR * len(e.text)
            placed.append(Placed(e, menu_x, 0, w, 64))
            menu_x += w
        elif e.kind in INLINE or e.kind == "card":
            # Three cards a line.
            if e.kind == "card":
                w, h, gap = (width - 2 * CARD_GAP) // 3, CARD, CARD_GAP
            else:
                padding, h = INLINE[e.kind]
                w, gap = padding + CHAR * len(e.text), 12
            # A new line for another kind, or where the width is used up.
            if row and (last != e.kind or x + w > left + width):
                x, y, row = left, y + row, 0
            placed.append(Placed(e, x, y, w, h))
            # The line is as high as its last element: kinds on a line have one height.
            x, row = x + w + gap, h + gap
        else:
            x, y, row = left, y + row, 0
            y = _block(e, placed, left, width, y)
        last = e.kind
    return placed, max(y + row, HEIGHT)


def _block(e: SiteElement, placed: list[Placed], left: int, width: int, y: int) -> int:
    """Place an element that has its line for itself; returns where the next one begins."""
    if e.kind == "footer":
        # At the bottom of the window, or below a page that is longer.
        y = max(y + 16, HEIGHT - 48)
        placed.append(Placed(e, left, y, width, 48))
        return y + 48
    if e.kind == "text":
        # Rounded up: the last line of a paragraph takes a whole line.
        h = 24 * -(-len(e.text) // LINE)
        placed.append(Placed(e, left, y, width, h))
        return y + h + 12
    if e.kind in ("field", "combobox"):
        # The label stands above the box and isn't part of it.
        y += LABEL
    w = width
    if e.kind in ("field", "combobox", "option"):
        w = FIELD_WIDTH
    elif e.kind in ("check", "radio"):
        w = 48 + CHAR * len(e.text)
    placed.append(Placed(e, left, y, w, FIXED[e.kind]))
    return y + FIXED[e.kind] + GAP[e.kind]
