"""Points of replies as models that people evaluate write them, and the frame that they count in."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.actions import MAX_REPLY
from trainer.rl.reply_forms import ReplyPoint, frame_of, in_thousandths, read_point

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
    "<|box_start|>({x},{y}),({x},{y})<|box_end|>": "tag box",
    "<box>[{x}, {y}], [{x}, {y}]</box>": "tag box",
    "Thought: the search field.\nAction: click(start_box='<|box_start|>({x},{y})<|box_end|>')": "tag",
    "Action: click(start_box='({x},{y})')": "[x,y]",
    'CLICK <point x="{x}" y="{y}" alt="ok">ok</point>': "Molmo",
    '```json\n[{{"point_2d": [{x}, {y}], "label": "ok"}}]\n```': "JSON",
    '{{"bbox_2d": [{x}, {y}, {x}, {y}]}}': "JSON box",
    '<tool_call>{{"name": "use", "arguments": {{"action": "click", "coordinate": [{x}, {y}]}}}}</tool_call>': "JSON",
    '{{"action": "CLICK", "position": [{x}, {y}]}}': "JSON",
    "pyautogui.click(x={x}, y={y})": "x=,y=",
    "x: {x}, y: {y}": "x=,y=",
    "（{x}，{y}）": "[x,y]",
    "<think>Not 7.</think> {x}, {y}": "x,y",
    # a thought before the answer, as published models write it
    "Thought: (1,2) is an advertisement.\nAction: click(start_box='({x},{y})')": "[x,y]",
    "Status: row (1, 3)\nAction: the [2,2] cell\nGrounded Operation: CLICK(box=[[{x},{y},{x},{y}]])": "[x,y] box",
    "## Thought:\nat (1, 2)\n## Action:\nClick (3, 4)\n## Code:\n```\npyautogui.click(x={x}, y={y})\n```": "x=,y=",
    "◁think▷ at (1,2) ◁/think▷({x}, {y})": "[x,y]",
    "<grounding_think>at (1,2)</grounding_think>\n[{x},{y}]": "[x,y]",
    '{{"thought": "at [1,2]", "POINT": [{x}, {y}]}}': "JSON",
    "<answer>[{{'action': 'click', 'input_text': 'cell [1, 2]', 'point': [{x}, {y}]}}]</answer>": "JSON",
    '{{"thought": "at [1,2]", "coordinate": [{x}, {y}': "JSON",
    '{{"action": "click_absolute", "x": "{x}", "y": "{y}"}}': "JSON",
    '{{"answer": {{"x1": {x}, "y1": {y}, "x2": {x}, "y2": {y}}}}}': "JSON box",
    '{{"bbox": {{"xmin": {x}, "ymin": {y}, "xmax": {x}, "ymax": {y}}}}}': "JSON box",
    '{{"bounding_box": {{"x": {x}, "y": {y}, "width": 0, "height": 0}}}}': "JSON box",
    '{{"Left": {x}, "Top": {y}, "Right": {x}, "Bottom": {y}}}': "JSON box",
    '{{"click": {{"x": {x}, "y": {y}}}, "screen": {{"width": 1920, "height": 1080}}}}': "JSON",
    '{{"x": {x}, "y": {y}, "width": 1920, "height": 1080}}': "JSON",
    '[{{"box_2d": [{y}, {x}, {y}, {x}], "label": "(1,2)"}}]': "JSON box",
    "explain:at 1,2\taction:CLICK\tpoint:{x},{y}\tsummary:done": "x=,y=",
    "The element is at X={x} and Y={y}.": "x=,y=",
    "[{x},{y}]\nAction: click": "[x,y]",
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("point", [(250, 400), (0.25, 0.4), (1919, 12)])
def test_each_form_gives_the_numbers_that_it_holds(form: str, point: tuple[float, float]) -> None:
    found = read_point(form.format(x=point[0], y=point[1]))
    assert found is not None and (found.x, found.y, found.form) == (*point, FORMS[form])


def test_a_box_is_its_centre_and_a_refusal_stays_one() -> None:
    box = read_point("<box>[[200, 300, 300, 500]]</box>")
    assert box is not None and (box.x, box.y, box.form) == (250, 400, "tag box")
    box = read_point('{"rect": {"x": 200, "y": 300, "width": 100, "height": 200}}')
    assert box is not None and box.box == (200, 300, 300, 500)
    refused = read_point("It isn't there: [-1,-1]")
    assert refused is not None and refused.refused
    for frame in ("thousandths", "fractions", "pixels"):
        assert in_thousandths(refused, frame, (1920, 1080)) == (-1, -1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "reply",
    [
        *("", "I don't know.", "at 3, 4 or so", "[1,2,3]", "[a,b]", '{"point": ["1", 2]}', "<point></point>"),
        *("<think>It may be (1,2).</think>It isn't there.", "<think>It may be (1,2). So [250,", "<think>[250,400]"),
        *("Thought: not (1,2).\nAction: finished()", "## Thought: [1,2]\n## Code:\nWAIT"),
    ],
)
def test_a_reply_without_a_point_gives_none(reply: str) -> None:
    assert read_point(reply) is None


def found(*pairs: tuple[float, float], size_px: tuple[int, int] = (1920, 1080), form: str = "[x,y]") -> str:
    points = [ReplyPoint(x, y, form) for x, y in pairs]
    return frame_of([*points, None], [size_px] * (len(points) + 1))


def test_the_frame_is_found_from_all_replies() -> None:
    assert found((1, 0), (0.25, 0.5)) == "fractions"
    assert found((250, 400), (12, 999)) == "thousandths"
    assert found((250, 400), (1400, 20)) == "pixels", "one reply past 1000 tells of the others, too"
    assert found((25.0, 40.0), form="Molmo") == "percent"
    assert found() == "thousandths" and found((0, 0)) == "thousandths" and found((1, 1)) == "thousandths"


PHONE = (360, 640)


@pytest.mark.parametrize("size_px", [PHONE, (200, 100), (1920, 1080), (800, 600)])
def test_pixels_are_found_on_small_and_large_pictures_and_thousandths_too(size_px: tuple[int, int]) -> None:
    places = [((7 * n) % 10 / 10 + 0.04, (3 * n) % 10 / 10 + 0.04) for n in range(20)]
    assert found(*((x * size_px[0], y * size_px[1]) for x, y in places), size_px=size_px) == "pixels"
    assert found(*((x * 1000, y * 1000) for x, y in places), size_px=size_px) == "thousandths"
    assert found(*places, size_px=size_px) == "fractions"


def test_a_slip_outside_the_frame_changes_none_of_the_rest() -> None:
    assert found(*[(250, 400)] * 30, (1234, 567)) == "thousandths"
    assert found(*[(0.25, 0.4)] * 30, (12, 7)) == "fractions"
    assert found(*[(1250, 400)] * 30, (2500, 700)) == "pixels"


def test_a_point_is_turned_into_thousandths_of_its_frame() -> None:
    assert in_thousandths(ReplyPoint(960, 270, "[x,y]"), "pixels", (1920, 1080)) == (500, 250)
    assert in_thousandths(ReplyPoint(0.25, 0.5, "[x,y]"), "fractions", (1920, 1080)) == (250, 500)


@given(st.text(max_size=200))
def test_any_text_is_read_without_an_error(text: str) -> None:
    read_point(text)


PIECES = (
    *("[", "(", "{", '[{"', '{"a":', '{"a":[', "[1,", "[ 1", "1 ", "1,", "[1 2 3 4 5]", "9" * 40, "x=1,y=", 'x1="1" '),
    *("<point>", "<point>(1,2),", "<think>", "</think>", "<answer>", "<|box_start|>", "```", '"', "\\", '\\"', " \t\n"),
    *(
        "Action:\n",
        "\naction: {1\n",
        '"point":',
        "point:[",
        "box: 1,2 3",
        "</thinking",
        "<" + "a" * 19,
        "◁",
        "x=1 and y=",
    ),
)
LENGTH, LIMIT_S = 64_000, 0.1
"""Characters of a text that is timed, and seconds that reading it may take: twice what is wanted, as CPU time doubles
where another process shares the core."""


@pytest.mark.slow
@pytest.mark.parametrize("piece", PIECES)
@pytest.mark.parametrize("head", ["", "[", "{", "</think><point>"])
def test_a_reply_of_repeated_pieces_costs_no_time(head: str, piece: str) -> None:
    text = (head + piece * LENGTH)[:LENGTH]
    taken = []
    for _ in range(4):  # the best of some: a busy machine slows a single run down
        began = time.process_time()
        read_point(text)
        taken.append(time.process_time() - began)
    assert min(taken) < LIMIT_S


def test_a_long_thought_hides_no_point_and_a_text_past_the_limit_is_none() -> None:
    found = read_point("<think>" + "It may be [1,2]. " * 4_000 + "</think>[250,400]")
    assert found is not None and (found.x, found.y) == (250, 400)
    assert read_point("[250,400]" + " " * MAX_REPLY) is None
