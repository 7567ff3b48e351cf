"""The tasks of a run that wait and those that are worked on, and how many devices of each kind are in use.

Not safe by itself: whoever uses it holds the run's lock.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from generators.tasks.task_spec import TaskSpec


@dataclass(eq=False)
class ScheduledTask:
    """A contract with a seed, and the kind of device that it needs. It isn't begun before `ready_at` (monotonic)."""

    contract: TaskSpec
    seed: int
    kind: str
    ready_at: float = 0.0

    @property
    def key(self) -> str:
        """Id of its trajectory."""
        return f"{self.contract.task_id}-{self.seed}"


class TaskQueue:
    """`most`: devices of a kind that may be in use at once (None: any number)."""

    def __init__(self, jobs: Sequence[ScheduledTask], most: Mapping[str, int | None]) -> None:
        self._waiting = list(jobs)
        self._running: set[str] = set()
        self._most = dict(most)
        self._in_use: Counter[str] = Counter()
        self._missing_since: dict[str, float] = {}

    @property
    def over(self) -> bool:
        """Whether nothing waits and nothing runs."""
        return not self._waiting and not self._running

    def take(self, kind: str | None = None) -> ScheduledTask | None:
        """A task that can begin now and runs then: for an open device of a kind, or with a device to be opened, which
        is counted as in use."""
        now = time.monotonic()
        for place, job in enumerate(self._waiting):
            most = self._most[job.kind]
            fits = job.kind == kind if kind is not None else most is None or self._in_use[job.kind] < most
            if job.ready_at <= now and fits:
                del self._waiting[place]
                self._running.add(job.key)
                if kind is None:
                    self._in_use[job.kind] += 1
                return job
        return None

    def put_back(self, job: ScheduledTask, seconds: float) -> None:
        """It doesn't run any more and may begin again after some time."""
        job.ready_at = time.monotonic() + seconds
        self._running.discard(job.key)
        self._waiting.append(job)

    def end(self, job: ScheduledTask) -> None:
        """It has ended."""
        self._running.discard(job.key)

    def free(self, kind: str) -> None:
        """A device is in use no more."""
        self._in_use[kind] -= 1

    def found(self, kind: str) -> None:
        """A device of the kind was opened."""
        self._missing_since.pop(kind, None)

    def missing_for(self, kind: str) -> float:
        """Seconds since the first of the vain tries to open a device of the kind, this one being the last."""
        now = time.monotonic()
        return now - self._missing_since.setdefault(kind, now)
