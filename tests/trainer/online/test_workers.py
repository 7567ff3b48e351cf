"""Rollouts over devices that are slow, break or hang."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from choice_world import ChoiceWorld, Slow, pool, task

from generators.execution.device_pool import LocalPool
from generators.execution.limits import AttemptLimits
from trainer.modeling.checkpoint import Checkpoint, load_checkpoint, load_processor
from trainer.modeling.sampler import POLICY, REFERENCE
from trainer.online import workers
from trainer.online.engine import ReplyEngine
from trainer.online.reference import validation_jobs
from trainer.online.rollouts import Rollout, RolloutJob
from trainer.online.workers import RolloutWorkers

LIMITS = AttemptLimits(step_factor=1, step_extra=0, retries=1, call_s=60.0, pause_s=0.01)


@pytest.fixture(scope="module")
def loaded(start: Path) -> Checkpoint:
    return load_checkpoint(start)


@contextmanager
def running(
    loaded: Checkpoint, devices: Any, *, count: int = 2, lockstep: bool = True, limits: AttemptLimits = LIMITS
) -> Iterator[RolloutWorkers]:
    assert loaded.folder is not None
    engine = ReplyEngine(
        loaded.model, load_processor(loaded.folder), temperature=1.0, max_new_tokens=24, threads=1, lockstep=lockstep
    )
    with engine, RolloutWorkers(loaded, engine, devices, limits, workers=count) as crew:
        yield crew


def jobs(count: int, n: int = 2) -> list[RolloutJob]:
    return [RolloutJob(task(n), "g", member, member) for member in range(count)]


def brief(made: list[Rollout]) -> list[Any]:
    return [(one.key, one.success, [(s.token_ids, s.logprobs) for s in one.samples]) for one in made]


def test_lockstep_makes_rollouts_a_function_of_the_seeds(loaded: Checkpoint) -> None:
    with running(loaded, pool(), count=3) as crew:
        first = crew.run(jobs(7))
        assert all(one.steps == 2 and len(one.samples) == 2 and one.seconds > 0 for one in first)
        assert len({one.samples[0].token_ids for one in first}) > 1
        assert crew.engine.replies == 14 and crew.engine.batches < 14  # they were answered together
    with running(loaded, Slow(3, 0.0, 0.03), count=3) as crew:  # another pace, the same rollouts
        assert brief(crew.run(jobs(7))) == brief(first)
    assert crew.unfinished == 0 and not [t for t in threading.enumerate() if t.name.startswith("rollouts-")]


@pytest.mark.parametrize("lockstep", [True, False])
def test_policy_and_reference_are_compared_in_pairs(loaded: Checkpoint, lockstep: bool) -> None:
    """The same weights in both slots give the same episodes, though others stand beside them."""
    tasks = [task(n, number) for number, n in enumerate((1, 2, 3))]
    ours, theirs = (
        validation_jobs(tasks, update, slot, episodes=12, seed=3) for update, slot in ((0, POLICY), (4, REFERENCE))
    )
    with running(loaded, pool(), count=5, lockstep=lockstep) as crew:
        crew.engine.publish(loaded.model.state_dict(), 4, REFERENCE)
        policy = crew.run(ours)
        crew.submit(jobs(4))  # they run beside the reference's
        reference = crew.run(theirs[::-1], [])[::-1]
        policy_again = crew.run([replace(job, group=f"other-{job.group}", validation=False) for job in ours])
    told = [[[sample.token_ids for sample in one.samples] for one in some] for some in (policy, reference)]
    assert told[0] == told[1] and len({str(one) for one in told[0][3:]}) > 3
    training = [[sample.token_ids for sample in one.samples] for one in policy_again]
    assert training[3:] != told[0][3:] and training[:3] == told[0][:3], "others are drawn by key and batch"


def test_a_broken_device_costs_a_try_and_no_verdict(loaded: Checkpoint) -> None:
    opened: list[ChoiceWorld] = []

    def breaks_once() -> ChoiceWorld:
        opened.append(ChoiceWorld(break_at=frozenset({2}) if not opened else frozenset()))
        return opened[-1]

    with running(loaded, pool(breaks_once), count=1) as crew:
        made = crew.run(jobs(2))
    assert [one.success is None for one in made] == [False, False] and len(opened) == 2
    assert sum(crew.statistics.failures.values()) == 1 and crew.statistics.lost == 0
    with running(loaded, pool(lambda: ChoiceWorld(break_at=frozenset({1}))), count=1) as crew:
        made = crew.run(jobs(2))
    assert [one.success for one in made] == [None, None] and "the device is gone" in made[0].failure
    assert crew.statistics.lost == 2 and crew.statistics.opened == 4


@pytest.mark.parametrize(("keeps_idle", "opened"), [(False, 4), (True, 2)])
def test_a_worker_keeps_what_it_has_open_where_idle_devices_cost_nothing(
    loaded: Checkpoint, keeps_idle: bool, opened: int
) -> None:
    worlds: list[str] = []

    def opener(name: str) -> Any:
        @contextmanager
        def one() -> Iterator[Any]:
            worlds.append(name)
            yield ChoiceWorld()
            worlds.append(f"{name} closed")

        return one

    devices = LocalPool({name: opener(name) for name in ("choice", "other")}, keeps_idle=keeps_idle)
    kinds = ("choice", "other", "choice", "other")
    turns = [replace(task(2), initial_state={**task(2).initial_state, "world": name}) for name in kinds]
    with running(loaded, devices, count=1) as crew:
        made = crew.run([RolloutJob(contract, "g", member, member) for member, contract in enumerate(turns)])
        assert all(one.success is not None for one in made)
        assert len({one.device for one in made}) == opened == crew.statistics.opened
        assert crew.held_s >= sum(one.seconds for one in made) * 0.5
    assert len(worlds) == 2 * opened and sum(name.endswith("closed") for name in worlds) == opened


def test_a_device_that_never_opens_ends_the_run(loaded: Checkpoint) -> None:
    def never() -> ChoiceWorld:
        raise ValueError("no such phone")

    with pytest.raises(ValueError, match="no such phone"), running(loaded, pool(never)) as crew:
        crew.run(jobs(1))
    with pytest.raises(ValueError, match="no device has the world"), running(loaded, LocalPool({})) as crew:
        crew.run(jobs(1))


def test_a_device_that_isnt_to_be_had_is_waited_for(loaded: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "NO_DEVICE_S", 0.02)
    asked: list[int] = []

    def late() -> ChoiceWorld:
        asked.append(1)
        if len(asked) < 4:  # more often than a rollout is tried again
            raise ConnectionError("none is free")
        return ChoiceWorld()

    limits = AttemptLimits(step_factor=1, step_extra=0, retries=0, device_s=60.0)
    with running(loaded, pool(late), count=1, limits=limits) as crew:
        [made] = crew.run(jobs(1))
        assert made.success is not None and len(asked) == 4
    never = AttemptLimits(step_factor=1, step_extra=0, retries=0, device_s=0.1)

    def none() -> ChoiceWorld:
        raise ConnectionError("none is free")

    with running(loaded, pool(none), count=1, limits=never) as crew:
        [made] = crew.run(jobs(1))
    assert made.success is None and "none is free" in made.failure


def test_a_call_that_hangs_costs_its_worker_alone(loaded: Checkpoint) -> None:
    gate = threading.Event()
    hung: list[int] = []

    class Hangs(ChoiceWorld):
        def reset(self, start: Any) -> None:
            super().reset(start)
            if not hung:
                hung.append(1)
                gate.wait(60)

    limits = AttemptLimits(step_factor=1, step_extra=0, retries=1, call_s=5.0, pause_s=0.01)
    with running(loaded, pool(Hangs), count=2, limits=limits) as crew:
        made = crew.run(jobs(4))
        gate.set()
    assert all(one.success is not None for one in made) and crew.statistics.hung == 1


def test_a_slow_device_stalls_nobody(loaded: Checkpoint) -> None:
    with running(loaded, Slow(4, 0.005, 1.5), count=4, lockstep=False) as crew:
        crew.submit(jobs(16, n=1))
        done: list[Rollout] = []
        while len(done) < 16:
            done += crew.wait(5.0)
    devices = [one.device for one in done]
    assert devices.index("fake/0") >= 6  # waiting for one another, it would come at place 3 at the latest
    assert len(set(devices)) == 4 and devices.count("fake/0") < 4
