"""The arithmetic of linear and TIES merges: hand-worked tensors, a float64 reference, and the laws of mergers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from whole_merges import merge_linear, merge_ties, trim

from trainer.merging.merge_methods import TensorTally, Trim, cut_for, ties_piece


def ties(base: list[float], experts: list[list[float]], **options: object) -> list[float]:
    arguments = {"density": [1.0] * len(experts), "weight": [1.0] * len(experts), **options}
    merged, _ = merge_ties(torch.tensor(base), [torch.tensor(e) for e in experts], **arguments)  # type: ignore[arg-type]
    return merged.tolist()


def reference_ties(
    base: np.ndarray,
    experts: Sequence[np.ndarray],
    density: Sequence[float],
    weight: Sequence[float],
    normalize: bool,
    lam: float,
) -> np.ndarray:
    """TIES element by element in float64, written from docs/method.md §8 and nothing else."""
    flat = [(expert.astype(np.float64) - base).ravel() for expert in experts]
    for delta, part in zip(flat, density, strict=True):
        ranked = sorted(range(delta.size), key=lambda i: (-abs(np.float32(delta[i])), i))
        delta[ranked[max(int(part * delta.size), int(part > 0)) :]] = 0.0
    result = np.zeros(base.size)
    for j in range(base.size):
        votes = [w * delta[j] for w, delta in zip(weight, flat, strict=True)]
        sign = 1.0 if sum(votes) >= 0 else -1.0
        agreeing = [(vote, w) for vote, w in zip(votes, weight, strict=True) if vote * sign > 0]
        divisor = sum(w for _, w in agreeing) if normalize else 1.0
        result[j] = lam * sum(vote for vote, _ in agreeing) / (divisor or 1.0)
    return base + result.reshape(base.shape)


class TestTrim:
    def test_keeps_int_density_n_largest(self) -> None:
        assert trim(torch.tensor([1.0, -4.0, 2.0, -3.0]), 0.5).tolist() == [0.0, -4.0, 0.0, -3.0]
        assert trim(torch.tensor([1.0, -4.0, 2.0, -3.0]), 0.7).tolist() == [0.0, -4.0, 0.0, -3.0]  # int(2.8) = 2

    def test_ties_keep_the_lowest_index(self) -> None:
        assert trim(torch.tensor([1.0, -1.0, 1.0, -1.0]), 0.5).tolist() == [1.0, -1.0, 0.0, 0.0]
        assert trim(torch.tensor([1.0, 2.0, -1.0, 1.0]), 0.5).tolist() == [1.0, 2.0, 0.0, 0.0]

    def test_edges(self) -> None:
        assert trim(torch.zeros(0, 3), 0.5).shape == (0, 3)
        assert trim(torch.tensor([3.0]), 0.5).tolist() == [3.0]  # int(0.5) = 0, but one is kept
        assert trim(torch.tensor([1.0, -3.0, 2.0]), 0.1).tolist() == [0.0, -3.0, 0.0]
        assert trim(torch.tensor(3.0), 1.0).item() == 3.0
        assert trim(torch.tensor([3.0, 1.0]), 0.0).tolist() == [0.0, 0.0]
        assert trim(torch.zeros(4), 0.5).tolist() == [0.0] * 4

    @given(st.lists(st.sampled_from([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0]), max_size=30), st.floats(0, 1))
    def test_equals_a_full_stable_sort(self, values: list[float], density: float) -> None:
        count = max(int(density * len(values)), int(density > 0))
        ranked = sorted(range(len(values)), key=lambda i: (-abs(values[i]), i))[:count]
        expected = [value if i in ranked else 0.0 for i, value in enumerate(values)]
        assert trim(torch.tensor(values, dtype=torch.float32), density).tolist() == expected


class TestTies:
    def test_worked_by_hand(self) -> None:
        # deltas: [2,-1,0], [4,3,0], [-1,-4,5]; sums 5,-2,5 -> +,-,+; agreeing: {2,4}, {-1,-4}, {5}
        merged = ties([10.0, 10.0, 10.0], [[12.0, 9.0, 10.0], [14.0, 13.0, 10.0], [9.0, 6.0, 15.0]])
        assert merged == [13.0, 7.5, 15.0]

    def test_weights_enter_the_vote_and_the_mean(self) -> None:
        # deltas 1 and -1; at weights 1, 3 the sum is -2: only the second agrees, -3/3
        assert ties([0.0], [[1.0], [-1.0]], weight=[1.0, 3.0]) == [-1.0]
        # deltas 1 and 3 at weights 1, 3: (1 + 9) / 4
        assert ties([0.0], [[1.0], [3.0]], weight=[1.0, 3.0]) == [2.5]
        assert ties([0.0], [[1.0], [3.0]], weight=[1.0, 3.0], normalize=False) == [10.0]

    def test_a_tied_vote_counts_as_positive(self) -> None:
        assert ties([5.0], [[4.0], [6.0]]) == [6.0]
        assert ties([5.0], [[6.0], [4.0]]) == [6.0]

    def test_lambda_scales_the_merged_delta(self) -> None:
        assert ties([1.0], [[3.0], [5.0]], lam=0.5) == [2.5]  # 1 + 0.5 * (2 + 4)/2
        assert ties([1.0], [[3.0]], lam=0.5) == [2.0]

    def test_trimming_comes_before_the_vote(self) -> None:
        # density 0.5 keeps the largest of two: expert 1 keeps 4 at 1, expert 2 keeps -3 at 0
        assert ties([0.0, 0.0], [[1.0, 4.0], [-3.0, 2.0]], density=[0.5, 0.5]) == [-3.0, 4.0]

    def test_report_counts_kept_and_conflicts(self) -> None:
        base = torch.zeros(4)
        experts = [torch.tensor([1.0, 2.0, 0.0, 0.5]), torch.tensor([-1.0, 3.0, 4.0, 0.1])]
        _, report = merge_ties(base, experts, density=[0.75, 0.5], weight=[1.0, 1.0], name="t")
        assert report.kept == (0.75, 0.5)  # 1, 2, 0.5 of the first; 3, 4 of the second
        assert report.conflicts == 0.0  # the second's -1 was trimmed
        _, full = merge_ties(base, experts, density=[1.0, 1.0], weight=[1.0, 1.0], name="t")
        assert full.conflicts == 0.25

    @settings(max_examples=80, deadline=None)
    @given(st.integers(0, 2**31), st.integers(1, 4), st.floats(0, 1), st.booleans(), st.sampled_from([0.3, 1.0, 1.7]))
    def test_agrees_with_a_float64_reference(
        self, seed: int, n: int, density: float, normalize: bool, lam: float
    ) -> None:
        rng = np.random.default_rng(seed)
        base: np.ndarray = rng.normal(size=(5, 4)).astype(np.float32)
        # a coarse grid of deltas: ties, zeros and cancelling votes are common, and fp32 holds the sums exactly
        experts: list[np.ndarray] = [base + rng.integers(-3, 4, base.shape).astype(np.float32) for _ in range(n)]
        base = np.round(base * 64) / 64
        experts = [np.round(expert * 64) / 64 for expert in experts]
        weight = rng.choice([0.0, 0.5, 1.0, 2.0], n).tolist()
        merged, _ = merge_ties(
            torch.from_numpy(base),
            [torch.from_numpy(e) for e in experts],
            density=[density] * n,
            weight=weight,
            normalize=normalize,
            lam=lam,
        )
        expected = reference_ties(base, experts, [density] * n, weight, normalize, lam)
        np.testing.assert_allclose(merged.numpy(), expected, rtol=1e-6, atol=1e-6)


FLOATS32 = st.floats(width=32, allow_nan=False, allow_infinity=False, min_value=-(2.0**99), max_value=2.0**99)


class TestLaws:
    @given(st.lists(st.tuples(FLOATS32, FLOATS32), max_size=20), st.booleans())
    def test_one_expert_at_weight_1_density_1_returns_itself(
        self, pairs: list[tuple[float, float]], norm: bool
    ) -> None:
        base, expert = torch.tensor([p[0] for p in pairs]), torch.tensor([p[1] for p in pairs])
        assert merge_ties(base, [expert], density=[1.0], weight=[1.0], normalize=norm)[0].equal(expert)
        assert merge_linear(base, [expert], weight=[1.0])[0].equal(expert)

    @given(st.lists(st.tuples(FLOATS32, FLOATS32), max_size=20))
    def test_density_0_returns_the_base(self, pairs: list[tuple[float, float]]) -> None:
        base, expert = torch.tensor([p[0] for p in pairs]), torch.tensor([p[1] for p in pairs])
        assert merge_ties(base, [expert, expert], density=[0.0, 0.0], weight=[1.0, 2.0])[0].equal(base)

    @pytest.mark.slow
    @settings(deadline=None)
    @given(st.integers(0, 2**31), st.floats(0.1, 8.0))
    def test_normalised_ties_ignores_the_scale_of_the_weights(self, seed: int, scale: float) -> None:
        rng = torch.Generator().manual_seed(seed)
        base, *experts = (torch.randn(6, 6, generator=rng) for _ in range(4))
        weight = torch.rand(3, generator=rng).add(0.1).tolist()
        one, _ = merge_ties(base, experts, density=[0.6] * 3, weight=weight)
        other, _ = merge_ties(base, experts, density=[0.6] * 3, weight=[w * scale for w in weight])
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


class TestPieces:
    @settings(max_examples=60, deadline=None)
    @given(st.data(), st.integers(1, 3), st.sampled_from([0.0, 0.1, 0.37, 0.9, 1.0]), st.integers(1, 9))
    def test_pieces_change_no_bit(self, data: st.DataObject, experts: int, density: float, size: int) -> None:
        count = data.draw(st.integers(0, 24))
        values = st.lists(
            st.sampled_from([-2.0, -0.5, -0.0, 0.0, 0.25, 0.5, 1e-30, 2.0]), min_size=count, max_size=count
        )
        base, *others = (torch.tensor(data.draw(values), dtype=torch.float32) for _ in range(1 + experts))
        weight = [1.0, 0.5, 2.0][:experts]
        whole, report = merge_ties(base, others, density=[density] * experts, weight=weight)
        tally = TensorTally(experts)
        trims = [Trim(cut_for(lambda o=o: [*(o - base).split(size)], count, density)) for o in others]  # type: ignore[misc]
        pieces = zip(base.split(size), *(other.split(size) for other in others), strict=True)
        found = [ties_piece(theta, parts, trims, weight, True, 1.0, tally) for theta, *parts in pieces]
        assert torch.cat(found).equal(whole)
        assert tally.report("").kept == report.kept and tally.report("").conflicts == report.conflicts
