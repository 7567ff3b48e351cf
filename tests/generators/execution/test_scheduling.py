"""Many executions on devices that fail: the results are those of a run in which nothing did."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from executing import (
    PATIENT,
    Faults,
    FaultyWorld,
    PathPolicy,
    fsm_contracts,
    path_policies,
    pool,
    run_noted,
    what_was_done,
)

from generators.devices.browser import BrowserMissing, keep_browser
from generators.execution import worker_pool
from generators.execution.device_pool import Device, LocalPool, Pools
from generators.execution.journal import Journal, JournalError, read_journal
from generators.execution.limits import AttemptLimits
from generators.execution.scheduling import RunStatistics, run_all
from generators.generation.verify import Verifier
from generators.policies.policy import Decision, PolicyView
from generators.policies.policy_maker import PolicyMaker
from generators.policies.registry import scripted
from generators.tasks.task_spec import VOTES, TaskSpec
from generators.tasks.trajectory import ExecutedTrajectory
from generators.tasks.world_interface import Observation, World
from quality.model_client.retry import Retry

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
CALL_S = 4  # what a call may take: none that is honest comes near it, however busy the machine is
BRIEF = AttemptLimits(call_s=CALL_S)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, object]]:
    with Journal(tmp_path_factory.mktemp("undisturbed")) as journal:
        done = run_all(fsm_contracts(), pool(), path_policies(0.2), journal, workers=1)
    assert len({one.trajectory_id for one in done}) == len(fsm_contracts())
    return [what_was_done(one) for one in done]


@pytest.mark.parametrize("wanted", [False, True])
def test_a_device_is_kept_from_task_to_task_unless_others_want_it(tmp_path: Path, wanted: bool) -> None:
    class Shared(LocalPool):
        @contextmanager
        def open(self, kind: str) -> Iterator[Device]:
            with super().open(kind) as device:
                yield replace(device, wanted=lambda: wanted)

    @contextmanager
    def opened() -> Iterator[World]:
        yield FaultyWorld()

    survived, contracts = RunStatistics(), fsm_contracts()[:3]
    with Journal(tmp_path) as journal:
        shared = Shared({"fsm": opened})
        done = run_all(contracts, shared, path_policies(), journal, workers=1, statistics=survived)
    assert [one.ended for one in done] == ["finished"] * 3
    assert survived.opened == (3 if wanted else 1)


@pytest.mark.parametrize("seed", range(3))
def test_failing_devices_change_nothing(tmp_path: Path, undisturbed: list[dict[str, object]], seed: int) -> None:
    faults = Faults(rate=0.01, seed=seed)
    told: list[tuple[int, int]] = []
    survived = RunStatistics()
    with Journal(tmp_path) as journal:
        done = run_all(
            fsm_contracts(),
            pool(lambda: FaultyWorld(faults)),
            path_policies(0.2),
            journal,
            workers=4,
            limits=PATIENT,
            progress=lambda one, count, total: told.append((count, total)),
            statistics=survived,
        )
    assert [what_was_done(one) for one in done] == undisturbed
    assert told == [(n + 1, len(done)) for n in range(len(done))]
    assert sum(survived.retried.values()) == sum(len(one.extra["broken"]) for one in done) > 3
    assert sum(one.resumed for one in done) > 0


def test_a_killed_process_costs_the_steps_in_flight(tmp_path: Path, undisturbed: list[dict[str, object]]) -> None:
    rng = Random(5)
    kills = 0
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests/support")])
    for _ in range(2):
        child = subprocess.Popen(
            [sys.executable, str(ROOT / "tests/support/executing.py"), str(tmp_path), str(rng.random())[2:8]],
            env={**os.environ, "PYTHONPATH": path},
        )
        try:
            size = (tmp_path / "decisions").stat().st_size if kills else 0
            end = time.monotonic() + 60
            while not (tmp_path / "decisions").exists() or (tmp_path / "decisions").stat().st_size <= size:
                assert time.monotonic() < end and child.poll() is None
                time.sleep(0.01)
            time.sleep(rng.random() * 0.2)
        finally:
            child.send_signal(signal.SIGKILL)
            kills += child.wait() == -signal.SIGKILL
    assert kills == 2
    turns = {key: one.turns[:] for key, one in read_journal(tmp_path).items()}
    assert sum(len(kept) for kept in turns.values()) > 0
    done = run_noted(tmp_path, 1)
    assert [what_was_done(one) for one in done] == undisturbed
    for one in done:  # what stood in the journal is in the result as it was
        assert list(one.turns[: len(turns.get(one.trajectory_id, ()))]) == turns.get(one.trajectory_id, [])
    noted = (tmp_path / "decisions").read_text().splitlines()
    failures = sum(len(one.extra["broken"]) for one in done)
    recorded = sum(len(one.turns) for one in done)
    assert recorded <= len(noted) <= recorded + failures + 3 * kills  # three workers: a step in flight each


class Hangs(PathPolicy):
    """Hangs at its first decision of all."""

    def __init__(self, once: threading.Semaphore, until: threading.Event) -> None:
        super().__init__(0.2)
        self._once, self._until = once, until

    def decide(self, view: PolicyView) -> Decision:
        if self._once.acquire(blocking=False):
            self._until.wait(20)
        return super().decide(view)


class Reporting(LocalPool):
    """Devices that note what is done to them."""

    def __init__(self) -> None:
        super().__init__({"fsm": opened_faulty})
        self.failures: list[str] = []
        self.killed: list[str] = []

    @contextmanager
    def open(self, kind: str) -> Iterator[Device]:
        with super().open(kind) as device:
            yield replace(device, fail=self.failures.append, kill=lambda: self.killed.append(device.name))


@contextmanager
def opened_faulty() -> Iterator[World]:
    yield FaultyWorld()


def test_a_policy_that_hangs_costs_a_worker_and_no_task(
    tmp_path: Path, undisturbed: list[dict[str, object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_pool, "DECIDE_S", CALL_S)
    once, until = threading.Semaphore(1), threading.Event()
    survived, devices = RunStatistics(), Reporting()
    with Journal(tmp_path) as journal:
        makers = PolicyMaker("path", lambda contract, world: Hangs(once, until))
        done = run_all(fsm_contracts(), devices, makers, journal, workers=2, limits=BRIEF, statistics=survived)
        # The device that waited for it is let go, and isn't reported: three reports would put it in quarantine.
        assert len(devices.killed) == 1 and devices.failures == []
        until.set()  # it answers when nobody waits any more: that counts for nothing
        time.sleep(0.1)
        assert {key: what_was_done(one) for key, one in journal.finished.items()} == {
            one.trajectory_id: what_was_done(one) for one in done
        }
    assert [what_was_done(one) for one in done] == undisturbed and survived.hung == 1


def test_a_slow_policy_is_waited_for(tmp_path: Path, undisturbed: list[dict[str, object]]) -> None:
    once, until = threading.Semaphore(1), threading.Event()
    survived, devices = RunStatistics(), Reporting()
    waiting = threading.Timer(CALL_S + 1, until.set)  # longer than any call of a device may take
    with Journal(tmp_path) as journal:
        waiting.start()
        makers = PolicyMaker("path", lambda contract, world: Hangs(once, until))
        done = run_all(fsm_contracts(), devices, makers, journal, workers=2, limits=BRIEF, statistics=survived)
    assert [what_was_done(one) for one in done] == undisturbed
    assert survived.hung == 0 and devices.failures == devices.killed == []


def test_a_decision_may_take_as_long_as_a_model_server_does() -> None:
    assert 2 * Retry().deadline_s < worker_pool.DECIDE_S  # a question for the action, another for who chooses


def test_the_end_of_a_run_says_nothing_against_its_devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    devices, until, begun = Reporting(), threading.Event(), threading.Event()

    class Waits(PathPolicy):
        def decide(self, view: PolicyView) -> Decision:
            begun.set()
            until.wait(20)
            return super().decide(view)

    def stop(*given: object) -> None:
        raise KeyboardInterrupt

    with Journal(tmp_path) as journal:
        monkeypatch.setattr(worker_pool.WorkerPool, "replace_hung", lambda self: begun.wait(5) and stop())
        with pytest.raises(KeyboardInterrupt):
            makers = PolicyMaker("path", lambda contract, world: Waits())
            run_all(fsm_contracts(1), devices, makers, journal, workers=1, limits=AttemptLimits(call_s=0.2))
        until.set()
    assert len(devices.killed) == 1 and devices.failures == []


def test_a_device_that_hangs_is_killed_and_stalls_nobody(tmp_path: Path, undisturbed: list[dict[str, object]]) -> None:
    gone = threading.Event()
    reported: list[str] = []

    class Stuck(FaultyWorld):
        def observe(self) -> Observation:
            if first:
                first.clear()
                gone.wait(20)
                raise RuntimeError("killed")
            return super().observe()

    class Killing(LocalPool):
        @contextmanager
        def open(self, kind: str) -> Iterator[Device]:
            with super().open(kind) as device:
                yield replace(device, fail=reported.append, kill=gone.set)

    @contextmanager
    def opened() -> Iterator[World]:
        yield Stuck()

    first = [1]
    began = time.monotonic()
    with Journal(tmp_path) as journal:
        devices = Killing({"fsm": opened})
        done = run_all(
            fsm_contracts(), devices, path_policies(0.2), journal, workers=2, limits=AttemptLimits(call_s=CALL_S)
        )
        assert gone.wait(5)
    assert [what_was_done(one) for one in done] == undisturbed
    assert time.monotonic() - began < 15 and reported == [f"observe hangs: no answer within {CALL_S} s"]


def test_without_a_device_tasks_wait_and_are_given_up(tmp_path: Path) -> None:
    tries: list[float] = []

    def never() -> World:
        tries.append(time.monotonic())
        raise OSError("no such device")

    contracts = fsm_contracts(1)
    with Journal(tmp_path / "a") as journal:
        done = run_all(contracts, pool(never), path_policies(), journal, limits=AttemptLimits(device_s=0.4))
    assert {(one.ended, one.failure_kind) for one in done} == {("failed", "infrastructure")}
    assert all("no such device" in one.failure for one in done) and len(tries) > len(contracts)

    def missing() -> World:
        raise BrowserMissing("no Chromium found")

    with Journal(tmp_path / "b") as journal, pytest.raises(BrowserMissing):
        run_all(contracts, pool(missing), path_policies(), journal)
    with Journal(tmp_path / "c") as journal:
        with pytest.raises(ValueError, match="no device has the world"):
            run_all(contracts, LocalPool({}), path_policies(), journal)
        with pytest.raises(ValueError, match="each contract and seed once"):
            run_all([*contracts, contracts[0]], pool(), path_policies(), journal)


def test_a_start_that_its_world_refuses_is_the_tasks_own_failure(tmp_path: Path) -> None:
    good, other = fsm_contracts()[:2]
    bad = replace(other, initial_state={**other.initial_state, "page": "nowhere"})
    with Journal(tmp_path) as journal:
        done = run_all([good, bad], pool(), path_policies(), journal, limits=AttemptLimits(retries=1))
    kinds = {one.contract.task_id: one.failure_kind for one in done}
    assert kinds == {good.task_id: None, bad.task_id: "task"}


def test_a_task_that_the_policy_cant_do_is_no_failure_of_infrastructure(tmp_path: Path) -> None:
    guided, other = fsm_contracts()[:2]
    voted = replace(other, evaluator={"rule": VOTES})  # what a model proposes
    survived = RunStatistics()
    with Journal(tmp_path) as journal:
        done = run_all([guided, voted], pool(), scripted(), journal, workers=1, statistics=survived)
    found = {one.contract.task_id: one for one in done}
    assert found[guided.task_id].ended == "finished" and not survived.retried and survived.opened == 1
    cannot = found[voted.task_id]
    assert (cannot.ended, cannot.failure_kind, cannot.turns) == ("failed", "task", ())
    assert "nothing guides the rule 'votes'" in cannot.failure
    verdict = Verifier([]).verify(cannot)
    assert (verdict.verified, verdict.outcome, verdict.failure_kind) == (False, "failed", "task")
    assert verdict.reason.startswith("rules/failed: scripted agent: nothing guides")


def test_kinds_of_devices_are_shared_out_and_errors_end_a_run(tmp_path: Path) -> None:
    most = {"open": 0, "seen": 0}
    lock = threading.Lock()

    @contextmanager
    def counted() -> Iterator[World]:
        with lock:
            most["open"] += 1
            most["seen"] = max(most.values())
        yield FaultyWorld()
        with lock:
            most["open"] -= 1

    few = Pools(LocalPool({}), LocalPool({"fsm": counted}, most=2))
    with Journal(tmp_path) as journal:
        done = run_all(fsm_contracts(), few, path_policies(), journal, workers=6, seeds=(0, 1))
        assert [(one.contract.task_id, one.seed) for one in done] == sorted(
            (contract.task_id, seed) for contract in fsm_contracts() for seed in (0, 1)
        )
        assert most["seen"] <= 2 and most["open"] == 0

        def stop(one: ExecutedTrajectory, count: int, total: int) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run_all(fsm_contracts(), few, path_policies(), journal, seeds=(2,), progress=stop)
        again = run_all(fsm_contracts(), few, path_policies(), journal, seeds=(2,))
        assert len(again) == len(fsm_contracts())
    with pytest.raises(JournalError):
        run_all(fsm_contracts(), few, path_policies(), journal, seeds=(3,))
    with Journal(tmp_path / "named") as journal, pytest.raises(ValueError, match="expected the name 'other'"):
        run_all(fsm_contracts(), few, PolicyMaker("other", path_policies().make), journal)


def test_a_real_browser_that_is_killed(tmp_path: Path, undisturbed: list[dict[str, object]]) -> None:
    pytest.importorskip("playwright")
    contracts: list[TaskSpec] = sorted(fsm_contracts(), key=lambda one: one.expected_steps)[1:7:5]
    killed: list[str] = []

    class Killer(PathPolicy):
        def decide(self, view: PolicyView) -> Decision:
            if len(view.past) == 1 and not killed:
                killed.append("now")
                devices[-1].kill()
            return super().decide(view)

    class Known(LocalPool):
        @contextmanager
        def open(self, kind: str) -> Iterator[Device]:
            with super().open(kind) as device:
                devices.append(device)
                yield device

    devices: list[Device] = []
    try:
        with Journal(tmp_path) as journal:
            makers = PolicyMaker("path", lambda contract, world: Killer())
            done = run_all(contracts, Known(), makers, journal, workers=1)
    except BrowserMissing as missing:
        pytest.skip(str(missing))
    assert [one.ended for one in done] == ["finished", "finished"] and killed
    assert sum(one.resumed for one in done) == 1
    assert {len(one.turns) - 1 for one in done} == {contract.expected_steps for contract in contracts}
    assert json.dumps([one.end_state for one in done])


@pytest.mark.usefixtures("has_chromium")
def test_a_thread_that_keeps_its_browser_gets_another_after_a_device_that_failed() -> None:
    start = fsm_contracts()[0].initial_state
    worlds = LocalPool()

    def used(device: Device) -> Any:
        device.world.reset(start)
        assert device.world.observe().elements
        return device.world.page.context.browser  # type: ignore[attr-defined]

    with keep_browser():
        with worlds.open("fsm") as device:
            kept = used(device)
        with pytest.raises(Exception, match="closed"), worlds.open("fsm") as device:
            assert used(device) is kept
            device.fail("it shows nothing")
            device.kill()  # nothing is left to be ended: what tells of the end goes on
            device.world.observe()
        for _ in range(2):
            with worlds.open("fsm") as device:
                assert used(device) is not kept
