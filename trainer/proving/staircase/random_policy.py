"""The lowest row: a uniform draw among what could be done on the screen, without any weights."""

from random import Random

from generators.policies.oracles.oracle import click_on
from generators.policies.policy import Decision, PolicyView
from generators.policies.policy_maker import PolicyMaker
from generators.tasks.task_spec import TaskSpec
from pipelines.prompts import reply_text
from schemas.action_types import Finished, PressBack, PressEnter, Scroll, Type
from schemas.actions import Action
from trainer.proving.staircase.blind import quoted


class RandomPolicy:
    """See `Policy`. Uniform over the clicks at the centres of all elements that can be clicked, the texts that the goal
    quotes, scrolling, the keys of the platform and Finished; drawn by (seed, goal, turn)."""

    needs_tree = True
    name = "random-element"

    def begin(self, goal: str, platform: str, seed: int) -> None:
        """See `Policy.begin`."""
        self._seed = seed

    def decide(self, view: PolicyView) -> Decision:
        """See `Policy.decide`."""
        action = Random(f"random/{self._seed}/{view.goal}/{len(view.past)}").choice(legal_actions(view))
        return Decision(reply_text(action, view.platform), action)


def legal_actions(view: PolicyView) -> list[Action]:
    """What a screen lets one do, each once."""
    clicks = [click_on(element) for element in view.elements if element.clickable]
    key: Action = PressBack() if view.platform == "mobile" else PressEnter()
    texts = [Type(text) for text in quoted(view.goal) if text]
    found: list[Action] = [*clicks, *texts, Scroll(direction="down"), key, Finished()]
    # Two elements of one centre are one action; each action is as likely as any other.
    return list(dict.fromkeys(found))


def random_policy() -> PolicyMaker:
    """For `world_success`."""

    def make(contract: TaskSpec, world: object) -> RandomPolicy:
        return RandomPolicy()

    return PolicyMaker(RandomPolicy.name, make)
