"""A task world whose tasks are listed by seed: every idea is a whole task that somebody wrote; nothing is joined."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Protocol

from generators.generation.task_worlds.task_world import Idea, TaskWorld
from generators.tasks.task_spec import TaskSpec
from generators.worlds.evaluators import holds
from schemas.ids import canonical_json


class ListedTask(Protocol):
    """A task and the family it belongs to, unique within its seed."""

    @property
    def family(self) -> str: ...
    @property
    def contract(self) -> TaskSpec: ...


class ListedTaskWorld(TaskWorld):
    """`listed` gives the tasks of a seed (none for a seed without any); ideas come from `seeds` of them, from `first`
    on. `count` limits the targets. Nothing here is infeasible by design: what can go wrong is the doing."""

    joins = False

    def __init__(
        self,
        name: str,
        platform: str,
        listed: Callable[[int], Sequence[ListedTask]],
        *,
        count: int,
        seeds: int,
        first: int = 0,
    ) -> None:
        self.name, self.platform = name, platform
        self._listed, self._seeds, self._first = listed, seeds, first
        # Targets as the first seed shows them; other seeds hold other things, not other targets.
        self.targets = tuple(sorted({task.contract.target for task in listed(first)}))[:count]

    def _of(self, target: str, seed: int) -> list[ListedTask]:
        return [task for task in self._listed(seed) if task.contract.target == target]

    def functions(self, target: str) -> tuple[str, ...]:
        return tuple(sorted({task.family for task in self._of(target, self._first)}))

    def ideas(self, target: str, rng: Random) -> Iterator[Idea]:
        while True:
            # Endless: seeds without this target are simply drawn over.
            seed = self._first + rng.randrange(self._seeds)
            if own := self._of(target, seed):
                task = rng.choice(own)
                spec, key = task.contract, canonical_json([task.family, seed])
                yield Idea(target, task.family, spec.instruction, spec.expected_steps, basis="none", key=key)

    def contract(self, ideas: Sequence[Idea], rng: Random) -> TaskSpec | None:
        if len(ideas) != 1:
            # Whole tasks, never joined.
            return None
        family, seed = json.loads(ideas[0].key)
        # Made again from the key: an idea carries words, not the rule.
        return next(task.contract for task in self._listed(seed) if task.family == family)

    def shortest(self, contract: TaskSpec) -> int | None:
        """What its author says, of a task that is listed."""
        seed = contract.initial_state.get("seed")
        known = isinstance(seed, int) and any(one.contract == contract for one in self._listed(seed))
        return contract.expected_steps if known else None

    def true(self, contract: TaskSpec, end_state: Mapping[str, object], answer: str) -> bool:
        """The evaluator's own word."""
        return bool(end_state) and holds(contract.evaluator, end_state, answer)

    def start(self, target: str) -> dict[str, object]:
        return dict(self._of(target, self._first)[0].contract.initial_state)
