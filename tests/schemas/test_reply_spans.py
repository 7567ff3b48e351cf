"""Where in a reply the type and the parameters of its action stand: as `parse_reply` reads them."""

from __future__ import annotations

import pytest

from schemas import actions
from schemas.action_types import SPACES, WIDEST

ALL: list[actions.Action] = [
    actions.Click((1, 2)),
    actions.LongPress((3, 4)),
    actions.Hover((5, 6)),
    actions.DoubleClick((7, 8)),
    actions.Drag((1, 2), (3, 4)),
    actions.Scroll(direction="down"),
    actions.Type("Click(box=(1,2))</action> it's"),
    actions.Finished("done (well)"),
    actions.CallUser("é日本?"),
    actions.Launch(app="Maps"),
    actions.Hotkey(("ctrl", "c")),
    actions.Wait(),
    actions.PressBack(),
    actions.PressHome(),
    actions.PressEnter(),
    actions.PressRecent(),
    actions.RightClick((9, 10)),
    actions.SelectOption((11, 12), "It's (10, 20)"),
    actions.GetUrl(),
    actions.TakeNote("room 12', said"),
]


def told(text: str) -> tuple[str, str]:
    """The type and the parameters by their spans."""
    found = actions.reply_spans(text, WIDEST)
    assert found is not None
    return text[slice(*(found.type or (0, 0)))], text[slice(*found.parameters)]


def test_all_types_are_here() -> None:
    assert {type(action).__name__ for action in ALL} == set(SPACES[WIDEST])


@pytest.mark.parametrize("action", ALL, ids=lambda action: type(action).__name__)
@pytest.mark.parametrize("around", [("", ""), ("<think>Click( it</think>\n<action>", "</action>\n<conclusion>")])
def test_spans_of_every_type(action: actions.Action, around: tuple[str, str]) -> None:
    written = actions.render(action, "web")
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
    assert actions.parse_reply(text).error is not None and actions.reply_spans(text) is None


def test_a_grounding_reply_has_no_type() -> None:
    assert actions.reply_spans("[1,2]") == actions.ReplySpans(None, (1, 4))
