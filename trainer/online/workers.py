"""The workers that make rollouts, each on a device of its own, which it keeps for as long as rollouts need one of
its kind (and longer, where the pool lets it). Rollouts are scheduled one by one: a slow device holds up its own rollout
and no other.

Where an engine has room for one set of weights (`one_slot`), rollouts of policy and reference take turns: those of one
slot begin when the last of the other has ended, and no rollout overtakes one of another slot that was queued before it.
So no rollout holds a worker or a device while it waits for another rollout (at most for the learner to publish the
policy again, which takes neither); each that has begun ends within the limits on its calls, and then it is the turn of
those that waited, whatever the number of workers and of devices.

A failure of infrastructure makes a rollout anew on a freshly opened device, `AttemptLimits.retries` times, then it is
lost. `held_s` counts the seconds that devices were open, `seconds` of a rollout those that it held one.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from generators.execution.device_pool import DevicePool
from generators.execution.execute import InfrastructureFailure
from generators.execution.journal import ClaimLost
from generators.execution.limits import AttemptLimits
from generators.execution.worker_pool import NO_DEVICE_S, WorkerPool
from trainer.modeling.sampler import EngineFailed
from trainer.online.engine import RolloutPolicy
from trainer.online.rollout_engine import RolloutEngine
from trainer.online.rollouts import Rollout, RolloutClaim, RolloutJob, SampleRecorder, lost, make_rollout
from trainer.online.success import FinalFrameJudge
from trainer.online.worker_state import RolloutWorker, Statistics, WorkerJob

if TYPE_CHECKING:
    from trainer.modeling.checkpoint import Checkpoint

# seconds between two looks at workers that may hang
LOOK_S = 0.2
# seconds that threads get to end by themselves
JOIN_S = 10.0


class RolloutWorkers(WorkerPool[RolloutWorker]):
    """Use it with `with`, inside that of its engine. `submit` jobs, `wait` for rollouts; or `run` some to the end."""

    name = "rollouts"
    calm = frozenset({"decide", "begin", "judge"})  # they wait for the engine, and for a judge with its own limits

    def __init__(
        self,
        checkpoint: Checkpoint,
        engine: RolloutEngine,
        pool: DevicePool,
        limits: AttemptLimits,
        *,
        workers: int,
        thinking: bool | None = None,
        judge: FinalFrameJudge | None = None,
    ) -> None:
        self.statistics = Statistics()
        super().__init__(pool, limits, self.statistics, engine.cond)
        self.engine, self.checkpoint, self.thinking, self.count = engine, checkpoint, thinking, workers
        self.judge = judge
        self._queue: deque[WorkerJob] = deque()
        self._running: dict[str, WorkerJob] = {}  # released, by key
        self._free: dict[str, WorkerJob] = {}  # of these, those that no worker has
        self._done: deque[Rollout] = deque()
        self._most: dict[str, int | None] = {}
        self._missing_since: dict[str, float] = {}
        self.keep: Callable[[Rollout], None] = lambda rollout: None
        """Called with each training rollout that has ended, before anyone else sees it, in its worker's thread."""
        engine.refill = self._release

    def __enter__(self) -> RolloutWorkers:
        with self.lock:
            for _ in range(self.count):
                self.hire()
        return self

    def __exit__(self, *error: object) -> None:
        with self.lock:
            # the engine waits for nobody any more
            self.stopping = True
            self.engine.active.clear()
        self.stop(JOIN_S)

    # -- what the learner calls ------------------------------------------------------------------------------------

    def submit(self, jobs: Sequence[RolloutJob], *, first: bool = False) -> None:
        """Have rollouts made, in this order as far as devices allow; `first`: before all that wait. Raises
        `ValueError` for a task that no device runs."""
        tasks = [WorkerJob(job, self.pool.kind(job.contract)) for job in jobs]
        for kind in sorted({task.kind for task in tasks} - set(self._most)):
            self._most[kind] = self.pool.most(kind)
        with self.lock:
            if first:
                self._queue.extendleft(reversed(tasks))
            else:
                self._queue.extend(tasks)
            # in lockstep the engine lets jobs begin itself, between two batches
            if not self.engine.lockstep:
                self._release()
            self.lock.notify_all()

    def wait(self, seconds: float) -> list[Rollout]:
        """The rollouts that have ended since the last call; none after that many seconds. Raises what ended the run."""
        end = time.monotonic() + seconds
        while True:
            with self.lock:
                self._check()
                if self._done:
                    found = list(self._done)
                    self._done.clear()
                    return found
                left = end - time.monotonic()
                if left <= 0:
                    return []
                self.lock.wait(min(left, LOOK_S))
            # outside of the lock, which a hung worker's device isn't closed under
            self.replace_hung()

    def run(self, jobs: Sequence[RolloutJob], others: list[Rollout] | None = None) -> list[Rollout]:
        """Rollouts of these jobs before all that wait, in the order of the jobs. Those of other jobs that end
        meanwhile are added to `others`."""
        self.submit(jobs, first=True)
        keys = {job.key for job in jobs}
        found: dict[str, Rollout] = {}
        while len(found) < len(jobs):
            for rollout in self.wait(60.0):
                if rollout.key in keys:
                    found[rollout.key] = rollout
                elif others is not None:
                    others.append(rollout)
        return [found[job.key] for job in jobs]

    @property
    def unfinished(self) -> int:
        """Jobs that wait or run."""
        with self.lock:
            return len(self._queue) + len(self._running)

    def _check(self) -> None:
        error = self.error or self.engine.error
        if error is not None:
            raise error

    # -- scheduling (under the lock) -------------------------------------------------------------------------------

    def _release(self) -> bool:
        """Let jobs run, in order, as many as there are workers and devices, and one slot at a time where the engine
        has room for no more; whether there were any."""
        released = False
        if self.stopping:
            return False
        in_use = Counter(task.kind for task in self._running.values())
        passed_over: deque[WorkerJob] = deque()
        while self._queue and len(self._running) < self.count and self._has_turn(self._queue[0]):
            task = self._queue.popleft()
            most = self._most[task.kind]
            # it keeps its place in the queue; those behind it that need another kind may pass
            if most is not None and in_use[task.kind] >= max(1, most):
                passed_over.append(task)
                continue
            in_use[task.kind] += 1
            self._running[task.job.key] = self._free[task.job.key] = task
            self.engine.active.add(task.job.key)
            released = True
        self._queue.extendleft(reversed(passed_over))
        return released

    def _has_turn(self, task: WorkerJob) -> bool:
        """Whether the engine can answer it beside those that run."""
        return not self.engine.one_slot or all(one.job.slot == task.job.slot for one in self._running.values())

    def _take(self, worker: RolloutWorker) -> WorkerJob | None:
        """A released job, one for the worker's open device first."""
        now = time.monotonic()
        ready = [task for task in self._free.values() if task.ready_at <= now]
        if not ready:
            return None
        # its open device saves the seconds that opening one takes
        task = next((one for one in ready if one.kind == worker.kind), ready[0])
        del self._free[task.job.key]
        return task

    def _end(self, task: WorkerJob, rollout: Rollout) -> None:
        self._running.pop(task.job.key, None)
        self.engine.active.discard(task.job.key)
        self.statistics.lost += rollout.success is None
        self._done.append(rollout)
        if not self.engine.lockstep:
            self._release()
        self.lock.notify_all()

    def _failed(self, task: WorkerJob, reason: str, seconds: float, *, opened: bool = True) -> None:
        """After an infrastructure failure: once more, or lost. Where no device was to be had (not `opened`) that is no
        try: it is waited for, `AttemptLimits.device_s` at most."""
        self.statistics.failures[reason.partition(":")[0][:80]] += 1
        now = time.monotonic()
        if opened:
            task.spent += seconds
            task.tries += 1
            # doubled each time: a service that has just failed is given time to recover
            over, pause = task.tries > self.limits.retries, self.limits.pause_s * 2 ** (task.tries - 1)
        else:
            missing = now - self._missing_since.setdefault(task.kind, now)
            over, pause = missing > self.limits.device_s, min(NO_DEVICE_S, self.limits.device_s / 4)
        if over:
            self._end(task, lost(task.job, reason, task.spent))
        else:
            task.ready_at = now + pause
            self._free[task.job.key] = task

    def new_worker(self, number: int) -> RolloutWorker:
        return RolloutWorker(number)

    def device_found(self, kind: str) -> None:
        self._missing_since.pop(kind, None)

    def revoke(self, worker: RolloutWorker) -> None:
        if worker.claim is not None:
            worker.claim.revoke()

    def given_up(self, worker: RolloutWorker, reason: str) -> None:
        """Its rollout is made again elsewhere."""
        self.revoke(worker)
        if worker.job is not None:
            self._failed(self._running[worker.job.key], reason, time.monotonic() - worker.job_since)

    # -- a worker's thread -----------------------------------------------------------------------------------------

    def work(self, worker: RolloutWorker) -> None:
        with contextlib.suppress(EngineFailed):  # the learner hears of it by the engine
            while (task := self._next(worker)) is not None:
                self._one(worker, task)

    def _next(self, worker: RolloutWorker) -> WorkerJob | None:
        with self.lock:
            while not (self.stopping or worker.given_up or self.error or self.engine.error):
                if (task := self._take(worker)) is not None:
                    worker.job, worker.job_since = task.job, time.monotonic()
                    return task
                self.lock.wait(LOOK_S)
            return None

    def _one(self, worker: RolloutWorker, task: WorkerJob) -> None:
        """One try of a rollout."""
        job = task.job
        try:
            device = self.device_of(worker, task.kind)
        except InfrastructureFailure as failure:
            return self._broken(worker, task, failure, opened=False)
        recorder, claim = SampleRecorder(), RolloutClaim(job, "online", device.name)
        with self.lock:
            worker.claim = claim
            # given up while its device opened
            if worker.given_up:
                claim.revoke()
        try:
            policy = RolloutPolicy(self.checkpoint, self.engine, job, recorder, claim, thinking=self.thinking)
            rollout = make_rollout(job, device, policy, recorder, claim, self.limits, worker.call, self.judge)
        except InfrastructureFailure as failure:
            if isinstance(failure.__cause__, EngineFailed):
                raise failure.__cause__ from failure
            return self._broken(worker, task, failure)
        except ValueError as unreadable:  # the device reports no state that the task's rule can read
            rollout = lost(job, f"evaluator: {unreadable}")
        rollout = replace(rollout, seconds=task.spent + time.monotonic() - worker.job_since)
        with self.lock:
            worker.rest()  # it can't be given up any more
            if worker.given_up:
                raise ClaimLost(job.key)
        # on the disk before anybody counts it
        if not job.validation and rollout.success is not None:
            self.keep(rollout)
        with self.lock:
            worker.job = worker.claim = None
            self._end(task, rollout)

    def _broken(
        self, worker: RolloutWorker, task: WorkerJob, failure: InfrastructureFailure, *, opened: bool = True
    ) -> None:
        if worker.device is not None and failure.by == "device":
            worker.call("report")
            with contextlib.suppress(Exception):
                worker.device.fail(str(failure))
        with self.lock:
            worker.rest()
            if worker.given_up:
                raise ClaimLost(task.job.key)
            worker.job = worker.claim = None
            self._failed(task, str(failure), time.monotonic() - worker.job_since, opened=opened)
            self.lock.notify_all()
        # a policy's failure leaves the device as good as it was
        if failure.by != "policy":
            self.close_device(worker)
