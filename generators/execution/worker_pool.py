"""A pool of workers: threads that each hold one device at a time, and the watch over them.

A call that hangs costs its worker and nobody else: it is given up and replaced, nothing that it says counts from then
on, and its device is made to end the call. Where the call was the device's own, that is reported as its failure; a slow
policy says nothing against the device that waits for it. What workers do, and what becomes of a task whose worker was
given up, each kind of pool says itself.
"""

import logging
import threading
import time
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from generators.devices.browser import BrowserMissing, keep_browser
from generators.execution.device_pool import Device, DevicePool
from generators.execution.execute import DEVICE_CALLS, POLICY_CALLS, InfrastructureFailure
from generators.execution.journal import ClaimLost
from generators.execution.limits import DECIDE_S, AttemptLimits

log = logging.getLogger(__name__)
NO_DEVICE_S = 2.0
"""Pause before a device is requested again where none was to be had."""
NEVER = (ValueError, ImportError, BrowserMissing)
"""What a pool raises for a device that it will never have: the run ends with it."""


@dataclass
class WorkerPoolStatistics:
    """What a pool survived, a matter of time and chance. `hung`: workers given up; `opened`: devices."""

    hung: int = 0
    opened: int = 0


@dataclass(eq=False)
class Worker:
    """A thread and its device, open since `open_since` if `opened` is there; `parked` are open too, by kind, and wait.
    `doing` is the call that it is in, since `since`. `given_up`: nothing it says counts any more."""

    number: int
    thread: threading.Thread | None = None
    device: Device | None = None
    kind: str = ""
    opened: AbstractContextManager[Device] | None = None
    open_since: float = 0.0
    doing: str = ""
    since: float = 0.0
    given_up: bool = False
    parked: dict[str, tuple[AbstractContextManager[Device], Device]] = field(default_factory=dict)

    def call(self, what: str) -> None:
        self.doing, self.since = what, time.monotonic()

    def rest(self) -> None:
        self.doing = ""


W = TypeVar("W", bound=Worker)


