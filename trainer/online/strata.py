"""Batches of training tasks, drawn from the strata of expected steps in proportion to their sizes."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from generators.tasks.strata import METHOD_EDGES, NANO_EDGES, STRATA, stratum
from generators.tasks.task_sampling import TaskPool
from generators.tasks.task_spec import TaskSpec
from schemas.tables import Tasks
from trainer.presets import Preset


def edges_for(preset: Preset) -> tuple[int, int]:
    """Expected steps up to which a task is easy, and medium, where no setting says it: the method's for published
    weights, nano's, as short as the embedded worlds, for what is trained from scratch."""
    return METHOD_EDGES if preset.source else NANO_EDGES


class Batches(Protocol):
    """Batch k is a pure function of k; `sizes`: how many tasks there are of each stratum."""

    sizes: Mapping[str, int]

    def batch(self, number: int, size: int) -> list[TaskSpec]: ...


class StratifiedBatches:
    """Batch k is a pure function of (tasks, edges, seed, k); every task gets its turn before one comes again."""

    def __init__(self, tasks: Sequence[TaskSpec], edges: tuple[int, int], seed: int) -> None:
        """Raises `ValueError` without tasks, and for a task that is there twice."""
        self._tasks = {task.task_id: task for task in tasks}
        if len(self._tasks) < len(tasks):
            raise ValueError(f"online RL: expected each task once, found {len(tasks) - len(self._tasks)} of them again")
        rows = [{**task.as_row(), "stratum": stratum(task.expected_steps, edges)} for task in tasks]
        self._pool = TaskPool(Tasks.table(rows), seed)
        self.sizes: Mapping[str, int] = {name: len(self._pool.strata[name]) for name in STRATA}

    def batch(self, number: int, size: int) -> list[TaskSpec]:
        """The `size` tasks of batch `number`."""
        return [self._tasks[row["task_id"]] for row in self._pool.batch(number, size)]
