"""Rollouts go on while the learner learns: bounded staleness, and every finished rollout used once or counted.

Group g is the task at place g mod n of batch g div n (n = tasks_per_update) in the order of `in_device_order`, so what
is asked for is a pure function of (tasks, seed); when it comes is not. At most n·(max_staleness + 1) groups are open
at once. An update takes the n oldest groups that are whole. A group whose oldest replies would be too old for the next
update is taken with the members it has; a straggler then joins a later update, its advantage being that against its
whole group. A rollout with a reply older than `max_staleness` updates is dropped and counted.

A finished rollout lies in a file until an update that used it, or its drop, is saved with the weights. A run that was
killed goes on from the weights last saved: rollouts of updates that were lost with their weights are used again by
those that replace them, the others are used for the first time; none is made again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from generators.tasks.task_spec import TaskSpec
from trainer.online.collect import RolloutGroup, group_jobs, in_device_order
from trainer.online.rollout_files import RolloutFiles
from trainer.online.rollouts import Rollout
from trainer.online.strata import Batches
from trainer.online.workers import RolloutWorkers
from trainer.settings.online import OnlineConfig

DROPPED = -1
# seconds after which staleness is looked at again
WAIT_S = 1.0


@dataclass
class _Open:
    """A group that isn't over. `made` by member; `used` members were part of an update, `gone` ones were dropped."""

    key: str
    task: TaskSpec
    made: dict[int, Rollout] = field(default_factory=dict)
    used: set[int] = field(default_factory=set)
    gone: set[int] = field(default_factory=set)

    @property
    def fresh(self) -> list[int]:
        """Members that can be used."""
        return sorted(set(self.made) - self.used - self.gone)


