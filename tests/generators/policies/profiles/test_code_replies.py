"""Replies as pyautogui code: what each means, and that nothing of it is carried out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generators.policies.profiles.profile import Profile, load_profile
from generators.policies.profiles.replies import read_action, read_place
from schemas.action_types import REFUSED, RightClick
from schemas.actions import Action, Click, DoubleClick, Drag, Finished, Hotkey, PressEnter, Scroll, Type, Wait

SIZE = (2000, 1000)


def fenced(code: str) -> str:
    return f"The button is on the left.\n```python\n{code}\n```"


def profile() -> Profile:
    found = load_profile("pyautogui")
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "action"),
    [
        (fenced("import pyautogui\npyautogui.click(500, 250)"), Click((250, 250))),
        (fenced("pyautogui.click(x=500, y=250, clicks=2)"), DoubleClick((250, 250))),
        (fenced("pyautogui.moveTo(0, 0)\npyautogui.dragTo(2000, 1000)"), Drag((0, 0), (1000, 1000))),
        (fenced("pyautogui.hotkey('ctrl', 's')"), Hotkey(("ctrl", "s"))),
        (fenced("pyautogui.press('enter')"), PressEnter()),
        (fenced("pyautogui.scroll(-3)"), Scroll(direction="down")),
        (fenced("time.sleep(1); pyautogui.write('a')\npyautogui.press('enter')"), Type("a")),
        (fenced("time.sleep(2)"), Wait()),
        (fenced("WAIT"), Wait()),
        ("DONE", Finished("")),
        (fenced("FAIL"), Finished("failure")),
        ("pyautogui.click(0, 0)", Click((0, 0))),
    ],
)
def test_code_is_read_as_an_action(text: str, action: Action) -> None:
    found = read_action(text, profile(), profile().computer, SIZE)
    assert (found.action, found.error) == (action, None)


def test_a_right_click_needs_the_wider_space() -> None:
    text = fenced("pyautogui.rightClick(500, 250)")
    assert "no_counterpart" in str(read_action(text, profile(), profile().computer, SIZE).error)
    assert read_action(text, profile(), profile().computer, SIZE, "v2").action == RightClick((250, 250))


@pytest.mark.parametrize(
    "text",
    [
        "I would click the button.",
        fenced("pyautogui.click(9000, 10)"),
        fenced("import os\nos.system('touch /tmp/never')"),
        fenced("x = 500\npyautogui.click(x, 250)"),
        fenced("pyautogui.click(__import__('os').getpid(), 1)"),
        "",
    ],
)
def test_what_is_no_call_is_unreadable_and_says_why(text: str) -> None:
    found = read_action(text, profile(), profile().computer, SIZE)
    assert found.action is None and found.error


@given(st.text(max_size=300))
def test_no_text_raises(text: str) -> None:
    assert read_action(fenced(text), profile(), profile().computer, SIZE) is not None


def test_grounding_reads_the_point_or_the_refusal() -> None:
    assert read_place(fenced("pyautogui.click(500, 250)"), profile(), SIZE) == (250.0, 250.0)
    assert read_place(fenced("FAIL"), profile(), SIZE) == REFUSED
    assert read_place("nothing", profile(), SIZE) is None
