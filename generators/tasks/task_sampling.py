"""Drawing batches from the task pool: from the strata in proportion, a pure function of the pool, a seed and a number.

How much a policy learns at a success rate (`frontier_weight`) steers what a round proposes, not what is drawn here.
"""

import math
from typing import Any

import pyarrow as pa

from generators.tasks.strata import STRATA
from generators.tasks.task_pool import SHARDS
from pipelines.store import Store
from schemas.ids import digest
from schemas.tables import Tasks

FRONTIER = 0.5
"""Success rate at which a policy learns most: the variance of a group's outcomes is largest there."""
# wide enough that a success rate of 0.3 or 0.7 still counts for a good half
WIDTH = 0.2
FLOOR = 0.02
"""Weight of tasks however easy or hopeless, so that their record stays fresh."""
PRIOR = 2.0
"""Attempts that the prior (success `FRONTIER`) counts for."""


def frontier_weight(success: float) -> float:
    """w(p) = exp(-(p - p*)^2 / 2 s^2) + floor: how much a policy learns where its success rate (0..1) is p; p* =
    `FRONTIER`, s = `WIDTH`. Our own formula: MobileGen, whose idea it is, doesn't publish one."""
    return math.exp(-((success - FRONTIER) ** 2) / (2 * WIDTH**2)) + FLOOR


class TaskPool:
    """Batches of tasks drawn from the strata in proportion to their sizes; batch k is a pure function of (seed, k)."""

    def __init__(self, tasks: pa.Table, seed: int = 0) -> None:
        """`tasks` is a `Tasks` table. Raises `ValueError` if it is empty."""
        if tasks.num_rows == 0:
            raise ValueError("task pool: expected at least one task, found none")
        # by id, so that a batch doesn't depend on the order of the file
        rows = tasks.sort_by("task_id").to_pylist()
        self.strata = {name: [row for row in rows if row["stratum"] == name] for name in STRATA}
        self.seed = seed
        self.size = len(rows)
        # A lap over the pool, the strata spread evenly through it: the j-th of m tasks stands at (j + 1/2) / m.
        # the middle of its part of the lap: strata of any sizes mix evenly
        spread = [((j + 0.5) / len(own), name, j) for name, own in self.strata.items() for j in range(len(own))]
        self._lap = [(name, j) for _, name, j in sorted(spread)]

    @classmethod
    def open(cls, store: Store, seed: int = 0) -> "TaskPool":
        """The pool of `task_pool/shards`. Raises `StoreError` if there is none."""
        return cls(store.require(SHARDS).read("tasks", Tasks.schema), seed)

    def batch(self, number: int, size: int) -> list[dict[str, Any]]:
        """Batch `number` of `size` tasks: laps over the pool, cut into batches, so each task gets its turn."""
        orders: dict[tuple[int, str], list[dict[str, Any]]] = {}
        drawn = []
        for place in range(number * size, (number + 1) * size):
            lap, offset = divmod(place, self.size)
            name, j = self._lap[offset]
            if (lap, name) not in orders:
                orders[lap, name] = self._order(lap, name)
            drawn.append(orders[lap, name][j])
        return drawn

    def _order(self, lap: int, name: str) -> list[dict[str, Any]]:
        # another order each lap, by a hash, so that it depends on no task but itself
        return sorted(self.strata[name], key=lambda row: digest([self.seed, name, lap, row["task_id"]]))
