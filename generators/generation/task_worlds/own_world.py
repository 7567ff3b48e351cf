"""A world that stands outside this tree, with its tasks and the rule that decides them: one object in one file."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from generators.generation.task_worlds.listed_task_world import ListedTaskWorld
from generators.policies.oracles.intent_oracle import IntentOracle
from generators.policies.oracles.oracle import Oracle
from generators.policies.registry import ORACLES
from generators.tasks.task_spec import TaskSpec
from generators.tasks.world_interface import World
from generators.worlds.app_starts import AppStart, no_app
from generators.worlds.evaluators import RULES
from generators.worlds.registry import WORLDS, WorldKind
from generators.worlds.webapps.web_app_task import action_of

SEEDS = 10_000
"""Seeds that tasks are drawn from, from the first one of a round's settings on."""


@dataclass(frozen=True)
class OwnTask:
    """A task of one's own; `family` is its first capability."""

    contract: TaskSpec

    @property
    def family(self) -> str:
        return self.contract.capabilities[0]


@dataclass(frozen=True)
class OwnWorld:
    """What the path of a world of one's own leads to (`pipelines.extensions`).

    `name` is what `initial_state["world"]` and `evaluator["rule"]` of its tasks say. `open` gives the open world,
    `tasks` the tasks of a seed (each with one capability at least, its family, and the seed in its `initial_state`),
    and `rule(evaluator, state, answer)` says whether a state of the world fulfils a task. `plan` gives the scripted
    policy what does a task, as `worlds.webapps.web_app_task` words plans: ("click", role, name), ("type", text), …
    `start(app, seed)` gives the start that shows an app by the name that recorded data has for it, so that dynamic
    tasks open here; None for an app that isn't here.
    """

    name: str
    platform: str
    open: Callable[[], AbstractContextManager[World]]
    tasks: Callable[[int], Sequence[TaskSpec]]
    rule: Callable[[Mapping[str, Any], Mapping[str, Any], str], bool]
    plan: Callable[[TaskSpec], Sequence[tuple[str, ...]]] | None = None
    start: AppStart = no_app

    def _oracle(self, task: TaskSpec, world: World | None) -> Oracle | None:
        # Without a plan there is nothing to follow, which `oracle_for` reports.
        return IntentOracle(self.plan, action_of) if self.plan is not None else None

    def enter(self) -> None:
        """Make world, rule and oracle known to this process. Only a setting does that, never what a task says: a task
        is data, and data names no code. Raises `ValueError` for a name that another world or rule has."""
        parts: tuple[tuple[dict[str, Any], Any], ...] = (
            (WORLDS, WorldKind(self.platform, self.open, self.start)),
            (RULES, self.rule),
            (ORACLES, self._oracle),
        )
        # the same part again is welcome: every stage of a round loads its world
        if any(registry.get(self.name, part) != part for registry, part in parts):
            raise ValueError(f"world: the name {self.name!r:.60} is taken; choose another")
        # All or none: two of three registered would leave a world half known.
        for registry, part in parts:
            registry[self.name] = part

    def __call__(self, name: str, count: int, seed: int = 0) -> ListedTaskWorld:
        """Its task world, with `count` targets at most."""
        self.enter()

        def listed(number: int) -> list[OwnTask]:
            return [OwnTask(task) for task in self.tasks(number)]

        return ListedTaskWorld(self.name, self.platform, listed, count=count, seeds=SEEDS, first=seed * SEEDS)
