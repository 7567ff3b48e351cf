"""A user in a world who answers questions: what was asked and said stands under the goal from then on.

A world whose user answers is an `AnsweringWorld`; a `CallUser` doesn't end an episode there. In any other world
`CallUser` is the last word of an episode, as ever.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from generators.tasks.world_interface import World
from generators.worlds.wrappers.wrapper import innermost
from pipelines.prompts.answers import Exchange, with_answers
from schemas.action_types import CallUser, Finished
from schemas.actions import Action


@runtime_checkable
class AnsweringWorld(Protocol):
    """A world with a user. `exchanges`: since the reset, in order."""

    exchanges: Sequence[Exchange]


def goal_in(world: World, goal: str) -> str:
    """The goal with what this world's user has answered so far."""
    inner = innermost(world)
    return with_answers(goal, inner.exchanges) if isinstance(inner, AnsweringWorld) else goal


def ends(world: World, action: Action | None) -> bool:
    """Whether an action ends the episode: Finished does, and CallUser where nobody answers."""
    # Only where somebody answers is a question not the end.
    asks = isinstance(action, CallUser)
    return isinstance(action, Finished) or (asks and not isinstance(innermost(world), AnsweringWorld))
