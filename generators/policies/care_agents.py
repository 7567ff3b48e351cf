"""Scripted agents of three tempers for care cases: careful, careless and timid.

- careful: asks before the step that does harm, and only then; does what the user says.
- careless: does what the request's plain reading says, and asks nobody. Of a planted instruction it obeys.
- timid: asks before it does anything at all, at risk or not; then does what the user says.

They know the case, as scripted agents do: what they measure is the worlds, rules and figures, never a model.
"""

from typing import Literal, get_args

from generators.policies.oracles.desktop_oracle import DesktopOracle
from generators.policies.oracles.oracle import Oracle
from generators.policies.oracles.plan_oracles import PhoneOracle
from generators.policies.policy import CannotDo, Decision, Policy, PolicyView
from generators.policies.policy_maker import PolicyMaker
from generators.policies.scripted_agent import words_for
from generators.tasks.task_spec import TaskSpec
from generators.tasks.world_interface import World
from generators.worlds.care.care_case import CareCase
from generators.worlds.care.care_world import CareWorld
from generators.worlds.phone.phone_task import Intent
from generators.worlds.wrappers.wrapper import innermost
from pipelines.prompts import reply_text
from schemas.action_types import CallUser, Finished
from schemas.actions import Action, parse_reply

Temper = Literal["careful", "careless", "timid"]
TEMPERS: tuple[Temper, ...] = get_args(Temper)


class CareAgent:
    """See the module. It reads the UI tree, and the world's case; deterministic."""

    needs_tree = True

    def __init__(self, temper: Temper, contract: TaskSpec, world: CareWorld) -> None:
        if temper not in TEMPERS:
            raise ValueError(f"care agent: expected one of {', '.join(TEMPERS)}, found {temper!r:.40}")
        self.name: str = temper
        self.temper = temper
        self._contract, self._world = contract, world

    def begin(self, goal: str, platform: str, seed: int) -> None:
        """Forget the last episode."""
        self._platform = platform
        self._stages: list[tuple[Intent, ...] | CallUser] | None = None
        self._oracle: Oracle | None = None

    def decide(self, view: PolicyView) -> Decision:
        """See `Policy.decide`."""
        # Planned on the first view, when the world's case is known.
        if self._stages is None:
            self._stages = self._planned(self._world.case)
        last = view.past[-1].action if view.past else None
        action, says = self._next(view, last)
        reply = reply_text(action, self._platform, "", says)
        # Through the text and back: what is recorded must be readable as the reply of a model would be.
        return Decision(reply, parse_reply(reply).action or action, conclusion=says)

    def recall(self, view: PolicyView, action: Action | None) -> None:
        """A turn that is carried out again after a crash: the same is decided, and forgotten."""
        self.decide(view)

    def _planned(self, case: CareCase) -> list[tuple[Intent, ...] | CallUser]:
        """Plans and questions in order, up to the first answer; what follows it `_after` says."""
        if self.temper == "careless":
            return [(*case.before, *case.careless)]
        question = CallUser(case.question)
        if self.temper == "timid":
            return [question]
        # Risk asks for consent; without it asking would be a nuisance that the figures count.
        if case.risky and case.must_ask:
            return [case.before, question]
        return [(*case.before, *case.act)]

    def _after(self, case: CareCase) -> tuple[Intent, ...]:
        """What is done after the user's answer."""
        before = case.before if self.temper == "timid" else ()
        # Allowed, or nothing that had to be allowed: the act itself.
        if case.variant != "no" or not case.must_ask:
            return (*before, *case.act)
        # Refused: what the case offers instead, if anything.
        return (*before, *case.instead) if case.instead else ()

    def _next(self, view: PolicyView, last: Action | None) -> tuple[Action, str]:
        assert self._stages is not None
        # The answer replaces whatever was planned: it decides between acting and its alternative.
        if isinstance(last, CallUser):
            self._oracle = None
            self._stages = [self._after(self._world.case)]
        while self._stages:
            stage = self._stages[0]
            if isinstance(stage, CallUser):
                del self._stages[0]
                return stage, "Ask the user before this is done."
            found = self._follow(stage, view, last)
            if found is not None:
                return found
            del self._stages[0]
            self._oracle = None
        return Finished(), "Everything is done."

    def _follow(self, plan: tuple[Intent, ...], view: PolicyView, last: Action | None) -> tuple[Action, str] | None:
        """The plan's next action on this screen; None at its end, or where it finds no way."""
        if self._oracle is None:
            computer = self._world.case.surface == "computer"
            self._oracle = DesktopOracle(plan) if computer else PhoneOracle(lambda _: plan)
            # A fresh oracle per stage: its plan is this stage's, from where the screen stands.
            self._oracle.begin(self._contract)
        advice = self._oracle.next(view.elements, {}, last)
        return (advice.action, words_for(advice.action, advice.role, advice.name)) if advice.action else None


def care_agents(temper: Temper = "careful") -> PolicyMaker:
    """A scripted agent of this temper for care cases; `CannotDo` for any other task."""

    def make(contract: TaskSpec, world: World) -> Policy:
        inner = innermost(world)
        if not isinstance(inner, CareWorld):
            raise CannotDo(f"{temper}: expected a care case in this process, found {contract.target[:60]!r}")
        return CareAgent(temper, contract, inner)

    return PolicyMaker(temper, make)
