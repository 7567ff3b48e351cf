"""Replies in the published forms, ten a profile, in our own words: the action or the point that each means, or why not.

Pictures are sent at 1932 x 1092 (computer) and 1092 x 2408 (phone), where a profile counts pixels."""

from __future__ import annotations

import time

import pytest

from generators.policies.profiles.profile import Profile, load_profile
from generators.policies.profiles.replies import read_action, read_place
from schemas.action_types import REFUSED, RightClick
from schemas.actions import format

COMPUTER, PHONE = (1932, 1092), (1092, 2408)
VENUS = "<think>{}</think>\n<action>{}</action>\n<conclusion>{}</conclusion>"


def call(arguments: str, name: str = "mobile_use", before: str = "", after: str = "") -> str:
    return f'{before}<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>{after}'


QWEN = "Thought: The field is at the top.\nAction: Tap the search field.\n"
OWL = "<thinking>\nThe list goes on below [1, 2].\n</thinking>\n"
ACTIONS: dict[str, list[tuple[str, str, str]]] = {
    "ui-venus-1.5": [
        ("mobile", VENUS.format("The bell is up right.", "Click(box=(902, 71))", "Tap it."), "Click(box=(902,71))"),
        (
            "mobile",
            VENUS.format("", "Scroll(start=(500,800), end=(500,300))", ""),
            "Scroll(start=(500,800), end=(500,300))",
        ),
        ("computer", VENUS.format("More below", "Scroll(direction='down')", ""), "Scroll(direction='down')"),
        (
            "mobile",
            VENUS.format("输入", "Type(content='北京 (朝阳区), it's')", "已输入"),
            "Type(content='北京 (朝阳区), it\\'s')",
        ),
        ("computer", VENUS.format("", "Hotkey(keys=['ctrl', 'c'])", ""), "Hotkey(keys=['ctrl','c'])"),
        ("mobile", VENUS.format("cut", "Click(box=(902", ""), "reply: expected an action"),
        ("mobile", VENUS.format("two", "PressBack()</action><action>Wait()", ""), "PressBack: expected one action"),
    ],
    "qwen3-vl": [
        ("mobile", call('{"action": "click", "coordinate": [999, 81]}', before=QWEN), "Click(box=(1000,81))"),
        (
            "mobile",
            call('{"action": "swipe", "coordinate": [500, 700], "coordinate2": [500, 200]}'),
            "Scroll(start=(501,701), end=(501,200))",
        ),
        ("mobile", call('{"action": "type", "text": "明天 8点\\n\\"提醒\\""}'), "Type(content='明天 8点\\n\"提醒\"')"),
        ("mobile", call('{"action": "system_button", "button": "Menu"}'), "PressRecent()"),
        ("mobile", call('{"action": "answer", "text": "Two"}') + call('{"action": "wait"}'), "CallUser(content='Two')"),
        ("computer", call('{"action": "key", "keys": ["Control", "C"]}', "computer_use"), "Hotkey(keys=['ctrl','c'])"),
        ("computer", call('{"action": "scroll", "pixels": -300}', "computer_use"), "Scroll(direction='down')"),
        ("computer", call('{"action": "right_click", "coordinate": [1, 2]}', "computer_use"), "no counterpart"),
        (
            "mobile",
            '<tool_call>\n{"name": "mobile_use", "arguments": {"action": "click", "coord',
            "Unterminated string",
        ),
    ],
    "ui-tars-1.5": [
        ("computer", "Thought: 点击设置。\nAction: click(start_box='(966,546)')", "Click(box=(500,500))"),
        (
            "computer",
            "Action: left_double(start_box='<|box_start|>(483,273)<|box_end|>')",
            "DoubleClick(box=(250,250))",
        ),
        ("mobile", "Thought: hold\nAction: long_press(point='<point>546 1204</point>')", "LongPress(box=(500,500))"),
        ("computer", "Action: click(start_box='(900,500,1032,592)')", "Click(box=(500,500))"),
        ("computer", "Thought: go\nAction: type(content='it\\'s \"done\"\\n')", "Type(content='it\\'s \"done\"\\n')"),
        ("computer", "Action: hotkey(key='ctrl shift t')\n\nwait()", "Hotkey(keys=['ctrl','shift','t'])"),
        ("computer", "Action: scroll(start_box='(966,546)', direction='down')", "Scroll(direction='down')"),
        ("computer", "Action: click(start_box='(1932,2000)')", "outside of 1932 x 1092"),
        ("computer", "Thought: I would click there.", "expected Action: with one call"),
    ],
    "gui-owl": [
        ("mobile", call('{"action": "click", "coordinate": [546, 602]}', before=OWL), "Click(box=(500,250))"),
        ("mobile", '{"name": "mobile_use", "arguments": {"action": "system_button", "button": "Back"}}', "PressBack()"),
        ("mobile", call('{"action": "answer", "text": "三条"}', before=OWL), "CallUser(content='三条')"),
        (
            "computer",
            call('{"action": "drag", "coordinate": [0, 0], "coordinate2": [1932, 1092]}', "computer_use"),
            "Drag(start=(0,0), end=(1000,1000))",
        ),
        (
            "computer",
            call('{"action": "type", "text": "ls", "clear": 0, "enter": 1}', "computer_use"),
            "Type(content='ls\\n')",
        ),
        (
            "computer",
            call('{"action": "wait", "time": 1}', "computer_use")
            + call('{"action": "mouse_move", "coordinate": [483, 819]}', "computer_use"),
            "Hover(box=(250,750))",
        ),
        ("mobile", "<thinking>\nPerhaps [300, 400] is", "the thought doesn't end"),
        ("mobile", call('{"action": "swipe", "coordinate": [300, 400]}', before=OWL), "expected a point or a box"),
    ],
}
PLACES: dict[str, list[tuple[str, tuple[float, float] | None]]] = {
    "ui-venus-1.5": [
        ("[412,88]", (412, 88)),
        ("It is at [10, 20, 30, 60].", (20, 40)),
        ("[100,200], [300,400]", (200, 300)),
    ],
    "qwen3-vl": [(call('{"action": "left_click", "coordinate": [1000, 250]}', "computer_use"), (1000, 250))],
    "ui-tars-1.5": [("Action: click(point='<point>483 273</point>')", (250, 250))],
    "gui-owl": [
        (call('{"action": "terminate", "status": "failure"}', "computer_use"), REFUSED),
        ("First I saw (1, 2); the button is at (966, 273)", (500, 250)),
    ],
}
UNREADABLE = {
    "ui-venus-1.5": ("It is on the left.", "[412,", "[1,2,3]", "[1200,88]", "<think>perhaps [412,88]"),
    "qwen3-vl": ("[412, 88]", call('{"action": "left_click", "coordinate": [412]}'), call('{"action": "wait"}')),
    "ui-tars-1.5": ("Action: scroll(direction='down')", "Action: click()", ""),
    "gui-owl": ("(3000, 20)", call('{"action": "left_click", "coordinate": ["a", "b"]}')),
}


