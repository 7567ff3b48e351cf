"""Pruned search for similar pairs: whatever the vectors, the pairs of brute force, in its order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quality.commands import dedup_texts as commands
from quality.duplicates import neighbours
from quality.duplicates import pruned_neighbours as pruned
from quality.duplicates.neighbours import TooManyPairs, cosines, similar_pairs

pytest.importorskip("faiss")


@pytest.fixture(scope="module", autouse=True)
def small_blocks() -> Iterator[None]:
    """So that a few hundred vectors make many chunks and blocks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pruned, "CHUNK", 16)
        patch.setattr(pruned, "TARGETS", 48)
        yield


def vectors_of(seed: int, count: int, dimension: int, clusters: int, spread: float, odd: set[str]) -> np.ndarray:
    """Unit float32 vectors in clusters; `odd`: rows of zeros, equal rows, opposite rows, few dimensions used."""
    rng = np.random.default_rng(seed)
    made = rng.normal(size=(clusters, dimension))[rng.integers(0, clusters, count)]
    made += spread * rng.normal(size=made.shape)
    if "flat" in odd:
        made[:, 2:] = 0
    if "equal" in odd:
        made[rng.integers(0, count, count // 3 + 1)] = made[0]
    if "opposite" in odd:
        made[count // 2] = -made[0]
    lengths = np.linalg.norm(made, axis=1, keepdims=True)
    unit = (made / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    if "zero" in odd:
        unit[rng.integers(0, count, count // 8 + 1)] = 0
    return unit


def assert_same(vectors: np.ndarray, threshold: float, new_from: int = 0) -> int:
    flat = similar_pairs(vectors, threshold, new_from=new_from, pruned=False)
    ours = similar_pairs(vectors, threshold, new_from=new_from, pruned=True)
    for one, two in zip(flat, ours, strict=True):
        assert np.array_equal(one, two)
    return len(flat[0])


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(
    st.integers(0, 2**32),
    st.integers(1, 260),
    st.integers(1, 384),
    st.integers(1, 12),
    st.sampled_from([0.0, 1e-7, 1e-4, 0.05, 0.3, 1.0, 3.0]),
    st.one_of(st.sampled_from([0.01, 0.3, 0.8, 0.9, 0.999, 1.0]), st.none()),
    st.sets(st.sampled_from(["zero", "equal", "opposite", "flat"])),
    st.floats(0, 1),
)
def test_pruned_pairs_are_those_of_brute_force(
    seed: int,
    count: int,
    dimension: int,
    clusters: int,
    spread: float,
    threshold: float | None,
    odd: set[str],
    old: float,
) -> None:
    vectors = vectors_of(seed, count, dimension, clusters, spread, odd)
    if threshold is None:  # one that a pair meets to the last decimal
        exact = cosines(vectors[:1], vectors[-1:])[0]
        threshold = float(exact) if exact > 0 else 0.5
    assert_same(vectors, threshold, int(old * count))


@pytest.mark.slow
def test_a_larger_set_is_pruned_and_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sizes of real use, cells and all; and the choice by size takes it."""
    monkeypatch.undo()
    for name, value in (("CHUNK", 512), ("TARGETS", 8192)):
        monkeypatch.setattr(pruned, name, value)
    vectors = vectors_of(5, 15_000, 48, 60, 0.5, {"zero"})
    left = assert_same(vectors, 0.9)
    whole = similar_pairs(vectors, 0.9)
    assert left == len(whole[0]) > 10
    met = sum(len(i) for i, _ in pruned.candidates(vectors, 0.9))
    assert left <= met < 2 * left + 100  # nearly all that is proposed is true
    called: list[int] = []

    def candidates(*given: object) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        called.append(1)
        return iter(())

    monkeypatch.setattr(pruned, "candidates", candidates)
    similar_pairs(vectors, 0.9)
    similar_pairs(vectors, 0.9, new_from=14_990)  # ten new ones aren't worth it
    assert len(called) == 1
    again = similar_pairs(vectors, 0.9, new_from=14_000, pruned=False)
    new = whole[1] >= 14_000
    assert np.array_equal(whole[0][new], again[0]) and np.array_equal(whole[1][new], again[1])


def test_a_head_is_never_below_the_cosine() -> None:
    """The first bound itself, on its own: x*.y* + slack >= x.y, for every number of axes."""
    vectors = vectors_of(3, 200, 64, 5, 0.3, {"equal", "flat"})
    exact = np.clip(vectors.astype(np.float64) @ vectors.T.astype(np.float64), -1, 1)
    for axes in (1, 8, 63, 64):
        turned = np.linalg.qr(np.random.default_rng(axes).normal(size=(64, axes)))[0]
        heads = pruned._heads(vectors, turned)
        assert (heads @ heads.T + pruned.slack(axes + 1) >= exact - 1e-6).all()  # lengths are 1 +- 1e-7
        assert (heads @ heads.T + pruned.slack(axes + 1) >= exact / np.outer(*[np.sqrt(np.diag(exact))] * 2)).all()


def test_lengths_other_than_one_and_what_is_no_vector() -> None:
    vectors = vectors_of(8, 80, 12, 3, 0.1, set())
    scaled = vectors * np.float32(3)
    scaled[::2] *= np.float32(1e-20)
    assert np.array_equal(similar_pairs(scaled, 0.99, pruned=True)[1], similar_pairs(vectors, 0.99, pruned=False)[1])
    vectors[7, 3] = np.nan
    with pytest.raises(ValueError, match="row 7 isn't finite"):
        similar_pairs(vectors, 0.9, pruned=True)
    with pytest.raises(ValueError, match="threshold above 0"):
        similar_pairs(vectors, 0.0, pruned=True)
    assert len(similar_pairs(np.zeros((5, 3), np.float32), 0.5, pruned=True)[0]) == 0


@pytest.mark.parametrize("way", [False, True])
def test_too_many_pairs_end_the_search_early(way: bool) -> None:
    vectors = np.repeat(vectors_of(1, 1, 8, 1, 0.0, set()), 300, axis=0)
    with pytest.raises(TooManyPairs, match="expected at most 1000, found more"):
        similar_pairs(vectors, 1.0, most=1000, pruned=way)
    assert len(similar_pairs(vectors, 1.0, most=300 * 299 // 2, pruned=way)[0]) == 300 * 299 // 2


def test_a_file_with_too_many_pairs_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Same:
        embedded = 0

        def __init__(self, model: str, cache: object = None) -> None:
            self.model = model

        def encode(self, texts: list[str]) -> np.ndarray:
            return np.repeat(vectors_of(1, 1, 8, 1, 0.0, set()), len(texts), axis=0)

    path = tmp_path / "a.jsonl"
    words = [letter * 4 for letter in "abcdefghijklmnopqrst"]  # numbers would say different things
    path.write_text("".join(f'{{"id": "{word}", "text": "press {word}"}}\n' for word in words))
    monkeypatch.setattr(commands, "Embedder", Same)
    monkeypatch.setattr(commands, "MAX_PAIRS", 100)
    with pytest.raises(ValueError, match=r"a\.jsonl: .*expected at most 100, found more") as error:
        commands.dedup_file(path, 0.9, tmp_path / "out")
    assert not isinstance(error.value, neighbours.TooManyPairs)
