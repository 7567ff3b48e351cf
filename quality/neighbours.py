"""All pairs whose cosine similarity reaches a threshold (exact, in blocks, incremental), and who of them stays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

MARGIN = 1e-4
"""FAISS works in float32; it proposes everything above threshold - margin, float64 decides."""
ROUND = 12
"""Decimals of a cosine that count: hides the last bits that depend on the order of summation."""
BLOCK = 2048


def cosines(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Row-wise cosine of two float32 [n, d] in float64, rounded to `ROUND` decimals; the one definition used."""
    a, b = left.astype(np.float64), right.astype(np.float64)
    norms = np.sqrt((a * a).sum(axis=1) * (b * b).sum(axis=1))
    dots = (a * b).sum(axis=1)
    return np.round(np.divide(dots, norms, out=np.zeros_like(dots), where=norms > 0), ROUND)


def similar_pairs(
    vectors: np.ndarray, threshold: float, *, new_from: int = 0, block: int = BLOCK
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs (i, j, cosine) with cosine >= threshold: rows from `new_from` on against all rows before them.

    `vectors` is float32 [n, d], unit length. Rows before `new_from` are not compared among themselves, so growing
    a set costs new x all. The result is sorted by (i, j), i < j, and is the same for every block size and for every
    order of growth: whether a pair counts is decided in float64 on the two stored vectors alone.
    """
    found = list(_propose(vectors, threshold, new_from, block))
    empty = np.zeros(0, np.int64)
    i = np.concatenate([pair[0] for pair in found] or [empty])
    j = np.concatenate([pair[1] for pair in found] or [empty])
    similarity = np.zeros(len(i))
    for start in range(0, len(i), 65_536):
        cut = slice(start, start + 65_536)
        similarity[cut] = cosines(vectors[i[cut]], vectors[j[cut]])
    true = similarity >= round(threshold, ROUND)
    i, j, similarity = i[true], j[true], similarity[true]
    order = np.lexsort((j, i))
    return i[order], j[order], similarity[order]


def _propose(
    vectors: np.ndarray, threshold: float, new_from: int, block: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Candidate pairs (i < j) by FAISS flat inner product; j runs over the new rows."""
    import faiss

    if new_from >= len(vectors):
        return
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(np.ascontiguousarray(vectors[:new_from], np.float32))
    for start in range(new_from, len(vectors), block):  # the index grows with the queries: each pair is met once
        queries = np.ascontiguousarray(vectors[start : start + block], np.float32)
        index.add(queries)
        limits, _, hits = index.range_search(queries, float(threshold) - MARGIN)
        counts = limits[1:].astype(np.int64) - limits[:-1].astype(np.int64)
        j = np.repeat(np.arange(start, start + len(queries)), counts)
        i = hits.astype(np.int64)
        below = i < j
        yield i[below], j[below]


def keep(order: Mapping[str, tuple[Any, ...]], pairs: Iterable[tuple[str, str]]) -> tuple[list[str], dict[str, str]]:
    """(kept ids in order, displaced id → the first kept item that displaces it).

    `order` gives each item's place in a total order; pairs with an item that isn't in it are ignored (withdrawn).
    """
    neighbours: dict[str, list[str]] = {}
    for left, right in pairs:
        if left in order and right in order and left != right:
            neighbours.setdefault(left, []).append(right)
            neighbours.setdefault(right, []).append(left)
    kept: list[str] = []
    standing: set[str] = set()
    displaced: dict[str, str] = {}
    for item in sorted(order, key=lambda name: order[name]):
        above = [other for other in neighbours.get(item, ()) if other in standing]
        if above:
            displaced[item] = min(above, key=lambda name: order[name])
        else:
            kept.append(item)
            standing.add(item)
    return kept, displaced


def check_threshold(threshold: float) -> None:
    """Raise `ValueError` unless 0 < threshold <= 1."""
    if not 0 < threshold <= 1:
        raise ValueError(f"dedup threshold: expected 0 < T <= 1, found {threshold!r}")
