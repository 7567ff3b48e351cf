"""What each image token of a screen shows, and which letters each patch: targets beside the question's one answer.

A question about a screen has one answer of a few tokens; the picture has dozens of tokens that say nothing of what they
learned. With a label on each, a small model learns to tell names and to look for what was asked in hundreds of steps
where answers alone didn't do it in thousands (the dense targets of detection and of dense captioning; an auxiliary loss
of pretraining only, the trained model is asked as any other).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from generators.proving.perception.screens import Pasted, PastedScreen
from generators.proving.perception.sheets import TEXT_KINDS
from schemas.coordinates import centre

VERSION = 2
"""Raise it when the same screen gets other labels."""
TOKEN_PX = 32
"""Side of the square of pixels that an image token of a nano model stands for."""
ASKED = "["
"""Label of a token that shows what was asked for: how its answer begins."""
SHOWN_SHARE = 0.2
"""An element counts as shown by a token if it covers so much of its square (or has its centre there)."""
FOREGROUND, BACKGROUND = 2.0, 1.0
"""Weights of all tokens that show something, and of all others, of one screen together."""
BLANK_SHARE = 0.25
"""Of the squares that show no target, how many `target_labels` labels: each costs a row of logits and says little."""
PATCH_PX = 16
"""Side of the square of pixels that the vision tower sees as one."""
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
PARTS = 2
"""Letters that a patch may show: the centres of two stand in different halves of it, or in different patches."""
LINE_PX = 20
"""A patch whose middle is closer than this to the middle of a letter shows a part of it."""
NO_LETTER, UNDECIDED = 0, -100


@dataclass(frozen=True)
class ImageLabel:
    """Target of one image token: the token at `share` (0..1) of `text`'s tokens; `text` None is the end token, for
    nothing to be said. `weight` is that of the loss."""

    text: str | None
    share: float
    weight: float


def image_labels(
    screen: PastedScreen, rng: Random, *, grounding: bool, asked: Pasted | None = None
) -> list[ImageLabel]:
    """A label for each square of `TOKEN_PX` pixels, row by row.

    With `grounding`: whether the square shows the element that was `asked` for (None: it isn't there). Else its name:
    of a shape its colour or its form, of a text the part that stands in the square.
    """
    columns, rows = screen.size_px[0] // TOKEN_PX, screen.size_px[1] // TOKEN_PX
    found: dict[int, tuple[str, float]] = {}
    for one in screen.elements if grounding else screen.written or screen.elements:
        if grounding and one is not asked:
            continue
        for column, row in _squares(one.box, TOKEN_PX, columns, rows):
            share = _share(one, (column + 0.5) * TOKEN_PX, rng)
            found[row * columns + column] = (ASKED if grounding else _name(one), share)
    # All marks of a screen weigh as much together, whether it shows one element or twenty.
    shown = FOREGROUND / max(1, len(found))
    blank = BACKGROUND / max(1, columns * rows - len(found))
    return [ImageLabel(*found[i], shown) if i in found else ImageLabel(None, 0.0, blank) for i in range(columns * rows)]


def target_labels(boxes: Sequence[Sequence[float]], columns: int, rows: int, rng: Random) -> list[ImageLabel | None]:
    """Labels for the squares of a picture of `columns` x `rows` squares: whether they show one of `boxes` (left, top,
    right, bottom in 0..1000 of the picture). Without boxes there is nothing to point at. Of the squares that show none
    `BLANK_SHARE` are drawn, for all of them; the others have no label."""
    side = 1000  # of a square, in units that make both sides of the picture whole numbers of it
    found: set[int] = set()
    for left, top, right, bottom in boxes:
        box = (round(left * columns), round(top * rows), round(right * columns), round(bottom * rows))
        found |= {row * columns + column for column, row in _squares(box, side, columns, rows)}
    others = [place for place in range(columns * rows) if place not in found]
    drawn = rng.sample(others, min(len(others), max(1, round(BLANK_SHARE * len(others)))))
    labels: list[ImageLabel | None] = [None] * (columns * rows)
    for places, text, weight in ((sorted(found), ASKED, FOREGROUND), (drawn, None, BACKGROUND)):
        for place in places:
            labels[place] = ImageLabel(text, 0.0, weight / len(places))
    return labels


def _squares(box: Sequence[int], side: int, columns: int, rows: int) -> list[tuple[int, int]]:
    """(column, row) of the squares that show a box (left, top, right, bottom in pixels)."""
    left, top, right, bottom = box
    x, y = centre(box)
    # A small element may cover no square by the share; the square with its centre shows it all the same.
    middle = (int(x / side), int(y / side))
    found = []
    # Rounded outwards: a box that touches a square is looked at there.
    for column in range(max(0, left // side), min(columns, -(-right // side))):
        for row in range(max(0, top // side), min(rows, -(-bottom // side))):
            wide = min(right, (column + 1) * side) - max(left, column * side)
            high = min(bottom, (row + 1) * side) - max(top, row * side)
            if wide * high >= SHOWN_SHARE * side * side or (column, row) == middle:
                found.append((column, row))
    return found


def _name(one: Pasted) -> str:
    """As the name stands in an answer, behind a role and a space."""
    return f" {one.drawn.colour} {one.drawn.name}".replace("  ", " ")


def _share(one: Pasted, x: float, rng: Random) -> float:
    """Which part of the name: of a text what stands at `x`, of anything else any."""
    if one.drawn.kind not in TEXT_KINDS:
        return rng.random()
    left, _, right, _ = one.box
    return min(0.999, max(0.0, (x - left) / (right - left)))


def letter_labels(screen: PastedScreen) -> np.ndarray:
    """int64 [rows, columns, `PARTS`] over the patches of a screen: which letter has its centre in each part.

    A letter is its place in `LETTERS` plus one; `NO_LETTER` stands where there is none, `UNDECIDED` (for no loss) on
    other characters, where a small font has two different letters in one part, and on patches above and below that
    show a part of a line.
    """
    import numpy as np

    columns, rows, wide = screen.size_px[0] // PATCH_PX, screen.size_px[1] // PATCH_PX, PATCH_PX // PARTS
    found = np.full((rows, columns * PARTS), NO_LETTER, np.int64)
    shown = [
        (letter, box[0] + x, box[1] + y)
        for box, some in ((one.box, one.drawn.letters) for one in screen.elements)
        for letter, x, y in some
    ]
    first: dict[tuple[int, int], str] = {}
    for letter, x, y in [*shown, *screen.letters]:
        part, row = int(x // wide), int(y // PATCH_PX)
        if not (0 <= part < columns * PARTS and 0 <= row < rows):
            continue
        # Two different letters in one half: no label is right, so the loss skips it.
        alone = first.setdefault((row, part), letter) == letter
        found[row, part] = LETTERS.index(letter) + 1 if alone and letter and letter in LETTERS else UNDECIDED
        for other in (row - 1, row + 1):
            # A line is higher than a patch, so the patches above and below show parts of its letters.
            near = abs((other + 0.5) * PATCH_PX - y) < LINE_PX
            if 0 <= other < rows and near and found[other, part] == NO_LETTER:
                found[other, part] = UNDECIDED
    return found.reshape(rows, columns, PARTS)
