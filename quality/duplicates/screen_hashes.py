"""Exact near-duplicate search over 64-bit perceptual hashes: all pairs within a Hamming radius, in seconds for 1e6.

Multi-index hashing. The 64 bits are cut into `radius + c` blocks: two hashes that differ in at most `radius` bits agree
on at least `c` whole blocks, so they meet in one of the tables that are keyed by `c` blocks each. Within a table only
hashes of equal key are compared, and whether a pair counts is decided on all 64 bits: nothing is missed and nothing is
guessed, for any data; only the time depends on how the hashes are spread. Equal hashes are collapsed before.

A hash knows the 8 x 8 lowest frequencies of a 32 x 32 grey picture and nothing else. It is blind to colour, to a ticked
box, to other words of the same length, and on a plain screen its bits are noise or all alike. So a pair of hashes is a
candidate, not a verdict: `quality.duplicates.looks` decides on the pictures.
"""

import math
from itertools import combinations

import numpy as np

BITS = 64
BLOCK_ROWS = 2048
"""Rows of a brute-force comparison at once."""
BRUTE_PAIRS = 20_000_000
"""Fewer comparisons than this are done without tables."""
_SORT, _COMPARE, _RADIX = 9e-8, 2.5e-8, 1.5e-8
"""Rough seconds a hash sorted, a pair compared and a hash sorted by a 16-bit key cost: they choose the plan only."""

Pairs = tuple[np.ndarray, np.ndarray, np.ndarray]
"""left index, right index (int64), distance (uint8); sorted by (left, right)."""


