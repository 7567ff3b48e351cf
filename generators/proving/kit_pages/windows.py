"""Windows of a drawn page: the part that a small model sees at once, at the page's own scale.

Boxes and letters are in pixels of the window. An element that the window cuts, or that something covers, is never asked
for, but what it is called is never said to be missing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from generators.proving.kit_pages.drawing import KitElement, KitPage, PixelBox, screen_pixels
from generators.proving.kit_pages.families import WORD
from generators.proving.perception.screens import Pasted, PastedScreen
from generators.proving.perception.sheets import TEXT_KINDS, SheetElement

SIZE = (320, 448)
"""(width, height) in pixels."""
LEAST = 3
"""Elements that can be asked for in a window; with fewer it is cut elsewhere."""
TRIES = 12
WIDGETS = ("switch", "box", "slider")
"""Kinds of elements that carry no text; their name is how they look."""


@dataclass(frozen=True)
class PageWindow:
    """A window: all elements that show in it, also those that are cut (`shown` is false), and its letters."""

    elements: tuple[KitElement, ...]
    letters: tuple[tuple[str, float, float], ...]
    origin: tuple[int, int]

    @property
    def whole(self) -> list[KitElement]:
        """The elements that can be asked for."""
        return [one for one in self.elements if one.shown and one.kind != WORD]

    @property
    def text(self) -> str:
        """All letters, without blanks, in lower case."""
        return "".join(letter for letter, _, _ in self.letters).casefold()


def cut(page: KitPage, rng: Random) -> PageWindow | None:
    """A window around an element of the page, at any place; None if the page shows nowhere enough to ask for."""
    width, height = page.size_px
    # What is larger than a window could never be whole in one.
    shown = [one for one in page.elements if one.shown and one.kind != WORD and _fits(one.box)]
    for _ in range(TRIES if shown else 0):
        left, top, right, bottom = rng.choice(shown).box
        # Anywhere around the element: it mustn't always stand in the middle.
        x = rng.randint(max(0, right - SIZE[0]), min(left, width - SIZE[0]))
        y = rng.randint(max(0, bottom - SIZE[1]), min(top, height - SIZE[1]))
        window = _at(page, (x, y))
        if len(window.whole) >= LEAST:
            return window
    return None


def _fits(box: PixelBox) -> bool:
    return box[2] - box[0] <= SIZE[0] and box[3] - box[1] <= SIZE[1]


def _at(page: KitPage, origin: tuple[int, int]) -> PageWindow:
    x, y = origin
    found = []
    for one in page.elements:
        left, top, right, bottom = one.box[0] - x, one.box[1] - y, one.box[2] - x, one.box[3] - y
        if right > 0 and bottom > 0 and left < SIZE[0] and top < SIZE[1]:
            # An element that the window cuts stays listed, for names that can't be said to be missing.
            inside = left >= 0 and top >= 0 and right <= SIZE[0] and bottom <= SIZE[1]
            found.append(replace(one, box=(left, top, right, bottom), shown=one.shown and inside))
    letters = [(letter, at - x, down - y) for letter, at, down in page.letters]
    inside_letters = [one for one in letters if 0 <= one[1] < SIZE[0] and 0 <= one[2] < SIZE[1]]
    return PageWindow(tuple(found), tuple(inside_letters), origin)


def as_screen(page: KitPage, window: PageWindow) -> PastedScreen:
    """The window as a screen of the curriculum: its elements are those of `whole`, in that order; names are also to be
    seen on texts that it cuts, and on running text."""
    x, y = window.origin
    pixels = screen_pixels(page, (x, y, x + SIZE[0], y + SIZE[1]))
    written = [one for one in window.elements if one.shown or one.kind in TEXT_KINDS or one.kind == WORD]
    return PastedScreen(pixels, _pasted(window.whole), _pasted(written), window.letters)


def _pasted(elements: Sequence[KitElement]) -> tuple[Pasted, ...]:
    return tuple(Pasted(SheetElement(_sheet_kind(one.kind), one.name, "", one.box), one.box) for one in elements)


def _sheet_kind(kind: str) -> str:
    return "widget" if kind in WIDGETS else "text" if kind == WORD else kind
