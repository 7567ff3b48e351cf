"""One episode of a policy in a world, in this process: look, decide, act, until it ends.

The durable loop over leased devices, which survives crashes, is `generators.execution.execute`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from generators.policies.policy import Decision, PastTurn, Policy, PolicyView, answered
from generators.tasks.world_interface import Observation, World, WorldError
from generators.worlds.dialogue import ends, goal_in
from schemas.action_types import CallUser, Finished
from schemas.actions import Action

Ended = Literal["finished", "asked", "steps", "unreadable"]
MOST_UNREADABLE = 3
"""Unreadable replies in a row that end an episode."""


@dataclass(frozen=True)
class PlayedTurn:
    """A turn: the reply, and why its action did nothing ("" = it was carried out)."""

    decision: Decision
    error: str = ""


@dataclass(frozen=True)
class PlayedEpisode:
    """All turns, the screen and the world's truth after the last one, and the text of the last CallUser."""

    steps: tuple[PlayedTurn, ...]
    end: Observation
    end_state: Mapping[str, Any]
    answer: str
    ended: Ended

    @property
    def actions(self) -> tuple[Action, ...]:
        """The actions that were carried out, in order."""
        return tuple(s.decision.action for s in self.steps if s.decision.action is not None and not s.error)


def run_episode(
    world: World, policy: Policy, goal: str, start: Mapping[str, object], seed: int = 0, max_steps: int = 30
) -> PlayedEpisode:
    """Reset the world and let the policy act until it says that it ends, three replies in a row can't be read, or
    `max_steps` are done. Raises `WorldError` where the world can't be reset or read, `PolicyError` of the policy."""
    world.reset(start)
    steps: list[PlayedTurn] = []
    for step in turns(world, policy, goal, seed):
        steps.append(step)
        if len(steps) == max_steps:
            break
    answers = [s.decision.action.content for s in steps if isinstance(s.decision.action, CallUser)]
    return PlayedEpisode(tuple(steps), world.observe(), world.state(), answers[-1] if answers else "", _ended(steps))


def turns(world: World, policy: Policy, goal: str, seed: int = 0) -> Iterator[PlayedTurn]:
    """The turns of a policy from where the world stands, without a limit of steps; each is carried out before it is
    told. An action that the world can't do (or doesn't have) is a turn that did nothing."""
    policy.begin(goal, world.platform, seed)
    past: tuple[PastTurn, ...] = ()
    unreadable = 0
    while unreadable < MOST_UNREADABLE:
        seen = world.observe()
        # What the screen answers belongs to the turn before, which asked.
        past = answered(past, seen.said)
        # Policies that see pictures never get a tree, so none can come to lean on it.
        elements = seen.elements if policy.needs_tree else ()
        # The world's user may have answered since, which is part of the goal then.
        asked = goal_in(world, goal)
        decision = policy.decide(PolicyView(asked, seen.png, world.size_px, world.platform, past, elements))
        action, error = decision.action, ""
        # In a row: one reply that can't be read is a slip, three are a policy that lost its form.
        unreadable = unreadable + 1 if action is None else 0
        if action is not None:
            try:
                world.act(action)
            # A refused action is a turn like any other; the policy sees that nothing changed.
            except WorldError as failed:
                error = str(failed)
        past = (*past, PastTurn(action, decision.thought, decision.conclusion))
        # Yielded after it was carried out: who stops here has a world that fits the turns.
        yield PlayedTurn(decision, error)
        if ends(world, action):
            return


def _ended(steps: list[PlayedTurn]) -> Ended:
    last = steps[-1].decision.action if steps else None
    if isinstance(last, Finished):
        return "finished"
    if isinstance(last, CallUser):
        return "asked"
    idle = len(steps) >= MOST_UNREADABLE and all(s.decision.action is None for s in steps[-MOST_UNREADABLE:])
    return "unreadable" if idle else "steps"