def known(name: str) -> Profile:
    found = load_profile(name)
    assert found is not None
    return found


@pytest.mark.parametrize("name", ACTIONS)
def test_ten_replies_of_each_form_are_read_or_say_why_not(name: str) -> None:
    profile = known(name)
    assert len(ACTIONS[name]) + len(PLACES[name]) == 10
    for kind, text, expected in ACTIONS[name]:
        size, prompt = (PHONE, profile.mobile) if kind == "mobile" else (COMPUTER, profile.computer)
        reply = read_action(text, profile, prompt, size)
        assert expected in (format(reply.action) if reply.action else reply.error or ""), text
        assert (reply.action is None) == (expected[-1] != ")"), text
    for text, place in PLACES[name]:
        assert read_place(text, profile, COMPUTER) == pytest.approx(place, abs=1e-6), text


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_place_that_is_not_said_is_not_guessed(name: str) -> None:
    assert [read_place(text, known(name), COMPUTER) for text in UNREADABLE[name]] == [None] * len(UNREADABLE[name])


def test_what_is_said_around_the_call_becomes_thought_and_conclusion() -> None:
    qwen = read_action(call('{"action": "wait"}', before=QWEN), known("qwen3-vl"), known("qwen3-vl").mobile, PHONE)
    assert (qwen.thought, qwen.conclusion) == ("The field is at the top.", "Tap the search field.")
    text = call('{"action": "wait"}', before=OWL, after="\n<conclusion>\nWaited.\n</conclusion>")
    owl = read_action(text, known("gui-owl"), known("gui-owl").mobile, PHONE)
    assert (owl.thought, owl.conclusion) == ("The list goes on below [1, 2].", "Waited.")
    tars = read_action("Thought: 点。\nAction: wait()", known("ui-tars-1.5"), known("ui-tars-1.5").computer, COMPUTER)
    assert tars.thought == "点。"


def test_refusals_and_fractions() -> None:
    assert read_place("[-1,-1]", known("ui-venus-1.5"), COMPUTER) == REFUSED
    venus = known("ui-venus-1.5")
    fractions = venus.changed(grounding=venus.grounding.changed(units=1))
    assert read_place("[0.512, 0.25]", fractions, COMPUTER) == pytest.approx((512, 250))
    assert read_place("[1.2, 0.25]", fractions, COMPUTER) is None


@pytest.mark.parametrize("name", ACTIONS)
def test_hostile_replies_take_linear_time(name: str) -> None:
    profile = known(name)
    began = time.perf_counter()
    for part in (
        "<think>",
        "<tool_call>",
        "[1,",
        "Action: click(",
        "a='",
        '{"a":',
        "[",
        " \n",
        ")\n",
        "click(a='b')\n",
    ):
        text = part * (90_000 // len(part))
        read_action(text, profile, profile.mobile, PHONE)
        read_place(text, profile, PHONE)
    assert time.perf_counter() - began < 5


@pytest.mark.parametrize(
    ("profile", "written"),
    [
        ("qwen3-vl", call('{"action": "right_click", "coordinate": [500, 250]}', "computer_use")),
        ("gui-owl", call('{"action": "right_click", "coordinate": [966, 273]}', "computer_use")),
        ("ui-tars-1.5", "Action: right_single(start_box='(966,273)')"),
        ("ui-venus-1.5", VENUS.format("", "RightClick(box=(500,250))", "")),
    ],
)
def test_a_right_click_of_others_is_one_where_the_space_has_it(profile: str, written: str) -> None:
    known = load_profile(profile)
    assert known is not None
    prompt = known.prompt("web")
    assert read_action(written, known, prompt, COMPUTER).action is None
    found = read_action(written, known, prompt, COMPUTER, "v2").action
    assert isinstance(found, RightClick) and found.box in ((500, 250), (501, 250))
