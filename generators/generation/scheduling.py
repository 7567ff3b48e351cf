"""Many executions at once: worker threads take tasks, each with a device of its own, until all have ended.

What fails by infrastructure goes on elsewhere, from where it stood; a call that hangs costs its worker, which is given
up and replaced, and nobody else waits for it. Everything that counts is in the journal, so a process that was killed is
survived by calling `run_all` again with the same journal.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from generators.browser import BrowserMissing, keep_browser
from generators.environments.world import World
from generators.generation.contract import Contract, Trajectory
from generators.generation.devices import Device, DevicePool
from generators.generation.execution import InfrastructureFailure, Limits, ScreenKeeper, broke, execute, give_up
from generators.generation.journal import ClaimLost, Journal
from generators.generation.task_queue import Job, TaskQueue
from generators.policies.policy import Policy

if TYPE_CHECKING:
    from pipelines.store import Store

log = logging.getLogger(__name__)
LOOK_S = 0.1
"""Between two looks at whether a worker's call hangs."""
DOUBLINGS = 5
"""Of the pause before a task is tried again."""
NO_DEVICE_S = 2.0
"""Pause before a device is asked for again where none was to be had."""
STOP_S = 30.0
"""How long the end of a run waits for a worker to close its device."""
NEVER = (ValueError, ImportError, BrowserMissing)
"""What a pool raises for a device that it will never have: the run ends with it."""

Progress = Callable[[Trajectory, int, int], None]
"""(a trajectory that has ended, how many have, of how many)"""


@dataclass(frozen=True)
class PolicyMaker:
    """`make(contract, world)` gives a policy named `name` for one execution."""

    name: str
    make: Callable[[Contract, World], Policy]


@dataclass
class RunStatistics:
    """What a run survived; a matter of time and chance, never part of a result. `retried`: infrastructure failures by
    what failed; `hung`: workers given up; `opened`, `not_opened`: devices."""

    retried: Counter[str] = field(default_factory=Counter)
    hung: int = 0
    opened: int = 0
    not_opened: int = 0


@dataclass(eq=False)
class _Worker:
    """A thread. `doing` is the call that it is in, since `since`. `given_up`: nothing it says counts any more."""

    number: int
    thread: threading.Thread | None = None
    job: Job | None = None
    kind: str = ""
    device: Device | None = None
    doing: str = ""
    since: float = 0.0
    given_up: bool = False

    def begin(self, what: str) -> None:
        self.doing, self.since = what, time.monotonic()

    def rest(self) -> None:
        self.doing = ""

    def hangs(self, limit_s: float) -> bool:
        return bool(self.doing) and not self.given_up and time.monotonic() - self.since > limit_s


def run_all(
    contracts: Sequence[Contract], pool: DevicePool, policies: PolicyMaker, journal: Journal, *,
    store: Store | None = None, workers: int = 2, seeds: Sequence[int] = (0,), limits: Limits | None = None,
    progress: Progress | None = None, statistics: RunStatistics | None = None,
) -> list[Trajectory]:  # fmt: skip
    """Execute every contract with every seed; the trajectories in the order of (task, seed), whoever did what.

    What the journal holds as ended isn't done again. Infrastructure failures come back as trajectories with that
    `failure_kind`, once they are given up. `progress` is called in the calling thread. Raises `ValueError` for a
    contract that is there twice or that no device can run, `JournalError`, and what keeps devices from ever opening.
    """
    if workers < 1:
        raise ValueError(f"run: expected at least one worker, found {workers}")
    jobs = [Job(contract, seed, pool.kind(contract)) for contract in contracts for seed in seeds]
    keys = {job.key for job in jobs}
    if len(keys) < len(jobs):
        raise ValueError(f"run: expected each contract and seed once, found {len(jobs) - len(keys)} of them again")
    run = _Run(jobs, pool, policies, journal, ScreenKeeper(store), limits or Limits(), statistics or RunStatistics())
    run.go(workers, progress)
    ended = journal.finished
    return sorted((ended[key] for key in keys), key=lambda done: (done.contract.task_id, done.seed))


