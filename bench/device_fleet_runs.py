"""A run of the generation loop in virtual time, for `bench/device_fleet.py`: its queue of tasks, its workers, what it
counts. Each worker does what `execution.scheduling` and `GatewayPool` do, as events instead of in a thread."""

from __future__ import annotations

import heapq
import itertools
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from generators.devices.records import DeviceLease, LeaseEnded, LeaseRequest
from generators.execution.task_queue import ScheduledTask, TaskQueue
from generators.execution.worker_pool import NO_DEVICE_S
from generators.tasks.task_spec import TaskSpec

if TYPE_CHECKING:
    from bench.device_fleet import Fleet

KINDS = {
    "phone": ("adb", ("os=android",), 0.6),
    "site": ("cdp", ("site=shop",), 0.3),
    "desktop": ("ssh", ("x11",), 0.1),
}
"""Kind → protocol, labels, share of devices and of tasks."""
MEAN_S, SPREAD = 90.0, 0.6
"""Of a trajectory's time: mean and sigma of its logarithm."""
DEVICE_FAULT, POLICY_FAULT, HANG = 0.005, 0.002, 0.0005
"""Chances per try."""
POLL_S, WAIT_S = 10.0, 20.0
"""A long poll of a request, and how long a request waits in all."""
RESTART_S = 60.0
"""After which a killed run is started again."""

Event = Callable[[], None]


class Timeline:
    """Virtual time: what is to happen, in order."""

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Event]] = []
        self._count = itertools.count()

    def after(self, seconds: float, event: Event) -> None:
        """Let something happen in so many seconds."""
        heapq.heappush(self._events, (self.now + seconds, next(self._count), event))

    def play(self, over: Callable[[], bool]) -> None:
        """Until `over`, or nothing is left to happen."""
        while self._events and not over():
            self.now, _, event = heapq.heappop(self._events)
            event()


@dataclass
class Findings:
    """What is counted. Seconds of CPU are of this process's clock, others virtual."""

    cpu_s: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    calls: Counter[str] = field(default_factory=Counter)
    waits_s: list[float] = field(default_factory=list)
    again: Counter[str] = field(default_factory=Counter)
    held_s: float = 0.0
    doubled: int = 0
    two_leases: int = 0

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        """Add a block's time to `what`."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.cpu_s[what] += time.perf_counter() - began
            self.calls[what] += 1


@dataclass(eq=False)
class Worker:
    """A worker of a run: idle, waiting for a lease, or at a task. `life` is the process's: what an older one still had
    to do doesn't happen. `turn` is that of its device: heartbeats of an older lease end."""

    run: Run
    number: int
    life: int
    job: ScheduledTask | None = None
    lease: DeviceLease | None = None
    wanted: bool = False
    turn: int = 0


