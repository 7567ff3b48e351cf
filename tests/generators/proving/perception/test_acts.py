"""Goals about pasted screens: they name their elements, and their answer is what is still to be done."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from generators.proving.perception.acts import VERBS, WRITING, act, goal, phrase
from generators.proving.perception.questions import LESSONS, pasted_row
from generators.proving.perception.screens import Pasted, PastedScreen
from generators.proving.perception.sheets import Sheet, SheetElement, names_of
from schemas.action_types import Click, Finished, Type
from schemas.actions import parse_reply
from schemas.coordinates import box_to_unit, contains

DRAWN = [
    SheetElement("button", "Save", "", (0, 0, 60, 24)),
    SheetElement("link", "Ada Adler", "", (0, 30, 100, 54)),
    SheetElement("icon", "search", "", (0, 60, 24, 84)),
    SheetElement("shape", "circle", "red", (0, 90, 24, 114)),
    SheetElement("widget", "switch off", "", (0, 120, 40, 144)),
]
STRANGER = SheetElement("text", "Oslo", "", (0, 150, 60, 174))


def screen(count: int) -> PastedScreen:
    placed = [
        Pasted(one, (10, 60 * place, 10 + one.box[2], 60 * place + one.box[3] - one.box[1]))
        for place, one in enumerate(DRAWN[:count])
    ]
    return PastedScreen(np.full((320, 160, 3), 255, np.uint8), tuple(placed))


@given(st.integers(1, len(DRAWN)), st.integers(1, 3), st.integers(0, 10_000))
def test_the_answer_is_the_next_click_or_that_all_is_done(count: int, most: int, seed: int) -> None:
    shown = screen(count)
    prompt, answer, asked = act(shown, most, [STRANGER], Random(seed))
    said, past = prompt.removeprefix("Goal: ").split("\nHistory:\n")
    found = parse_reply(answer).action
    boxes = {one.drawn.name: box_to_unit(one.box, shown.size_px) for one in shown.elements}
    named = sorted((said.index(name), name) for name in boxes if name in said)
    clicks = [line for line in past.splitlines() if "Click" in line]
    assert 1 <= len(named) <= min(most, count)
    if asked is None:
        assert found == Finished() and len(clicks) >= len(named)
    else:
        assert isinstance(found, Click) and contains(list(boxes[asked.drawn.name]), found.box)
        place = [name for _, name in named].index(asked.drawn.name)
        assert place <= len(clicks) <= place + 1  # one more where a click on something else stands in between
    assert any(said.lower().startswith(verb) for verb in VERBS) or STRANGER.name in said
    assert act(shown, most, [STRANGER], Random(seed)) == (prompt, answer, asked)


@pytest.mark.parametrize("drawn", DRAWN)
def test_every_phrase_tells_the_element(drawn: SheetElement) -> None:
    phrases = {phrase(drawn, Random(seed)) for seed in range(60)}
    assert len(phrases) >= 3 and all(drawn.name in one and names_of(drawn)[0] in one for one in phrases)
    goals = {goal([(drawn, "")], [STRANGER], Random(seed)) for seed in range(60)}
    assert all(one[0].isupper() and one.endswith(".") for one in goals)


def test_the_lesson_mixes_goals_with_questions() -> None:
    others = [SheetElement(one.kind, f"other {number}", one.colour, one.box) for one in DRAWN for number in range(4)]
    sheet = Sheet(np.full((200, 200, 3), 255, np.uint8), (255, 255, 255), (*DRAWN, *others))
    lesson = replace(LESSONS["acts"], kinds=tuple((one.kind, 1.0) for one in DRAWN), count=(2, 4))
    rows: list[dict[str, Any]] = [pasted_row(f"{place}", sheet, lesson)[0] for place in range(120)]
    by = {name: [row for row in rows if row["objective"] == name] for name in ("navigation", "grounding", "perception")}
    assert len(by["navigation"]) > 50 and len(by["grounding"]) > 20
    for row in by["navigation"]:
        action = parse_reply(row["answer"]).action
        marked = [label for label in row["image_labels"] if label.text is not None]
        assert isinstance(action, Click) == bool(row["target_boxes"]) == bool(marked)


FIELD = SheetElement("field", "Email", "", (0, 180, 90, 210))


@given(st.integers(0, 10_000))
def test_words_are_typed_after_the_click_on_their_field(seed: int) -> None:
    shown = screen(2)
    shown = PastedScreen(shown.pixels, (*shown.elements, Pasted(FIELD, (10, 200, 100, 230))))
    prompt, answer, asked = act(shown, 3, [STRANGER], Random(seed))
    said, past = prompt.removeprefix("Goal: ").split("\nHistory:\n")
    found, before = parse_reply(answer).action, past.splitlines()[-2]
    if isinstance(found, Type):
        assert asked is None and found.content in said and "Click" in before
    elif isinstance(found, Finished) and "Type(" in past:
        assert asked is None
    typed = [line for line in past.splitlines() if "Type(" in line]
    assert len(typed) <= 1 and all(line.split("'")[1] in said for line in typed)
    wanted = any(f"{verb} " in said.lower() for verb in WRITING)
    assert wanted or not (typed or isinstance(found, Type))


def test_some_goals_about_fields_ask_for_words() -> None:
    shown = PastedScreen(np.full((320, 160, 3), 255, np.uint8), (Pasted(FIELD, (10, 200, 100, 230)),))
    answers = [parse_reply(act(shown, 1, [STRANGER], Random(seed))[1]).action for seed in range(100)]
    assert {type(action) for action in answers} == {Click, Type, Finished}
