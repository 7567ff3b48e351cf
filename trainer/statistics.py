"""Intervals for evaluation: the cluster bootstrap, Wilson where the bootstrap can't say anything, paired differences;
over tasks and training seeds at once (`crossed_interval`), and of a mean of cells (`macro_interval`); and pass@k.

Samples of one screen or episode are not independent, so whole clusters are drawn with replacement. All intervals are
95 %; all draws follow a seed.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from quality.statistics import score_interval

# enough that the ends of an interval move by a few tenths of its width between seeds
DRAWS = 2000
TELLING = 6
"""Clusters that must agree before their sign is no chance: of five even a sign test says 6 % (two-sided)."""
SEED = 0
"""Of the draws, where no run's own seed is given."""


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


def interval(
    values: Sequence[float], clusters: Sequence[str], *, seed: int = SEED, proportion: bool = True
) -> Interval:
    """Mean of `values` with a bootstrap over `clusters`.

    Where the bootstrap can't have a width, for all values are equal or there is one cluster, a proportion (all values
    in 0..1) has Wilson's interval with one trial per cluster if it is 0 or 1 or of one cluster. Else values of one
    cluster have no interval (NaN), nor have equal ones but 0 of fewer than `TELLING` clusters, and other equal ones the
    value itself. Nothing measured → NaN over the whole range.
    """
    data = np.asarray(values, float)
    names, place = np.unique(np.asarray(clusters, dtype=str), return_inverse=True)
    if len(data) == 0:
        return Interval(math.nan, math.nan, math.nan, 0, 0, "nothing measured")
    mean, equal = float(data.mean()), bool(np.all(data == data[0]))
    # the bootstrap of equal values has no width, and would call one screen's success certain
    if proportion and data.min() >= 0 and data.max() <= 1 and (len(names) == 1 or (equal and mean in (0.0, 1.0))):
        low, high = score_interval(mean, len(names))
        return Interval(mean, low, high, len(data), len(names), "Wilson, one trial per cluster")
    if len(names) == 1 or (equal and mean and len(names) < TELLING):
        return Interval(mean, math.nan, math.nan, len(data), len(names), "too few clusters")
    if equal:
        return Interval(mean, mean, mean, len(data), len(names), "all values equal")
    low, high = _bootstrap(data, place, len(names), seed)
    return Interval(mean, low, high, len(data), len(names), "bootstrap over clusters")


def paired(first: Sequence[float], second: Sequence[float], clusters: Sequence[str], *, seed: int = SEED) -> Interval:
    """Mean of first − second on the same samples, bootstrap over clusters. Raises `ValueError` on unequal lengths."""
    if len(first) != len(second):
        raise ValueError(f"paired: expected the same samples, found {len(first)} and {len(second)}")
    gaps = np.asarray(first, float) - np.asarray(second, float)
    return interval(gaps.tolist(), clusters, seed=seed, proportion=False)


def fell(gain: Mapping[str, Any]) -> bool:
    """Whether a plain `paired` gain says that something fell: an interval below 0, over enough clusters to say it."""
    return gain["high"] is not None and gain["high"] < 0 and gain["clusters"] >= TELLING


def over(records: Sequence[Mapping[str, Any]], name: str, cluster: str) -> dict[str, object]:
    """The plain `interval` of the measure `name` over those records that have it; `cluster` names their cluster."""
    having = [record for record in records if record.get(name) is not None]
    return interval([r[name] for r in having], [r[cluster] for r in having]).plain()


def difference(records: Sequence[Mapping[str, Any]], one: str, other: str, cluster: str) -> dict[str, object]:
    """The plain `paired` difference of the measures `one` − `other` over those records that have both."""
    both = [record for record in records if record.get(one) is not None and record.get(other) is not None]
    return paired([r[one] for r in both], [r[other] for r in both], [r[cluster] for r in both]).plain()


def mean_or_none(values: Sequence[float]) -> float | None:
    """The mean; None of nothing."""
    return sum(values) / len(values) if values else None