class AsyncCollector:
    """See `Collector`."""

    def __init__(self, workers: RolloutWorkers, batches: Batches, config: OnlineConfig, folder: Path | None) -> None:
        self._workers, self._batches, self._config = workers, batches, config
        self._files = RolloutFiles(folder / "rollouts" if folder else None)
        # a rollout is on the disk before anybody counts it
        workers.keep = self._files.keep
        self._issued = 0
        self._open: dict[int, _Open] = {}
        self._ledger: dict[str, int] = {}  # key → the update that used it, or DROPPED
        self._in_state: set[str] = set()  # keys of the ledger in the last `state`
        self._figures: dict[str, Any] = {}
        self._dropped = 0

    # -- state -----------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        # which keys are on the disk once this state is; a later update may add others before `saved`
        self._in_state = set(self._ledger)
        # of what was used or dropped only the outcome is needed; fresh rollouts lie in files of their own
        bare = {
            str(number): {
                str(member): replace(group.made[member], samples=()).to_plain()
                for member in sorted(group.used | group.gone)
            }
            for number, group in self._open.items()
        }
        gone = {str(number): sorted(group.gone) for number, group in self._open.items()}
        return {"issued": self._issued, "open": bare, "gone": gone, "ledger": dict(self._ledger)}

    def load(self, state: dict[str, Any]) -> None:
        """Take up what was open, with what lies in files, and ask for what is missing."""
        self._ledger = dict(state.get("ledger", {}))
        self._issued = int(state.get("issued", 0))
        for number, members in state.get("open", {}).items():
            group = self._begin(int(number))
            group.made = {int(member): Rollout.from_plain(plain) for member, plain in members.items()}
            group.gone = set(state["gone"][number])
            group.used = set(group.made) - group.gone
        stored = self._files.all()
        # the run died after a save and before their files were removed
        self._files.forget({key for key in stored if key in self._ledger})
        fresh = [rollout for key, rollout in stored.items() if key not in self._ledger]
        # groups begun after the last save aren't in it: what they had finished is taken over, not made again
        for number in range(self._issued, 1 + max((_place(one.key)[0] for one in fresh), default=-1)):
            self._begin(number)
            self._issued = number + 1
        self.taken(fresh)
        for _, group in sorted(self._open.items()):
            jobs = group_jobs(group.task, group.key, self._config)
            # the seed of a rollout depends on its group and member alone,
            # so those that are missing are the same
            self._workers.submit([job for job in jobs if job.member not in group.made])

    def saved(self) -> None:
        self._files.forget(self._in_state)

    def figures(self) -> dict[str, Any]:
        return dict(self._figures)

    # -- groups ----------------------------------------------------------------------------------------------------

    def _begin(self, number: int) -> _Open:
        batch, place = divmod(number, self._config.tasks_per_update)
        tasks = self._batches.batch(batch, self._config.tasks_per_update)
        task = in_device_order(self._workers.pool, tasks, batch)[place]
        self._open[number] = _Open(f"g{number:07d}", task)
        return self._open[number]

    def _issue(self, update: int) -> None:
        """Ask for more groups, as many as may be open and as are still needed."""
        config = self._config
        # no more than the updates that are left can use
        most = config.tasks_per_update * min(config.max_staleness + 1, config.updates - update)
        # a group that was used in part only waits for stragglers, and takes no place
        while sum(not group.used for group in self._open.values()) < most:
            group = self._begin(self._issued)
            self._issued += 1
            self._workers.submit(group_jobs(group.task, group.key, config))

    def taken(self, rollouts: Sequence[Rollout]) -> None:
        for rollout in rollouts:
            number, member = _place(rollout.key)
            if rollout.key in self._ledger or number not in self._open:
                raise RuntimeError(f"online RL: rollout {rollout.key} came a second time")
            self._open[number].made[member] = rollout

    def collect(self, update: int) -> list[RolloutGroup]:
        """At least `tasks_per_update` groups; waits until there are."""
        while True:
            self._issue(update)
            self._drop(update)
            whole = [number for number, group in sorted(self._open.items()) if self._is_whole(group)]
            urgent = [number for number, group in sorted(self._open.items()) if self._is_urgent(group, update)]
            if len(whole) + len(urgent) >= self._config.tasks_per_update:
                return self._take(whole, urgent, update)
            self.taken(self._workers.wait(WAIT_S))

    def _is_whole(self, group: _Open) -> bool:
        return not group.used and len(group.made) == self._config.num_generations

    def _is_urgent(self, group: _Open, update: int) -> bool:
        """Whether the members that it has are enough, and too old for the next update."""
        live = [group.made[member] for member in group.fresh if group.made[member].success is not None]
        # a reply that is just as old as allowed would be dropped by the next update
        old = [one for one in live if self._age(one, update) >= self._config.max_staleness]
        return not group.used and not self._is_whole(group) and len(live) >= 2 and bool(old)

    def _age(self, rollout: Rollout, update: int) -> int:
        return update - rollout.version

    def _drop(self, update: int) -> None:
        for number, group in list(self._open.items()):
            for member in group.fresh:
                rollout = group.made[member]
                # a lost rollout has no replies, so it has no age
                if rollout.samples and self._age(rollout, update) > self._config.max_staleness:
                    group.gone.add(member)
                    self._ledger[rollout.key] = DROPPED
                    self._dropped += 1
            self._close(number)

    def _take(self, whole: Sequence[int], urgent: Sequence[int], update: int) -> list[RolloutGroup]:
        # urgent ones first: an update later their replies would be thrown away
        room = max(0, self._config.tasks_per_update - len(urgent))
        chosen = sorted([*urgent, *whole[:room]])
        late = [number for number, group in sorted(self._open.items()) if group.used and group.fresh]
        found = [self._use(number, update) for number in [*chosen, *late]]
        used = [rollout.key for group in found for rollout in group.counted()]
        self._figures = {"stale_dropped": self._dropped, "partial": len(urgent), "late": len(late), "used": used}
        self._dropped = 0
        return found

    def _use(self, number: int, update: int) -> RolloutGroup:
        group = self._open[number]
        members = sorted(set(group.made) - group.gone)
        fresh = group.fresh
        for member in fresh:
            key = group.made[member].key
            if key in self._ledger:
                raise RuntimeError(f"online RL: rollout {key} would be used twice")
            self._ledger[key] = update
        # the others of the group are there to be compared with
        counting = frozenset(members.index(member) for member in fresh) if group.used else None
        rollouts = tuple(group.made[member] for member in members)
        group.used |= set(fresh)
        for member in fresh:  # what is still needed of it is its outcome
            group.made[member] = replace(group.made[member], samples=())
        self._close(number)
        return RolloutGroup(group.key, group.task, rollouts, counting)

    def _close(self, number: int) -> None:
        group = self._open[number]
        if len(group.used | group.gone) == self._config.num_generations:
            del self._open[number]


def _place(key: str) -> tuple[int, int]:
    """(group, member) of a rollout's key."""
    group, _, member = key.rpartition("-")
    return int(group[1:]), int(member)
