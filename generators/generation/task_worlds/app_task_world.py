"""Real user interfaces as task worlds: Datasette, Django admin, Dagster's own UI, desktop programs.

Their tasks come from families with a plan over roles and names that was carried out; each is found again by its id, so
that an oracle can follow it. Nothing here is infeasible by design: what can go wrong is the doing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

from generators.generation.task_worlds.task_world import Idea, Name
from generators.tasks.task_spec import TaskSpec
from generators.tasks.world_interface import World
from generators.worlds.app_tasks import APPS, SEEDS, snapshots, work_of, works
from generators.worlds.evaluators import holds
from schemas.ids import canonical_json


class AppTaskWorld:
    """One app; it is one target (the desktop: its programs, at most `count` of them)."""

    joins = False

    def __init__(self, name: str, count: int, seed: int = 0) -> None:
        if name not in APPS:
            raise ValueError(f"app task world: expected one of {', '.join(APPS)}, found {name!r:.60}")
        self.name, self._first = name, seed * SEEDS
        self.platform = "desktop" if name == "desktop" else "web"
        self.targets = tuple(sorted({work.contract.target for work in works(name, self._first)}))[:count]

    def functions(self, target: str) -> tuple[str, ...]:
        return tuple(sorted({work.family for work in works(self.name, self._first) if work.contract.target == target}))

    def ideas(self, target: str, rng: Random) -> Iterator[Idea]:
        seeds = snapshots(self.name)
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

    def contract(self, ideas: Sequence[Idea], rng: Random) -> TaskSpec | None:
        if len(ideas) != 1:
            return None
        family, seed = json.loads(ideas[0].key)
        return next(work.contract for work in works(self.name, seed) if work.family == family)

    def shortest(self, contract: TaskSpec) -> int | None:
        work = work_of(contract)
        return None if work is None else len(work.plan)

    def true(self, contract: TaskSpec, end_state: Mapping[str, Any], answer: str) -> bool:
        """The evaluator's own word: it holds everything else to be as it was."""
        return bool(end_state) and holds(contract.evaluator, end_state, answer)

    def start(self, target: str) -> dict[str, Any]:
        first = next(work for work in works(self.name, self._first) if work.contract.target == target)
        return dict(first.contract.initial_state)

    def offline(self) -> World | None:
        return None

    def passing(self, target: str, path: str) -> bool:
        return False
