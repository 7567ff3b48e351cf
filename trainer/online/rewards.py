"""The reward of a whole trajectory (docs/method.md §7), for each member of a group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trainer.settings.online import TrajectoryReward


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a rollout came to. `success` None: lost to infrastructure. `steps` = T, all replies; `unparsable` of them
    were no-ops that couldn't be read."""

    success: bool | None
    steps: int
    unparsable: int = 0
    replayed: bool = False


def fewest_steps(group: Sequence[Outcome]) -> int | None:
    """T_min: fewest steps among the live successes; None without any."""
    live = [one.steps for one in group if one.success and not one.replayed]
    return min(live) if live else None


def trajectory_scores(group: Sequence[Outcome], config: TrajectoryReward) -> list[dict[str, float] | None]:
    """R(τ) of each member of a group as `total` = success · r_comp · length_factor + unparsable_penalty, with these
    terms by name (a failure has no `length_factor`); None where infrastructure failed.

    A replayed success stands in groups without a live one: there is no T_min then, and it gets `r_comp` whole.
    """
    least = fewest_steps(group)
    return [None if one.success is None else _scores(one, least, config) for one in group]


def _scores(one: Outcome, least: int | None, config: TrajectoryReward) -> dict[str, float]:
    penalty = max(config.penalty_floor, -config.unparsable_penalty * one.unparsable)
    if not one.success:
        return {"success": 0.0, "unparsable_penalty": penalty, "total": penalty}
    excess = 0.0 if least is None else max(0.0, (one.steps - least) / least)
    factor = config.eta**excess
    total = config.r_comp * factor + penalty
    return {"success": 1.0, "length_factor": factor, "unparsable_penalty": penalty, "total": total}
