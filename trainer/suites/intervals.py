"""Intervals over two kinds of chance at once: which tasks were drawn, and which training seeds; and pass@k."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from trainer.evaluation.statistics import DRAWS, Interval, interval


def crossed_interval(
    values: Sequence[float], clusters: Sequence[str], runs: Sequence[str], *, seed: int = 0, draws: int = DRAWS,
    proportion: bool = True,
) -> Interval:  # fmt: skip
    """Mean of `values` with a 95 % bootstrap over `clusters` and, independently of them, over `runs` (training seeds).

    Every draw takes as many clusters and as many runs as there are, with replacement, and averages the values of all
    drawn pairs (Owen 2007, "The pigeonhole bootstrap"). One run is `trainer.evaluation.statistics.interval`: it holds
    for that checkpoint alone. Raises `ValueError` on unequal lengths.
    """
    if not len(values) == len(clusters) == len(runs):
        raise ValueError(f"crossed interval: expected a cluster and a run for each value, found {len(values)} values, "
                         f"{len(clusters)} clusters and {len(runs)} runs")  # fmt: skip
    data = np.asarray(values, float)
    names, row = np.unique(np.asarray(clusters, dtype=str), return_inverse=True)
    seeds, column = np.unique(np.asarray(runs, dtype=str), return_inverse=True)
    if len(data) == 0 or len(seeds) < 2 or np.all(data == data[0]):
        return interval(values, clusters, seed=seed, draws=draws, proportion=proportion)
    sums, sizes = np.zeros((2, len(names), len(seeds)))
    np.add.at(sums, (row, column), data)
    np.add.at(sizes, (row, column), 1.0)
    source = np.random.Generator(np.random.PCG64(seed))
    means = []
    for _ in range(0, draws, 500):  # in blocks: memory stays below 500 × clusters
        tasks = source.multinomial(len(names), np.full(len(names), 1 / len(names)), size=500)
        chosen = source.multinomial(len(seeds), np.full(len(seeds), 1 / len(seeds)), size=500)
        weight = np.einsum("dc,cr,dr->d", tasks, sizes, chosen)
        total = np.einsum("dc,cr,dr->d", tasks, sums, chosen)
        means.append(total[weight > 0] / weight[weight > 0])  # pairs that weren't measured have no weight
    low, high = np.quantile(np.concatenate(means), [0.025, 0.975])
    return Interval(float(data.mean()), float(low), float(high), len(data), len(names),
                    f"bootstrap over clusters and {len(seeds)} training seeds")  # fmt: skip


def pass_at_k(n: int, c: int, k: int) -> float:
    """Unbiased estimate of the chance that one of k attempts succeeds, from c successes in n: 1 - C(n-c, k) / C(n, k)
    (Chen et al. 2021, "Evaluating Large Language Models Trained on Code"). Raises `ValueError` unless 1 ≤ k ≤ n and
    0 ≤ c ≤ n."""
    if not (1 <= k <= n and 0 <= c <= n):
        raise ValueError(f"pass@k: expected 1 <= k <= n and 0 <= c <= n, found n {n}, c {c}, k {k}")
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)


def macro_interval(
    values: Sequence[float], cells: Sequence[str], clusters: Sequence[str], *, seed: int = 0, draws: int = DRAWS
) -> Interval:
    """Mean over `cells` of the mean in each cell, with a 95 % bootstrap over `clusters`, which may span cells.

    A draw that leaves a cell empty averages the others. One cell is `trainer.evaluation.statistics.interval`.
    """
    data = np.asarray(values, float)
    names, place = np.unique(np.asarray(clusters, dtype=str), return_inverse=True)
    kinds, cell = np.unique(np.asarray(cells, dtype=str), return_inverse=True)
    if len(kinds) < 2 or np.all(data == data[0]):
        return interval(values, clusters, seed=seed, draws=draws)
    sums, sizes = np.zeros((2, len(names), len(kinds)))
    np.add.at(sums, (place, cell), data)
    np.add.at(sizes, (place, cell), 1.0)
    source = np.random.Generator(np.random.PCG64(seed))
    means = []
    for _ in range(0, draws, 500):
        drawn = source.multinomial(len(names), np.full(len(names), 1 / len(names)), size=500)
        total, count = drawn @ sums, drawn @ sizes
        held = count > 0
        share = np.divide(total, count, out=np.zeros_like(total), where=held)
        means.append(share.sum(1) / held.sum(1))
    low, high = np.quantile(np.concatenate(means), [0.025, 0.975])
    mean = float((sums.sum(0) / sizes.sum(0)).mean())
    return Interval(mean, float(low), float(high), len(data), len(names),
                    f"bootstrap over clusters, mean of {len(kinds)} cells")  # fmt: skip
