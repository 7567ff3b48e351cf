"""Scripts of calls are read as data; what a call means, and what has no counterpart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.mapping.items import ItemError
from pipelines.native.pyautogui import CALL_LOSSES, MAX_CHARS, gestures, parse_script
from schemas.actions import RightClick, format

WORDS = {row.native for row in CALL_LOSSES} | {"terminate"}


def read(script: str, size: tuple[float, float] = (1.0, 1.0)) -> list[list[str] | str]:
    """Canonical actions of each gesture, or the reason why there are none."""
    return [g.error.reason if g.error else [format(a) for a in g.actions] for g in gestures(parse_script(script), size)]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("pyautogui.click(x=0.9722, y=0.9701)", [["Click(box=(972,970))"]]),  # 972.2, 970.1 rounded
        ("pyautogui.click(0.5, 0.25)", [["Click(box=(500,250))"]]),
        ("  pyautogui . click ( 0.5 ,\n 0.25 ) ", [["Click(box=(500,250))"]]),
        ("pyautogui.click((0.5, 0.25))", [["Click(box=(500,250))"]]),
        ("pyautogui.doubleClick(x=0.1, y=0.2)", [["DoubleClick(box=(100,200))"]]),
        ("pyautogui.click(x=0.1, y=0.2, clicks=2)", [["DoubleClick(box=(100,200))"]]),
        ("computer.tripleClick(x=0.1, y=0.2)", [["Click(box=(100,200))"] * 3]),
        ("pyautogui.moveTo(x=0.1, y=0.2)", [["Hover(box=(100,200))"]]),
        (
            "pyautogui.moveTo(x=0.4546, y=0.2682)\npyautogui.dragTo(x=0.4107, y=0.2773, button='left')",
            [["Drag(start=(455,268), end=(411,277))"]],
        ),  # 454.6, 268.2 → 410.7, 277.3
        ("pyautogui.moveTo(0.1, 0.2); pyautogui.click()", [["Click(box=(100,200))"]]),
        ("pyautogui.moveTo(0.1, 0.2)\npyautogui.click(0.3, 0.4)", [["Hover(box=(100,200))"], ["Click(box=(300,400))"]]),
        ("pyautogui.moveTo(x=0.396, y=0.7839)\npyautogui.scroll(-3)", [["Scroll(direction='down')"]]),
        ("pyautogui.scroll(5)", [["Scroll(direction='up')"]]),
        ("pyautogui.hscroll(clicks=2)", [["Scroll(direction='right')"]]),
        ("pyautogui.hscroll(-2)", [["Scroll(direction='left')"]]),
        (
            r"pyautogui.write(message='it\'s\nso\n')",
            [[r"Type(content='it\'s')", "PressEnter()", "Type(content='so')", "PressEnter()"]],
        ),
        ("pyautogui.typewrite('a')", [["Type(content='a')"]]),
        ("pyautogui.write('''a\n  b''')", [["Type(content='a')", "PressEnter()", "Type(content='  b')"]]),
        ("pyautogui.press(keys=['tab', 'enter'])", [["Hotkey(keys=['tab'])", "PressEnter()"]]),
        ("pyautogui.press('down', presses=2)", [["Hotkey(keys=['down'])"] * 2]),
        ("pyautogui.hotkey('ctrl', 'c')", [["Hotkey(keys=['ctrl','c'])"]]),
        ("pyautogui.hotkey(keys=['ctrl', 'shift', 't'])", [["Hotkey(keys=['ctrl','shift','t'])"]]),
        ("time.sleep(2)\ncomputer.wait()", [["Wait()"], ["Wait()"]]),
        ("computer.terminate(status='success')", [["Finished(content='')"]]),
        ("# a comment\n\npyautogui.press('a')", [["Hotkey(keys=['a'])"]]),
    ],
)
def test_calls_become_actions(script: str, expected: list[list[str]]) -> None:
    assert read(script) == expected


def test_v2_has_right_clicks_at_the_point_or_where_the_pointer_is() -> None:
    calls = ("rightClick(0.1, 0.2)", "click(button='right')", "moveTo(0.3, 0.4)", "rightClick()")
    script = "\n".join(f"pyautogui.{call}" for call in calls)
    made = [gesture.actions for gesture in gestures(parse_script(script), (1.0, 1.0), space="v2")]
    assert made == [(RightClick((100, 200)),), (RightClick((100, 200)),), (RightClick((300, 400)),)]
    refused = parse_script("pyautogui.rightClick()\npyautogui.middleClick(0.1, 0.2)")
    unplaced = list(gestures(refused, (1.0, 1.0), space="v2"))
    assert [gesture.error and gesture.error.reason for gesture in unplaced] == ["missing_field", "no_counterpart"]


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("pyautogui.rightClick(0.1, 0.2)", "no_counterpart"),
        ("pyautogui.click(0.1, 0.2, button='right')", "no_counterpart"),
        ("pyautogui.middleClick(0.1, 0.2)", "no_counterpart"),
        ("pyautogui.keyDown('shift')", "no_counterpart"),
        ("pyautogui.hotkey('a', 'b', 'c', 'd')", "no_counterpart"),
        ("pyautogui.dragTo(0.1, 0.2)", "missing_field"),
        ("pyautogui.click()", "missing_field"),
        ("pyautogui.click(x=0.1)", "missing_field"),
        ("pyautogui.press()", "missing_field"),
        ("pyautogui.scroll()", "missing_field"),
        ("pyautogui.scroll(0)", "bad_value"),
        ("pyautogui.press('no such key')", "bad_value"),
        ("pyautogui.click('a', 'b')", "bad_value"),
        ("pyautogui.click(True, 0)", "bad_value"),
        ("pyautogui.write(open('/etc/passwd').read())", "bad_value"),
        ("pyautogui.click(1 if 1 else 2, 3)", "bad_value"),
        ("pyautogui.write('')", "empty_text"),
        ("pyautogui.click(0.5, 1.2)", "off_screen"),
        ("pyautogui.click(-0.1, 0.2)", "off_screen"),
        ("pyautogui.click(1e999, 0)", "off_screen"),
        ("import os", "bad_value"),
        ("x = 1", "bad_value"),
        ("pyautogui.click(0.1,", "bad_value"),
        ("pyautogui.screenshot()", "unknown_action:pyautogui.screenshot"),
        ("os.system('true')", "unknown_action:os.system"),
        ("__import__('os').system('true')", "unknown_action:__import__('os').system"),
        ("pyautogui.click(0.1, 0.2, colour=3)", "unknown_field:colour"),
    ],
)
def test_what_has_no_counterpart_says_so(script: str, reason: str) -> None:
    assert read(script) == [reason]


def test_a_bad_line_costs_itself_only() -> None:
    assert read("pyautogui.click(0.1, 0.2)\nclick here (\npyautogui.press('a')") == [
        ["Click(box=(100,200))"],
        "bad_value",
        ["Hotkey(keys=['a'])"],
    ]


def test_pixels_are_divided_by_the_size() -> None:
    # 1288.5 / 1440 = 0.89479.. → 895; 116 / 900 = 0.12889 → 129
    assert read("pyautogui.click(1288.5,116.0)", (1440, 900)) == [["Click(box=(895,129))"]]


def test_a_script_too_long_is_refused() -> None:
    with pytest.raises(ItemError, match="bad_value"):
        parse_script("#" * (MAX_CHARS + 1))


@given(st.text(max_size=60))
def test_any_text_is_read_without_running_and_counted_under_a_known_word(text: str) -> None:
    for gesture in gestures(parse_script(text), (1.0, 1.0)):
        assert gesture.word in WORDS
        assert (gesture.error is None) == bool(gesture.actions)


@given(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), min_size=1))
def test_typed_text_arrives_as_it_is(text: str) -> None:
    [gesture] = gestures(parse_script(f"pyautogui.write({text!r})"), (1.0, 1.0))
    assert [action.content for action in gesture.actions] == [text]  # type: ignore[union-attr]
