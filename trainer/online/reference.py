"""The reference policy of the KL term, and when it follows the policy (docs/method.md §7).

Policy and reference are put to the same held-out episodes: each task once with the likeliest replies, then, until there
are enough, again and again with sampled ones, a pair having the same task and seed. Once the policy is better by the
margin and by two standard errors of the paired difference: π_ref ← (1 − α) π_ref + α π_θ, in weights (`Learner.blend`).
Episodes of one task aren't independent, so the standard error is that over tasks.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from generators.tasks.task_spec import TaskSpec
from schemas.ids import digest
from trainer.online.rollouts import RolloutJob, rollout_seed
from trainer.settings.online import ReferenceConfig

Successes = Sequence[bool | None]
"""Of each validation episode; None where infrastructure failed."""
MIN_TASKS = 10
"""Fewer don't show how tasks differ, however often each is tried."""


@dataclass(frozen=True)
class Comparison:
    """Paired difference of success, policy − reference, over the episodes that both ended, and how many tasks these are
    of."""

    episodes: int
    tasks: int
    policy: float
    reference: float
    gain: float
    standard_error: float
    follows: bool


def compare(policy: Successes, reference: Successes, tasks: Sequence[str], config: ReferenceConfig) -> Comparison:
    """`tasks` names the task of each episode. With n pairs d of T tasks, the variance of their mean g is
    T/(T − 1) · Σ_task (Σ_its pairs (d − g))² / n²: that of n independent pairs where each task comes once.

    Raises `ValueError` for lists that aren't of the same episodes."""
    if not len(policy) == len(reference) == len(tasks):
        raise ValueError(
            f"reference: expected the same episodes, found {len(policy)} and {len(reference)}, and "
            f"{len(tasks)} names of tasks"
        )
    pairs = [
        (float(one), float(other), task)
        for one, other, task in zip(policy, reference, tasks, strict=True)
        if one is not None and other is not None
    ]
    n, t = len(pairs), len({task for _, _, task in pairs})
    # of one task nothing shows how tasks differ
    if t < 2:
        return Comparison(n, t, math.nan, math.nan, 0.0, math.inf, False)
    ours, theirs = math.fsum(one for one, _, _ in pairs) / n, math.fsum(other for _, other, _ in pairs) / n
    gain = ours - theirs
    residuals: dict[str, float] = defaultdict(float)
    for one, other, task in pairs:
        residuals[task] += one - other - gain
    # a cluster-robust standard error: what the tries of one task share isn't averaged out by more of them
    error = math.sqrt(t / (t - 1) * math.fsum(value**2 for value in residuals.values())) / n
    enough = n >= config.min_episodes and t >= min(MIN_TASKS, config.min_episodes)
    follows = enough and gain > 0 and gain >= config.margin and gain >= config.standard_errors * error
    return Comparison(n, t, ours, theirs, gain, error, follows)


def validation_tasks(tasks: Sequence[TaskSpec], train: Sequence[TaskSpec], limit: int, seed: int) -> list[TaskSpec]:
    """At most `limit` of them, in the order of a hash. Raises `ValueError` for one that is also trained on."""
    known = {task.task_id for task in train}
    if shared := sorted(task.task_id for task in tasks if task.task_id in known):
        raise ValueError(
            f"online RL: expected validation tasks apart from training, found {len(shared)} shared, "
            f"first {shared[0]}; leave them out of one"
        )
    # in an order that neither names nor files suggest, the same on every machine
    return sorted(tasks, key=lambda task: digest(["validation", seed, task.task_id]))[:limit]


def validation_jobs(
    tasks: Sequence[TaskSpec], update: int, slot: str, *, episodes: int = 0, seed: int = 0
) -> list[RolloutJob]:
    """One greedy episode of each task, in their order; then sampled ones, task after task, until there are `episodes`,
    whose seeds depend on the task and on which try it is, never on `update` or `slot`."""
    jobs = []
    for number in range(max(episodes, len(tasks)) if tasks else 0):
        tried, place = divmod(number, len(tasks))
        task = tasks[place]
        # a greedy reply draws nothing
        drawn = rollout_seed(seed, "validation", task.task_id, tried) if tried else 0
        jobs.append(
            RolloutJob(
                task,
                f"validation-{slot}-{update:06d}-{place:04d}",
                tried,
                drawn,
                greedy=not tried,
                slot=slot,
                validation=True,
            )
        )
    return jobs