def hamming(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Number of differing bits of uint64 arrays of one shape, uint8."""
    # Differing bits are those of the exclusive or.
    return np.asarray(np.bitwise_count(left ^ right), dtype=np.uint8)


def near_pairs(queries: np.ndarray, base: np.ndarray, radius: int) -> Pairs:
    """Every (i, j) with hamming(queries[i], base[j]) <= radius. Raises `ValueError` for a radius outside 0..63."""
    _check(radius)
    # Equal hashes once: groups of them are expanded at the end.
    left, left_of = np.unique(_words(queries), return_inverse=True)
    right, right_of = np.unique(_words(base), return_inverse=True)
    if len(left) * len(right) <= BRUTE_PAIRS:
        found = _brute(left, right, radius)
    else:
        found = _by_tables(left, right, radius)
    return _expand(*found, left_of, right_of)


def near_pairs_within(hashes: np.ndarray, radius: int) -> Pairs:
    """Every (i, j), i < j, with hamming(hashes[i], hashes[j]) <= radius; equal hashes are pairs at distance 0.

    A group of k equal hashes makes k(k-1)/2 pairs: collapse such groups before, where that is too much
    (`near_unique`).
    """
    unique, inverse = np.unique(_words(hashes), return_inverse=True)
    i, j, distance = near_unique(unique, radius)
    # Both directions, and each hash with itself, so that expanding meets every pair of rows once in either order.
    every = np.arange(len(unique))
    left = np.concatenate([i, j, every])
    right = np.concatenate([j, i, every])
    found = _expand(
        left, right, np.concatenate([distance, distance, np.zeros(len(unique), np.uint8)]), inverse, inverse
    )
    # Each pair once, in the order of rows.
    keep = found[0] < found[1]
    return found[0][keep], found[1][keep], found[2][keep]


def near_unique(unique: np.ndarray, radius: int) -> Pairs:
    """`near_pairs_within` for hashes that are sorted and all different (as `np.unique` gives them)."""
    _check(radius)
    count = len(unique)
    if count * count // 2 <= BRUTE_PAIRS:
        i, j, distance = _brute(unique, unique, radius)
        below = i < j
        return i[below], j[below], distance[below]
    blocks, chosen = plan(count, radius)
    found = []
    for picked in combinations(range(blocks), chosen):
        keys = _keys(unique, blocks, picked)
        order = np.argsort(keys, kind="stable")
        found.append(_within(unique[order], keys[order], order, radius))
    return _once(found, count)


def plan(count: int, radius: int) -> tuple[int, int]:
    """(blocks, blocks a key is built from) with the least expected work for `count` spread-out hashes."""
    costs = []
    for chosen in (1, 2, 3):
        blocks = radius + chosen
        if blocks > BITS:
            break
        # Bits of a key: the more, the fewer hashes share one.
        width = BITS * chosen / blocks
        # Keys of up to 16 bits are sorted by counting, which is several times as fast.
        sort = _RADIX if width <= 16 else _SORT
        # Sorting each table, and comparing the pairs that share a key by chance.
        work = math.comb(blocks, chosen) * (count * sort + count * count / 2 ** (width + 1) * _COMPARE)
        costs.append((work, blocks, chosen))
    _, blocks, chosen = min(costs)
    return blocks, chosen


def _check(radius: int) -> None:
    if not 0 <= radius < BITS:
        raise ValueError(f"near pairs: expected a radius of 0 to {BITS - 1}, found {radius!r}")


def _words(hashes: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(hashes, dtype=np.uint64)


def _brute(left: np.ndarray, right: np.ndarray, radius: int) -> Pairs:
    found = []
    for start in range(0, len(left), BLOCK_ROWS):
        distance = hamming(left[start : start + BLOCK_ROWS, None], right[None, :])
        i, j = np.nonzero(distance <= radius)
        found.append((i + start, j, distance[i, j]))
    return _joined(found)


def _by_tables(left: np.ndarray, right: np.ndarray, radius: int) -> Pairs:
    """Set against set: queries look up their range of the sorted base in every table."""
    blocks, chosen = plan(max(len(left), len(right)), radius)
    found = []
    for picked in combinations(range(blocks), chosen):
        keys, wanted = _keys(right, blocks, picked), _keys(left, blocks, picked)
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        low, high = np.searchsorted(keys, wanted, "left"), np.searchsorted(keys, wanted, "right")
        # Queries whose key occurs in the base; each turn compares one candidate of every query.
        active = np.flatnonzero(low < high)
        step = 0
        while len(active):
            j = order[low[active] + step]
            distance = hamming(left[active], right[j])
            hit = distance <= radius
            found.append((active[hit], j[hit], distance[hit]))
            step += 1
            active = active[low[active] + step < high[active]]
    return _once(found, len(right))


def _within(hashes: np.ndarray, keys: np.ndarray, order: np.ndarray, radius: int) -> Pairs:
    """Pairs of equal key in a table sorted by key: every row against its k-th successor, k = 1, 2, ..."""
    found = []
    last = np.searchsorted(keys, keys, "right") if len(keys) else np.zeros(0, np.int64)
    # Rows with a successor of equal key; all are moved on together, so the work is vectors of shrinking
    # length.
    active = np.flatnonzero(last - np.arange(len(keys)) > 1)
    step = 1
    while len(active):
        distance = hamming(hashes[active], hashes[active + step])
        hit = np.flatnonzero(distance <= radius)
        if len(hit):
            i, j = order[active[hit]], order[active[hit] + step]
            found.append((np.minimum(i, j), np.maximum(i, j), distance[hit]))
        step += 1
        active = active[active + step < last[active]]
    return _joined(found)


def _keys(hashes: np.ndarray, blocks: int, picked: tuple[int, ...]) -> np.ndarray:
    """The picked blocks of each hash as one small integer."""
    # Blocks of nearly one size: their edges are rounded down.
    edges = [BITS * n // blocks for n in range(blocks + 1)]
    key, width = np.zeros(len(hashes), np.uint64), 0
    for block in picked:
        bits = edges[block + 1] - edges[block]
        part = (hashes >> np.uint64(BITS - edges[block + 1])) & np.uint64((1 << bits) - 1)
        key = (key << np.uint64(bits)) | part
        width += bits
    # The narrowest type that holds the key: narrow keys sort faster.
    return key.astype(np.uint16 if width <= 16 else np.uint32 if width <= 32 else np.uint64)


def _joined(found: list[Pairs]) -> Pairs:
    empty = np.zeros(0, np.int64)
    i = np.concatenate([part[0] for part in found] or [empty]).astype(np.int64)
    j = np.concatenate([part[1] for part in found] or [empty]).astype(np.int64)
    return i, j, np.concatenate([part[2] for part in found] or [empty]).astype(np.uint8)


def _once(found: list[Pairs], width: int) -> Pairs:
    """Pairs met in several tables, once each, sorted."""
    i, j, distance = _joined(found)
    # Pair as one number, by which a pair that several tables found is one.
    _, first = np.unique(i * max(width, 1) + j, return_index=True)
    return i[first], j[first], distance[first]


def _expand(i: np.ndarray, j: np.ndarray, distance: np.ndarray, left_of: np.ndarray, right_of: np.ndarray) -> Pairs:
    """Pairs of unique hashes → pairs of rows."""
    left, right = _rows_of(left_of), _rows_of(right_of)
    # Each pair of unique hashes stands for all pairs of their rows.
    a, b = left[1][i + 1] - left[1][i], right[1][j + 1] - right[1][j]
    times = a * b
    place = np.arange(int(times.sum())) - np.repeat(np.cumsum(times) - times, times)
    each = np.repeat(b, times)
    rows = left[0][np.repeat(left[1][i], times) + place // np.maximum(each, 1)]
    columns = right[0][np.repeat(right[1][j], times) + place % np.maximum(each, 1)]
    order = np.lexsort((columns, rows))
    return rows[order], columns[order], np.repeat(distance, times)[order]


def _rows_of(inverse: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows grouped by unique value, and where each group starts (one more entry than there are groups)."""
    order = np.argsort(inverse, kind="stable")
    counts = np.bincount(inverse) if len(inverse) else np.zeros(0, np.int64)
    return order, np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
