"""What the workers of a run keep account of: themselves, the rollouts that wait or run, and what was survived."""

from collections import Counter
from dataclasses import dataclass, field

from generators.execution.worker_pool import Worker, WorkerPoolStatistics
from trainer.online.rollouts import RolloutClaim, RolloutJob


@dataclass(eq=False)
class RolloutWorker(Worker):
    """A thread that makes rollouts, since `job_since` that of `job`."""

    job: RolloutJob | None = None
    claim: RolloutClaim | None = None
    job_since: float = 0.0


@dataclass
class WorkerJob:
    """A job that waits or runs. `spent`: device seconds of tries that failed."""

    job: RolloutJob
    kind: str
    tries: int = 0
    spent: float = 0.0
    ready_at: float = 0.0


@dataclass
class Statistics(WorkerPoolStatistics):
    """What the workers survived. `failures` by what failed."""

    failures: Counter[str] = field(default_factory=Counter)
    lost: int = 0
