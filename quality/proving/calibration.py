"""Figures of a judge's risks against the truth: ranking, operating points, calibration, uncertainty.

Agreement, score intervals and the cut at a rate of false alarms, which others need too: `quality.statistics`.

Pure numpy. A risk is a number that grows with the suspicion that an item is bad (a probability where it is to be
calibrated); positives are bad items, negatives are sound ones. An item is flagged iff its risk is above a cut. A figure
that isn't defined (no positives, no negatives) is NaN, never 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from quality.statistics import Array, Values, normalised, numbers


# --- ranking ----------------------------------------------------------------------------------------------------------
def average_ranks(values: Values) -> Array:
    """Ranks from 1, ties sharing their mean rank (as in Spearman's and Wilcoxon's statistics)."""
    array = numbers(values, "values")
    _, places, counts = np.unique(array, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2.0)[places], dtype=np.float64)


def auroc(positives: Values, negatives: Values) -> float:
    """P(risk of a positive > risk of a negative) + ½ P(equal): Mann and Whitney 1947, Hanley and McNeil 1982."""
    bad, good = numbers(positives, "positives"), numbers(negatives, "negatives")
    if not len(bad) or not len(good):
        return math.nan
    ranks = average_ranks(np.concatenate([bad, good]))[: len(bad)]
    return float((ranks.sum() - len(bad) * (len(bad) + 1) / 2) / (len(bad) * len(good)))


def average_precision(positives: Values, negatives: Values, prevalence: float | None = None) -> float:
    """Σ (R_k − R_{k−1}) P_k over the distinct risks from the top, ties taken together, nothing interpolated (Manning et
    al., Introduction to Information Retrieval, §8.4). `prevalence` reweights both classes; None: as they are found."""
    bad, good = numbers(positives, "positives"), numbers(negatives, "negatives")
    if not len(bad) or not len(good):
        return math.nan
    share = len(bad) / (len(bad) + len(good)) if prevalence is None else prevalence
    cuts = np.unique(np.concatenate([bad, good]))[::-1]
    recall = 1.0 - np.searchsorted(np.sort(bad), cuts, side="left") / len(bad)
    alarms = 1.0 - np.searchsorted(np.sort(good), cuts, side="left") / len(good)
    flagged = share * recall + (1 - share) * alarms
    precision = np.divide(share * recall, flagged, out=np.zeros_like(flagged), where=flagged > 0)
    return float(np.sum(np.diff(recall, prepend=0.0) * precision))


def spearman(left: Values, right: Values) -> float:
    """Rank correlation with average ranks (Spearman 1904); NaN below two pairs or if one side is constant."""
    a, b = average_ranks(left), average_ranks(right)
    if len(a) != len(b):
        raise ValueError(f"spearman: expected as many values on both sides, found {len(a)} and {len(b)}")
    if len(a) < 2 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return math.nan
    a, b = a - a.mean(), b - b.mean()
    return float(np.clip((a * b).sum() / math.sqrt((a * a).sum() * (b * b).sum()), -1, 1))


# --- operating points -------------------------------------------------------------------------------------------------
def share_above(values: Values, cut: float) -> float:
    """The share flagged: recall on positives, false alarm rate on negatives; NaN for no values or no cut."""
    array = numbers(values, "values")
    return float((array > cut).mean()) if len(array) and not math.isnan(cut) else math.nan


def best_f1_cut(risks: Values, positive: npt.ArrayLike, weights: Values | None = None) -> float:
    """The cut (flag iff risk > cut) with the greatest weighted F1; of equal ones the highest. NaN without positives.
    Weights set the prevalence (`prevalence_weights`)."""
    risk, bad = numbers(risks, "risks"), np.asarray(positive, dtype=bool)
    weight = normalised(weights, len(risk))
    if not bad.any():
        return math.nan
    order = np.argsort(-risk, kind="stable")
    hit, flagged = np.cumsum((weight * bad)[order]), np.cumsum(weight[order])
    ends = np.append(np.flatnonzero(np.diff(risk[order])), len(risk) - 1)  # last item of each run of equal risks
    f1 = 2 * hit[ends] / (flagged[ends] + hit[-1])
    best = int(np.flatnonzero(f1 >= f1.max() - 1e-12)[0])
    lowest_flagged = risk[order][ends[best]]
    below = risk[risk < lowest_flagged]
    return float(below.max()) if len(below) else -math.inf


def prevalence_weights(positive: npt.ArrayLike, prevalence: float, groups: Sequence[object] | None = None) -> Array:
    """Weights that sum to 1 and give the positives the share `prevalence`. With `groups` (one per item) each group of
    positives weighs the same, so a frequent defect doesn't speak for the others. If one class is empty, the other has
    all the weight."""
    bad = np.asarray(positive, dtype=bool)
    if not 0 <= prevalence <= 1:
        raise ValueError(f"prevalence: expected 0..1, found {prevalence}")
    weight = np.zeros(len(bad))
    if not len(bad):
        return weight
    labels = np.asarray(groups if groups is not None else [""] * len(bad), dtype=object)
    names = sorted({str(name) for name in labels[bad]})
    for name in names:
        mine = bad & np.asarray([str(label) == name for label in labels])
        weight[mine] = prevalence / len(names) / mine.sum()
    if (~bad).any():
        weight[~bad] = (1 - prevalence) / (~bad).sum()
    return weight / weight.sum() if weight.sum() > 0 else np.full(len(bad), 1 / len(bad))


@dataclass(frozen=True, slots=True)
class Operating:
    """What a cut gives at a prevalence of bad items."""

    prevalence: float
    precision: float
    recall: float
    f1: float


def at_prevalence(recall: float, false_alarms: float, prevalence: float) -> Operating:
    """Precision and F1 where `prevalence` of the items are bad; recall and the false alarm rate don't depend on it
    (Bayes: P = p·R / (p·R + (1−p)·F)). Nothing flagged at all: precision NaN, F1 0."""
    if math.isnan(recall) or math.isnan(false_alarms):
        return Operating(prevalence, math.nan, recall, math.nan)
    hits, alarms = prevalence * recall, (1 - prevalence) * false_alarms
    precision = hits / (hits + alarms) if hits + alarms > 0 else math.nan
    denominator = hits + alarms + prevalence
    return Operating(prevalence, precision, recall, 2 * hits / denominator if denominator > 0 else math.nan)


# --- calibration ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Bin:
    """A bin of a reliability diagram: risks in [low, high), the last one with its end; shares are weighted."""

    low: float
    high: float
    count: int
    weight: float
    mean_risk: float
    share_bad: float


def reliability(risks: Values, positive: npt.ArrayLike, weights: Values | None = None, bins: int = 10) -> list[Bin]:
    """Bins of equal width over 0..1; empty ones are left out (Niculescu-Mizil and Caruana 2005)."""
    risk, bad = numbers(risks, "risks"), np.asarray(positive, dtype=bool)
    if len(risk) and (risk.min() < 0 or risk.max() > 1):
        raise ValueError(f"risks: expected 0..1, found {risk.min():g}..{risk.max():g}")
    weight = normalised(weights, len(risk))
    place = np.minimum((risk * bins + 1e-9).astype(int), bins - 1)  # 0.3 · 10 is 2.999…: it opens bin 3
    built = []
    for number in range(bins):
        mine = place == number
        inside = float(weight[mine].sum())
        if inside > 0:
            mean, share = ((weight[mine] * values[mine]).sum() / inside for values in (risk, bad.astype(float)))
            low, high = number / bins, (number + 1) / bins
            built.append(Bin(low, high, int(mine.sum()), inside, float(mean), float(share)))
    return built


def calibration_error(bins: Sequence[Bin]) -> float:
    """Expected calibration error: Σ weight · |mean risk − share of bad ones| (Guo et al. 2017); NaN without bins."""
    return float(sum(one.weight * abs(one.mean_risk - one.share_bad) for one in bins)) if bins else math.nan


def brier(risks: Values, positive: npt.ArrayLike, weights: Values | None = None) -> float:
    """Weighted mean of (risk − outcome)² (Brier 1950); NaN without items."""
    risk, bad = numbers(risks, "risks"), np.asarray(positive, dtype=bool)
    return float((normalised(weights, len(risk)) * (risk - bad) ** 2).sum()) if len(risk) else math.nan


# --- uncertainty ------------------------------------------------------------------------------------------------------
def cluster_bootstrap(
    clusters: Sequence[str],
    statistic: Callable[[npt.NDArray[np.int64]], float],
    rounds: int = 200,
    seed: int = 0,
    level: float = 0.95,
) -> tuple[float, float]:
    """Percentile interval of a statistic of item indices, whole clusters drawn with replacement: items of a page family
    resemble each other, so they aren't independent draws (Davison and Hinkley 1997, §3.8). Rounds in which it is
    undefined are left out; (NaN, NaN) for fewer than two clusters, which say nothing about others, or if none is left.
    Deterministic by seed."""
    names, place = np.unique(np.asarray(clusters, dtype=str), return_inverse=True)
    if len(names) < 2:
        return math.nan, math.nan
    members = [np.flatnonzero(place == number) for number in range(len(names))]
    draw = np.random.default_rng(seed)
    found = []
    for _ in range(rounds):
        drawn = draw.integers(0, len(members), len(members))
        value = statistic(np.concatenate([members[number] for number in drawn]))
        if not math.isnan(value):
            found.append(value)
    if not found:
        return math.nan, math.nan
    low, high = np.quantile(found, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
