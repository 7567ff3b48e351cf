"""The reference policy of the KL term, and when it follows the policy (METHOD §7).

Policy and reference are put to the same held-out episodes, each taking the likeliest reply. Once the policy is better
by the margin and by two standard errors of the paired difference: π_ref ← (1 − α) π_ref + α π_θ, in weights
(`Learner.blend`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from generators.generation.tasks.contract import Contract
from schemas.ids import digest
from trainer.online.config import ReferenceConfig
from trainer.online.rollouts import Job

Successes = Sequence[bool | None]
"""Of each validation episode; None where infrastructure failed."""


@dataclass(frozen=True)
class Comparison:
    """Paired difference of success, policy − reference, over the episodes that both ended."""

    episodes: int
    policy: float
    reference: float
    gain: float
    standard_error: float
    follows: bool


def compare(policy: Successes, reference: Successes, config: ReferenceConfig) -> Comparison:
    """Raises `ValueError` for lists that aren't of the same episodes."""
    if len(policy) != len(reference):
        raise ValueError(f"reference: expected the same episodes, found {len(policy)} and {len(reference)}")
    pairs = [(float(one), float(other)) for one, other in zip(policy, reference, strict=True)
             if one is not None and other is not None]  # fmt: skip
    n = len(pairs)
    if n < 2:
        return Comparison(n, math.nan, math.nan, 0.0, math.inf, False)
    ours, theirs = (math.fsum(pair[i] for pair in pairs) / n for i in (0, 1))
    gain = ours - theirs
    error = math.sqrt(math.fsum((one - other - gain) ** 2 for one, other in pairs) / (n - 1) / n)
    follows = n >= config.min_episodes and gain > 0 and gain >= config.margin and gain >= config.standard_errors * error
    return Comparison(n, ours, theirs, gain, error, follows)


def validation_tasks(tasks: Sequence[Contract], train: Sequence[Contract], limit: int, seed: int) -> list[Contract]:
    """At most `limit` of them, in the order of a hash. Raises `ValueError` for one that is also trained on."""
    known = {task.task_id for task in train}
    if shared := sorted(task.task_id for task in tasks if task.task_id in known):
        raise ValueError(f"online RL: expected validation tasks apart from training, found {len(shared)} shared, "
                         f"first {shared[0]}; leave them out of one")  # fmt: skip
    return sorted(tasks, key=lambda task: digest(["validation", seed, task.task_id]))[:limit]


def validation_jobs(tasks: Sequence[Contract], update: int, slot: str) -> list[Job]:
    """One greedy episode of each task."""
    return [Job(task, f"validation-{slot}-{update:06d}-{place:04d}", 0, 0, greedy=True, slot=slot)
            for place, task in enumerate(tasks)]  # fmt: skip
