"""Success replay (ARPO): a group without a live success gets a past one of its task, so that it holds a comparison.

A replayed rollout keeps the log-probabilities of the policy that made it (the behaviour's, see `learner`), and doesn't
count in T_min.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from trainer.online.rollouts import Rollout


class ReplayBuffer:
    """The last `per_task` successes of each task, the newest last."""

    def __init__(self, per_task: int) -> None:
        self.per_task = per_task
        self._kept: dict[str, list[Rollout]] = {}

    def __len__(self) -> int:
        return sum(len(kept) for kept in self._kept.values())

    def add(self, rollouts: Sequence[Rollout]) -> None:
        """Keep the live successes among them."""
        for rollout in rollouts:
            if self.per_task and rollout.success and rollout.samples and not rollout.replayed:
                successes = self._kept.setdefault(rollout.task_id, [])
                successes.append(rollout)
                del successes[: -self.per_task]

    def fill(self, group: Sequence[Rollout], seed: str) -> list[Rollout]:
        """The group; where all its live members failed and a success of the task is kept, one of these (drawn by
        `seed`) stands in the place of the last that failed."""
        live = [place for place, rollout in enumerate(group) if rollout.success is not None]
        successes = self._kept.get(group[0].task_id, []) if group else []
        if not live or not successes or any(group[place].success for place in live):
            return list(group)
        chosen = replace(Random(seed).choice(successes), replayed=True)
        # in place of the last failure: the group keeps its size, and others to compare with
        return [chosen if place == live[-1] else rollout for place, rollout in enumerate(group)]

    def to_plain(self) -> dict[str, object]:
        """JSON values."""
        return {task: [rollout.to_plain() for rollout in kept] for task, kept in sorted(self._kept.items())}

    def load(self, plain: Mapping[str, Any]) -> None:
        """The inverse of `to_plain`."""
        self._kept = {task: [Rollout.from_plain(one) for one in kept] for task, kept in plain.items()}
