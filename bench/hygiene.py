"""Figures of cross-dataset hygiene: near-duplicate search over perceptual hashes, beside FAISS and a plain loop.

`rows()` gives lines in the form of results.json; `bench/run.py` prints and writes them. Hashes are like those of a real
corpus: half stand alone, half lie in clusters of near copies, as the screens of recordings do. That both sides find the
same pairs is asserted before a figure counts.
"""

import time
from typing import Any

import numpy as np

from bench.timing import best, result

RADIUS = 6
SUBSET = 100_000


def hashes(count: int, seed: int = 0) -> np.ndarray:
    """uint64 [count]: half random, a quarter within 4 bits of one of those, a quarter in clusters of about twenty."""
    rng = np.random.default_rng(seed)
    half, quarter = count // 2, count // 4
    found = rng.integers(0, 2**64, count, dtype=np.uint64)
    near = found[rng.integers(0, half, quarter)]
    centres = found[rng.integers(0, half, max(quarter // 20, 1))]
    clustered = centres[rng.integers(0, len(centres), count - half - quarter)]
    for flips, part in ((4, near), (6, clustered)):
        for _ in range(flips):
            part ^= np.uint64(1) << rng.integers(0, 64, len(part)).astype(np.uint64)
    found[half : half + quarter], found[half + quarter :] = near, clustered
    return found


def rows(count: int = 1_000_000, subset: int = SUBSET) -> list[dict[str, Any]]:
    """Seconds for all pairs within 6 bits among `count` hashes, on one core; peers on `subset` of them.

    A flat search compares every pair, so its time grows with the square of the number: it is measured on the subset,
    where the pairs must agree, and scaled.
    """
    from quality.duplicates.screen_hashes import near_pairs_within

    whole = hashes(count)
    part = whole[np.random.default_rng(1).choice(count, min(subset, count), replace=False)]
    ours = near_pairs_within(part, RADIUS)
    pairs = _encode(ours[0], ours[1], len(part))
    seconds = best(lambda: near_pairs_within(whole, RADIUS), 1)
    scale = (count / len(part)) ** 2
    found = []
    peers = (("", "faiss.IndexBinaryFlat range search", _faiss), (", beside numpy", "every pair", _numpy))
    for beside, peer, search in peers:
        # A slice of the queries against all of the subset: the cost of a flat search is exactly proportional.
        slice_rows = len(part) // 20
        began = time.perf_counter()
        theirs = search(part, slice_rows)
        took = time.perf_counter() - began
        expected = pairs[pairs // len(part) < slice_rows]
        if not np.array_equal(expected, theirs):
            raise AssertionError(f"{peer}: {len(theirs)} pairs, ours {len(expected)}")
        total = took * (len(part) / slice_rows) / 2 * scale  # each pair once
        found.append(
            result(
                f"near-duplicate search over {count:,} screenshot hashes{beside}",
                seconds,
                "s",
                f"{peer}, one thread, scaled from {len(part):,}",
                total,
                digits=2,
            )
        )
    return found


def _encode(i: np.ndarray, j: np.ndarray, count: int) -> np.ndarray:
    return np.sort(i.astype(np.int64) * count + j)


def _faiss(part: np.ndarray, queries: int) -> np.ndarray:
    import faiss

    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        codes = np.ascontiguousarray(part[:, None].view(np.uint8))
        index = faiss.IndexBinaryFlat(64)
        index.add(codes)
        limits, _, hits = index.range_search(codes[:queries], RADIUS + 1)  # strictly below
    finally:
        faiss.omp_set_num_threads(threads)
    found = limits[1:].astype(np.int64) - limits[:-1].astype(np.int64)
    i = np.repeat(np.arange(queries), found)
    above = hits > i
    return _encode(i[above], hits[above], len(part))


def _numpy(part: np.ndarray, queries: int) -> np.ndarray:
    found = []
    for row in range(queries):
        near = np.flatnonzero(np.bitwise_count(part ^ part[row]) <= RADIUS)
        found.append(row * len(part) + near[near > row].astype(np.int64))
    return np.sort(np.concatenate(found))
