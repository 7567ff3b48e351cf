"""The queue against a plain list that is looked through from its start, over random runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import cast

from hypothesis import given, settings
from hypothesis import strategies as st

from generators.execution.task_queue import ScheduledTask, TaskQueue
from generators.tasks.task_spec import TaskSpec

KINDS = {"phone": 2, "site": 1, "page": None}


def task(number: int, kind: str) -> ScheduledTask:
    return ScheduledTask(cast(TaskSpec, SimpleNamespace(task_id=f"t{number}")), 0, kind)


@dataclass
class PlainQueue:
    """What `TaskQueue` says it does, by looking through a list."""

    waiting: list[ScheduledTask]
    in_use: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))

    def take(self, kind: str | None, now: float) -> ScheduledTask | None:
        for job in self.waiting:
            most = KINDS[job.kind]
            fits = job.kind == kind if kind is not None else most is None or self.in_use[job.kind] < most
            if job.ready_at <= now and fits:
                self.waiting.remove(job)
                if kind is None:
                    self.in_use[job.kind] += 1
                return job
        return None


@given(
    st.lists(st.sampled_from(sorted(KINDS)), max_size=12),
    st.lists(
        st.tuples(st.sampled_from(["take", "follow", "end", "back", "free"]), st.integers(0, 5), st.floats(0, 3)),
        max_size=60,
    ),
)
@settings(deadline=None)
def test_the_queue_takes_what_a_look_through_the_list_takes(
    kinds: list[str], moves: list[tuple[str, int, float]]
) -> None:
    jobs = [task(number, kind) for number, kind in enumerate(kinds)]
    now = 100.0
    queue, plain, running = TaskQueue(jobs, KINDS, clock=lambda: now), PlainQueue(list(jobs)), []
    for move, pick, seconds in moves:
        now += seconds
        if move in ("take", "follow"):
            kind = sorted(KINDS)[pick % 3] if move == "follow" else None
            taken = queue.take(kind)
            assert taken is plain.take(kind, now)
            running += [taken] if taken is not None else []
        elif move == "free":
            kind = sorted(KINDS)[pick % 3]
            if plain.in_use[kind]:
                queue.free(kind)
                plain.in_use[kind] -= 1
        elif running:
            job = running.pop(pick % len(running))
            if move == "end":
                queue.end(job)
            else:
                queue.put_back(job, seconds)
                plain.waiting.append(job)
        assert queue.over == (not plain.waiting and not running)