def crossed_interval(
    values: Sequence[float], clusters: Sequence[str], runs: Sequence[str], *, proportion: bool = True
) -> Interval:
    """Mean of `values` with a 95 % bootstrap over `clusters` and, independently of them, over `runs` (training seeds).

    Every draw takes as many clusters and as many runs as there are, with replacement, and averages the values of all
    drawn pairs (Owen 2007, "The pigeonhole bootstrap"). One run is `interval`: it holds for that checkpoint alone.
    Raises `ValueError` on unequal lengths.
    """
    if not len(values) == len(clusters) == len(runs):
        raise ValueError(
            f"crossed interval: expected a cluster and a run for each value, found {len(values)} values, "
            f"{len(clusters)} clusters and {len(runs)} runs"
        )
    data = np.asarray(values, float)
    names, row = np.unique(np.asarray(clusters, dtype=str), return_inverse=True)
    seeds, column = np.unique(np.asarray(runs, dtype=str), return_inverse=True)
    if len(data) == 0 or len(seeds) < 2 or np.all(data == data[0]):
        return interval(values, clusters, proportion=proportion)
    # [clusters, runs]: a cluster may have no value, or several, in a run
    sums, sizes = np.zeros((2, len(names), len(seeds)))
    np.add.at(sums, (row, column), data)
    np.add.at(sizes, (row, column), 1.0)
    source = np.random.Generator(np.random.PCG64(SEED))
    means = []
    for _ in range(0, DRAWS, 500):  # in blocks: memory stays below 500 × clusters
        # how often each is drawn: counts stand for rows that are drawn with replacement
        tasks = source.multinomial(len(names), np.full(len(names), 1 / len(names)), size=500)
        chosen = source.multinomial(len(seeds), np.full(len(seeds), 1 / len(seeds)), size=500)
        weight = np.einsum("dc,cr,dr->d", tasks, sizes, chosen)
        total = np.einsum("dc,cr,dr->d", tasks, sums, chosen)
        means.append(total[weight > 0] / weight[weight > 0])  # pairs that weren't measured have no weight
    low, high = np.quantile(np.concatenate(means), [0.025, 0.975])
    return Interval(
        float(data.mean()),
        float(low),
        float(high),
        len(data),
        len(names),
        f"bootstrap over clusters and {len(seeds)} training seeds",
    )


def macro_interval(values: Sequence[float], cells: Sequence[str], clusters: Sequence[str]) -> Interval:
    """Mean over `cells` of the mean in each cell, with a 95 % bootstrap over `clusters`, which may span cells.

    A draw that leaves a cell empty averages the others. One cell is `interval`.
    """
    data = np.asarray(values, float)
    names, place = np.unique(np.asarray(clusters, dtype=str), return_inverse=True)
    kinds, cell = np.unique(np.asarray(cells, dtype=str), return_inverse=True)
    if len(kinds) < 2 or np.all(data == data[0]):
        return interval(values, clusters)
    sums, sizes = np.zeros((2, len(names), len(kinds)))
    np.add.at(sums, (place, cell), data)
    np.add.at(sizes, (place, cell), 1.0)
    source = np.random.Generator(np.random.PCG64(SEED))
    means = []
    for _ in range(0, DRAWS, 500):
        drawn = source.multinomial(len(names), np.full(len(names), 1 / len(names)), size=500)
        total, count = drawn @ sums, drawn @ sizes
        # a draw may miss every cluster of a cell
        held = count > 0
        share = np.divide(total, count, out=np.zeros_like(total), where=held)
        means.append(share.sum(1) / held.sum(1))
    low, high = np.quantile(np.concatenate(means), [0.025, 0.975])
    mean = float((sums.sum(0) / sizes.sum(0)).mean())
    return Interval(
        mean, float(low), float(high), len(data), len(names), f"bootstrap over clusters, mean of {len(kinds)} cells"
    )


def pass_at_k(n: int, c: int, k: int) -> float:
    """Unbiased estimate of the chance that one of k attempts succeeds, from c successes in n: 1 - C(n-c, k) / C(n, k)
    (Chen et al. 2021, "Evaluating Large Language Models Trained on Code"). Raises `ValueError` unless 1 ≤ k ≤ n and
    0 ≤ c ≤ n."""
    if not (1 <= k <= n and 0 <= c <= n):
        raise ValueError(f"pass@k: expected 1 <= k <= n and 0 <= c <= n, found n {n}, c {c}, k {k}")
    # of all choices of k attempts, those in which none of the successes is
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)


def _bootstrap(data: np.ndarray, place: np.ndarray, count: int, seed: int) -> tuple[float, float]:
    sums = np.bincount(place, weights=data, minlength=count)
    sizes = np.bincount(place, minlength=count)
    source = np.random.Generator(np.random.PCG64(seed))
    means = []
    for _ in range(0, DRAWS, 500):  # in blocks: memory stays below 500 × clusters
        drawn = source.multinomial(count, np.full(count, 1 / count), size=500)
        # the mean of drawn values, not of clusters' means: large clusters count as large
        means.append((drawn @ sums) / (drawn @ sizes))
    low, high = np.quantile(np.concatenate(means), [0.025, 0.975])
    return float(low), float(high)
