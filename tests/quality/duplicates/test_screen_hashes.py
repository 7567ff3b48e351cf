"""Near-duplicate search over hashes: exact against brute force, on every path through the tables."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quality.duplicates import screen_hashes
from quality.duplicates.screen_hashes import near_pairs, near_pairs_within, plan


def clustered(seed: int, count: int) -> np.ndarray:
    """Random hashes, many of them within a few bits of one another, some equal, some extreme."""
    rng = np.random.default_rng(seed)
    hashes = rng.integers(0, 2**64, count, dtype=np.uint64)
    for row in range(count // 2, count):
        flipped = hashes[rng.integers(0, count // 2)]
        for bit in rng.choice(64, rng.integers(0, 12), replace=False):
            flipped ^= np.uint64(1) << np.uint64(bit)
        hashes[row] = flipped
    hashes[:2] = 0, 2**64 - 1
    return hashes


def brute(left: np.ndarray, right: np.ndarray, radius: int) -> list[tuple[int, int, int]]:
    bits = [[int(a ^ b).bit_count() for b in right.tolist()] for a in left.tolist()]
    return [(i, j, bits[i][j]) for i in range(len(left)) for j in range(len(right)) if bits[i][j] <= radius]


def listed(found: tuple[np.ndarray, np.ndarray, np.ndarray]) -> list[tuple[int, int, int]]:
    return list(zip(*(column.tolist() for column in found), strict=True))


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.integers(0, 14), st.integers(0, 90), st.integers(0, 90), st.booleans())
def test_pairs_equal_brute_force(seed: int, radius: int, left: int, right: int, tables: bool) -> None:
    patch = pytest.MonkeyPatch()
    if tables:
        patch.setattr(screen_hashes, "BRUTE_PAIRS", -1)
    hashes = clustered(seed, 180)
    try:
        assert listed(near_pairs(hashes[:left], hashes[90 : 90 + right], radius)) == brute(
            hashes[:left], hashes[90 : 90 + right], radius
        )
        within = [pair for pair in brute(hashes, hashes, radius) if pair[0] < pair[1]]
        assert listed(near_pairs_within(hashes, radius)) == within
    finally:
        patch.undo()


def test_every_plan_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    hashes = clustered(1, 400)
    expected = [pair for pair in brute(hashes, hashes, 6) if pair[0] < pair[1]]
    monkeypatch.setattr(screen_hashes, "BRUTE_PAIRS", -1)
    for blocks, chosen in ((7, 1), (8, 2), (9, 3)):
        monkeypatch.setattr(screen_hashes, "plan", lambda count, radius, found=(blocks, chosen): found)
        assert listed(near_pairs_within(hashes, 6)) == expected


def test_equal_hashes_are_pairs_at_distance_zero() -> None:
    found = near_pairs_within(np.array([5, 5, 5], np.uint64), 0)
    assert listed(found) == [(0, 1, 0), (0, 2, 0), (1, 2, 0)]


def test_a_plan_has_more_blocks_than_bits_may_differ() -> None:
    for radius in range(64):
        blocks, chosen = plan(1_000_000, radius)
        assert blocks - radius >= chosen >= 1 and blocks <= 64


def test_a_bad_radius_is_refused() -> None:
    with pytest.raises(ValueError, match="radius of 0 to 63"):
        near_pairs_within(np.zeros(2, np.uint64), 64)
