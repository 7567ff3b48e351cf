"""Many executions at once: worker threads take tasks, each with a device of its own, until all have ended.

What fails by infrastructure goes on elsewhere, from where it stood; a call that hangs costs its worker, which is given
up and replaced, and nobody else waits for it. Everything that counts is in the journal, so a process that was killed is
survived by calling `run_all` again with the same journal.
"""

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from generators.devices.device import DeviceError
from generators.execution.device_pool import Device, DevicePool
from generators.execution.execute import InfrastructureFailure, ScreenKeeper, broke, execute, fail, give_up
from generators.execution.journal import ClaimLost, Journal
from generators.execution.limits import AttemptLimits
from generators.execution.task_queue import ScheduledTask, TaskQueue
from generators.execution.worker_pool import NO_DEVICE_S, Worker, WorkerPool, WorkerPoolStatistics
from generators.policies.policy import CannotDo
from generators.policies.policy_maker import PolicyMaker
from generators.tasks.task_spec import TaskSpec
from generators.tasks.trajectory import ExecutedTrajectory
from pipelines.store import Store

LOOK_S = 0.1
"""Between two checks of whether a worker's call hangs."""
DOUBLINGS = 5
"""Of the pause before a task is tried again."""
STOP_S = 30.0
"""How long the end of a run waits for a worker to close its device."""

Progress = Callable[[ExecutedTrajectory, int, int], None]
"""(a trajectory that has ended, how many have, of how many)"""


@dataclass
class RunStatistics(WorkerPoolStatistics):
    """What a run survived; never part of a result. `retried`: infrastructure failures by what failed; `not_opened`:
    devices."""

    retried: Counter[str] = field(default_factory=Counter)
    not_opened: int = 0


@dataclass(eq=False)
class _Executor(Worker):
    job: ScheduledTask | None = None


def run_all(
    contracts: Sequence[TaskSpec],
    pool: DevicePool,
    policies: PolicyMaker,
    journal: Journal,
    *,
    store: Store | None = None,
    workers: int = 2,
    seeds: Sequence[int] = (0,),
    limits: AttemptLimits | None = None,
    progress: Progress | None = None,
    statistics: RunStatistics | None = None,
) -> list[ExecutedTrajectory]:
    """Execute every contract with every seed; the trajectories in the order of (task, seed), whoever did what.

    What the journal holds as ended isn't done again. Infrastructure failures come back as trajectories with that
    `failure_kind`, once they are given up. `progress` is called in the calling thread. Raises `ValueError` for a
    contract that is there twice or that no device can run, `JournalError`, and what keeps devices from ever opening.
    """
    if workers < 1:
        raise ValueError(f"run: expected at least one worker, found {workers}")
    jobs = [ScheduledTask(contract, seed, pool.kind(contract)) for contract in contracts for seed in seeds]
    keys = {job.key for job in jobs}
    if len(keys) < len(jobs):
        raise ValueError(f"run: expected each contract and seed once, found {len(jobs) - len(keys)} of them again")
    run = _SchedulingRun(
        jobs, pool, policies, journal, ScreenKeeper(store), limits or AttemptLimits(), statistics or RunStatistics()
    )
    run.go(workers, progress)
    ended = journal.finished
    return sorted((ended[key] for key in keys), key=lambda done: (done.contract.task_id, done.seed))


