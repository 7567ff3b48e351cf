"""Figures of an update's rewards, by TRL's names: of the whole reward, and of each of its terms."""

import math
from collections.abc import Mapping, Sequence

Scores = Mapping[str, float]
"""A completion's reward: its terms by name, unweighted, and what they come to as `total`."""


def totals(groups: Sequence[Sequence[Scores | None]]) -> list[list[float | None]]:
    """The rewards of groups as `group_advantages` takes them; None (lost) stays None."""
    return [[None if one is None else one["total"] for one in group] for group in groups]


def reward_figures(scores: Sequence[Scores]) -> dict[str, float]:
    """`reward` and `reward_std` of the completions of an update, and `rewards/<term>/mean` and `rewards/<term>/std` of
    every term over the completions that have it.

    Each std is that of a sample (n − 1), over all completions whatever their group, as in TRL from 0.27 on (until then
    its `reward_std` was the mean over groups of the std within each; how many groups hold nothing to compare is
    `frac_reward_zero_std`). It is 0 of a single completion, and all is 0 of none.
    """
    reward, spread = _mean_std([one["total"] for one in scores])
    found = {"reward": reward, "reward_std": spread}
    for term in dict.fromkeys(name for one in scores for name in one if name != "total"):
        mean, std = _mean_std([one[term] for one in scores if term in one])
        found |= {f"rewards/{term}/mean": mean, f"rewards/{term}/std": std}
    return found


def _mean_std(values: Sequence[float]) -> tuple[float, float]:
    mean = math.fsum(values) / max(1, len(values))
    return mean, math.sqrt(math.fsum((value - mean) ** 2 for value in values) / max(1, len(values) - 1))
