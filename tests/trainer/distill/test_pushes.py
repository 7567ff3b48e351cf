"""Which tokens of a reply are pushed: for all 16 types of action, with the parser's spans."""

from __future__ import annotations

from typing import Any

import pytest

from pipelines.prompts import reply_text
from schemas.action_types import ACTION_TYPES
from schemas.actions import (
    Action,
    CallUser,
    Click,
    DoubleClick,
    Drag,
    Finished,
    Hotkey,
    Hover,
    Launch,
    LongPress,
    PressBack,
    PressEnter,
    PressHome,
    PressRecent,
    Scroll,
    Type,
    Wait,
)
from trainer.distill.pushes import Pushes, all_pushed, span_pushes
from trainer.rl.rewards import ReplyTarget
from trainer.settings.distill import SpanPushes
from trainer.settings.rewards import RewardConfig

REWARDS = RewardConfig()
SETTINGS = SpanPushes(wrong_type=2.0, wrong_parameters=3.0, unreadable=0.5, right=0.0, rest=0.25)
CASES: list[tuple[Action, Action | None]] = [
    (Click((10, 20)), Click((900, 900))),
    (LongPress((10, 20)), LongPress((900, 900))),
    (Hover((10, 20)), Hover((900, 900))),
    (DoubleClick((10, 20)), DoubleClick((900, 900))),
    (Drag((10, 20), (30, 40)), Drag((10, 20), (900, 900))),
    (Scroll(direction="down"), Scroll(direction="up")),
    (Type("yes"), Type("no")),
    (CallUser("yes"), CallUser("no")),
    (Launch(app="Maps"), Launch(app="Mail")),
    (Hotkey(("ctrl", "c")), Hotkey(("ctrl", "v"))),
    (Finished("done"), None),
    (Wait(), None),
    (PressBack(), None),
    (PressHome(), None),
    (PressEnter(), None),
    (PressRecent(), None),
]
"""A reply's action, and a truth of its type that it misses; None: of such a type only the type counts."""
KINDS = [type(action).__name__ for action, _ in CASES]


def pushes(processor: Any, text: str, truth: ReplyTarget) -> tuple[Pushes, list[str]]:
    ids = processor.answer(text)
    return span_pushes(text, ids, truth, processor, SETTINGS, REWARDS), [processor.text([one]) for one in ids]


def navigation(action: Action) -> ReplyTarget:
    return ReplyTarget("navigation", action)


def at(found: Pushes, tokens: list[str], weight: float) -> str:
    """The text of the tokens that have this weight."""
    return "".join(token for token, own in zip(tokens, found.weights, strict=True) if own == weight)


def test_all_types_are_here() -> None:
    assert set(KINDS) == set(ACTION_TYPES)


@pytest.mark.parametrize("action", [action for action, _ in CASES], ids=KINDS)
def test_a_wrong_type_pushes_its_name_and_masks_the_parameters(processor: Any, action: Action) -> None:
    other: Action = Wait() if not isinstance(action, Wait) else Click((10, 20))
    text = reply_text(action, "web", "I wait")
    found, tokens = pushes(processor, text, navigation(other))
    assert found.fault == "type" and at(found, tokens, 2.0) == type(action).__name__
    written = text.partition("<action>")[2].partition("</action>")[0]
    assert f"{at(found, tokens, 2.0)}({at(found, tokens, 0.0)})" == written
    assert at(found, tokens, 0.25) == text.replace(written, "()", 1)


@pytest.mark.parametrize(("action", "truth"), [case for case in CASES if case[1]], ids=KINDS[:10])
def test_a_wrong_parameter_pushes_what_stands_between_the_brackets(
    processor: Any, action: Action, truth: Action
) -> None:
    text = reply_text(action, "web", "I wait")
    found, tokens = pushes(processor, text, navigation(truth))
    written = text.partition("<action>")[2].partition("</action>")[0]
    assert found.fault == "parameters" and at(found, tokens, 0.0) == type(action).__name__
    assert f"{type(action).__name__}({at(found, tokens, 3.0)})" == written


@pytest.mark.parametrize("action", [action for action, _ in CASES], ids=KINDS)
def test_what_is_right_is_left_alone(processor: Any, action: Action) -> None:
    text = reply_text(action, "web")
    found, tokens = pushes(processor, text, navigation(action))
    written = text.partition("<action>")[2].partition("</action>")[0]
    name, _, parameters = written.partition("(")
    assert found.fault == "none" and at(found, tokens, 0.0) == name + parameters.removesuffix(")")
    ids = processor.answer(text)
    assert not span_pushes(text, ids, navigation(action), processor, SpanPushes(), REWARDS).any


def test_grounding_has_parameters_alone(processor: Any) -> None:
    truth = ReplyTarget("grounding", boxes=((0.0, 0.0, 100.0, 100.0),))
    found, tokens = pushes(processor, "[500,600]", truth)
    assert found.fault == "parameters" and at(found, tokens, 3.0) == "500,600"
    right, _ = pushes(processor, "[50,60]", truth)
    assert right.fault == "none" and set(right.weights) == {0.0, 0.25}


def test_a_reply_that_says_nothing_is_pushed_whole(processor: Any) -> None:
    text = "<think>x</think><action>Tap(1)</action>"
    found, _ = pushes(processor, text, navigation(Wait()))
    assert found.fault == "unreadable" and set(found.weights) == {0.5}


def test_hindsight_pushes_every_token(processor: Any) -> None:
    text = reply_text(Wait(), "web")
    ids = processor.answer(text)
    assert all_pushed(text, ids, navigation(Wait()), REWARDS) == Pushes("none", (1.0,) * len(ids))
