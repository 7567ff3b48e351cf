"""The phone as a task world: its owner knows what is on it, so every idea names what is really there.

A target is an app; each idea stands on a phone of its own seed. So what can go wrong here is the doing, not the task.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from random import Random

from generators.generation.task_worlds.task_world import Idea, TaskWorld
from generators.tasks.task_spec import TaskSpec
from generators.worlds.phone.phone_task import PhoneTask, evaluate
from generators.worlds.phone.phone_tasks import FAMILIES, make_task
from generators.worlds.phone.snapshot import APPS
from schemas.ids import canonical_json

SEEDS = 10_000
"""Phones that ideas are drawn from, from the world's first seed on."""


class PhoneTaskWorld(TaskWorld):
    """`count` apps (all, if there are fewer), phones from `seed` on. Names seen on one phone aren't on another, so
    nothing is proposed about them."""

    platform = "mobile"
    joins = False

    def __init__(self, name: str, count: int, seed: int = 0) -> None:
        self.name = name
        self.targets = tuple(f"phone/{app}" for app in APPS[:count])
        self._first = seed * SEEDS

    def functions(self, target: str) -> tuple[str, ...]:
        """Families by the app that they begin in."""
        return tuple(name for name, found in sorted(_apps().items()) if f"phone/{found}" == target)

    def ideas(self, target: str, rng: Random) -> Iterator[Idea]:
        families = self.functions(target)
        while families:
            family, seed = rng.choice(families), self._first + rng.randrange(SEEDS)
            task = _made(family, seed)
            # A family may begin in another app on this phone's seed.
            if task is not None and f"phone/{task.apps[0]}" == target:
                key = canonical_json([family, seed])
                yield Idea(target, family, task.goal, task.expected_steps, basis="none", key=key)

    def contract(self, ideas: Sequence[Idea], rng: Random) -> TaskSpec | None:
        if len(ideas) != 1:
            return None
        task = _made(*json.loads(ideas[0].key))
        return None if task is None else task.contract()

    def _task(self, contract: TaskSpec) -> PhoneTask | None:
        """The task whose contract it is; None for one that no family made."""
        found = (
            _made(family, contract.initial_state["seed"]) for family in contract.capabilities if family in FAMILIES
        )
        return next((task for task in found if task and task.contract().task_id == contract.task_id), None)

    def shortest(self, contract: TaskSpec) -> int | None:
        task = self._task(contract)
        return None if task is None else task.expected_steps

    def true(self, contract: TaskSpec, end_state: Mapping[str, object], answer: str) -> bool:
        """The evaluator's own word: it holds everything else on the phone to be as it was."""
        return bool(end_state) and evaluate(contract.evaluator, dict(end_state), answer)

    def start(self, target: str) -> dict[str, object]:
        # Any phone: tasks bring their own seed.
        return {"world": "phone", "seed": self._first}


@lru_cache(maxsize=65_536)
def _made(family: str, seed: int) -> PhoneTask | None:
    return make_task(family, seed)


@lru_cache(maxsize=1)
def _apps() -> dict[str, str]:
    """Family → app that its tasks begin in, as the first phones that have one show."""
    found = {}
    for family in FAMILIES:
        # Eight phones: some families need things that not every phone has.
        task = next((task for seed in range(8) if (task := _made(family, seed)) is not None), None)
        if task is not None:
            found[family] = task.apps[0]
    return found
