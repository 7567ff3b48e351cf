"""Where an update's groups of rollouts come from."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from generators.execution.device_pool import DevicePool
from generators.tasks.task_spec import TaskSpec
from trainer.online.curricula.assign import TaskCurriculum
from trainer.online.rollouts import Rollout, RolloutJob, rollout_seed
from trainer.online.strata import Batches
from trainer.online.workers import RolloutWorkers
from trainer.settings.online import OnlineConfig


@dataclass(frozen=True)
class RolloutGroup:
    """Rollouts of one task. `counting`: the members (by place) that take part in this update's loss, None for all; the
    others were used by an earlier update and stand there for the comparison alone."""

    key: str
    task: TaskSpec
    rollouts: tuple[Rollout, ...]
    counting: frozenset[int] | None = None

    def counted(self) -> list[Rollout]:
        """The members that take part in the loss."""
        return [one for place, one in enumerate(self.rollouts) if self.counting is None or place in self.counting]


class Collector(Protocol):
    """Gives each update its groups. `state` is plain JSON data; what it says, `load` goes on from."""

    def collect(self, update: int) -> list[RolloutGroup]: ...

    def taken(self, rollouts: Sequence[Rollout]) -> None:
        """Rollouts that ended while something else was waited for."""
        ...

    def state(self) -> dict[str, Any]: ...

    def load(self, state: dict[str, Any]) -> None: ...

    def saved(self) -> None:
        """The last `state` is on the disk."""
        ...

    def figures(self) -> dict[str, Any]:
        """Of the last `collect`."""
        ...


def group_jobs(task: TaskSpec, key: str, config: OnlineConfig) -> list[RolloutJob]:
    """The rollouts of a group."""
    return [
        RolloutJob(task, key, member, rollout_seed(config.seed, key, task.task_id, member))
        for member in range(config.rollouts)
    ]


def in_device_order(pool: DevicePool, tasks: Sequence[TaskSpec], batch: int) -> list[TaskSpec]:
    """Tasks of batch number `batch` so that those that need one kind of device follow one another, and first the kind
    that the batch before ended with: a worker opens another device only where the kind changes."""
    return sorted(tasks, key=pool.kind, reverse=batch % 2 == 1)


class SyncCollector:
    """The groups of update u are those of batch u, made with the weights that update u starts from."""

    def __init__(self, workers: RolloutWorkers, batches: Batches, config: OnlineConfig) -> None:
        self._workers, self._batches, self._config = workers, batches, config

    def collect(self, update: int) -> list[RolloutGroup]:
        config = self._config
        tasks = in_device_order(self._workers.pool, self._batches.batch(update, config.tasks_per_update), update)
        groups = [(f"u{update:06d}-t{place:03d}", task) for place, task in enumerate(tasks)]
        jobs = [group_jobs(task, key, config) for key, task in groups]
        # a checkpoint must not depend on them
        # which device made a rollout, and how long that took, is a matter of chance
        rollouts = [replace(one, device="") for one in self._workers.run([job for members in jobs for job in members])]
        each = config.rollouts
        return [
            RolloutGroup(key, task, tuple(rollouts[place * each : (place + 1) * each]))
            for place, (key, task) in enumerate(groups)
        ]

    def taken(self, rollouts: Sequence[Rollout]) -> None:
        if rollouts:
            raise RuntimeError(f"online RL: {len(rollouts)} rollouts that nobody asked for")

    def state(self) -> dict[str, Any]:
        return {}

    def load(self, state: dict[str, Any]) -> None:
        pass

    def saved(self) -> None:
        pass

    def figures(self) -> dict[str, Any]:
        return {}


class CurriculumCollector(SyncCollector):
    """The same with batches of a curriculum, which is told what became of every group that is collected."""

    def __init__(self, workers: RolloutWorkers, curriculum: TaskCurriculum, config: OnlineConfig) -> None:
        super().__init__(workers, curriculum, config)
        self._curriculum = curriculum

    def collect(self, update: int) -> list[RolloutGroup]:
        found = super().collect(update)
        for group in found:
            self._curriculum.learn(group.task, [one.success for one in group.rollouts])
        return found

    def state(self) -> dict[str, Any]:
        return self._curriculum.state()

    def load(self, state: dict[str, Any]) -> None:
        self._curriculum.load(state)

    def figures(self) -> dict[str, Any]:
        return self._curriculum.figures()
