"""Workers: threads that make rollouts, each on a device of its own, which it keeps for as long as rollouts need one of
its kind. Rollouts are scheduled one by one: a slow device holds up its own rollout and no other.

A failure of infrastructure makes a rollout anew on a freshly opened device, `Limits.retries` times, then it is lost. A
call of a device that hangs costs the worker, which is given up and replaced. `held_s` counts the seconds that devices
were open, `seconds` of a rollout those that it held one.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from generators.browser import keep_browser
from generators.generation.devices import Device, DevicePool
from generators.generation.execution import InfrastructureFailure, Limits
from generators.generation.journal import ClaimLost
from generators.generation.scheduling import NEVER, end_call
from trainer.online.engine import RolloutPolicy
from trainer.online.rollout_engine import EngineFailed, RolloutEngine
from trainer.online.rollouts import Job, Recorder, Rollout, RolloutClaim, lost, make_rollout
from trainer.online.worker_state import Statistics, Task, Worker

if TYPE_CHECKING:
    from trainer.checkpoint import Checkpoint

log = logging.getLogger(__name__)
LOOK_S = 0.2
JOIN_S = 10.0
NO_DEVICE_S = 2.0
"""Pause before a device is asked for again where none was to be had."""
CALM = ("decide", "begin")
"""Calls that wait for the engine, not for a device."""


class RolloutWorkers:
    """Use it with `with`, inside that of its engine. `submit` jobs, `wait` for rollouts; or `run` some to the end."""

    def __init__(
        self, checkpoint: Checkpoint, engine: RolloutEngine, pool: DevicePool, limits: Limits, *, workers: int,
        thinking: bool = False,
    ) -> None:  # fmt: skip
        self.engine, self.pool, self.limits = engine, pool, limits
        self.checkpoint, self.thinking, self.count = checkpoint, thinking, workers
        self.statistics = Statistics()
        self.cond = engine.cond
        self._held = 0.0
        self._queue: deque[Task] = deque()
        self._running: dict[str, Task] = {}  # released, by key
        self._free: dict[str, Task] = {}  # of these, those that no worker has
        self._done: deque[Rollout] = deque()
        self._most: dict[str, int | None] = {}
        self._missing_since: dict[str, float] = {}
        self._workers: list[Worker] = []
        self._hired = 0
        self._stopping = False
        self.error: BaseException | None = None
        self.keep: Callable[[Rollout], None] = lambda rollout: None
        """Told of each training rollout that has ended, before anyone else, in its worker's thread."""
        engine.refill = self._release

    def __enter__(self) -> RolloutWorkers:
        with self.cond:
            for _ in range(self.count):
                self._hire()
        return self

    def __exit__(self, *error: object) -> None:
        with self.cond:
            self._stopping = True
            self.engine.active.clear()
            for worker in self._workers:
                if worker.claim is not None:
                    worker.claim.revoke()
            left = list(self._workers)
            self.cond.notify_all()
        end = time.monotonic() + JOIN_S
        for worker in left:
            if worker.thread is not None and worker.thread is not threading.current_thread():
                worker.thread.join(max(0.1, end - time.monotonic()))
                if worker.thread.is_alive() and worker.device is not None:
                    end_call(worker.device, "the run has ended")

    # -- what the learner calls ------------------------------------------------------------------------------------

    def submit(self, jobs: Sequence[Job], *, first: bool = False) -> None:
        """Have rollouts made, in this order as far as devices allow; `first`: before all that wait. Raises
        `ValueError` for a task that no device runs."""
        tasks = [Task(job, self.pool.kind(job.contract)) for job in jobs]
        for kind in sorted({task.kind for task in tasks} - set(self._most)):
            self._most[kind] = self.pool.most(kind)
        with self.cond:
            if first:
                self._queue.extendleft(reversed(tasks))
            else:
                self._queue.extend(tasks)
            if not self.engine.lockstep:
                self._release()
            self.cond.notify_all()

    def wait(self, seconds: float) -> list[Rollout]:
        """The rollouts that have ended since the last call; none after that many seconds. Raises what ended the run."""
        end = time.monotonic() + seconds
        while True:
            with self.cond:
                self._check()
                if self._done:
                    found = list(self._done)
                    self._done.clear()
                    return found
                left = end - time.monotonic()
                if left <= 0:
                    return []
                self.cond.wait(min(left, LOOK_S))
                hung = [worker for worker in self._workers if self._hangs(worker)]
            for worker in hung:
                self._give_up(worker)

    def run(self, jobs: Sequence[Job], others: list[Rollout] | None = None) -> list[Rollout]:
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
        with self.cond:
            return len(self._queue) + len(self._running)

    @property
    def held_s(self) -> float:
        """Seconds that devices have been held open, all together."""
        now = time.monotonic()
        with self.cond:
            return self._held + sum(now - one.open_since for one in self._workers if one.opened is not None)

    def _check(self) -> None:
        error = self.error or self.engine.error
        if error is not None:
            raise error

    # -- scheduling (under the lock) -------------------------------------------------------------------------------

    def _release(self) -> bool:
        """Let jobs run, in order, as many as there are workers and devices; whether there were any."""
        released = False
        if self._stopping:
            return False
        in_use = Counter(task.kind for task in self._running.values())
        kept: deque[Task] = deque()
        while self._queue and len(self._running) < self.count:
            task = self._queue.popleft()
            most = self._most[task.kind]
            if most is not None and in_use[task.kind] >= max(1, most):
                kept.append(task)
                continue
            in_use[task.kind] += 1
            self._running[task.job.key] = self._free[task.job.key] = task
            self.engine.active.add(task.job.key)
            released = True
        self._queue.extendleft(reversed(kept))
        return released

    def _take(self, worker: Worker) -> Task | None:
        """A released job, one for the worker's open device first."""
        now = time.monotonic()
        ready = [task for task in self._free.values() if task.ready_at <= now]
        if not ready:
            return None
        task = next((one for one in ready if one.kind == worker.kind), ready[0])
        del self._free[task.job.key]
        return task

    def _end(self, task: Task, rollout: Rollout) -> None:
        self._running.pop(task.job.key, None)
        self.engine.active.discard(task.job.key)
        self.statistics.lost += rollout.success is None
        self._done.append(rollout)
        if not self.engine.lockstep:
            self._release()
        self.cond.notify_all()

    def _failed(self, task: Task, reason: str, seconds: float, *, opened: bool = True) -> None:
        """After an infrastructure failure: once more, or lost. Where no device was to be had (not `opened`) that is no
        try: it is waited for, `Limits.device_s` at most."""
        self.statistics.failures[reason.partition(":")[0][:80]] += 1
        now = time.monotonic()
        if opened:
            task.spent += seconds
            task.tries += 1
            over, pause = task.tries > self.limits.retries, self.limits.pause_s * 2 ** (task.tries - 1)
        else:
            missing = now - self._missing_since.setdefault(task.kind, now)
            over, pause = missing > self.limits.device_s, min(NO_DEVICE_S, self.limits.device_s / 4)
        if over:
            self._end(task, lost(task.job, reason, task.spent))
        else:
            task.ready_at = now + pause
            self._free[task.job.key] = task

    def _hire(self) -> None:
        self._hired += 1
        worker = Worker(self._hired)
        worker.thread = threading.Thread(target=self._work, args=(worker,), name=f"rollouts-{self._hired}", daemon=True)
        self._workers.append(worker)
        worker.thread.start()

    def _hangs(self, worker: Worker) -> bool:
        late = bool(worker.doing) and worker.doing not in CALM
        return late and not worker.given_up and time.monotonic() - worker.since > self.limits.call_s

    def _give_up(self, worker: Worker) -> None:
        """Its call hangs: its rollout is made again elsewhere, its device is made to end the call."""
        with self.cond:
            if not self._hangs(worker):
                return
            reason = f"{worker.doing} hangs: no answer within {self.limits.call_s:g} s"
            log.warning("rollout worker %d: %s", worker.number, reason)
            worker.given_up = True
            self._workers.remove(worker)
            self.statistics.hung += 1
            now = time.monotonic()
            if worker.opened is not None:
                self._held += now - worker.open_since
            if worker.claim is not None:
                worker.claim.revoke()
            if worker.job is not None:
                self._failed(self._running[worker.job.key], reason, now - worker.job_since)
            device = worker.device
            self._hire()
            self.cond.notify_all()
        if device is not None:
            threading.Thread(target=end_call, args=(device, reason), daemon=True).start()

    # -- a worker's thread -----------------------------------------------------------------------------------------

    @keep_browser()  # its devices open one after another
    def _work(self, worker: Worker) -> None:
        try:
            while (task := self._next(worker)) is not None:
                self._one(worker, task)
        except ClaimLost:
            log.info("rollout worker %d: its rollout was taken from it", worker.number)
        except EngineFailed:
            pass  # the learner hears of it by the engine
        except BaseException as error:  # nobody else would hear of it
            with self.cond:
                if not worker.given_up and not self._stopping:
                    self.error = self.error or error
        finally:
            self._close(worker)
            with self.cond:
                if worker in self._workers:
                    self._workers.remove(worker)
                self.cond.notify_all()

    def _next(self, worker: Worker) -> Task | None:
        with self.cond:
            while not (self._stopping or worker.given_up or self.error or self.engine.error):
                if (task := self._take(worker)) is not None:
                    worker.job, worker.job_since = task.job, time.monotonic()
                    return task
                self.cond.wait(LOOK_S)
            return None

    def _one(self, worker: Worker, task: Task) -> None:
        """One try of a rollout."""
        job = task.job
        try:
            device = self._device(worker, task.kind)
        except InfrastructureFailure as failure:
            return self._broken(worker, task, failure, opened=False)
        recorder, claim = Recorder(), RolloutClaim(job, "online", device.name)
        with self.cond:
            worker.claim = claim
            if worker.given_up:
                claim.revoke()
        try:
            policy = RolloutPolicy(self.checkpoint, self.engine, job, recorder, claim, thinking=self.thinking)
            rollout = make_rollout(job, device, policy, recorder, claim, self.limits, worker.call)
        except InfrastructureFailure as failure:
            if isinstance(failure.__cause__, EngineFailed):
                raise failure.__cause__ from failure
            return self._broken(worker, task, failure)
        except ValueError as unreadable:  # the device tells no state that the task's rule can read
            rollout = lost(job, f"evaluator: {unreadable}")
        rollout = replace(rollout, seconds=task.spent + time.monotonic() - worker.job_since)
        with self.cond:
            worker.doing = ""  # it can't be given up any more
            if worker.given_up:
                raise ClaimLost(job.key)
        if not job.greedy and rollout.success is not None:
            self.keep(rollout)
        with self.cond:
            worker.job = worker.claim = None
            self._end(task, rollout)

    def _broken(self, worker: Worker, task: Task, failure: InfrastructureFailure, *, opened: bool = True) -> None:
        if worker.device is not None and failure.by == "device":
            worker.call("report")
            with contextlib.suppress(Exception):
                worker.device.fail(str(failure))
        with self.cond:
            worker.doing = ""
            if worker.given_up:
                raise ClaimLost(task.job.key)
            worker.job = worker.claim = None
            self._failed(task, str(failure), time.monotonic() - worker.job_since, opened=opened)
            self.cond.notify_all()
        if failure.by != "policy":
            self._close(worker)

    def _device(self, worker: Worker, kind: str) -> Device:
        """The worker's device, opened if it has none of the kind. Raises `InfrastructureFailure`, `NEVER`."""
        if worker.device is not None and worker.kind == kind:
            return worker.device
        self._close(worker)
        worker.call("open")
        context = self.pool.open(kind)
        try:
            device = context.__enter__()
        except NEVER:
            raise
        except Exception as error:
            raise InfrastructureFailure(f"open failed: {type(error).__name__}: {str(error)[:300]}") from error
        with self.cond:
            worker.opened, worker.device, worker.kind = context, device, kind
            worker.open_since = time.monotonic()
            worker.doing = ""
            self._missing_since.pop(kind, None)
            self.statistics.opened += 1
        return device

    def _close(self, worker: Worker) -> None:
        """In the thread that opened it. What closing raises is logged: its work is done."""
        context = worker.opened
        if context is None:
            return
        worker.call("close")
        try:
            context.__exit__(None, None, None)
        except Exception as error:
            log.info("rollout worker %d: closing its device: %s", worker.number, error)
        with self.cond:
            if not worker.given_up:
                self._held += time.monotonic() - worker.open_since
            worker.opened = worker.device = None
            worker.kind = worker.doing = ""
