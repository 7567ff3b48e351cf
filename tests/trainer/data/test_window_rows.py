"""Training rows of windows: the target stays where it is drawn, and a window without it is answered with a refusal."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pipelines.prompts import REFUSAL, grounding_text, messages, navigation_text
from pipelines.store.images import encode_png
from schemas.actions import Click, Drag, PressBack, parse_reply, render
from schemas.coordinates import box_to_unit, contains, rounded_centre
from trainer.data.row_sources import ListSource
from trainer.data.window_rows import WITHOUT_TARGET, WindowedSource, as_read, cut_row
from trainer.settings.reading import Reading

SIZE = (200, 300)
BOX = (150, 200, 180, 220)
"""Of the red element, in pixels."""


@pytest.fixture
def reader(processor: Any) -> Any:
    """A processor whose checkpoint looks at windows of 96 x 128."""
    made = processor.apart()
    made.preset = replace(made.preset, reading=Reading(mode="windows", window=(96, 128), overlap=32))
    return made


def grounding(number: int = 0) -> dict[str, Any]:
    pixels = np.full((SIZE[1], SIZE[0], 3), 255, np.uint8)
    left, top, right, bottom = BOX
    pixels[top:bottom, left:right] = (255, 0, 0)
    box = box_to_unit(BOX, SIZE)
    x, y = rounded_centre(box)
    return {
        "sample_id": f"row-{number}",
        "objective": "grounding",
        "platform": "mobile",
        "messages": messages("grounding", grounding_text("the red one")),
        "images": [encode_png(pixels)],
        "answer": f"[{x},{y}]",
        "target_boxes": [box],
    }


def step(action: Any) -> dict[str, Any]:
    answer = f"<think></think><action>{render(action, 'mobile')}</action><conclusion></conclusion>"
    text = messages("navigation", navigation_text("press the red one", []))
    return {**grounding(), "objective": "navigation", "messages": text, "answer": answer}


def shown(row: Any) -> Any:
    return getattr(row["images"][0], "key", row["images"][0])


def red_in(row: dict[str, Any]) -> np.ndarray:
    pixels = row["images"][0].pixels  # [3, height, width]
    return (pixels[0] > 200) & (pixels[1] < 100)


def test_an_answer_points_at_what_its_window_shows(reader: Any) -> None:
    seen: Counter[str] = Counter()
    for number in range(200):
        made = cut_row(grounding(), reader, drawn_by=number)
        if isinstance(made["images"][0], bytes):
            seen["whole"] += 1
            continue
        red = red_in(made)
        if made["answer"] == REFUSAL:
            seen["without"] += 1
            assert red.sum() <= 0.1 * (BOX[2] - BOX[0]) * (BOX[3] - BOX[1]) and made["target_boxes"] == []
            continue
        seen["with"] += 1
        x, y = parse_reply(made["answer"]).point or (-1, -1)
        high, wide = red.shape
        assert red[min(high - 1, y * high // 1000), min(wide - 1, x * wide // 1000)], "the point is on it"
        assert contains(made["target_boxes"][0], (x, y))
    share = seen["without"] / (seen["without"] + seen["with"])
    assert abs(share - WITHOUT_TARGET) < 0.12 and seen["whole"] > 5


def test_with_a_target_asked_for_it_is_always_there(reader: Any) -> None:
    assert all(cut_row(grounding(), reader, drawn_by=n, target=True)["answer"] != REFUSAL for n in range(40))


def test_a_target_that_fits_into_no_window_stays_on_its_screen(reader: Any) -> None:
    drag = step(Drag((10, 10), (990, 990)))
    for number in range(20):
        assert cut_row(drag, reader, drawn_by=number, target=True) == drag
    assert REFUSAL in {cut_row(drag, reader, drawn_by=number)["answer"] for number in range(20)}, "in mid-training"


def test_an_absent_element_is_absent_from_every_window(reader: Any) -> None:
    absent = {**grounding(), "answer": REFUSAL, "target_boxes": []}
    assert {cut_row(absent, reader, drawn_by=n)["answer"] for n in range(30)} == {REFUSAL}


def test_a_step_that_points_is_cut_and_one_that_doesnt_stays_whole(reader: Any) -> None:
    answers = [cut_row(step(Click((825, 700))), reader, drawn_by=n, target=True)["answer"] for n in range(20)]
    assert all(answer.startswith("<think></think><action>Click(box=(") for answer in answers)
    assert "Click(box=(825,700))" not in "".join(answers)
    back = step(PressBack())
    assert cut_row(back, reader, drawn_by=1) is back


def test_the_same_position_gives_the_same_window(reader: Any) -> None:
    source = WindowedSource(ListSource([grounding(n) for n in range(4)]), reader, seed=3)
    first, again = source.rows(0), source.rows(6)
    rows = [next(first) for _ in range(12)]
    assert [shown(next(again)) for _ in range(6)] == [shown(row) for row in rows[6:]]
    assert WindowedSource(ListSource([grounding()]), reader, seed=4).digest() != source.digest()


def test_rows_stay_as_they_are_for_who_looks_at_whole_screens(processor: Any) -> None:
    source, rows = ListSource([grounding()]), [grounding()]
    assert as_read(source, rows, processor, 0) == (source, rows)


def test_a_picture_that_cant_be_decoded_is_left_to_who_counts_it(reader: Any) -> None:
    broken = {**grounding(), "images": [b"nothing"]}
    assert next(WindowedSource(ListSource([broken]), reader).rows(0)) is broken
