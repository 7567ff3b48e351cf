"""Real user interfaces as grounds: Datasette, Django admin, Dagster's own UI, desktop programs.

Their tasks come from families with a plan over roles and names that was carried out; each is found again by its id, so
that a guide can follow it. Nothing here is infeasible by design: what can go wrong is the doing.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Any

from generators.generation.task_worlds.task_world import Idea, Name
from generators.tasks.task_spec import Contract
from generators.tasks.world_interface import World
from generators.worlds.evaluators import holds
from schemas.ids import canonical_json

APPS = ("datasette", "django_admin", "dagster_ui", "desktop")
SEEDS = 40
"""Snapshots of each app that tasks are made on; one that has a single snapshot gives as many as it has."""


@dataclass(frozen=True)
class AppWork:
    """A task of an app: what the loop executes, and the plan that does it."""

    family: str
    contract: Contract
    plan: tuple[tuple[str, ...], ...]


class AppGround:
    """One app; it is one target (the desktop: its programs, at most `count` of them)."""

    joins = False

    def __init__(self, name: str, count: int, seed: int = 0) -> None:
        if name not in APPS:
            raise ValueError(f"app ground: expected one of {', '.join(APPS)}, found {name!r:.60}")
        self.name, self._first = name, seed * SEEDS
        self.platform = "desktop" if name == "desktop" else "web"
        self.targets = tuple(sorted({work.contract.target for work in works(name, self._first)}))[:count]

    def functions(self, target: str) -> tuple[str, ...]:
        return tuple(sorted({work.family for work in works(self.name, self._first) if work.contract.target == target}))

    def ideas(self, target: str, rng: Random) -> Iterator[Idea]:
        seeds = _snapshots(self.name)
        while True:
            seed = self._first + rng.randrange(seeds)
            own = [work for work in works(self.name, seed) if work.contract.target == target]
            if own:
                work = rng.choice(own)
                key = canonical_json([work.family, seed])
                yield Idea(
                    target, work.family, work.contract.instruction, work.contract.expected_steps, basis="none", key=key
                )

    def about(self, target: str, names: Sequence[Name], rng: Random) -> Iterator[Idea]:
        """Nothing: what may be asked of these apps is their families'."""
        return iter(())

    def contract(self, ideas: Sequence[Idea], rng: Random) -> Contract | None:
        if len(ideas) != 1:
            return None
        family, seed = json.loads(ideas[0].key)
        return next(work.contract for work in works(self.name, seed) if work.family == family)

    def shortest(self, contract: Contract) -> int | None:
        work = work_of(contract)
        return None if work is None else len(work.plan)

    def true(self, contract: Contract, end_state: Mapping[str, Any], answer: str) -> bool:
        """The evaluator's own word: it holds everything else to be as it was."""
        return bool(end_state) and holds(contract.evaluator, end_state, answer)

    def start(self, target: str) -> dict[str, Any]:
        first = next(work for work in works(self.name, self._first) if work.contract.target == target)
        return dict(first.contract.initial_state)

    def offline(self) -> World | None:
        return None

    def passing(self, target: str, path: str) -> bool:
        return False


@lru_cache(maxsize=512)
def works(app: str, seed: int) -> tuple[AppWork, ...]:
    """One task of every family of an app on the snapshot of a seed; () for a seed that it has no snapshot of."""
    if app == "desktop":
        from generators.worlds.desktop.desktop_tasks import FAMILIES, make_task

        made = [(name, make_task(name, seed)) for name in FAMILIES]
        return tuple(AppWork(f"desktop/{name}", task.contract(), task.plan) for name, task in made)
    module = importlib.import_module(f"generators.worlds.webapps.{app}.{app}_tasks")
    if seed and _snapshots(app) == 1:
        return ()
    return tuple(AppWork(f"{app}/{task.name}", task.contract(), task.plan) for task in module.make_tasks(seed))


def _snapshots(app: str) -> int:
    return 1 if app == "dagster_ui" else SEEDS


def work_of(contract: Contract) -> AppWork | None:
    """The task whose contract it is, made anew; None for one that no family of these apps made."""
    app = contract.target.partition("/")[0]
    if app not in APPS:
        return None
    told = contract.initial_state.get("seed")
    seeds = [told] if isinstance(told, int) and app != "desktop" else range(_snapshots(app))
    for seed in seeds:
        for work in works(app, seed):
            if work.contract.task_id == contract.task_id:
                return work
    return None
