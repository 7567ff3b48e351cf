"""What a run of offline RL leaves to be read: its `rl.json`, with paired gains and the change of the weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainer.offline.held_out import Measure, reward_bounds
from trainer.offline.tasks import RlTask
from trainer.settings.rewards import RewardConfig
from trainer.statistics import paired


@dataclass(frozen=True)
class Trained:
    """The course of a run: `curve` has a row per update, `looks` one per look at validation."""

    updates: int
    bound: int
    peak_update: int
    groups: int
    zero_variance: int
    curve: Sequence[Mapping[str, Any]]
    looks: Sequence[Mapping[str, Any]]


def metrics_of(
    domain: str,
    rewards: RewardConfig,
    seed: int,
    trained: Trained,
    delta: Mapping[str, object],
    before: Measure,
    after: Measure,
    held_out: Sequence[RlTask],
    counted: Mapping[str, object],
) -> dict[str, object]:
    """The content of `rl.json`; gains are paired task by task, their intervals a bootstrap over clusters.

    `delta` is that of `weight_delta`; `counted` is added as it is.
    """
    clusters = [task.cluster for task in held_out]

    def gain(one: Sequence[float], other: Sequence[float]) -> dict[str, Any]:
        return paired(other, one, clusters, seed=seed).plain()

    return {
        "domain": domain,
        "reward_range": list(reward_bounds(domain, rewards)),
        "before": before.summary(),
        "after": after.summary(),
        "reward_gain": gain(before.sampled, after.sampled),
        "greedy_reward_gain": gain(before.greedy, after.greedy),
        "step_success_gain": gain(before.success, after.success),
        "updates": trained.updates,
        "peak_update": trained.peak_update,
        "stopped_early": trained.updates < trained.bound,
        "groups": trained.groups,
        "zero_variance_share": trained.zero_variance / max(1, trained.groups),
        "weight_delta": delta["relative"],
        "weight_delta_norm": delta["norm"],
        "weight_delta_layers": delta["layers"],
        **counted,
        "curve": list(trained.curve),
        "looks": list(trained.looks),
    }
