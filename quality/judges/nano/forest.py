"""A forest of extremely randomised trees (Geurts et al. 2006), grown by scikit-learn, kept and run as plain arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

Array = np.ndarray
TREES, LEAST_IN_LEAF, FEATURES_TRIED = 300, 2, 0.3


@dataclass(frozen=True)
class Forest:
    """All trees' nodes behind one another. `feature` is −1 at a leaf; `left` and `right` are node numbers; `value` is
    the share of low fidelity among the training rows of the node; `roots` are the trees' first nodes."""

    feature: Array
    threshold: Array
    left: Array
    right: Array
    value: Array
    roots: Array

    def shares(self, rows: Array) -> Array:
        """Float32 [n, inputs] → mean over the trees of the leaf's share, float64 [n]."""
        if not len(rows):
            return np.zeros(0)
        at = np.broadcast_to(self.roots, (len(rows), len(self.roots))).copy()
        where = np.arange(len(rows))[:, None]
        while (inner := self.feature[at] >= 0).any():
            goes_left = rows[where, np.maximum(self.feature[at], 0)] <= self.threshold[at]
            at = np.where(inner, np.where(goes_left, self.left[at], self.right[at]), at)
        return np.asarray(self.value[at].astype(np.float64).mean(axis=1))

    def tensors(self) -> dict[str, Array]:
        """The arrays by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def from_tensors(named: Mapping[str, Array]) -> Forest:
    """The inverse of `Forest.tensors`. Raises `KeyError` for an array that is absent."""
    return Forest(**{field.name: named[field.name] for field in fields(Forest)})


def fit_forest(rows: Array, low: Array, weights: Array, seed: int) -> Forest:
    """Grow a forest on standardised rows: float32 [n, inputs], low fidelity as 0 or 1, a weight each."""
    from sklearn.ensemble import ExtraTreesClassifier

    grown = ExtraTreesClassifier(
        TREES, min_samples_leaf=LEAST_IN_LEAF, max_features=FEATURES_TRIED, random_state=seed, n_jobs=1
    ).fit(rows, low.astype(bool), weights)
    parts: dict[str, list[Array]] = {field.name: [] for field in fields(Forest)}
    nodes = 0
    for tree in (estimator.tree_ for estimator in grown.estimators_):
        for name, array in _nodes(tree, nodes).items():
            parts[name].append(array)
        nodes += tree.node_count
    return from_tensors({name: np.concatenate(arrays) for name, arrays in parts.items()})


def _nodes(tree: Any, first: int) -> dict[str, Array]:
    leaf = tree.children_left < 0
    counts = tree.value[:, 0, :]
    return {
        "feature": np.where(leaf, -1, tree.feature).astype(np.int32),
        "threshold": tree.threshold.astype(np.float64),
        "left": np.where(leaf, 0, tree.children_left + first).astype(np.int32),
        "right": np.where(leaf, 0, tree.children_right + first).astype(np.int32),
        "value": (counts[:, 1] / counts.sum(axis=1)).astype(np.float32),
        "roots": np.array([first], np.int32),
    }
