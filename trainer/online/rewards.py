"""The reward of a whole trajectory (docs/method.md §7), for each member of a group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainer.rl.own_terms import group_values, labelled, weighted
from trainer.settings.online import TrajectoryReward

if TYPE_CHECKING:
    from trainer.online.rollouts import Rollout


@dataclass(frozen=True, slots=True)
class RolloutOutcome:
    """What a rollout came to. `success` None: lost to infrastructure. `steps` = T, all replies; `unparsable` of them
    were no-ops that couldn't be read."""

    success: bool | None
    steps: int
    unparsable: int = 0
    replayed: bool = False


def fewest_steps(group: Sequence[RolloutOutcome]) -> int | None:
    """T_min: fewest steps among the live successes; None without any."""
    live = [one.steps for one in group if one.success and not one.replayed]
    return min(live) if live else None


def trajectory_scores(
    group: Sequence[RolloutOutcome], config: TrajectoryReward, rollouts: Sequence[Rollout] = ()
) -> list[dict[str, float] | None]:
    """R(τ) of each member of a group as `total` = success · r_comp · length_factor + unparsable_penalty, with these
    terms by name (a failure has no `length_factor`); None where infrastructure failed.

    `rollouts`, in the same order, are what terms of one's own look at. A replayed success stands in groups without a
    live one: there is no T_min then, and it gets `r_comp` whole.
    """
    least = fewest_steps(group)
    scores = [None if one.success is None else _scores(one, least, config) for one in group]
    if not config.trajectory_terms or not rollouts:
        return scores
    found = group_values(config.trajectory_terms, rollouts)
    return [
        # None, for what was lost, stays None
        one and {**one, **labelled(own), "total": one["total"] + weighted(config.trajectory_terms, own)}
        for one, own in zip(scores, found, strict=True)
    ]


def _scores(one: RolloutOutcome, least: int | None, config: TrajectoryReward) -> dict[str, float]:
    # at worst -0.5 by default: unreadable replies never outweigh a success
    penalty = max(config.penalty_floor, -config.unparsable_penalty * one.unparsable)
    if not one.success:
        return {"success": 0.0, "unparsable_penalty": penalty, "total": penalty}
    excess = 0.0 if least is None else max(0.0, (one.steps - least) / least)
    factor = config.eta**excess
    total = config.r_comp * factor + penalty
    return {"success": 1.0, "length_factor": factor, "unparsable_penalty": penalty, "total": total}
