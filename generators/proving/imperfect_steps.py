"""A policy that is right at a set rate and a check that is right at another, on a world whose oracle knows what is
right: what step verification gains, measured where the truth is known."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from generators.policies.oracles.oracle import Advice, Oracle, click_on
from generators.policies.policy import Decision, PastTurn, PolicyView
from generators.policies.registry import oracle_for
from generators.policies.step_verification import StepCheck, StepVerification
from generators.tasks.task_spec import TaskSpec
from generators.tasks.world_interface import World, WorldError
from pipelines.prompts import reply_text
from schemas.action_types import CallUser, Finished, Scroll, Wait
from schemas.actions import Action, format, parse_reply

Truth = Callable[[], Mapping[str, Any]]


def right_action(advice: Advice) -> Action:
    """What an oracle advises; where it is done or knows no way, the end."""
    return advice.action or Finished()


class RightAtRate:
    """A policy that does what the oracle advises with chance `rate`, else something else on the screen; each turn's
    draw depends on the seed and the turn alone. `done`: (turn, whether it was right) of what it proposed."""

    needs_tree = True

    def __init__(self, oracle: Oracle, contract: TaskSpec, truth: Truth, rate: float) -> None:
        self.name = f"right-{rate:g}"
        self._oracle, self._contract, self._truth, self._rate = oracle, contract, truth, rate

    def begin(self, goal: str, platform: str, seed: int) -> None:
        """See `Policy.begin`."""
        self._oracle.begin(self._contract)
        self._platform, self._seed = platform, seed

    def decide(self, view: PolicyView) -> Decision:
        """See `Policy.decide`."""
        rng = Random(f"right/{self._seed}/{self._contract.task_id}/{len(view.past)}")
        last = view.past[-1].action if view.past else None
        right = right_action(self._oracle.next(view.elements, self._truth(), last))
        action = right if rng.random() < self._rate else self._wrong(right, view, rng)
        reply = reply_text(action, self._platform)
        return Decision(reply, parse_reply(reply).action or action)

    def recall(self, view: PolicyView, action: Action | None) -> None:
        """A turn that another one decided: the oracle sees every screen."""
        self.decide(view)

    @staticmethod
    def _wrong(right: Action, view: PolicyView, rng: Random) -> Action:
        """Another click, else a scroll or a wait: never an end, which would leave fewer steps to measure."""
        clicks: list[Action] = [click_on(one) for one in view.elements if one.clickable]
        others = [one for one in (*clicks, Scroll(direction="down"), Scroll(direction="up"), Wait()) if one != right]
        return rng.choice(others)


class CheckAtRate:
    """A check that says the truth of an action with chance `rate`. It has an oracle of its own, which it asks once a
    turn, and draws by the seed, the turn and the action."""

    needs_tree = True

    def __init__(self, oracle: Oracle, contract: TaskSpec, truth: Truth, rate: float, seed: int = 0) -> None:
        self.name = f"right-{rate:g}"
        self._oracle, self._contract, self._truth, self._rate, self._seed = oracle, contract, truth, rate, seed
        self._turn, self._right = -1, right_action(Advice(done=True))
        oracle.begin(contract)

    def check(self, view: PolicyView, decision: Decision) -> StepCheck:
        """See `StepChecker.check`."""
        if self._turn != len(view.past):
            self._turn = len(view.past)
            last = view.past[-1].action if view.past else None
            self._right = right_action(self._oracle.next(view.elements, self._truth(), last))
        assert decision.action is not None
        right = decision.action == self._right
        told = (
            Random(f"check/{self._seed}/{self._turn}/{decision.reply}/{format(decision.action)}").random() < self._rate
        )
        return StepCheck(right == told, "drawn")


def right_steps(
    contracts: Sequence[TaskSpec],
    opened: Callable[[], World],
    rate: float,
    check_rate: float | None = None,
    tries: int = 3,
    seed: int = 0,
) -> tuple[int, int]:
    """(right steps, all steps) of a policy right at `rate` on these tasks, under a check right at `check_rate` (None:
    unchecked). What is right is what an oracle advises on the screen that the step is decided on."""
    right = steps = 0
    for contract in contracts:
        world = opened()
        proposers = [
            RightAtRate(oracle_for(contract), contract, world.state, rate)
            for _ in range(1 if check_rate is None else tries)
        ]
        checker = CheckAtRate(oracle_for(contract), contract, world.state, check_rate or 0.0, seed)
        policy = StepVerification(proposers, checker)
        truth = oracle_for(contract)
        past: tuple[PastTurn, ...] = ()
        truth.begin(contract)
        world.reset(contract.initial_state)
        policy.begin(contract.instruction, world.platform, seed)
        for _ in range(2 * contract.expected_steps + 8):
            seen = world.observe()
            view = PolicyView(contract.instruction, seen.png, world.size_px, world.platform, past, seen.elements)
            advised = right_action(truth.next(seen.elements, world.state(), past[-1].action if past else None))
            action = policy.decide(view).action
            right, steps = right + (action == advised), steps + 1
            if action is None or isinstance(action, Finished | CallUser):
                break
            with contextlib.suppress(WorldError):  # what a world can't do is a turn that did nothing
                world.act(action)
            past = (*past, PastTurn(action))
    return right, steps
