"""What a run of offline RL leaves to be read: its `rl.json`, with paired gains and the change of the weights."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from trainer.merging.merge import layer_of
from trainer.offline.held_out import Measure, RlTask, reward_bounds
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
    delta: Mapping[str, Any],
    before: Measure,
    after: Measure,
    held_out: Sequence[RlTask],
    counted: Mapping[str, Any],
) -> dict[str, Any]:
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


def in_memory(tensors: Iterable[tuple[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """Copies by name, in the machine's memory whatever device they come from."""
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors}


def weight_delta(model: Any, start: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    """Relative weight change ‖θ − θ_0‖ / ‖θ_0‖ over all parameters and by layer, and its norm; `start` by name."""
    squares: dict[str, list[float]] = {}
    for name, tensor in model.named_parameters():
        pair = squares.setdefault(layer_of(name), [0.0, 0.0])
        pair[0] += float((tensor.detach().to(start[name].device) - start[name]).double().pow(2).sum())
        pair[1] += float(start[name].double().pow(2).sum())
    moved, whole = (math.fsum(pair[i] for pair in squares.values()) for i in (0, 1))
    layers = {name: math.sqrt(pair[0] / pair[1]) if pair[1] else 0.0 for name, pair in sorted(squares.items())}
    return {"relative": math.sqrt(moved / whole), "norm": math.sqrt(moved), "layers": layers}
