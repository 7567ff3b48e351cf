"""What a run draws by the curriculum that the settings name, and the record of its tasks that the curriculum reads."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from generators.tasks.task_spec import TaskSpec
from pipelines.extensions import find_named_path
from schemas.ids import digest
from trainer.online.curricula import MEMBERS, TaskRecord
from trainer.online.strata import StratifiedBatches
from trainer.settings.online import CurriculumConfig

MEMORY = 0.7
"""What earlier tries of a task count for after each new time that it is drawn: the policy has changed since."""


curriculum = partial(find_named_path, "curriculum", paths=MEMBERS)
"""That of a name, or of the path of one of your own. Raises `ValueError` where there is none."""


def task_weights(records: Sequence[TaskRecord], updates: int, config: CurriculumConfig) -> list[float]:
    """The weight of each task: they sum to 1, and none is below floor / number of tasks. All weigh the same where the
    curriculum weighs none. Raises `ValueError` for weights that are negative, not finite, or of another number."""
    raw = curriculum(config.name)(records, updates, **config.options)
    if len(raw) != len(records) or not all(math.isfinite(one) and one >= 0 for one in raw):
        raise ValueError(
            f"curriculum {config.name!r}: expected {len(records)} weights, finite and 0 or more, found {raw!r:.80}"
        )
    whole = math.fsum(raw)
    shares = [one / whole for one in raw] if whole else [1.0 / len(records)] * len(records)
    return [(1.0 - config.floor) * one + config.floor / len(records) for one in shares]


def drawn(names: Sequence[str], weights: Sequence[float], size: int, seed: int, number: int) -> list[str]:
    """`size` of the names, by their weights, none again before all were there; a pure function of its arguments that
    doesn't depend on the order of the names. Each draw without repeats takes the largest u^(1/w) (Efraimidis and
    Spirakis, 2006), u a hash."""
    found: list[str] = []
    lap = 0
    while len(found) < size:
        keys = {}
        for name, weight in zip(names, weights, strict=True):
            u = (int(digest(["curriculum", seed, number, lap, name])[:13], 16) + 1) / (16**13 + 1)
            keys[name] = math.log(u) / weight if weight > 0 else -math.inf
        found += sorted(names, key=lambda name: (-keys[name], name))[: size - len(found)]
        lap += 1
    return found


class TaskCurriculum:
    """Batches of a run by its curriculum. Batch k is a function of what `learn` was told before, held by `state`."""

    def __init__(self, tasks: Sequence[TaskSpec], config: CurriculumConfig, edges: tuple[int, int], seed: int) -> None:
        """Raises `ValueError` for a curriculum that nobody has or that doesn't take its options, and as
        `StratifiedBatches` does."""
        self.sizes = StratifiedBatches(tasks, edges, seed).sizes
        self._tasks = {task.task_id: task for task in tasks}
        self._config, self._seed = config, seed
        self._tallies: dict[str, tuple[float, float]] = {}
        self._last: list[TaskSpec] = []
        task_weights(self._records(), 0, config)  # an unknown name or option ends the run before it costs anything

    def _records(self) -> list[TaskRecord]:
        return [
            TaskRecord(task.expected_steps, (*task.capabilities, task.target)[0], *self._tallies.get(name, (0.0, 0.0)))
            for name, task in self._tasks.items()
        ]

    def batch(self, number: int, size: int) -> list[TaskSpec]:
        """The `size` tasks of batch `number`."""
        weights = task_weights(self._records(), number, self._config)
        self._last = [self._tasks[name] for name in drawn(list(self._tasks), weights, size, self._seed, number)]
        return self._last

    def learn(self, task: TaskSpec, successes: Sequence[bool | None]) -> None:
        """What became of a group's rollouts; None for one that was lost, which says nothing."""
        known = [one for one in successes if one is not None]
        if known:
            attempts, done = self._tallies.get(task.task_id, (0.0, 0.0))
            self._tallies[task.task_id] = (MEMORY * attempts + len(known), MEMORY * done + sum(known))

    def state(self) -> dict[str, Any]:
        """Plain JSON data, to go on from."""
        return {"tallies": {name: list(both) for name, both in sorted(self._tallies.items())}}

    def load(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state`."""
        self._tallies = {name: (both[0], both[1]) for name, both in state.get("tallies", {}).items()}

    def figures(self) -> dict[str, float]:
        """Of the last batch: expected steps of its tasks; and the share of all tasks that were ever tried."""
        steps = [task.expected_steps for task in self._last]
        return {
            "curriculum/steps": sum(steps) / max(1, len(steps)),
            "curriculum/tried": len(self._tallies) / max(1, len(self._tasks)),
        }
