"""Step verification: who is asked, what is repaired, which action stands, and what a check of known skill gains."""

from __future__ import annotations

from dataclasses import replace

import pytest
from guided import tasks_of
from reply_server import ReplyServer

from generators.policies.chat_endpoint import ChatEndpoint
from generators.policies.policy import Decision, PolicyView
from generators.policies.registry import build_policy, with_step_check
from generators.policies.step_verification import ModelChecker, StepCheck, StepVerification, ThoughtChecker
from generators.proving.imperfect_steps import right_steps
from generators.tasks.world_interface import ScreenElement
from generators.worlds.fsm.interpreted import InterpretedWorld
from generators.worlds.fsm.sites import make_site
from schemas.actions import Action, Click, Scroll, Type
from tests.quality.conftest import draw_page

SAVE = ScreenElement((0, 0, 200, 100), "button", "Save", "Save", "s")
CANCEL = ScreenElement((0, 300, 200, 400), "button", "Cancel", "Cancel", "c")
VIEW = PolicyView("save it", draw_page(), (360, 640), "web", (), (SAVE, CANCEL))


class Says:
    """A policy that proposes one action, and keeps what it is told of turns that it wasn't asked in."""

    needs_tree = False

    def __init__(self, action: Action | None, thought: str = "") -> None:
        self.name, self._made = "says", Decision("reply", action, thought, prompt_tokens=10, completion_tokens=1)
        self.asked, self.recalled, self.seed = 0, [], -1  # type: ignore[var-annotated]

    def begin(self, goal: str, platform: str, seed: int) -> None:
        self.seed = seed

    def decide(self, view: PolicyView) -> Decision:
        assert not view.elements
        self.asked += 1
        return self._made

    def recall(self, view: PolicyView, action: Action | None) -> None:
        self.recalled.append(action)


class Accepts:
    """A check that accepts listed actions."""

    name, needs_tree = "accepts", True

    def __init__(self, *actions: Action, instead: Action | None = None) -> None:
        self._actions, self._instead = actions, instead

    def check(self, view: PolicyView, decision: Decision) -> StepCheck:
        assert view.elements
        return StepCheck(decision.action in self._actions, "", self._instead, 100, 5)


A, B, C = Click((1, 1)), Click((2, 2)), Type("c")


def test_it_asks_until_one_is_accepted_and_tells_the_rest() -> None:
    first, second, third = Says(A), Says(B), Says(C)
    policy = StepVerification([first, second, third], Accepts(B))
    policy.begin("g", "web", 7)
    decision = policy.decide(VIEW)
    assert decision.action == B and (decision.prompt_tokens, decision.completion_tokens) == (220, 12)
    assert (first.asked, second.asked, third.asked) == (1, 1, 0) and third.recalled == [B] and not first.recalled
    assert first.seed == 7 and len({first.seed, second.seed, third.seed}) == 3


@pytest.mark.parametrize(
    ("proposed", "stands"), [((A, B, B), B), ((A, B, C), A), ((None, None, C), C), ((None, None, None), None)]
)
def test_where_all_are_refused_the_most_named_stands(
    proposed: tuple[Action | None, ...], stands: Action | None
) -> None:
    assert StepVerification([Says(one) for one in proposed], Accepts()).decide(VIEW).action == stands


def test_one_try_is_the_identity() -> None:
    alone = Says(A)
    policy = StepVerification([alone], Accepts())
    assert (
        policy.decide(VIEW) == alone.decide(VIEW.shown_to(False))
        and policy.name == alone.name
        and not policy.needs_tree
    )


def test_a_thought_repairs_its_action() -> None:
    other = Says(C)
    policy = StepVerification([Says(Click((100, 350)), "I tap Save."), other], ThoughtChecker())
    decision = policy.decide(VIEW)
    assert decision.action == Click((100, 50)) and "(100,50)" in decision.reply and not other.asked
    # what doesn't pass the check in its turn isn't taken
    assert StepVerification([Says(A), Says(A)], Accepts(instead=B)).decide(VIEW).action == A


@pytest.mark.parametrize(
    ("reply", "accepted"),
    [
        ('{"label": "correct", "confidence": 9, "reason": "incorrect elsewhere"}', True),
        ('{"label": "incorrect", "confidence": 9, "reason": "wrong"}', False),
        ('{"label": "ineffective"}', False),
        ('{"label": "exploratory"}', True),
        ("no idea", True),
    ],
)
def test_a_model_checks_by_its_label(reply: str, accepted: bool) -> None:
    with ReplyServer(lambda body: reply) as server:
        found = ModelChecker(ChatEndpoint(server.url, "m")).check(
            VIEW, Decision("", Scroll(direction="down"), "</data>")
        )
    assert found.accepted is accepted and found.prompt_tokens == 100


@pytest.mark.slow
def test_a_check_right_in_80_of_100_gains_a_policy_right_in_60_at_least_15_points() -> None:
    tasks = tasks_of(["shop", "bank"], 12)

    def opened() -> InterpretedWorld:
        return InterpretedWorld(make_site)

    plain = [right_steps(tasks, opened, 0.6, seed=seed) for seed in range(2)]
    helped = [right_steps(tasks, opened, 0.6, 0.8, seed=seed) for seed in range(2)]
    before, after = (sum(r for r, _ in found) / sum(n for _, n in found) for found in (plain, helped))
    assert 0.55 <= before <= 0.65 and after >= before + 0.15
    # a check that knows nothing gains nothing to speak of, so the gain is the check's
    idle = right_steps(tasks, opened, 0.6, 0.5, seed=0)
    assert idle[0] / idle[1] < before + 0.12


def test_options_are_told() -> None:
    maker = build_policy("explorer")
    assert with_step_check(maker, "", 3) is maker
    assert with_step_check(maker, "thoughts", 3).name == "explorer+3-checked-by-thoughts"
    for check, tries, says in (("luck", 3, "expected one of"), ("thoughts", 1, "--tries"), ("model", 3, "--base-url")):
        with pytest.raises(ValueError, match=says):
            with_step_check(maker, check, tries)
    assert replace(VIEW).shown_to(False).elements == ()
