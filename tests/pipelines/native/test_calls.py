"""Calls of the function vocabularies: what each word means, what has none, and that nothing is passed over."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.mapping.items import ItemError
from pipelines.native.calls import LOSSES, Vocabulary, read_calls
from schemas.actions import format

WORDS = {row.native for row in LOSSES}


def read(text: str, vocabulary: Vocabulary | None = None) -> list[str] | str:
    """Canonical actions, or the reason why there are none."""
    try:
        made = read_calls(text, vocabulary or Vocabulary())
    except ItemError as error:
        assert error.word in WORDS
        return error.reason
    assert made.word in WORDS
    return [format(action) for action in made.actions]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("click(x=0.41, y=0.178)", ["Click(box=(410,178))"]),
        ("pyautogui.click(x=0.1, y=0.2, clicks=2)", ["DoubleClick(box=(100,200))"]),
        ("double_click(0.1, 0.2)", ["DoubleClick(box=(100,200))"]),
        ("mobile.long_press(x=0.1, y=0.2)", ["LongPress(box=(100,200))"]),
        ("moveTo(x=0.1, y=0.2)", ["Hover(box=(100,200))"]),
        ("drag(from_coord=[0.1, 0.2], to_coord=[0.3, 0.4])", ["Drag(start=(100,200), end=(300,400))"]),
        (
            "mobile.swipe(from_coord=[0.5, 0.8], to_coord=[0.5, 0.2])",
            ["Scroll(start=(500,800), end=(500,200), direction='down')"],
        ),
        ("pyautogui.write(message='green tea')", ["Type(content='green tea')"]),
        ("press(keys=['enter'])", ["PressEnter()"]),
        ("press(keys='enter', presses=2)", ["PressEnter()", "PressEnter()"]),
        ("hotkey('return')", ["PressEnter()"]),
        ("hotkey('ctrl', 'c')", ["Hotkey(keys=['ctrl','c'])"]),
        ("press(keys=['ctrl', 'c'])", ["Hotkey(keys=['ctrl','c'])"]),  # what a converter made of a hotkey
        ("press(keys=['down', 'down'])", ["Hotkey(keys=['down'])", "Hotkey(keys=['down'])"]),
        ("press('A')", ["Hotkey(keys=['A'])"]),
        ("mobile.open_app(app_name='Clock')", ["Launch(app='Clock')"]),
        ("mobile.back()\nmobile.home()", ["PressBack()", "PressHome()"]),
        ("mobile.terminate(status='success')", ["Finished(content='')"]),
        ("final_answer('success')", ["Finished(content='')"]),
        ("answer('42 pots')", ["Finished(content='42 pots')"]),
        ("call_user()", ["CallUser(content='')"]),
    ],
)
def test_each_word_means_what_its_source_says(text: str, expected: list[str]) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("right_click(x=0.1, y=0.2)", "no_counterpart"),
        ("click(x=0.1, y=0.2, button='right')", "no_counterpart"),
        ("hotkey('ctrl', 'alt', 'shift', 's')", "no_counterpart"),
        ("click(x=0.1, y=0.2, force=3)", "unknown_field:force"),
        ("click(0.1, 0.2, 2)", "bad_value"),
        ("press('c', keys='ctrl')", "bad_value"),  # a converter's leftover of hotkey('ctrl', 'c')
        ("press('x', presses=0)", "bad_value"),
        ("swipe(from_coord=[0.5, 0.5], to_coord=[0.5, 0.5])", "bad_value"),
        ("scroll(page=0)", "bad_value"),
        ("terminate(status='who knows')", "bad_value"),
        ("click(x=1.5, y=0.5)", "off_screen"),
        (f"click(x=1{'0' * 400}, y=0.5)", "off_screen"),
        ("click()", "missing_field"),
        ("click(x=True, y=0.5)", "missing_field"),
        ("call_user(5)", "missing_field"),
        ("type(text='')", "empty_text"),
        ("dance(x=1)", "unknown_action:dance"),
        ("os.system('ls')", "unknown_action:os.system"),
        ("click(x=0.1, y=0.2)\ndance()", "unknown_action:dance"),  # a step is taken whole or not at all
    ],
)
def test_what_cannot_be_mapped_is_named(text: str, reason: str) -> None:
    assert read(text) == reason


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("right_click(x=0.1, y=0.2)", ["RightClick(box=(100,200))"]),
        ("pyautogui.rightClick(0.1, 0.2)", ["RightClick(box=(100,200))"]),
        ("click(x=0.1, y=0.2, button='right')", ["RightClick(box=(100,200))"]),
        ("browser.select_option(x=0.1, y=0.2, value='Two')", ["SelectOption(box=(100,200), option='Two')"]),
        ("select_option(0.1, 0.2, 'Two')", ["SelectOption(box=(100,200), option='Two')"]),
        ("select_option(x=0.1, y=0.2)", "missing_field"),
        ("select_option(x=0.1, y=0.2, value='')", "empty_text"),
        ("select_option(x=0.1, y=0.2, value='Two', index=1)", "unknown_field:index"),
        ("click(x=0.1, y=0.2, button='middle')", "no_counterpart"),
        ("click(x=0.1, y=0.2, button='right', clicks=2)", "no_counterpart"),
        ("dragTo(0.1, 0.2)", "no_counterpart"),
    ],
)
def test_v2_has_right_clicks_and_choices(text: str, expected: list[str] | str) -> None:
    assert read(text, Vocabulary(space="v2")) == expected
    assert read(text) == "no_counterpart"


def test_an_unknown_call_is_told_what_its_space_knows() -> None:
    for space, known in (("v1.5", False), ("v2", True)):
        with pytest.raises(ItemError) as refused:
            read_calls("dance()", Vocabulary(space=space))  # type: ignore[arg-type]
        assert ("select_option" in refused.value.detail) is known


def test_scroll_means_what_the_vocabulary_says() -> None:
    flipped = Vocabulary(flip_vertical=True)
    assert read("scroll(direction='up', amount=10)", flipped) == ["Scroll(direction='down')"]
    assert read("scroll(direction='left', amount=10)", flipped) == ["Scroll(direction='left')"]
    assert read("scroll(direction='up')") == ["Scroll(direction='up')"]
    assert read("pyautogui.scroll(page=-0.1)") == ["Scroll(direction='down')"]
    assert read("pyautogui.scroll(page=-0.1)", Vocabulary(page_positive="down")) == ["Scroll(direction='up')"]
    assert read("pyautogui.hscroll(page=-0.1)", Vocabulary(page_positive="down")) == ["Scroll(direction='left')"]


def test_a_failure_is_lossy_and_named() -> None:
    for text in ("mobile.terminate(status='failure')", "final_answer('failure')"):
        made = read_calls(text, Vocabulary())
        assert made.lossy and made.rules == ("terminate_failure",)


@given(st.text(max_size=60) | st.text("click(x=0.5,y)'[]\\\n1e9-", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    read(text)
