"""The asynchronous collector by itself, with workers whose rollouts end when the test says so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from choice_world import pool, task
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.online.asynchronous import AsyncCollector
from trainer.online.collect import RolloutGroup
from trainer.online.rollouts import ReplySample, Rollout, RolloutJob, lost
from trainer.online.run import _counting
from trainer.online.strata import StratifiedBatches
from trainer.settings.online import OnlineConfig

CONFIG = {
    "mode": "async",
    "updates": 99,
    "tasks_per_update": 2,
    "num_generations": 3,
    "max_staleness": 1,
    "edges": [1, 2],
}


class Workers:
    """`wait` gives what `plan` says of the jobs that were asked for."""

    def __init__(self) -> None:
        self.jobs: dict[str, RolloutJob] = {}
        self.ready: list[Rollout] = []
        self.keep: Any = None
        self.pool = pool()

    def submit(self, jobs: Sequence[RolloutJob], first: bool = False) -> None:
        self.jobs |= {job.key: job for job in jobs}

    def end(self, key: str, version: int, success: bool | None = True) -> None:
        job = self.jobs.pop(key)
        sample = ReplySample("[]", b"", "web", (1,), (-1.0,), version)
        made = Rollout(key, job.contract.task_id, (sample,), success, 1, 0, "finished")
        made = made if success is not None else lost(job, "gone")
        if success is not None:
            self.keep(made)
        self.ready.append(made)

    def wait(self, seconds: float) -> list[Rollout]:
        if not self.ready:
            raise TimeoutError("nothing more ends")
        found, self.ready = self.ready, []
        return found


def collector(folder: Path | None = None, **changes: Any) -> tuple[AsyncCollector, Workers]:
    config, workers = OnlineConfig.parsed({**CONFIG, **changes}), Workers()
    batches = StratifiedBatches([task(1 + n % 3, n) for n in range(7)], config.edges, 0)
    return AsyncCollector(workers, batches, config, folder), workers  # type: ignore[arg-type]


def keys(groups: Sequence[RolloutGroup]) -> list[list[str]]:
    return [[one.key for one in group.counted()] for group in groups]


def test_only_so_many_groups_are_open_and_the_oldest_whole_ones_are_taken() -> None:
    made, workers = collector()
    with pytest.raises(TimeoutError):
        made.collect(0)
    assert sorted(workers.jobs) == [f"g{g:07d}-{m:03d}" for g in range(4) for m in range(3)]  # 2 x (1 + 1) groups
    for group in (3, 1, 2):
        for member in range(3):
            workers.end(f"g{group:07d}-{member:03d}", 0, success=None if (group, member) == (2, 1) else True)
    taken = made.collect(0)
    assert [group.key for group in taken] == ["g0000001", "g0000002"]
    assert taken[1].rollouts[1].success is None  # lost to infrastructure: it stays in its group, as nothing
    assert [one.task_id for one in taken[0].rollouts] == [taken[0].task.task_id] * 3


def test_a_straggler_joins_a_later_update_and_is_compared_with_its_whole_group() -> None:
    made, workers = collector()
    with pytest.raises(TimeoutError):
        made.collect(0)
    for member in range(3):
        workers.end(f"g0000001-{member:03d}", 0)
        workers.end(f"g0000002-{member:03d}", 0)
    for member in range(2):
        workers.end(f"g0000000-{member:03d}", 0, success=member == 0)
    assert [group.key for group in made.collect(0)] == ["g0000001", "g0000002"]
    with pytest.raises(TimeoutError):
        made.collect(1)  # group 0 is too old for update 2: taken as it is, one whole group is still needed
    for member in range(3):
        workers.end(f"g0000003-{member:03d}", 1)
    first = made.collect(1)
    assert keys(first) == [["g0000000-000", "g0000000-001"], [f"g0000003-{m:03d}" for m in range(3)]]
    workers.end("g0000000-002", 1)
    for number in (4, 5):
        for member in range(3):
            workers.end(f"g{number:07d}-{member:03d}", 2)
    second = made.collect(2)
    assert keys(second)[-1] == ["g0000000-002"] and [len(g.rollouts) for g in second] == [3, 3, 3]
    assert made.figures()["late"] == 1
    from trainer.rl.grpo import group_advantages

    advantages = _counting(
        group_advantages([[0.0, 1.0, 0.5]] * 2 + [[1.0, 0.0, 1.0]], OnlineConfig.parsed({}).grpo), second
    )
    assert advantages.weights[6:8] == (0.0, 0.0) and advantages.weights[8] > 0 and advantages.values[8] > 0


def test_what_is_too_old_is_dropped_and_counted() -> None:
    made, workers = collector()
    with pytest.raises(TimeoutError):
        made.collect(0)
    workers.end("g0000000-000", 0)  # one alone is no comparison: it waits for its group
    for number in (1, 2, 3):
        _fill(workers, number, 0)
    made.collect(0)
    for update, numbers in ((1, (4,)), (2, (5, 6))):
        with pytest.raises(TimeoutError):
            made.collect(update)
        for number in numbers:
            _fill(workers, number, update)
        made.collect(update)
    assert made.figures()["stale_dropped"] == 1
    assert made.state()["ledger"]["g0000000-000"] == -1


def _fill(workers: Workers, number: int, version: int) -> None:
    """All members of a group that were asked for end."""
    for key in [key for key in sorted(workers.jobs) if key.startswith(f"g{number:07d}")]:
        workers.end(key, version)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_every_rollout_is_used_once_or_dropped_however_they_end(data: st.DataObject) -> None:
    made, workers = collector(max_staleness=data.draw(st.integers(0, 2)))
    used: Counter[str] = Counter()
    ended: set[str] = set()
    for update in range(6):
        while True:
            try:
                groups = made.collect(update)
                break
            except TimeoutError:
                some = data.draw(st.lists(st.sampled_from(sorted(workers.jobs)), min_size=1, max_size=6, unique=True))
                for key in some:
                    workers.end(key, update, success=data.draw(st.sampled_from([True, False, None])))
                    ended.add(key)
        used.update(key for group in keys(groups) for key in group)
        assert all(
            update - one.version <= made._config.max_staleness
            for group in groups
            for one in group.counted()
            if one.samples
        )
    ledger = made.state()["ledger"]
    assert max(used.values()) == 1
    assert {key for key, when in ledger.items() if when >= 0} == set(used)
    still = {one.key for group in made._open.values() for one in group.made.values()}
    assert ended <= set(ledger) | still | {one.key for one in workers.ready}


def test_a_restart_takes_up_what_had_ended(tmp_path: Path) -> None:
    made, workers = collector(tmp_path)
    with pytest.raises(TimeoutError):
        made.collect(0)
    for number in (0, 1, 2):
        _fill(workers, number, 0)
    made.collect(0)
    state = made.state()
    made.saved()
    for member in range(2):
        workers.end(f"g0000003-{member:03d}", 1)
    with pytest.raises(TimeoutError):
        made.collect(1)
    _fill(workers, 4, 1)  # asked for after the state was saved
    again, others = collector(tmp_path)
    again.load(state)
    assert sorted(others.jobs) == ["g0000003-002"]
    taken = again.collect(1)
    assert keys(taken) == [[f"g{n:07d}-{m:03d}" for m in range(3)] for n in (2, 4)]
    # weights that were lost had used these; those that replace them use them once
    repeated, more = collector(tmp_path)
    repeated.load(state)
    assert keys(repeated.collect(1)) == keys(taken)
    repeated.state()
    repeated.saved()
    left = sorted(path.name.split(".")[0] for path in (tmp_path / "rollouts").iterdir())
    assert left == ["g0000003-000", "g0000003-001"]
    with pytest.raises(RuntimeError, match="second time"):
        repeated.taken([replace(taken[0].rollouts[0])])
