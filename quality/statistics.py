"""Statistics that judges, review and proof share: the cut at a rate of false alarms, agreement, intervals of shares.

Pure numpy. A figure that isn't defined (no negatives, nothing counted) is NaN, never 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Values = npt.ArrayLike


def numbers(values: Values, name: str) -> Array:
    """A list of numbers as float64 [n]. Raises `ValueError`, under the name given, for NaN or any other shape."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or np.isnan(array).any():
        raise ValueError(f"{name}: expected a list of numbers without NaN, found shape {array.shape}")
    return array


def normalised(weights: Values | None, count: int) -> Array:
    """Weights that sum to 1, float64 [count]; equal ones for None. Raises `ValueError` for negative ones or another
    number of them."""
    if weights is None:
        return np.full(count, 1.0 / count) if count else np.zeros(0)
    array = numbers(weights, "weights")
    if len(array) != count or (array < 0).any() or not array.sum() > 0:
        raise ValueError(f"weights: expected {count} numbers of 0 or more with a sum above 0, found {len(array)}")
    return array / array.sum()


def cut_at(negatives: Values, rate: float = 0.05) -> float:
    """The lowest cut (flag iff risk > cut) that flags at most `rate` of these negatives; NaN without negatives.

    Candidates are −∞ and the negatives' own risks: any cut between two of them flags the same ones. Ties aren't split
    and nothing is interpolated, so with few distinct risks the share flagged may be far below `rate`: report it.
    """
    good = np.sort(numbers(negatives, "negatives"))
    if not len(good):
        return math.nan
    if rate >= 1:
        return -math.inf
    above = len(good) - np.searchsorted(good, good, side="right")
    return float(good[np.argmax(above <= rate * len(good) + 1e-9)])


# --- agreement --------------------------------------------------------------------------------------------------------
def confusion(truth: Sequence[int], said: Sequence[int], classes: int, weights: Values | None = None) -> Array:
    """[classes, classes] of counts (or of weights, which sum to 1): rows the truth, columns what was said."""
    if len(truth) != len(said):
        raise ValueError(f"confusion: expected as many answers as truths, found {len(said)} and {len(truth)}")
    table = np.zeros((classes, classes))
    each = np.ones(len(truth)) if weights is None else normalised(weights, len(truth))
    np.add.at(table, (np.asarray(truth, dtype=int), np.asarray(said, dtype=int)), each)
    return table


def weighted_kappa(table: Array, power: int = 2) -> float:
    """Cohen's weighted κ of a confusion table over ordered classes: 1 − Σ w·observed / Σ w·expected, with the
    disagreement w = |i − j|^power: 1 linear, 2 quadratic (Cohen 1968). NaN where chance can't disagree."""
    size = len(table)
    total = table.sum()
    if total == 0:
        return math.nan
    observed = table / total
    expected = np.outer(observed.sum(axis=1), observed.sum(axis=0))
    apart = np.abs(np.subtract.outer(np.arange(size), np.arange(size))).astype(float) ** power
    chance = float((apart * expected).sum())
    return 1.0 - float((apart * observed).sum()) / chance if chance > 0 else math.nan


# --- intervals of shares ----------------------------------------------------------------------------------------------
Z95 = 1.959963984540054
"""Standard normal quantile of 0.975."""


def wilson(hits: int, count: int, z: float = Z95) -> tuple[float, float]:
    """Score interval of a share (Wilson 1927), 95 % by default; (0, 1) for nothing counted."""
    if not 0 <= hits <= count:
        raise ValueError(f"wilson: expected 0 <= hits <= count, found {hits} of {count}")
    return score_interval(hits / count if count else 0.0, count, z)


def score_interval(share: float, count: float, z: float = Z95) -> tuple[float, float]:
    """Score interval of a share of a count that weights may have made a fraction (an effective number of items);
    (0, 1) for none."""
    if count <= 0:
        return 0.0, 1.0
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return (0.0 if share == 0 else max(middle - half, 0.0)), (1.0 if share == 1 else min(middle + half, 1.0))