class _SchedulingRun(WorkerPool[_Executor]):
    def __init__(
        self,
        jobs: Sequence[ScheduledTask],
        pool: DevicePool,
        policies: PolicyMaker,
        journal: Journal,
        keeper: ScreenKeeper,
        limits: AttemptLimits,
        statistics: RunStatistics,
    ) -> None:
        super().__init__(pool, limits, statistics, threading.Condition())
        self.policies, self.journal, self.keeper, self.statistics = policies, journal, keeper, statistics
        # what has ended by an earlier run is neither done nor counted again
        before = journal.finished
        waiting = [job for job in jobs if job.key not in before]
        self.total, self.waiting = len(jobs), len(waiting)
        self.queue = TaskQueue(waiting, {kind: pool.most(kind) for kind in sorted({job.kind for job in waiting})})
        self.ended: list[ExecutedTrajectory] = []  # in this run

    # -- the thread that watches -----------------------------------------------------------------------------------

    def go(self, count: int, progress: Progress | None) -> None:
        reported, before = 0, self.total - self.waiting
        try:
            with self.lock:
                # no more than there are tasks: each worker opens a device
                for _ in range(min(count, self.waiting)):
                    self.hire()
            over = False
            while not over:
                with self.lock:
                    # fetched under the lock, reported outside of it: a listener may take its time
                    if not self._over() and len(self.ended) == reported:
                        self.lock.wait(LOOK_S)
                    fresh, over = self.ended[reported:], self._over()
                self.replace_hung()
                for done in fresh:
                    reported += 1
                    if progress is not None:
                        progress(done, before + reported, self.total)
        finally:
            self.stop(min(self.limits.call_s, STOP_S))
        if self.error is not None:
            raise self.error

    def _over(self) -> bool:
        return self.error is not None or self.queue.over

    def new_worker(self, number: int) -> _Executor:
        return _Executor(number)

    def device_found(self, kind: str) -> None:
        self.queue.found(kind)

    def revoke(self, worker: _Executor) -> None:
        if worker.job is not None:
            self.journal.revoke(worker.job.key)

    def given_up(self, worker: _Executor, reason: str) -> None:
        """Its task goes on elsewhere."""
        job = worker.job
        self.queue.free(worker.kind if job is None else job.kind)
        # it hung between two tasks, while it opened or closed
        if job is None:
            return
        if worker.doing == "open":
            self._no_device(job, reason)
        elif (done := self.journal.finished.get(job.key)) is not None:
            self._end(job, done)  # it had just ended
        else:
            # What its worker can't write any more: the claim is another's from now on.
            self.journal.claim(job.contract, job.seed, self.policies.name, "").broke(reason)
            self.revoke(worker)
            self._again(job, reason)

    # -- workers ---------------------------------------------------------------------------------------------------

    def work(self, worker: _Executor) -> None:
        while (job := self._next(worker)) is not None:
            self._with_device(worker, job)

    def _next(self, worker: _Executor) -> ScheduledTask | None:
        """The next task for a worker without a device; None when there will be none."""
        with self.lock:
            while not (worker.given_up or self.stopping or self._over()):
                if (job := self._take(worker)) is not None:
                    return job
                self.lock.wait(LOOK_S)
            return None

    def _take(self, worker: _Executor, kind: str | None = None) -> ScheduledTask | None:
        if worker.given_up or self.stopping or (job := self.queue.take(kind)) is None:
            return None
        worker.job = job
        return job

    def _with_device(self, worker: _Executor, job: ScheduledTask) -> None:
        """Open a device for a task, and keep it for as long as it works, there are tasks of its kind, and nobody else
        has more right to it."""
        kind = job.kind
        try:
            device = self.open_device(worker, kind)
        except InfrastructureFailure as failure:
            with self._mine(worker):
                self._no_device(job, str(failure))
        else:
            following: ScheduledTask | None = job
            while following is not None and self._attempt(worker, following, device):
                with self.lock:
                    # after each task: others may have come who hold fewer devices
                    following = None if device.wanted() else self._take(worker, kind)
        finally:
            self.close_device(worker)
            with self.lock:
                if not worker.given_up:
                    self.queue.free(kind)
                    self.lock.notify_all()

    def _attempt(self, worker: _Executor, job: ScheduledTask, device: Device) -> bool:
        """One try; whether the device can go on."""
        with self.lock:
            if worker.given_up:
                raise ClaimLost(job.key)
            # under the lock, so that a worker that is given up meanwhile can't take it back
            claim = self.journal.claim(job.contract, job.seed, self.policies.name, device.name)
        try:
            worker.call("begin")
            try:
                policy = self.policies.make(job.contract, device.world)
            except CannotDo as cannot:  # neither will another try, on whatever device
                done = fail(claim, "task", str(cannot))
                with self._mine(worker):
                    self._end(job, done)
                return True
            except Exception as error:
                raise broke(claim, error, "making the policy") from error
            # attempts are recorded under the name: another policy must not go on with them
            if policy.name != self.policies.name:
                raise ValueError(f"policy: expected the name {self.policies.name!r}, found {policy.name!r:.60}")
            done = execute(
                job.contract,
                device.world,
                policy,
                job.seed,
                self.journal,
                self.keeper,
                self.limits,
                device=device.name,
                claim=claim,
                on_call=worker.call,
            )
        except InfrastructureFailure as failure:
            return self._failed(worker, job, device, failure)
        with self._mine(worker):
            self._end(job, done)
        return True

    def _failed(self, worker: _Executor, job: ScheduledTask, device: Device, failure: InfrastructureFailure) -> bool:
        # What a driver calls a failure, the SDK has already reported to the authority.
        if failure.by == "device" and not isinstance(failure.__cause__, DeviceError):
            worker.call("report")
            device.fail(str(failure))
        with self._mine(worker):
            self._again(job, str(failure))
        # a failed server leaves the device as good as it was
        return failure.by == "policy"

    @contextlib.contextmanager
    def _mine(self, worker: _Executor) -> Iterator[None]:
        """Say what came of a worker's task, which it has no more then; nothing from one that was given up."""
        with self.lock:
            worker.rest()
            if worker.given_up:
                raise ClaimLost(f"worker {worker.number} was given up")
            worker.job = None
            yield
            self.lock.notify_all()

    # -- what comes of a task (under the lock) ---------------------------------------------------------------------

    def _again(self, job: ScheduledTask, reason: str) -> None:
        """After an infrastructure failure it waits for another try, or is given up."""
        self.statistics.retried[reason.partition(":")[0]] += 1
        attempt = self.journal.unfinished[job.key]
        # stuck: failures without a turn between them; anew: how often it began again from nothing
        if max(attempt.stuck, attempt.anew) > self.limits.retries:
            self._lose(job, reason)
        else:
            # doubled each time, so that a service that has just failed is given time to recover
            self.queue.put_back(job, self.limits.pause_s * 2 ** min(attempt.stuck - 1, DOUBLINGS))

    def _no_device(self, job: ScheduledTask, reason: str) -> None:
        """Without a device it waits; it is given up when none of its kind was to be had for a long time."""
        self.statistics.not_opened += 1
        if self.queue.missing_for(job.kind) > self.limits.device_s:
            self._lose(job, f"no device for {self.limits.device_s:g} s: {reason}")
        else:
            self.queue.put_back(job, min(NO_DEVICE_S, self.limits.device_s / 4))

    def _lose(self, job: ScheduledTask, reason: str) -> None:
        self._end(job, give_up(job.contract, self.policies.name, job.seed, self.journal, reason))

    def _end(self, job: ScheduledTask, done: ExecutedTrajectory) -> None:
        self.queue.end(job)
        self.ended.append(done)
