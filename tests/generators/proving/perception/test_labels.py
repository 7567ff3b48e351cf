"""Labels of image tokens: each is what stands in its square, with weights that don't depend on how much does."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from generators.proving.perception.labels import (
    ASKED,
    BACKGROUND,
    FOREGROUND,
    TOKEN_PX,
    ImageLabel,
    image_labels,
    target_labels,
)
from generators.proving.perception.screens import Pasted, PastedScreen
from generators.proving.perception.sheets import SheetElement

COLUMNS, ROWS = 5, 4


def pasted(kind: str, name: str, colour: str, box: tuple[int, int, int, int]) -> Pasted:
    return Pasted(SheetElement(kind, name, colour, box), box)


def screen(*elements: Pasted) -> PastedScreen:
    return PastedScreen(np.full((ROWS * TOKEN_PX, COLUMNS * TOKEN_PX, 3), 255, np.uint8), elements)


def labels(shown: PastedScreen, grounding: bool = False, asked: Pasted | None = None) -> list[ImageLabel]:
    return image_labels(shown, Random(0), grounding=grounding, asked=asked)


CIRCLE = pasted("shape", "circle", "red", (32, 32, 64, 64))
SAVE = pasted("button", "Save draft", "", (32, 96, 128, 120))


def test_a_name_stands_where_its_element_does() -> None:
    found = labels(screen(CIRCLE, SAVE))
    assert len(found) == COLUMNS * ROWS
    named = {place: label.text for place, label in enumerate(found) if label.text}
    assert named == {6: " red circle", 16: " Save draft", 17: " Save draft", 18: " Save draft"}
    shares = [found[place].share for place in (16, 17, 18)]
    assert shares == pytest.approx([1 / 6, 3 / 6, 5 / 6])  # the part of the text that stands there


def test_of_a_question_only_what_was_asked_for_is_marked() -> None:
    found = labels(screen(CIRCLE, SAVE), grounding=True, asked=SAVE)
    assert [place for place, label in enumerate(found) if label.text == ASKED] == [16, 17, 18]
    assert {label.text for label in found} == {ASKED, None}
    absent = labels(screen(CIRCLE, SAVE), grounding=True)
    assert {label.text for label in absent} == {None}


def test_what_shows_a_target_box_is_marked_and_some_of_the_rest() -> None:
    sizes = (COLUMNS * TOKEN_PX, ROWS * TOKEN_PX) * 2
    units = [1000 * side / size for side, size in zip(SAVE.box, sizes, strict=True)]
    asked = labels(screen(SAVE), grounding=True, asked=SAVE)
    found = target_labels([units], COLUMNS, ROWS, Random(0))
    marked = [place for place, label in enumerate(found) if label and label.text == ASKED]
    assert marked == [place for place, label in enumerate(asked) if label.text == ASKED]
    assert sum(label.weight for label in found if label and label.text == ASKED) == pytest.approx(FOREGROUND)
    others = [label for label in found if label and label.text is None]
    assert len(others) == round(0.25 * (COLUMNS * ROWS - 3))
    assert sum(label.weight for label in others) == pytest.approx(BACKGROUND)
    assert found == target_labels([units], COLUMNS, ROWS, Random(0)) != target_labels([units], COLUMNS, ROWS, Random(1))
    assert {label.text for label in target_labels([], COLUMNS, ROWS, Random(0)) if label} == {None}
    tiny = target_labels([[401, 501, 402, 502]], COLUMNS, ROWS, Random(0))  # less than a square's share: its centre's
    assert [place for place, label in enumerate(tiny) if label and label.text == ASKED] == [12]
    assert all(label and label.text == ASKED for label in target_labels([[0, 0, 1000, 1000]], COLUMNS, ROWS, Random(0)))


def test_a_shape_is_told_by_its_colour_and_by_its_form() -> None:
    big = pasted("shape", "ring", "blue", (0, 0, 160, 128))
    halves = {label.share >= 0.5 for label in labels(screen(big))}
    assert halves == {False, True}


@given(
    left=st.integers(0, COLUMNS * TOKEN_PX - 2),
    top=st.integers(0, ROWS * TOKEN_PX - 2),
    wide=st.integers(1, 90),
    high=st.integers(1, 60),
)
def test_every_element_has_a_square_and_weights_add_up(left: int, top: int, wide: int, high: int) -> None:
    box = (left, top, min(COLUMNS * TOKEN_PX, left + wide), min(ROWS * TOKEN_PX, top + high))
    found = labels(screen(pasted("text", "one", "", box)))
    centre = int((box[1] + box[3]) / 2 / TOKEN_PX) * COLUMNS + int((box[0] + box[2]) / 2 / TOKEN_PX)
    assert found[centre].text == " one"
    assert all(0 <= label.share < 1 for label in found)
    shown = sum(label.weight for label in found if label.text)
    assert shown == pytest.approx(FOREGROUND)
    blank = sum(label.weight for label in found if label.text is None)
    assert blank == pytest.approx(BACKGROUND if blank else 0)
