"""What the workers of a run keep account of: themselves, the rollouts that wait or run, and what was survived."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from generators.generation.devices import Device
from trainer.online.rollouts import Job, RolloutClaim

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


@dataclass(eq=False)
class Worker:
    """A thread. `doing` is the call that it is in, since `since`; `given_up`: nothing it says counts any more."""

    number: int
    thread: threading.Thread | None = None
    job: Job | None = None
    claim: RolloutClaim | None = None
    device: Device | None = None
    kind: str = ""
    opened: AbstractContextManager[Device] | None = None
    open_since: float = 0.0
    job_since: float = 0.0
    doing: str = ""
    since: float = 0.0
    given_up: bool = False

    def call(self, what: str) -> None:
        self.doing, self.since = what, time.monotonic()


@dataclass
class Task:
    """A job that waits or runs. `spent`: device seconds of tries that failed."""

    job: Job
    kind: str
    tries: int = 0
    spent: float = 0.0
    ready_at: float = 0.0


@dataclass
class Statistics:
    """What the workers survived. `failures` by what failed."""

    failures: Counter[str] = field(default_factory=Counter)
    hung: int = 0
    opened: int = 0
    lost: int = 0
