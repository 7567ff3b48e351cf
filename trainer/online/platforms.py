"""Several platforms in one run (after Mobile-Agent-v3.5's MRPO, which publishes no formula; these are ours).

Pooled, the platform with more groups to learn from decides where weights go that both share. Three settings of
`online.platforms` go against that, each by itself: platforms weigh the same in the loss and are scaled by their own
rewards, they take turns by phases, and of more rollouts than a group needs those that differ most are kept.
"""

import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from generators.tasks.task_spec import TaskSpec
from trainer.online.collect import RolloutGroup
from trainer.online.strata import Batches, StratifiedBatches
from trainer.rl.grpo import Advantages, group_advantages
from trainer.rl.reward_figures import Scores
from trainer.settings.grpo import GrpoConfig
from trainer.settings.online import OnlineConfig, PlatformsConfig

_Scores = TypeVar("_Scores", bound=Scores)


def platform_advantages(
    groups: Sequence[Sequence[float | None]], platforms: Sequence[str], config: GrpoConfig
) -> Advantages:
    """`group_advantages` of each platform by itself (`platforms`: that of each group), so that "batch" scales by its
    own rewards; every platform with a comparison has the same share of the loss. In the order of the groups."""
    parts = {
        name: group_advantages([group for group, own in zip(groups, platforms, strict=True) if own == name], config)
        for name in dict.fromkeys(platforms)
    }
    with_signal = sum(part.used > 0 for part in parts.values())
    flat = {name: iter(zip(part.values, part.weights, strict=True)) for name, part in parts.items()}
    members = [next(flat[name]) for group, name in zip(groups, platforms, strict=True) for _ in group]
    return Advantages(
        tuple(value for value, _ in members),
        tuple(weight / max(1, with_signal) for _, weight in members),
        len(groups),
        sum(part.zero_variance for part in parts.values()),
        sum(part.too_small for part in parts.values()),
    )


def most_mixed(rewards: Sequence[float | None], keep: int) -> list[int]:
    """Places of the `keep` rewards that differ most, in order: the highest and the lowest, so many of either that their
    variance is largest (max-variance down-sampling, arXiv 2504.13818). Lost ones (None) are kept last."""
    known = sorted((place for place, one in enumerate(rewards) if one is not None), key=lambda at: (rewards[at], at))
    lost = [place for place, one in enumerate(rewards) if one is None]
    if len(known) <= keep:
        return sorted([*known, *lost[: keep - len(known)]])

    def spread(lowest: int) -> float:
        values = [rewards[at] or 0.0 for at in (*known[:lowest], *known[len(known) - keep + lowest :])]
        return statistics.pvariance(values)

    # of equal variance the most even split: one success among failures says no more than one failure among successes
    lowest = max(range(keep + 1), key=lambda count: (round(spread(count), 9), -abs(2 * count - keep)))
    return sorted([*known[:lowest], *known[len(known) - keep + lowest :]])


class AlternatingBatches:
    """`phase` batches of one platform's tasks, then as many of the next one's, each platform going on where its last
    phase ended; in the order of their names."""

    def __init__(self, tasks: Sequence[TaskSpec], edges: tuple[int, int], seed: int, phase: int) -> None:
        """Raises `ValueError` as `StratifiedBatches` does."""
        platforms = sorted({task.platform for task in tasks})
        self._own = [
            StratifiedBatches([task for task in tasks if task.platform == name], edges, seed) for name in platforms
        ]
        self._phase = phase
        self.sizes = StratifiedBatches(tasks, edges, seed).sizes

    def batch(self, number: int, size: int) -> list[TaskSpec]:
        """The `size` tasks of batch `number`, all of one platform: a pure function, as every batch is."""
        phase, place = divmod(number, self._phase)
        turn, platform = divmod(phase, len(self._own))
        return self._own[platform].batch(turn * self._phase + place, size)


def batches_of(tasks: Sequence[TaskSpec], config: OnlineConfig) -> Batches:
    """A run's batches: of all tasks, or of one platform's by turns. Raises `ValueError` as `StratifiedBatches` does."""
    if config.platforms.phase:
        return AlternatingBatches(tasks, config.edges, config.seed, config.platforms.phase)
    return StratifiedBatches(tasks, config.edges, config.seed)


def kept_of(
    groups: Sequence[RolloutGroup], scores: Sequence[Sequence[_Scores | None]], keep: int
) -> tuple[list[RolloutGroup], list[list[_Scores | None]]]:
    """Of each group the `keep` rollouts whose rewards differ most, and their scores."""
    places = [most_mixed([None if one is None else one["total"] for one in some], keep) for some in scores]
    return (
        [
            replace(group, rollouts=tuple(group.rollouts[at] for at in some))
            for group, some in zip(groups, places, strict=True)
        ],
        [[own[at] for at in some] for own, some in zip(scores, places, strict=True)],
    )


def run_advantages(
    groups: Sequence[RolloutGroup], rewards: Sequence[Sequence[float | None]], config: OnlineConfig
) -> Advantages:
    """The advantages of an update's groups, as `platforms.weighting` says."""
    if config.platforms.weighting == "pooled":
        return group_advantages(rewards, config.grpo)
    return platform_advantages(rewards, [group.task.platform for group in groups], config.grpo)


def platform_figures(groups: Sequence[RolloutGroup], advantages: Advantages, config: OnlineConfig) -> dict[str, float]:
    """Of each platform of an update: success of its rollouts, and its share of the loss; {} with the defaults."""
    if config.platforms == PlatformsConfig():
        return {}
    weights, found = iter(advantages.weights), {}
    rollouts = [(group.task.platform, one.success, next(weights)) for group in groups for one in group.rollouts]
    for name in sorted({platform for platform, _, _ in rollouts}):
        live = [bool(success) for platform, success, _ in rollouts if platform == name and success is not None]
        found[f"platforms/{name}/success"] = sum(live) / max(1, len(live))
        found[f"platforms/{name}/share"] = sum(weight for platform, _, weight in rollouts if platform == name)
    return found
