"""Where in a reply the type and the parameters of its action stand: as `parse_reply` reads them."""

from __future__ import annotations

import pytest

from schemas.action_types import SPACES, WIDEST
from schemas.actions import (
    Action,
    CallUser,
    Click,
    DoubleClick,
    Drag,
    Finished,
    GetUrl,
    Hotkey,
    Hover,
    Launch,
    LongPress,
    PressBack,
    PressEnter,
    PressHome,
    PressRecent,
    ReplySpans,
    RightClick,
    Scroll,
    SelectOption,
    TakeNote,
    Type,
    Wait,
    parse_reply,
    render,
    reply_spans,
)

ALL: list[Action] = [
    Click((1, 2)),
    LongPress((3, 4)),
    Hover((5, 6)),
    DoubleClick((7, 8)),
    Drag((1, 2), (3, 4)),
    Scroll(direction="down"),
    Type("Click(box=(1,2))</action> it's"),
    Finished("done (well)"),
    CallUser("é日本?"),
    Launch(app="Maps"),
    Hotkey(("ctrl", "c")),
    Wait(),
    PressBack(),
    PressHome(),
    PressEnter(),
    PressRecent(),
    RightClick((9, 10)),
    SelectOption((11, 12), "It's (10, 20)"),
    GetUrl(),
    TakeNote("room 12', said"),
]


def told(text: str) -> tuple[str, str]:
    """The type and the parameters by their spans."""
    found = reply_spans(text, WIDEST)
    assert found is not None
    return text[slice(*(found.type or (0, 0)))], text[slice(*found.parameters)]


def test_all_types_are_here() -> None:
    assert {type(action).__name__ for action in ALL} == set(SPACES[WIDEST])


@pytest.mark.parametrize("action", ALL, ids=lambda action: type(action).__name__)
@pytest.mark.parametrize("around", [("", ""), ("<think>Click( it</think>\n<action>", "</action>\n<conclusion>")])
def test_spans_of_every_type(action: Action, around: tuple[str, str]) -> None:
    written = render(action, "web")
    name, parameters = told(f"{around[0]}{written}{around[1]}")
    assert name == type(action).__name__ and f"{name}({parameters})" == written


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  `click (10, 20)`. ", ("click", "10, 20")),
        ("<action> \n Click(box=[1, 2]);\n</action>", ("Click", "box=[1, 2]")),
        ("<action>Wait()", ("Wait", "")),
        (" [12,34] 0.5", ("", "12,34")),
        ("<action>( -1, -1 )</action>", ("", "-1, -1")),
    ],
)
def test_lenient_forms(text: str, expected: tuple[str, str]) -> None:
    assert told(text) == expected


@pytest.mark.parametrize(
    "text", ["", "nothing", "<action></action>", "Click(box=(1,2", "Tap(1,2)", "`" * 9, "[2000,1]"]
)
def test_what_is_not_read_has_none(text: str) -> None:
    assert parse_reply(text).error is not None and reply_spans(text) is None


def test_a_grounding_reply_has_no_type() -> None:
    assert reply_spans("[1,2]") == ReplySpans(None, (1, 4))
