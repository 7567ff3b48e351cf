"""The tasks of a run that wait and those that are worked on, and how many devices of each kind are in use.

Not safe by itself: whoever uses it holds the run's lock.
"""

import heapq
import itertools
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from generators.tasks.task_spec import TaskSpec


@dataclass(eq=False)
class ScheduledTask:
    """A contract with a seed, and the kind of device that it needs. It isn't begun before `ready_at`, by the queue's
    clock."""

    contract: TaskSpec
    seed: int
    kind: str
    ready_at: float = 0.0

    @property
    def key(self) -> str:
        """Id of its trajectory."""
        return f"{self.contract.task_id}-{self.seed}"


class TaskQueue:
    """Of the tasks that can begin the one that has stood longest begins first; one that was put back stands last.

    `most`: devices of a kind that may be in use at once (None: any number). `clock`: monotonic, in seconds. To take a
    task costs the logarithm of how many wait, however many of them wait for a device.
    """

    def __init__(
        self, jobs: Sequence[ScheduledTask], most: Mapping[str, int | None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._places = itertools.count()
        self._can_begin: dict[str, list[tuple[int, ScheduledTask]]] = {kind: [] for kind in most}
        """Kind → a heap of (place, task)."""
        self._resting: list[tuple[float, int, ScheduledTask]] = []
        """A heap of (ready at, place, task) of those that were put back."""
        self._running: set[str] = set()
        self._most = dict(most)
        self._in_use: Counter[str] = Counter()
        self._missing_since: dict[str, float] = {}
        for job in jobs:
            self._stand(job)

    @property
    def over(self) -> bool:
        """Whether nothing waits and nothing runs."""
        return not (self._running or self._resting or any(self._can_begin.values()))

    def take(self, kind: str | None = None) -> ScheduledTask | None:
        """A task that can begin now and runs then: for an open device of a kind, or with a device to be opened, which
        is counted as in use."""
        self._wake()
        kinds = [kind] if kind is not None else [name for name in self._can_begin if self._has_room(name)]
        fitting = [self._can_begin[name] for name in kinds if self._can_begin[name]]
        if not fitting:
            return None
        # of all kinds the task that has stood longest
        _, job = heapq.heappop(min(fitting, key=lambda heap: heap[0][0]))
        self._running.add(job.key)
        if kind is None:
            self._in_use[job.kind] += 1
        return job

    def _has_room(self, kind: str) -> bool:
        most = self._most[kind]
        return most is None or self._in_use[kind] < most

    def _stand(self, job: ScheduledTask) -> None:
        # places only grow, so who was put back stands behind those that wait
        place = next(self._places)
        if job.ready_at > self._clock():
            heapq.heappush(self._resting, (job.ready_at, place, job))
        else:
            heapq.heappush(self._can_begin[job.kind], (place, job))

    def _wake(self) -> None:
        """Tasks whose pause is over can begin."""
        now = self._clock()
        while self._resting and self._resting[0][0] <= now:
            _, place, job = heapq.heappop(self._resting)
            heapq.heappush(self._can_begin[job.kind], (place, job))

    def put_back(self, job: ScheduledTask, seconds: float) -> None:
        """It doesn't run any more and may begin again after some time."""
        job.ready_at = self._clock() + seconds
        self._running.discard(job.key)
        self._stand(job)

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
        now = self._clock()
        return now - self._missing_since.setdefault(kind, now)