class WorkerPool(ABC, Generic[W]):
    """What all workers share is read and written under `lock`. `error` ends the run: whoever waits for it raises it."""

    name = "worker"
    calm: frozenset[str] = frozenset()
    """Calls that may take any time, for they wait for something that is watched elsewhere."""

    def __init__(
        self, pool: DevicePool, limits: AttemptLimits, statistics: WorkerPoolStatistics, lock: threading.Condition
    ) -> None:
        self.pool, self.limits, self.lock = pool, limits, lock
        self.workers: list[W] = []
        self.error: BaseException | None = None
        self.stopping = False
        self._statistics = statistics
        self._hired = 0
        self._held = 0.0

    # -- what each kind of pool says itself -------------------------------------------------------------------------

    @abstractmethod
    def new_worker(self, number: int) -> W: ...

    @abstractmethod
    def work(self, worker: W) -> None:
        """All that a worker does, in its thread; `ClaimLost` ends it in silence."""

    @abstractmethod
    def revoke(self, worker: W) -> None:
        """Make what it is about to write count for nothing. Under the lock."""

    @abstractmethod
    def given_up(self, worker: W, reason: str) -> None:
        """What becomes of its task. Under the lock, before another is hired."""

    def device_found(self, kind: str) -> None:
        """A device was opened. Under the lock."""

    # -- the watch -------------------------------------------------------------------------------------------------

    @property
    def held_s(self) -> float:
        """Seconds that devices have been open, all together; those that are parked are no one's loss."""
        now = time.monotonic()
        with self.lock:
            return self._held + sum(now - one.open_since for one in self.workers if one.opened is not None)

    def hire(self) -> None:
        """One more worker. Under the lock."""
        self._hired += 1
        worker = self.new_worker(self._hired)
        worker.thread = threading.Thread(
            target=self._thread, args=(worker,), name=f"{self.name}-{self._hired}", daemon=True
        )
        self.workers.append(worker)
        worker.thread.start()

    def replace_hung(self) -> None:
        """Give up the workers whose call has taken longer than `AttemptLimits.call_s` (a policy's: `DECIDE_S`), and
        hire others."""
        with self.lock:
            hung = [worker for worker in self.workers if self._hangs(worker)]
        for worker in hung:
            self._give_up(worker)

    def stop(self, seconds: float) -> None:
        """End the workers, their claims taken from them; one that doesn't end within that time loses its device."""
        with self.lock:
            self.stopping = True
            left = [worker for worker in self.workers if worker.thread is not threading.current_thread()]
            for worker in left:
                self.revoke(worker)
            # the thread that stops may itself be a worker
            self.lock.notify_all()
        end = time.monotonic() + seconds
        for worker in left:
            if worker.thread is not None:
                worker.thread.join(max(0.1, end - time.monotonic()))
                if worker.thread.is_alive() and worker.device is not None:
                    end_call(worker.device)  # not its failure: the run just doesn't wait any longer

    def _hangs(self, worker: W) -> bool:
        late = bool(worker.doing) and worker.doing not in self.calm
        return late and not worker.given_up and time.monotonic() - worker.since > self._longest(worker.doing)

    def _longest(self, call: str) -> float:
        """Seconds that a call may take."""
        return max(DECIDE_S, self.limits.call_s) if call in POLICY_CALLS else self.limits.call_s

    def _give_up(self, worker: W) -> None:
        with self.lock:
            # it may have answered since it was looked at
            if not self._hangs(worker):
                return
            reason = f"{worker.doing} hangs: no answer within {self._longest(worker.doing):g} s"
            failure = reason if worker.doing in DEVICE_CALLS else ""
            log.warning("%s %d: %s", self.name, worker.number, reason)
            worker.given_up = True
            self.workers.remove(worker)
            self._statistics.hung += 1
            if worker.opened is not None:
                self._held += time.monotonic() - worker.open_since
            # before another is hired, so that nobody takes its task twice
            self.given_up(worker, reason)
            device = worker.device
            self.hire()
            self.lock.notify_all()
        # in a thread of its own: ending a call may hang like the call
        if device is not None:
            threading.Thread(target=end_call, args=(device, failure), daemon=True).start()

    # -- a worker's thread -----------------------------------------------------------------------------------------

    @keep_browser()  # its devices open one after another
    def _thread(self, worker: W) -> None:
        try:
            self.work(worker)
        except ClaimLost:
            log.info("%s %d: its task was taken from it", self.name, worker.number)
        except BaseException as error:  # nobody else would hear of it
            with self.lock:
                if not worker.given_up and not self.stopping:
                    self.error = self.error or error
        finally:
            self.close_device(worker)
            with self.lock:
                if worker in self.workers:
                    self.workers.remove(worker)
                self.lock.notify_all()

    def device_of(self, worker: W, kind: str) -> Device:
        """The worker's device, if it is of this kind and nobody else has more right to it; else another: one that it
        parked, or a new one. Raises as `open_device`."""
        if worker.device is not None and worker.kind == kind and not worker.device.wanted():
            return worker.device
        # pages of one Chromium cost nothing while they wait; a leased device is given back, for others may want it
        if getattr(self.pool, "keeps_idle", False):
            self._park(worker)
        else:
            self.close_device(worker)
        if kind not in worker.parked:
            return self.open_device(worker, kind)
        with self.lock:
            worker.opened, worker.device = worker.parked.pop(kind)
            worker.kind, worker.open_since = kind, time.monotonic()
        return worker.device

    def _park(self, worker: W) -> None:
        if worker.opened is None or worker.device is None:
            return
        with self.lock:
            worker.parked[worker.kind] = worker.opened, worker.device
            self._let_go(worker)

    def _let_go(self, worker: W) -> None:
        """It has no device any more. Under the lock."""
        if not worker.given_up:
            self._held += time.monotonic() - worker.open_since
        worker.opened = worker.device = None
        worker.kind = ""

    def open_device(self, worker: W, kind: str) -> Device:
        """A device for this worker, in whose thread it is used and closed. Raises `InfrastructureFailure` where it
        doesn't open, `NEVER` where none ever will."""
        worker.call("open")
        context = self.pool.open(kind)
        try:
            device = context.__enter__()
        except NEVER:
            raise
        except Exception as error:
            raise InfrastructureFailure(f"open failed: {type(error).__name__}: {str(error)[:300]}") from error
        with self.lock:
            worker.opened, worker.device, worker.kind = context, device, kind
            worker.open_since = time.monotonic()
            worker.rest()
            self._statistics.opened += 1
            self.device_found(kind)
        return device

    def close_device(self, worker: W) -> None:
        """Close the device that this worker has, if any, and those that are parked, which may share its process. What
        that raises is logged: its work is done."""
        parked, worker.parked = [context for context, _ in worker.parked.values()], {}
        for context in [*parked, *([worker.opened] if worker.opened is not None else [])]:
            worker.call("close")
            try:
                context.__exit__(None, None, None)
            except Exception as error:
                log.info("%s %d: closing a device: %s", self.name, worker.number, error)
        with self.lock:
            if worker.opened is not None:
                self._let_go(worker)
            worker.rest()


def end_call(device: Device, failure: str = "") -> None:
    """Make a device end a call that hangs, having reported its own `failure` if there was one; what that raises is
    logged."""
    # reported first: once the call has ended, the device may be leased to someone else
    for end in ([lambda: device.fail(failure)] if failure else []) + [device.kill]:
        try:
            end()
        except Exception as error:
            log.info("device %s: ending its call: %s", device.name, error)
