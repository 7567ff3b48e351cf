"""`parse_reply` takes linear time on whatever a model writes, and never reads code as text."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas import actions

LENGTH = 64_000
"""Characters of a text that is timed: past what 16,000 tokens of blanks or tags come to."""
LIMIT_S = 0.05
HEADS = (
    *("", "Click(", "Click(box=(", "Drag(start=(", "Scroll(direction='", "Wait(", "[1,2] 0.", "`"),
    *("Type('", 'Type("', "Launch(app='", "Launch(app='',", "Hotkey(", "Hotkey(keys=['"),
    *("SelectOption(", "SelectOption(box=(", "SelectOption(box=(1,2)", "SelectOption((1,2),'"),
    *("<think>", "<action>Type('", "<think></think><action>Wait()</action><conclusion>"),
)
UNITS = (
    *(
        " ",
        "'",
        '"',
        "(",
        ")",
        "[",
        ",",
        "9",
        "1, ",
        "a",
        "a ",
        "a=",
        "'+",
        "+",
        "\\",
        "box=(",
        "box= [",
        "direction='",
    ),
    *("' ,", "') ", "'a', ", "', a", ") ;", "'', a=", "')a(", "'a', ", "app='',", ",url=''", "Click(1,2)"),
    *("<think>", "<action>", "</action>", "</think><action></action><conclusion>", "</action> <conclusion>"),
)
TAILS = ("", "x)", "')", "</conclusion>")


def _seconds(text: str) -> float:
    """Processor time of reading a text, the best of three: a busy machine slows a single run down."""
    taken = []
    for _ in range(3):
        began = time.process_time()
        actions.parse_reply(text, actions.WIDEST)
        taken.append(time.process_time() - began)
        if taken[-1] < LIMIT_S:
            break
    return min(taken)


@pytest.mark.slow
@pytest.mark.parametrize("head", HEADS)
def test_no_shape_of_reply_takes_more_than_linear_time(head: str) -> None:
    slow = {
        (unit, tail): seconds
        for unit in UNITS
        for tail in TAILS
        if (seconds := _seconds(head + unit * ((LENGTH - len(head) - len(tail)) // len(unit)) + tail)) > LIMIT_S
    }
    assert not slow


def test_a_reply_past_the_limit_is_refused_with_both_lengths() -> None:
    assert actions.parse_reply("Type('" + "a" * (actions.MAX_REPLY - 8) + "')").action is not None
    reply = actions.parse_reply("Type('" + "a" * (actions.MAX_REPLY - 7) + "')")
    assert (reply.action, reply.point) == (None, None)
    assert reply.error == f"reply: expected at most {actions.MAX_REPLY} characters, found {actions.MAX_REPLY + 1}"


@pytest.mark.parametrize(
    "written",
    [
        "Type(content='a', text='b')",
        "Type(content='it's mine', enter='true')",
        "Type('a', 'b')",
        'CallUser(content="a", reason="b")',
        "Type(content='a')\nType(content='b')",
        "Type(content='a'); press('b')",
        "Type(content='it's a')\n```\nclick(content='b')",
        "<action>Type('a')</action><action>Type('b')</action>",
        "Launch(app='Clock', url='https://a.example')",
        "Launch(app='Clock')\nLaunch(app='Maps')",
        "Launch(app='','.')",
        "Launch(url=None, 'Clock')",
        "Launch(app='Clock', app='')",
        "Launch('Clock', app=None)",
        "CallUser(content='a') and Finished(content='b')",
        "Type(content='a') && Wait()",
        "Click(box=(1,2), box=(3,4))",
        "Click(box=(1,2),(3,4))",
        "Click(box=[[1, 2], [3, 4]])",
        "Drag(start=(1,2), end=(3,4), (5,6))",
        "Drag(start=(1,2), end=(3,4), start=(5,6))",
        "Hotkey(keys=['ctrl','c'])\nHotkey(keys=['v'])",
        "Hotkey(keys=['ctrl'], content='x')",
        "Hotkey(keys=['ctrl' 'c'])",
        "Click(1,2)\nClick(3,4)",
        "<action>Click(1,2)</action><action>Click(3,4)</action>",
        "Wait() Click(box=(1,2))",
        "Scroll(direction='down', direction='up')",
        "Type(content='a' + 'b')",
        "Type(content='a' 'b')",
        "Type(content='a' + name + 'b')",
        "Click(box=(1,2), button='right')",
        "Click(box=(1,2), clicks=2)",
        "Click(box=(1,2), modifiers=['ctrl'])",
        "Drag(start=(1,2), end=(3,4)) Drag(start=(5,6), end=(7,8))",
    ],
)
def test_a_second_argument_or_call_is_an_error(written: str) -> None:
    reply = actions.parse_reply(written)
    assert reply.action is None
    assert reply.error


@pytest.mark.parametrize(
    ("written", "action"),
    [
        ("Launch(app='Clock', url='None')", actions.Launch(app="Clock")),
        ("Launch(app='Clock', url=None)", actions.Launch(app="Clock")),
        ("Launch(url='null', app='Clock')", actions.Launch(app="Clock")),
        ("Launch('Clock', url='')", actions.Launch(app="Clock")),
        ("Launch(app='', url='https://a.example')", actions.Launch(url="https://a.example")),
        ("Hotkey(keys='ctrl+c')", actions.Hotkey(("ctrl", "c"))),
        ("Hotkey(keys='ctrl, c')", actions.Hotkey(("ctrl", "c"))),
        ("Type(content='say (it) and Click (again)')", actions.Type("say (it) and Click (again)")),
        ("Hotkey('ctrl+shift+t')", actions.Hotkey(("ctrl", "shift", "t"))),
        ("Hotkey(key='ctrl c')", actions.Hotkey(("ctrl", "c"))),
        ("Hotkey(keys=['alt-tab'])", actions.Hotkey(("alt", "tab"))),
        ("Hotkey(keys='ctrl++')", actions.Hotkey(("ctrl", "+"))),
        ("Hotkey(keys=['+'])", actions.Hotkey(("+",))),
        ("Hotkey(keys='page down')", actions.Hotkey(("page down",))),
        ("Hotkey(keys=['ctrl',')'])", actions.Hotkey(("ctrl", ")"))),
        ("Hotkey(keys=\"['ctrl','c']\")", actions.Hotkey(("ctrl", "c"))),
        ("Hotkey(keys=['ctrl+shift','t'])", actions.Hotkey(("ctrl", "shift", "t"))),
        ("Type(content='SET a='x' + 'y'')", actions.Type("SET a='x' + 'y'")),
        ("Type(content='5' + 6'')", actions.Type("5' + 6'")),
        ("Click(box=(1,2), clicks=1)", actions.Click((1, 2))),
        (r"Hotkey(keys=['\'','\\'])", actions.Hotkey(("'", "\\"))),
        ("Type(content='UPDATE t SET a='x', b='y'')", actions.Type("UPDATE t SET a='x', b='y'")),
        ("Type(content='print('a'); print('b')')", actions.Type("print('a'); print('b')")),
        ("Type(content=''a', 'b'')", actions.Type("'a', 'b'")),
        ("Finished(content='that's it, isn't it (so far)')", actions.Finished("that's it, isn't it (so far)")),
        ("Click(box=(1,2), button='left')", actions.Click((1, 2))),
    ],
)
def test_what_means_one_action_is_read_as_that(written: str, action: actions.Action) -> None:
    assert actions.parse_reply(written).action == action


pieces = st.lists(
    st.sampled_from(["'", '"', ",", ")", "(", "a", "it's", " ", "\n", "=", "app", "Type", ";"]), max_size=12
)


@given(
    pieces.map("".join), st.sampled_from([actions.Type, actions.CallUser, lambda text: actions.Launch(app=f"{text}.")])
)
def test_a_text_is_read_whole_or_refused(text: str, make: Callable[[str], actions.Action]) -> None:
    action = make(text)
    assert actions.parse_reply(actions.render(action, "web")).action in (action, None)


@given(pieces.map("".join).map(lambda text: text.replace("'", "")), st.sampled_from([actions.Type, actions.CallUser]))
def test_a_text_without_the_quote_around_it_is_always_read(text: str, make: Callable[[str], actions.Action]) -> None:
    assert actions.parse_reply(actions.render(make(text), "web")).action == make(text)
