"""The way that a site's oracle takes through a task, carried out in the interpreter without a browser."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from generators.policies.oracles.fsm_oracle import FsmOracle
from generators.tasks.task_spec import TaskSpec
from generators.tasks.world_interface import Observation, ScreenElement
from generators.worlds.fsm.interpreted import InterpretedWorld
from generators.worlds.fsm.sites import make_site
from generators.worlds.hit_test import under
from schemas.actions import Action

MOST_ACTS = 60


@dataclass(frozen=True, slots=True)
class SiteStep:
    """An act, the element that it is on (None for none), the screens around it, and whether it `changes` the site's
    variables, not the page alone."""

    action: Action
    element: ScreenElement | None
    before: Observation
    after: Observation
    changes: bool


def site_walk(contract: TaskSpec) -> Iterator[SiteStep]:
    """The oracle's acts in order, `MOST_ACTS` at most; it ends where the oracle has nothing more to do."""
    world, oracle = InterpretedWorld(make_site), FsmOracle()
    world.reset(contract.initial_state)
    oracle.begin(contract)
    before, action = world.observe(), None
    for _ in range(MOST_ACTS):
        variables = _variables(world.state())
        action = oracle.next(before.elements, world.state(), action).action
        if action is None:
            return
        point = getattr(action, "box", None)
        element = under(before.elements, point) if point is not None else None
        world.act(action)
        after = world.observe()
        yield SiteStep(action, element, before, after, variables != _variables(world.state()))
        before = after


def _variables(state: Mapping[str, Any]) -> dict[str, Any]:
    return dict(state["variables"])
