"""Intervals for evaluation: the cluster bootstrap, Wilson where the bootstrap can't say anything, paired differences.

Samples of one screen or episode are not independent, so whole clusters are drawn with replacement. All intervals are
95 %; all draws follow a seed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from quality.bench.calibration import wilson

DRAWS = 2000


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its 95 % interval; `n` samples in `clusters` clusters; `method` says how."""

    mean: float
    low: float
    high: float
    n: int
    clusters: int
    method: str

    def plain(self) -> dict[str, Any]:
        """JSON-able; NaN (nothing measured) becomes null."""
        return {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in asdict(self).items()}


def interval(values: Sequence[float], clusters: Sequence[str], *, seed: int = 0, draws: int = DRAWS,
             proportion: bool = True) -> Interval:  # fmt: skip
    """Mean of `values` with a bootstrap over `clusters`.

    If all values are equal the bootstrap has no width: then it is Wilson's with one trial per cluster (a proportion
    of 0 or 1), else the value itself. Nothing measured → NaN over the whole range.
    """
    data = np.asarray(values, float)
    names, place = np.unique(np.asarray(clusters, dtype=str), return_inverse=True)
    if len(data) == 0:
        return Interval(math.nan, math.nan, math.nan, 0, 0, "nothing measured")
    mean = float(data.mean())
    if np.all(data == data[0]):
        if proportion and mean in (0.0, 1.0):
            low, high = wilson(int(mean) * len(names), len(names))
            return Interval(mean, low, high, len(data), len(names), "Wilson, one trial per cluster")
        return Interval(mean, mean, mean, len(data), len(names), "all values equal")
    low, high = _bootstrap(data, place, len(names), seed, draws)
    return Interval(mean, low, high, len(data), len(names), "bootstrap over clusters")


def paired(first: Sequence[float], second: Sequence[float], clusters: Sequence[str], *, seed: int = 0,
           draws: int = DRAWS) -> Interval:  # fmt: skip
    """Mean of first − second on the same samples, bootstrap over clusters. Raises `ValueError` on unequal lengths."""
    if len(first) != len(second):
        raise ValueError(f"paired: expected the same samples, found {len(first)} and {len(second)}")
    difference = np.asarray(first, float) - np.asarray(second, float)
    return interval(difference.tolist(), clusters, seed=seed, draws=draws, proportion=False)


def _bootstrap(data: np.ndarray, place: np.ndarray, count: int, seed: int, draws: int) -> tuple[float, float]:
    sums = np.bincount(place, weights=data, minlength=count)
    sizes = np.bincount(place, minlength=count)
    source = np.random.Generator(np.random.PCG64(seed))
    means = []
    for _ in range(0, draws, 500):  # in blocks: memory stays below 500 × clusters
        drawn = source.multinomial(count, np.full(count, 1 / count), size=500)
        means.append((drawn @ sums) / (drawn @ sizes))
    low, high = np.quantile(np.concatenate(means), [0.025, 0.975])
    return float(low), float(high)