class _Run:
    """The state that workers share; all of it is read and written under `lock`."""

    def __init__(
        self, jobs: Sequence[Job], pool: DevicePool, policies: PolicyMaker, journal: Journal, keeper: ScreenKeeper,
        limits: Limits, statistics: RunStatistics,
    ) -> None:  # fmt: skip
        self.pool, self.policies, self.journal, self.keeper, self.limits = pool, policies, journal, keeper, limits
        self.statistics = statistics
        self.lock = threading.Condition()
        before = journal.finished
        waiting = [job for job in jobs if job.key not in before]
        self.total, self.waiting = len(jobs), len(waiting)
        self.queue = TaskQueue(waiting, {kind: pool.most(kind) for kind in sorted({job.kind for job in waiting})})
        self.ended: list[Trajectory] = []  # in this run
        self.workers: list[_Worker] = []
        self.error: BaseException | None = None
        self.stopping = False
        self.hired = 0

    # -- the thread that watches -----------------------------------------------------------------------------------

    def go(self, count: int, progress: Progress | None) -> None:
        told, before = 0, self.total - self.waiting
        try:
            with self.lock:
                for _ in range(min(count, self.waiting)):
                    self._hire()
            over = False
            while not over:
                with self.lock:
                    if not self._over() and len(self.ended) == told:
                        self.lock.wait(LOOK_S)
                    fresh, over = self.ended[told:], self._over()
                    hung = [worker for worker in self.workers if worker.hangs(self.limits.call_s)]
                for worker in hung:
                    self._give_up_worker(worker)
                for done in fresh:
                    told += 1
                    if progress is not None:
                        progress(done, before + told, self.total)
        finally:
            self._stop()
        if self.error is not None:
            raise self.error

    def _over(self) -> bool:
        return self.error is not None or self.queue.over

    def _hire(self) -> None:
        self.hired += 1
        worker = _Worker(self.hired)
        worker.thread = threading.Thread(target=self._work, args=(worker,), name=f"worker-{self.hired}", daemon=True)
        self.workers.append(worker)
        worker.thread.start()

    def _give_up_worker(self, worker: _Worker) -> None:
        """Its call hangs: its task goes on elsewhere, its device is made to end the call, another takes its place."""
        with self.lock:
            if not worker.hangs(self.limits.call_s):
                return
            reason = f"{worker.doing} hangs: no answer within {self.limits.call_s:g} s"
            log.warning("worker %d: %s", worker.number, reason)
            worker.given_up = True
            self.workers.remove(worker)
            self.statistics.hung += 1
            job, device = worker.job, worker.device
            self.queue.free(worker.kind)
            if job is not None and worker.doing == "open":
                self._no_device(job, reason)
            elif job is not None and (done := self.journal.finished.get(job.key)) is not None:
                self._end(job, done)  # it had just ended
            elif job is not None:
                # What its worker can't write any more: the claim is another's from now on.
                self.journal.claim(job.contract, job.seed, self.policies.name, "").broke(reason)
                self.journal.revoke(job.key)
                self._again(job, reason)
            self._hire()
        if device is not None:
            threading.Thread(target=end_call, args=(device, reason), daemon=True).start()

    def _stop(self) -> None:
        """End the workers: at once where the run failed, their claims being taken from them."""
        with self.lock:
            self.stopping = True
            self.lock.notify_all()
            left = list(self.workers)
            for worker in left:
                if worker.job is not None:
                    self.journal.revoke(worker.job.key)
        end = time.monotonic() + min(self.limits.call_s, STOP_S)
        for worker in left:
            if worker.thread is not None:
                worker.thread.join(max(0.1, end - time.monotonic()))
                if worker.thread.is_alive() and worker.device is not None:
                    end_call(worker.device, "the run has ended")

    # -- workers ---------------------------------------------------------------------------------------------------

    @keep_browser()  # its devices open one after another
    def _work(self, worker: _Worker) -> None:
        try:
            while (job := self._next(worker)) is not None:
                self._with_device(worker, job)
        except ClaimLost:
            log.info("worker %d: its task was taken from it", worker.number)
        except BaseException as error:  # nobody else would hear of it
            with self.lock:
                if not worker.given_up:
                    self.error = self.error or error
        finally:
            with self.lock:
                if worker in self.workers:
                    self.workers.remove(worker)
                self.lock.notify_all()

    def _next(self, worker: _Worker) -> Job | None:
        """The next task for a worker without a device; None when there will be none."""
        with self.lock:
            while not (worker.given_up or self.stopping or self._over()):
                if (job := self._take(worker)) is not None:
                    return job
                self.lock.wait(LOOK_S)
            return None

    def _take(self, worker: _Worker, kind: str | None = None) -> Job | None:
        if worker.given_up or self.stopping or (job := self.queue.take(kind)) is None:
            return None
        worker.job, worker.kind = job, job.kind
        return job

    def _with_device(self, worker: _Worker, job: Job) -> None:
        """Open a device for a task, and keep it for as long as it works and there are tasks of its kind."""
        kind = job.kind
        try:
            with self._opened(worker, kind) as device:
                following: Job | None = job
                while following is not None and self._attempt(worker, following, device):
                    with self.lock:
                        following = self._take(worker, kind)
        except InfrastructureFailure as failure:  # the device didn't open
            with self._mine(worker):
                self._no_device(job, str(failure))
        finally:
            with self.lock:
                worker.device = None
                worker.rest()
                if not worker.given_up:
                    self.queue.free(kind)
                    self.lock.notify_all()

    @contextlib.contextmanager
    def _opened(self, worker: _Worker, kind: str) -> Iterator[Device]:
        """An open device. What its closing raises is logged: its work is done. Raises `InfrastructureFailure`."""
        worker.begin("open")
        context = self.pool.open(kind)
        try:
            device = context.__enter__()
        except NEVER:
            raise
        except Exception as error:
            raise InfrastructureFailure(f"open failed: {type(error).__name__}: {str(error)[:300]}") from error
        with self.lock:
            worker.device = device
            worker.rest()
            self.queue.found(kind)
            self.statistics.opened += 1
        try:
            yield device
        finally:
            worker.begin("close")
            try:
                context.__exit__(None, None, None)
            except Exception as error:
                log.info("device %s: closing it: %s", device.name, error)
            worker.rest()

    def _attempt(self, worker: _Worker, job: Job, device: Device) -> bool:
        """One try; whether the device can go on."""
        with self.lock:
            if worker.given_up:
                raise ClaimLost(job.key)
            claim = self.journal.claim(job.contract, job.seed, self.policies.name, device.name)
        try:
            worker.begin("begin")
            try:
                policy = self.policies.make(job.contract, device.world)
            except Exception as error:
                raise broke(claim, error, "making the policy") from error
            if policy.name != self.policies.name:
                raise ValueError(f"policy: expected the name {self.policies.name!r}, found {policy.name!r:.60}")
            done = execute(
                job.contract, device.world, policy, job.seed, self.journal, self.keeper, self.limits,
                device=device.name, claim=claim, on_call=worker.begin,
            )  # fmt: skip
        except InfrastructureFailure as failure:
            return self._failed(worker, job, device, failure)
        with self._mine(worker):
            self._end(job, done)
        return True

    def _failed(self, worker: _Worker, job: Job, device: Device, failure: InfrastructureFailure) -> bool:
        from generators.daas.device import DeviceError

        # What a driver calls a failure was told to the authority by the SDK already.
        if failure.by == "device" and not isinstance(failure.__cause__, DeviceError):
            worker.begin("report")
            device.fail(str(failure))
        with self._mine(worker):
            self._again(job, str(failure))
        return failure.by == "policy"

    @contextlib.contextmanager
    def _mine(self, worker: _Worker) -> Iterator[None]:
        """Say what came of a worker's task, which it has no more then; nothing from one that was given up."""
        with self.lock:
            worker.rest()
            if worker.given_up:
                raise ClaimLost(f"worker {worker.number} was given up")
            worker.job = None
            yield
            self.lock.notify_all()

    # -- what comes of a task (under the lock) ---------------------------------------------------------------------

    def _again(self, job: Job, reason: str) -> None:
        """After an infrastructure failure it waits for another try, or is given up."""
        self.statistics.retried[reason.partition(":")[0]] += 1
        attempt = self.journal.unfinished[job.key]
        if max(attempt.stuck, attempt.anew) > self.limits.retries:
            self._give_up(job, reason)
        else:
            self.queue.put_back(job, self.limits.pause_s * 2 ** min(attempt.stuck - 1, DOUBLINGS))

    def _no_device(self, job: Job, reason: str) -> None:
        """Without a device it waits; it is given up when none of its kind was to be had for a long time."""
        self.statistics.not_opened += 1
        if self.queue.missing_for(job.kind) > self.limits.device_s:
            self._give_up(job, f"no device for {self.limits.device_s:g} s: {reason}")
        else:
            self.queue.put_back(job, min(NO_DEVICE_S, self.limits.device_s / 4))

    def _give_up(self, job: Job, reason: str) -> None:
        self._end(job, give_up(job.contract, self.policies.name, job.seed, self.journal, reason))

    def _end(self, job: Job, done: Trajectory) -> None:
        self.queue.end(job)
        self.ended.append(done)


def end_call(device: Device, reason: str) -> None:
    """Make a device end a call that hangs; what that raises is logged."""
    for end in (lambda: device.fail(reason), device.kill):
        try:
            end()
        except Exception as error:
            log.info("device %s: ending its call: %s", device.name, error)
