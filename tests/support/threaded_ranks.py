"""Ranks that are threads of one process: they exchange what they tell one another as processes do."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

from trainer.runtime.exchange import Exchange
from trainer.runtime.parallel import Ranks


class _InThreads(Exchange):
    def __init__(self, rank: int, barrier: Barrier, boxes: list[Any]) -> None:
        self._rank, self._barrier, self._boxes = rank, barrier, boxes

    def told(self, value: object) -> list[Any]:
        self._boxes[self._rank] = value
        self._barrier.wait()
        found = copy.copy(self._boxes)
        self._barrier.wait()
        return found

    def dealt(self, values: Sequence[object]) -> list[Any]:
        return [each[self._rank] for each in self.told(values)]


def in_threads(world: int, on_a_rank: Callable[[Ranks, Exchange], Any]) -> list[Any]:
    """What each rank's call gives."""
    barrier, boxes = Barrier(world, timeout=60), [None] * world
    with ThreadPoolExecutor(world) as pool:
        calls = [pool.submit(on_a_rank, Ranks(rank, world), _InThreads(rank, barrier, boxes)) for rank in range(world)]
        return [call.result() for call in calls]
