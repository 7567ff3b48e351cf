"""What a policy is worth on held-out tasks: reward, step success, trace success.

Everything is paired: the same tasks, the same sampling seeds before and after, whole clusters of tasks at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainer.modeling.generation import reply_limit
from trainer.modeling.sampler import Sampler
from trainer.offline.semi_online import answering, sop_progress
from trainer.offline.tasks import REPLIES, RlTask, complete_episodes
from trainer.rl.rewards import bounds, reward, succeeds
from trainer.rl.unreadable import unreadable_share
from trainer.settings.domains import DOMAINS
from trainer.settings.rewards import RewardConfig


@dataclass(frozen=True)
class Measure:
    """What a policy did on tasks, one number per task: `sampled` is the mean reward of replies drawn at temperature 1,
    `greedy` the reward of the likeliest reply, `success` whether that one would have done; `traces` one flag per
    complete episode (every step a success, histories being the true ones); `progress`, where it was asked for, is how
    far each such episode goes with the policy's own history (`semi_online.sop_progress`).
    """

    sampled: tuple[float, ...]
    greedy: tuple[float, ...]
    success: tuple[bool, ...]
    traces: tuple[bool, ...]
    progress: tuple[float, ...] = ()
    unreadable: float = 0.0
    """Share of the likeliest replies that hold no point or action."""

    def summary(self) -> dict[str, float | int | None]:
        """Means, for events and reports; None where there is nothing to average."""
        return {
            "tasks": len(self.sampled),
            "reward": _mean(self.sampled),
            "greedy_reward": _mean(self.greedy),
            "step_success": _mean(self.success),
            "trace_success": _mean(self.traces),
            "traces": len(self.traces),
            "unreadable_share": self.unreadable,
            **sop(self.progress),
        }


def sop(progress: Sequence[float]) -> dict[str, float]:
    """Semi-online performance: mean progress, share of episodes done whole, and the mean of both; {} of none."""
    if not progress:
        return {}
    far, whole = float(np.mean(progress)), float(np.mean([one == 1.0 for one in progress]))
    return {"sop_progress": far, "sop_success": whole, "sop": (far + whole) / 2}


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def measure(
    sampler: Sampler,
    tasks: Sequence[RlTask],
    *,
    samples: int,
    seed: int,
    config: RewardConfig,
    own_history: bool = False,
) -> Measure:
    """Reward and success on tasks; a pure function of weights, tasks and seed. `samples` 0 leaves sampling out;
    `own_history` asks for `progress` too."""
    rows = [task.row for task in tasks]
    objective = tasks[0].truth.objective if tasks else ""  # tasks of one domain have one
    limit = reply_limit(sampler.processor.preset.max_answer_tokens, objective, config.wide, config.free_form)
    arguments: dict[str, Any] = {"max_new_tokens": limit, "batch_size": REPLIES}
    greedy = sampler.draw(rows, **arguments)
    best = [reward(reply.text, task.truth, config) for reply, task in zip(greedy, tasks, strict=True)]
    sampled = best
    if samples:
        replies = sampler.draw(rows, group=samples, temperature=1.0, generator=sampler.seeded(seed), **arguments)
        scores = [reward(reply.text, tasks[reply.row].truth, config) for reply in replies]
        sampled = np.asarray(scores).reshape(len(tasks), samples).mean(1).tolist()
    success = [succeeds(reply.text, task.truth, config) for reply, task in zip(greedy, tasks, strict=True)]
    traces = [all(success[i] for i in steps) for steps in complete_episodes(tasks)]
    progress: tuple[float, ...] = ()
    # asked for only at the ends of a run: it answers a step more for every own word in a history
    if own_history:
        likeliest = answering(sampler, None, temperature=0.0)
        progress = sop_progress(tasks, greedy, likeliest, rewards=config)
    said = [(reply.text, task.truth) for reply, task in zip(greedy, tasks, strict=True)]
    lost = unreadable_share(said, config, "held-out tasks")
    return Measure(tuple(sampled), tuple(best), tuple(success), tuple(traces), progress, lost)


def reward_bounds(domain: str, config: RewardConfig) -> tuple[float, float]:
    """The range of rewards in a domain, to read the figures by."""
    return bounds(DOMAINS[domain].objective, config)
