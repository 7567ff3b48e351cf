"""Which tokens of a reply are pushed: for all 16 types of action, with the parser's spans."""

from __future__ import annotations

from typing import Any

import pytest

from pipelines.prompts import reply_text
from schemas import actions
from schemas.action_types import ACTION_TYPES
from trainer.distill.pushes import Pushes, all_pushed, span_pushes
from trainer.rl.rewards import ReplyTarget
from trainer.settings.distill import SpanPushes
from trainer.settings.rewards import RewardConfig

REWARDS = RewardConfig()
SETTINGS = SpanPushes(wrong_type=2.0, wrong_parameters=3.0, unreadable=0.5, right=0.0, rest=0.25)
CASES: list[tuple[actions.Action, actions.Action | None]] = [
    (actions.Click((10, 20)), actions.Click((900, 900))),
    (actions.LongPress((10, 20)), actions.LongPress((900, 900))),
    (actions.Hover((10, 20)), actions.Hover((900, 900))),
    (actions.DoubleClick((10, 20)), actions.DoubleClick((900, 900))),
    (actions.Drag((10, 20), (30, 40)), actions.Drag((10, 20), (900, 900))),
    (actions.Scroll(direction="down"), actions.Scroll(direction="up")),
    (actions.Type("yes"), actions.Type("no")),
    (actions.CallUser("yes"), actions.CallUser("no")),
    (actions.Launch(app="Maps"), actions.Launch(app="Mail")),
    (actions.Hotkey(("ctrl", "c")), actions.Hotkey(("ctrl", "v"))),
    (actions.Finished("done"), None),
    (actions.Wait(), None),
    (actions.PressBack(), None),
    (actions.PressHome(), None),
    (actions.PressEnter(), None),
    (actions.PressRecent(), None),
]
"""A reply's action, and a truth of its type that it misses; None: of such a type only the type counts."""
KINDS = [type(action).__name__ for action, _ in CASES]


def pushes(processor: Any, text: str, truth: ReplyTarget) -> tuple[Pushes, list[str]]:
    ids = processor.answer(text)
    return span_pushes(text, ids, truth, processor, SETTINGS, REWARDS), [processor.text([one]) for one in ids]


def navigation(action: actions.Action) -> ReplyTarget:
    return ReplyTarget("navigation", action)


def at(found: Pushes, tokens: list[str], weight: float) -> str:
    """The text of the tokens that have this weight."""
    return "".join(token for token, own in zip(tokens, found.weights, strict=True) if own == weight)


def test_all_types_are_here() -> None:
    assert set(KINDS) == set(ACTION_TYPES)


@pytest.mark.parametrize("action", [action for action, _ in CASES], ids=KINDS)
def test_a_wrong_type_pushes_its_name_and_masks_the_parameters(processor: Any, action: actions.Action) -> None:
    other: actions.Action = actions.Wait() if not isinstance(action, actions.Wait) else actions.Click((10, 20))
    text = reply_text(action, "web", "I wait")
    found, tokens = pushes(processor, text, navigation(other))
    assert found.fault == "type" and at(found, tokens, 2.0) == type(action).__name__
    written = text.partition("<action>")[2].partition("</action>")[0]
    assert f"{at(found, tokens, 2.0)}({at(found, tokens, 0.0)})" == written
    assert at(found, tokens, 0.25) == text.replace(written, "()", 1)


@pytest.mark.parametrize(("action", "truth"), [case for case in CASES if case[1]], ids=KINDS[:10])
def test_a_wrong_parameter_pushes_what_stands_between_the_brackets(
    processor: Any, action: actions.Action, truth: actions.Action
) -> None:
    text = reply_text(action, "web", "I wait")
    found, tokens = pushes(processor, text, navigation(truth))
    written = text.partition("<action>")[2].partition("</action>")[0]
    assert found.fault == "parameters" and at(found, tokens, 0.0) == type(action).__name__
    assert f"{type(action).__name__}({at(found, tokens, 3.0)})" == written


@pytest.mark.parametrize("action", [action for action, _ in CASES], ids=KINDS)
def test_what_is_right_is_left_alone(processor: Any, action: actions.Action) -> None:
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
    found, _ = pushes(processor, text, navigation(actions.Wait()))
    assert found.fault == "unreadable" and set(found.weights) == {0.5}


def test_hindsight_pushes_every_token(processor: Any) -> None:
    text = reply_text(actions.Wait(), "web")
    ids = processor.answer(text)
    assert all_pushed(text, ids, navigation(actions.Wait()), REWARDS) == Pushes("none", (1.0,) * len(ids))
