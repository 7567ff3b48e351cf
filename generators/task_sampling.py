"""Drawing batches from the task pool: from the strata in proportion, or where the policy is at its frontier.

Both are pure functions of the pool, a seed and the batch's number; the frontier also of the policy's record.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pyarrow as pa

from generators.task_pool import SHARDS, STRATA
from pipelines.store import Store
from schemas.ids import digest
from schemas.tables import Tasks

Row = dict[str, Any]
Bin = tuple[int, int]
"""(structural difficulty, semantic difficulty): see `bin_of`."""
STEP_EDGES = (2, 5, 10, 20)
CAPABILITY_EDGES = (1, 3)
FRONTIER = 0.5
"""Success rate at which a policy learns most: the variance of a group's outcomes is largest there."""
WIDTH = 0.2
FLOOR = 0.02
"""Weight of a bin however easy or hopeless, so that its record stays fresh."""
PRIOR = 2.0
"""Attempts that the prior (success `FRONTIER`) counts for in a bin."""


class TaskPool:
    """Batches of tasks drawn from the strata in proportion to their sizes; batch k is a pure function of (seed, k)."""

    def __init__(self, tasks: pa.Table, seed: int = 0) -> None:
        """`tasks` is a `Tasks` table. Raises `ValueError` if it is empty."""
        if tasks.num_rows == 0:
            raise ValueError("task pool: expected at least one task, found none")
        rows = tasks.sort_by("task_id").to_pylist()
        self.strata = {name: [row for row in rows if row["stratum"] == name] for name in STRATA}
        self.seed = seed
        self.size = len(rows)
        # A lap over the pool, the strata spread evenly through it: the j-th of m tasks stands at (j + 1/2) / m.
        spread = [((j + 0.5) / len(own), name, j) for name, own in self.strata.items() for j in range(len(own))]
        self._lap = [(name, j) for _, name, j in sorted(spread)]

    @classmethod
    def open(cls, store: Store, seed: int = 0) -> TaskPool:
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
        return sorted(self.strata[name], key=lambda row: digest([self.seed, name, lap, row["task_id"]]))


def bin_of(task: Mapping[str, Any]) -> Bin:
    """MobileGen's two axes: structural = length of the path, semantic = how many capabilities the goal calls for."""
    steps, kinds = task["expected_steps"], len(task["capabilities"])
    return sum(steps > edge for edge in STEP_EDGES), sum(kinds > edge for edge in CAPABILITY_EDGES)


class FrontierSampler:
    """Batches from the bins that the policy does about half the time (MobileGen).

    w(bin) = exp(-(p - p*)^2 / 2 s^2) + floor, p = (successes + n0 p*) / (attempts + n0) over the bin, p* = `FRONTIER`,
    s = `WIDTH`, n0 = `PRIOR`. A bin is drawn by weight, then a task of it evenly. Source: MobileGen (two axes, per-bin
    record of the current agent); its formula isn't published, this one is ours.
    """

    def __init__(self, tasks: pa.Table, record: Mapping[str, Sequence[bool]], seed: int = 0) -> None:
        """`tasks` is a `Tasks` table, `record` task_id → outcomes of the policy as it is now. Raises `ValueError` if
        there are no tasks."""
        if tasks.num_rows == 0:
            raise ValueError("task pool: expected at least one task, found none")
        self.seed = seed
        self.bins: dict[Bin, list[Row]] = {}
        for row in tasks.sort_by("task_id").to_pylist():
            self.bins.setdefault(bin_of(row), []).append(row)
        self.success = {name: self._rate(rows, record) for name, rows in sorted(self.bins.items())}
        self.weights = {name: math.exp(-((p - FRONTIER) ** 2) / (2 * WIDTH**2)) + FLOOR
                        for name, p in self.success.items()}  # fmt: skip

    @staticmethod
    def _rate(rows: Sequence[Row], record: Mapping[str, Sequence[bool]]) -> float:
        outcomes = [outcome for row in rows for outcome in record.get(row["task_id"], ())]
        return (sum(outcomes) + PRIOR * FRONTIER) / (len(outcomes) + PRIOR)

    def batch(self, number: int, size: int) -> list[Row]:
        """Batch `number` of `size` tasks."""
        rng = Random(f"frontier/{self.seed}/{number}")
        drawn = rng.choices(list(self.weights), list(self.weights.values()), k=size)
        return [rng.choice(self.bins[name]) for name in drawn]
