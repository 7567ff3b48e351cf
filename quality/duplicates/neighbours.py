"""All pairs whose cosine similarity reaches a threshold (exact, in blocks, incremental), and who of them stays.

Few vectors are compared each with each (FAISS, flat); many by `quality.duplicates.pruned_neighbours`, whose bounds are
proven there. Either way float64 decides on the two stored vectors alone, so the result is the same.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

import numpy as np

from quality.duplicates import pruned_neighbours

Node = TypeVar("Node", str, int)
MARGIN = 1e-4
"""FAISS works in float32; it proposes everything above threshold - margin, float64 decides."""
ROUND = 12
"""Decimals of a cosine that count: hides the last bits that depend on the order of summation."""
BLOCK = 2048
PRUNED_FROM = 200_000_000
"""Comparisons (new vectors x all vectors) from which pruning pays for itself."""
DECIDED = 4096
"""Pairs decided at a time: bounds the memory."""


class TooManyPairs(ValueError):
    """More pairs than the caller can take."""


def cosines(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Row-wise cosine of two float32 [n, d] in float64, rounded to `ROUND` decimals; the one definition used."""
    # float64 here and nowhere else: FAISS and the pruning only propose.
    a, b = left.astype(np.float64), right.astype(np.float64)
    norms = np.sqrt((a * a).sum(axis=1) * (b * b).sum(axis=1))
    dots = (a * b).sum(axis=1)
    # A vector of zeros has no direction; it is like nothing.
    return np.round(np.divide(dots, norms, out=np.zeros_like(dots), where=norms > 0), ROUND)


def similar_pairs(
    vectors: np.ndarray,
    threshold: float,
    *,
    new_from: int = 0,
    block: int = BLOCK,
    most: int | None = None,
    pruned: bool | None = None,
    believed: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs (i, j, cosine) with cosine >= threshold: rows from `new_from` on against all rows before them.

    `vectors` is float32 [n, d], unit length. Rows before `new_from` are not compared among themselves, so growing
    a set costs new x all. The result is sorted by (i, j), i < j, and is the same for every block size, for every
    order of growth, and with or without pruning (`pruned`; None: by size): whether a pair counts is decided in
    float64 on the two stored vectors alone, then by `believed` (rows i, rows j → bool [n]) if it is given. Raises
    `TooManyPairs` as soon as more than `most` are found.
    """
    if pruned is None:
        # With a threshold at or below 0 no bound excludes anything.
        pruned = threshold > 0 and (len(vectors) - new_from) * len(vectors) >= PRUNED_FROM
    if pruned:
        proposed = pruned_neighbours.candidates(vectors, threshold, new_from)
    else:
        proposed = _propose(vectors, threshold, new_from, block)
    found: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    count = 0
    for left, right in proposed:
        for start in range(0, len(left), DECIDED):
            i, j = left[start : start + DECIDED], right[start : start + DECIDED]
            similarity = cosines(vectors[i], vectors[j])
            true = similarity >= round(threshold, ROUND)
            if believed is not None:
                # Asked only about those that the cosine lets pass, as believing costs more.
                true[true] = believed(i[true], j[true])
            found.append((i[true], j[true], similarity[true]))
            count += len(found[-1][0])
            if most is not None and count > most:
                raise TooManyPairs(f"pairs at threshold {threshold}: expected at most {most}, found more; raise it")
    if not found:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
    i, j, similarity = (np.concatenate([part[column] for part in found]) for column in range(3))
    # Sorted here, as blocks come in the order of the search.
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
        # Wider by the margin, so that no rounding of float32 loses a pair.
        limits, _, hits = index.range_search(queries, float(threshold) - MARGIN)
        counts = limits[1:].astype(np.int64) - limits[:-1].astype(np.int64)
        j = np.repeat(np.arange(start, start + len(queries)), counts)
        i = hits.astype(np.int64)
        # The index holds the block itself as well: each pair once, and no text with itself.
        below = i < j
        yield i[below], j[below]


Pairs = Iterable[tuple[str, str]]
NO_CLASSES: Mapping[str, int] = {}


def keep(
    order: Mapping[str, tuple[object, ...]],
    pairs: Pairs,
    class_of: Mapping[str, int] = NO_CLASSES,
    alike: Iterable[tuple[int, int]] = (),
) -> tuple[list[str], dict[str, str]]:
    """(kept ids in order, displaced id → the first kept item that displaces it).

    `order` gives each item's place in a total order; pairs with an item that isn't in it are ignored (withdrawn).
    Items of one class (`class_of`) are duplicates of one another, and of all items of the classes that theirs is
    `alike` to. That is as if all those pairs were given, in time that grows with items, not with pairs of them: of a
    class one item at most is kept, so that whoever comes later meets it alone.
    """
    neighbours = _both_ways((left, right) for left, right in pairs if left in order and right in order)
    near = _both_ways(alike)
    retained: list[str] = []
    standing: set[str] = set()
    of_class: dict[int, str] = {}
    displaced: dict[str, str] = {}
    for item in sorted(order, key=lambda name: order[name]):
        mine = class_of.get(item, -1)
        # Items above this one in the order that it is a duplicate of: of each class at most the one that
        # stays.
        above = [of_class[one] for one in (mine, *near.get(mine, ())) if one in of_class]
        above += [other for other in neighbours.get(item, ()) if other in standing]
        if above:
            # The first in the order wins, so that an item's winner doesn't depend on the order of pairs.
            displaced[item] = min(above, key=lambda name: order[name])
        else:
            retained.append(item)
            standing.add(item)
            if mine >= 0:
                of_class[mine] = item
    return retained, displaced


def _both_ways(pairs: Iterable[tuple[Node, Node]]) -> dict[Node, list[Node]]:
    found: dict[Node, list[Node]] = {}
    for left, right in pairs:
        if left != right:
            found.setdefault(left, []).append(right)
            found.setdefault(right, []).append(left)
    return found


def check_threshold(threshold: float) -> None:
    """Raise `ValueError` unless 0 < threshold <= 1."""
    if not 0 < threshold <= 1:
        raise ValueError(f"dedup threshold: expected 0 < T <= 1, found {threshold!r}")
