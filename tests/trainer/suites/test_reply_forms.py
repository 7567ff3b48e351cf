"""Points of replies as models that people evaluate write them, and the frame that they count in."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.suites.reply_forms import ReplyPoint, frame_of, in_thousandths, read_point

FORMS = {
    "[{x}, {y}]": "[x,y]",
    "({x},{y})": "[x,y]",
    "<think>Perhaps [1,2], or (3, 4).</think>\n[{x},{y}]": "[x,y]",
    "<thinking>[9,9]</thinking><answer>[{x},{y}]</answer>": "[x,y]",
    "The button lies at [{x}, {y}], below the title.": "[x,y]",
    "<point>{x} {y}</point>": "tag",
    "<point>[[{x}, {y}]]</point>": "tag",
    "<click>{x}, {y}</click>": "tag",
    "<|box_start|>({x},{y})<|box_end|>": "tag",
    "Thought: the search field.\nAction: click(start_box='<|box_start|>({x},{y})<|box_end|>')": "tag",
    "Action: click(start_box='({x},{y})')": "[x,y]",
    'CLICK <point x="{x}" y="{y}" alt="ok">ok</point>': "Molmo",
    '```json\n[{{"point_2d": [{x}, {y}], "label": "ok"}}]\n```': "JSON",
    '{{"bbox_2d": [{x}, {y}, {x}, {y}]}}': "JSON box",
    '<tool_call>{{"name": "use", "arguments": {{"action": "click", "coordinate": [{x}, {y}]}}}}</tool_call>': "JSON",
    '{{"action": "CLICK", "position": [{x}, {y}]}}': "JSON",
    "pyautogui.click(x={x}, y={y})": "x=,y=",
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("point", [(250, 400), (0.25, 0.4), (1919, 12)])
def test_each_form_gives_the_numbers_that_it_holds(form: str, point: tuple[float, float]) -> None:
    found = read_point(form.format(x=point[0], y=point[1]))
    assert found is not None and (found.x, found.y, found.form) == (*point, FORMS[form])


def test_a_box_is_its_centre_and_a_refusal_stays_one() -> None:
    box = read_point("<box>[[200, 300, 300, 500]]</box>")
    assert box is not None and (box.x, box.y, box.form) == (250, 400, "tag box")
    refused = read_point("It isn't there: [-1,-1]")
    assert refused is not None and refused.refused
    for frame in ("thousandths", "fractions", "pixels"):
        assert in_thousandths(refused, frame, (1920, 1080)) == (-1, -1)  # type: ignore[arg-type]


@pytest.mark.parametrize("reply", ["", "I don't know.", "[1,2,3]", "[a,b]", '{"point": ["1", 2]}', "<point></point>"])
def test_a_reply_without_a_point_gives_none(reply: str) -> None:
    assert read_point(reply) is None


def test_the_frame_is_found_from_all_replies() -> None:
    def points(*pairs: tuple[float, float]) -> list[ReplyPoint | None]:
        return [*(ReplyPoint(x, y, "[x,y]") for x, y in pairs), None]

    assert frame_of(points((1, 0), (0.25, 0.5))) == "fractions"
    assert frame_of(points((250, 400), (12, 999))) == "thousandths"
    assert frame_of(points((250, 400), (1400, 20))) == "pixels", "one reply past 1000 tells of the others, too"
    assert frame_of([ReplyPoint(25.0, 40.0, "Molmo")]) == "percent"
    assert frame_of([]) == "thousandths"
    assert in_thousandths(ReplyPoint(960, 270, "[x,y]"), "pixels", (1920, 1080)) == (500, 250)
    assert in_thousandths(ReplyPoint(0.25, 0.5, "[x,y]"), "fractions", (1920, 1080)) == (250, 500)


@given(st.text(max_size=200))
def test_any_text_is_read_without_an_error(text: str) -> None:
    read_point(text)


@pytest.mark.parametrize("piece", ["[", "(", "{", '[{"', "<point>", "[1,", "1 ", "</think>", "[1 2 3 4 5]", "x=1,y="])
def test_a_reply_of_repeated_pieces_costs_no_time(piece: str) -> None:
    began = time.process_time()
    read_point((piece * 32_000)[:32_000])
    assert time.process_time() - began < 2.0, "linear: a thousand times faster than one that backtracks"