class Run:
    """One run of the generation loop and its workers."""

    def __init__(self, fleet: Fleet, name: str, tasks: int, workers: int, priority: int) -> None:
        self.fleet, self.name, self.priority, self.count = fleet, name, priority, workers
        draw = random.Random(f"{fleet.seed} {name}")
        kinds = draw.choices(list(KINDS), [share for *_, share in KINDS.values()], k=tasks)
        self.tasks = [
            ScheduledTask(cast(TaskSpec, SimpleNamespace(task_id=f"{name}-{n}")), 0, kind)
            for n, kind in enumerate(kinds)
        ]
        self.ended: set[str] = set()
        self.device_s = 0.0
        self.share_s = 0.0
        self.life = 0
        self.idle: list[Worker] = []
        self.requests = itertools.count()
        self.over_at = 0.0

    def start(self) -> None:
        """A process begins, and does what the journal doesn't hold as ended."""
        left = [job for job in self.tasks if job.key not in self.ended]
        for job in left:
            job.ready_at = 0.0
        most = {kind: self.fleet.of_kind[kind] for kind in KINDS}
        self.queue = TaskQueue(left, most, clock=lambda: self.fleet.time.now)
        self.idle = [Worker(self, number, self.life) for number in range(self.count)]
        self.wake()

    def kill(self) -> None:
        """The process is gone: nobody beats for its leases any more."""
        if self.queue.over:
            return
        self.life += 1
        self.idle = []
        self.fleet.time.after(RESTART_S, self.start)

    def wake(self) -> None:
        """Idle workers take what can begin."""
        while self.idle:
            with self.fleet.found.timed("queue"):
                job = self.queue.take()
            if job is None:
                return
            worker = self.idle.pop()
            worker.job = job
            self.ask(worker)

    def after(self, worker: Worker, seconds: float, event: Callable[[Worker], None]) -> None:
        """Let a worker do something, unless its process is killed before that."""

        def happen() -> None:
            if worker.life == self.life:
                event(worker)

        self.fleet.time.after(seconds, happen)

    # -- a lease (GatewayPool.open, the SDK's session) ---------------------------------------------------------------

    def ask(self, worker: Worker) -> None:
        """Ask for a device of the task's kind."""
        assert worker.job is not None
        protocol, labels, _ = KINDS[worker.job.kind]
        name = f"{self.name}-{self.life}-{next(self.requests)}"
        self._poll(worker, LeaseRequest(name, self.name, protocol, labels, priority=self.priority), self.fleet.time.now)

    def _poll(self, worker: Worker, request: LeaseRequest, since: float) -> None:
        fleet = self.fleet
        try:
            with fleet.found.timed("ask"):
                said = fleet.leases.ask(request)
        except LeaseEnded as ended:  # granted, and taken again before its holder heard of it
            self._no_device(worker, f"{ended.state} before it was heard of")
            return
        if isinstance(said, DeviceLease):
            self._granted(worker, said, since)
        elif fleet.time.now - since >= WAIT_S:
            with fleet.found.timed("withdraw"):
                fleet.leases.withdraw(request.id, self.name)
            self._no_device(worker, "no device")
        else:
            fleet.waiters[request.id] = lambda: worker.life == self.life and self._poll(worker, request, since)
            self.after(worker, POLL_S, lambda _: fleet.poll(request.id))

    def _granted(self, worker: Worker, lease: DeviceLease, since: float) -> None:
        self.fleet.given(lease)
        self.fleet.found.waits_s.append(self.fleet.time.now - since)
        worker.lease, worker.wanted = lease, False
        worker.turn += 1
        self._beat_later(worker)
        self._try(worker)

    def _beat_later(self, worker: Worker) -> None:
        turn = worker.turn

        def beat(worker: Worker) -> None:
            if worker.turn != turn or worker.lease is None:
                return
            try:
                with self.fleet.found.timed("heartbeat"):
                    self.fleet.leases.heartbeat(worker.lease.id, worker.lease.fence)
                    worker.wanted = self.fleet.leases.is_wanted(worker.lease.id)
            except LeaseEnded as ended:
                self._broken(worker, ended.state)
            else:
                self._beat_later(worker)

        self.after(worker, self.fleet.leases.rules.heartbeat_s, beat)

    def _no_device(self, worker: Worker, reason: str) -> None:
        job, worker.job = worker.job, None
        assert job is not None
        self.fleet.found.again[reason] += 1
        self._put_back(job, NO_DEVICE_S)
        self._idle(worker, job.kind)

    # -- a try (execution.scheduling) --------------------------------------------------------------------------------

    def _try(self, worker: Worker) -> None:
        draw, limits = self.fleet.draw, self.fleet.limits
        seconds = draw.lognormvariate(0.0, SPREAD) * self.fleet.median_s
        chance = draw.random()
        if chance < HANG:
            self._later(worker, limits.call_s, lambda worker: self._fault(worker, "hang"))
        elif chance < HANG + DEVICE_FAULT:
            self._later(worker, seconds * draw.random(), lambda worker: self._fault(worker, "device fault"))
        elif chance < HANG + DEVICE_FAULT + POLICY_FAULT:
            self._later(worker, seconds * draw.random(), self._policy_fault)
        else:
            self._later(worker, seconds, self._end)

    def _later(self, worker: Worker, seconds: float, event: Callable[[Worker], None]) -> None:
        turn, job = worker.turn, worker.job
        self.after(worker, seconds, lambda one: event(one) if (one.turn, one.job) == (turn, job) else None)

    def _end(self, worker: Worker) -> None:
        job = worker.job
        assert job is not None
        self.fleet.found.doubled += job.key in self.ended
        self.ended.add(job.key)
        with self.fleet.found.timed("queue"):
            self.queue.end(job)
        self._follow(worker, job.kind)

    def _policy_fault(self, worker: Worker) -> None:
        job = worker.job
        assert job is not None
        self.fleet.found.again["policy fault"] += 1
        self._put_back(job, self.fleet.limits.pause_s)
        self._follow(worker, job.kind)

    def _follow(self, worker: Worker, kind: str) -> None:
        """The next task of the kind on the same device, or the device is given back."""
        with self.fleet.found.timed("queue"):
            worker.job = None if worker.wanted else self.queue.take(kind)
        if worker.job is not None:
            self._try(worker)
            return
        self._release(worker)
        self._idle(worker, kind)

    def _release(self, worker: Worker) -> None:
        lease, worker.lease = worker.lease, None
        worker.turn += 1
        assert lease is not None
        try:
            with self.fleet.found.timed("release"):
                self.fleet.leases.release(lease.id, lease.fence)
        except LeaseEnded as ended:
            self.fleet.found.again[f"{ended.state} when given back"] += 1
        self.fleet.ended(lease)
        self.fleet.answer(lease.device)

    def _fault(self, worker: Worker, reason: str) -> None:
        lease = worker.lease
        assert lease is not None
        try:
            with self.fleet.found.timed("fail"):
                if self.fleet.leases.fail(lease.device, reason, lease.id, lease.fence):
                    self.fleet.readmit_later(lease.device)
        except LeaseEnded as ended:
            self._broken(worker, ended.state)
        else:
            self._broken(worker, reason)

    def _broken(self, worker: Worker, reason: str) -> None:
        """The try is over by infrastructure; its task goes on elsewhere."""
        job, worker.job = worker.job, None
        assert job is not None
        self.fleet.found.again[reason] += 1
        self._put_back(job, self.fleet.limits.pause_s)
        self._release(worker)
        self._idle(worker, job.kind)

    def _put_back(self, job: ScheduledTask, seconds: float) -> None:
        with self.fleet.found.timed("queue"):
            self.queue.put_back(job, seconds)
        self.fleet.time.after(seconds, self.wake)

    def _idle(self, worker: Worker, kind: str) -> None:
        with self.fleet.found.timed("queue"):
            self.queue.free(kind)
        self.idle.append(worker)
        self.wake()
        if self.queue.over and not self.over_at:
            self.over_at = self.fleet.time.now
            self.fleet.note_shares()
