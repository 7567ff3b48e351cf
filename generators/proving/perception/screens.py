"""Screens pasted together from the elements of a sheet, each a pure function of its random numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from generators.proving.perception.sheets import Sheet, SheetElement
from schemas.coordinates import box_to_unit, rounded_centre

SIZES = ((320, 448), (320, 416), (320, 384), (448, 320), (384, 352), (352, 384), (256, 448))
"""(width, height) in pixels: at most 143,360 of them, and multiples of a nano token's 32."""
SMALL_SIZES = ((160, 224), (224, 160), (192, 192), (160, 192), (192, 160))
"""For the first lessons: a quarter of the tokens, and as much to be learned about colours and shapes."""
GAP = 4
MARGIN = 20
"""A row of a filled screen begins no closer to its lower edge."""
ROW = 12
"""Tries to put an element into a row."""
TRIES = 60


@dataclass(frozen=True)
class Pasted:
    """An element on a screen; `box` in the screen's pixels."""

    drawn: SheetElement
    box: tuple[int, int, int, int]


@dataclass(frozen=True)
class PastedScreen:
    """`pixels` uint8 [height, width, 3]; no two elements of a pasted screen overlap. `written`: where names are to be
    seen, if that is elsewhere than in the elements' boxes (a row is larger than its text). `letters`: each character
    with its centre in pixels, beside those of the elements; "" where something may be written, nobody knows what."""

    pixels: np.ndarray
    elements: tuple[Pasted, ...]
    written: tuple[Pasted, ...] = ()
    letters: tuple[tuple[str, float, float], ...] = ()

    @property
    def size_px(self) -> tuple[int, int]:
        """(width, height)."""
        return self.pixels.shape[1], self.pixels.shape[0]

    def centre(self, one: Pasted) -> tuple[int, int]:
        """The middle of an element, in 0..1000."""
        return rounded_centre(box_to_unit(one.box, self.size_px))


def paste(sheet: Sheet, chosen: Sequence[SheetElement], rng: Random, size: tuple[int, int]) -> PastedScreen:
    """The elements, at places anywhere on a screen of (width, height); one that finds no free place is left out."""
    width, height = size
    pixels = np.empty((height, width, 3), np.uint8)
    pixels[:] = sheet.ground
    placed: list[Pasted] = []
    for drawn in chosen:
        left, top, right, bottom = drawn.box
        wide, high = right - left, bottom - top
        if wide > width - 2 * GAP or high > height - 2 * GAP:
            continue
        for _ in range(TRIES):
            x, y = rng.randint(GAP, width - wide - GAP), rng.randint(GAP, height - high - GAP)
            box = (x, y, x + wide, y + high)
            if not any(_near(box, other.box) for other in placed):
                pixels[y : y + high, x : x + wide] = sheet.pixels[top:bottom, left:right]
                placed.append(Pasted(drawn, box))
                break
    return PastedScreen(pixels, tuple(placed))


def fill(sheet: Sheet, kinds: Mapping[str, float], rng: Random, size: tuple[int, int]) -> PastedScreen:
    """A screen full of elements in ragged rows, their kinds drawn by weight."""
    width, height = size
    pixels = np.empty((height, width, 3), np.uint8)
    pixels[:] = sheet.ground
    placed: list[Pasted] = []
    by_kind = {kind: [drawn for drawn in sheet.elements if drawn.kind == kind] for kind in kinds}
    top = rng.randint(0, 3 * GAP)
    while top < height - MARGIN:
        left, tallest = rng.randint(0, 5 * GAP), 0
        for kind in rng.choices(list(kinds), list(kinds.values()), k=ROW):
            drawn = rng.choice(by_kind[kind])
            x, y = left, top + rng.randint(0, GAP + 2)
            wide, high = drawn.box[2] - drawn.box[0], drawn.box[3] - drawn.box[1]
            if x + wide > width or y + high > height:
                continue  # a smaller one may fit
            box = drawn.box
            pixels[y : y + high, x : x + wide] = sheet.pixels[box[1] : box[3], box[0] : box[2]]
            placed.append(Pasted(drawn, (x, y, x + wide, y + high)))
            left, tallest = x + wide + rng.randint(GAP, 6 * GAP), max(tallest, y + high - top)
        top += max(tallest, 2 * GAP) + rng.randint(GAP, 4 * GAP)
    return PastedScreen(pixels, tuple(placed))


def _near(one: tuple[int, int, int, int], other: tuple[int, int, int, int]) -> bool:
    """Whether two boxes overlap or stand closer than `GAP`."""
    return one[0] < other[2] + GAP and other[0] < one[2] + GAP and one[1] < other[3] + GAP and other[1] < one[3] + GAP
