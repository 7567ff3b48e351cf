"""Figures of risks against truth: golden values by hand, laws against brute force, scikit-learn as an oracle."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quality.proving import calibration as cal
from quality.statistics import Z95, confusion, cut_at, weighted_kappa, wilson

RISKS = st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.3, 0.5, 0.7, 0.9, 1.0]), min_size=1, max_size=14)
LABELLED = st.lists(st.tuples(st.sampled_from([0.0, 0.2, 0.4, 0.5, 0.8, 1.0]), st.booleans()), min_size=1, max_size=14)


# --- ranking
@given(RISKS, RISKS)
def test_auroc_is_the_share_of_pairs_in_the_right_order(bad: list[float], good: list[float]) -> None:
    pairs = [1.0 if b > g else 0.5 if b == g else 0.0 for b, g in product(bad, good)]
    assert cal.auroc(bad, good) == pytest.approx(sum(pairs) / len(pairs))
    assert cal.auroc(good, bad) == pytest.approx(1 - cal.auroc(bad, good))


def test_auroc_at_its_edges() -> None:
    assert cal.auroc([0.9, 0.8], [0.1, 0.2]) == 1
    assert cal.auroc([0.5] * 3, [0.5] * 4) == 0.5
    assert math.isnan(cal.auroc([], [0.1])) and math.isnan(cal.auroc([0.1], []))
    with pytest.raises(ValueError, match="without NaN"):
        cal.auroc([math.nan], [0.1])


@given(RISKS)
def test_ranks_share_the_mean_of_their_places(values: list[float]) -> None:
    ranks = cal.average_ranks(values)
    for value, rank in zip(values, ranks, strict=True):
        below, same = sum(other < value for other in values), sum(other == value for other in values)
        assert rank == below + (same + 1) / 2
    assert ranks.sum() == len(values) * (len(values) + 1) / 2


@pytest.mark.slow
@given(RISKS, RISKS)
def test_ranking_agrees_with_scikit_learn(bad: list[float], good: list[float]) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    truth, risk = [1] * len(bad) + [0] * len(good), [*bad, *good]
    assert cal.auroc(bad, good) == pytest.approx(metrics.roc_auc_score(truth, risk))
    assert cal.average_precision(bad, good) == pytest.approx(metrics.average_precision_score(truth, risk))
    weights = cal.prevalence_weights(truth, 0.2)
    weighted = metrics.average_precision_score(truth, risk, sample_weight=weights)
    assert cal.average_precision(bad, good, 0.2) == pytest.approx(weighted)


def test_spearman_of_ties_by_hand() -> None:
    # ranks 1, 2.5, 2.5, 4 and 1, 2, 3, 4: covariance 4.5, variances 4.5 and 5
    assert cal.spearman([1, 2, 2, 9], [10, 20, 30, 40]) == pytest.approx(4.5 / math.sqrt(4.5 * 5))
    assert cal.spearman([1, 2, 3], [9, 4, 1]) == -1
    assert math.isnan(cal.spearman([1, 1, 1], [1, 2, 3])) and math.isnan(cal.spearman([1], [1]))


# --- operating points
@given(RISKS, st.sampled_from([0.0, 0.05, 0.1, 0.25, 0.5, 0.99]))
def test_cut_is_the_lowest_that_keeps_the_rate(good: list[float], rate: float) -> None:
    cut = cut_at(good, rate)
    assert cal.share_above(good, cut) <= rate
    # every lower cut that flags more of them breaks the rate: nothing is left on the table
    lower = [one for one in (-math.inf, *good) if one < cut and cal.share_above(good, one) > cal.share_above(good, cut)]
    assert all(cal.share_above(good, one) > rate for one in lower)


def test_cut_neither_splits_ties_nor_interpolates() -> None:
    # 20 sound items: 2 at 0.8, 18 at 0.1. 5 % is one item; flagging the tie would be 10 %, so none is flagged.
    good = [0.8] * 2 + [0.1] * 18
    assert cut_at(good, 0.05) == 0.8 and cal.share_above(good, 0.8) == 0
    assert cut_at([0.9, *[0.1] * 19], 0.05) == 0.1  # exactly 5 %: one of 20
    assert cut_at(good, 1) == -math.inf
    assert math.isnan(cut_at([], 0.05)) and math.isnan(cal.share_above([0.1], math.nan))


@given(LABELLED, st.sampled_from([None, 0.1, 0.303, 0.9]))
def test_best_f1_against_every_cut(items: list[tuple[float, bool]], prevalence: float | None) -> None:
    risk, bad = np.array([r for r, _ in items]), np.array([b for _, b in items])
    weights = np.ones(len(items)) if prevalence is None else cal.prevalence_weights(bad, prevalence)
    cut = cal.best_f1_cut(risk, bad, weights)
    if not bad.any():
        assert math.isnan(cut)
        return

    def f1(at: float) -> float:
        flagged = risk > at
        hits = weights[flagged & bad].sum()
        return float(2 * hits / (weights[flagged].sum() + weights[bad].sum()))

    best = max(f1(at) for at in (-math.inf, *risk))
    assert f1(cut) == pytest.approx(best)
    assert not any(f1(at) > best - 1e-12 for at in risk if at > cut and f1(at) != f1(cut))


def test_prevalence_weights_let_each_group_of_positives_weigh_the_same() -> None:
    bad, groups = [True, True, True, False, False], ["a", "a", "b", "", "hard"]
    assert cal.prevalence_weights(bad, 0.3, groups) == pytest.approx([0.075, 0.075, 0.15, 0.35, 0.35])
    assert cal.prevalence_weights([True, True], 0.3) == pytest.approx([0.5, 0.5])
    with pytest.raises(ValueError, match="prevalence"):
        cal.prevalence_weights(bad, 1.5)


def test_precision_at_three_prevalences_by_hand() -> None:
    # recall 0.8 and 5 % false alarms: of 1000 items with 100 bad, 80 are caught and 45 flagged wrongly
    assert cal.at_prevalence(0.8, 0.05, 0.1).precision == pytest.approx(80 / 125)
    assert cal.at_prevalence(0.8, 0.05, 0.1).f1 == pytest.approx(2 * 80 / (125 + 100))
    assert cal.at_prevalence(0.8, 0.05, 0.5).precision == pytest.approx(400 / 425)
    nothing = cal.at_prevalence(0.0, 0.0, 0.3)
    assert math.isnan(nothing.precision) and nothing.f1 == 0
    assert math.isnan(cal.at_prevalence(math.nan, 0.1, 0.3).precision)


@given(LABELLED, st.floats(0.05, 0.95), st.sampled_from([0.1, 0.3, 0.6]))
def test_reweighting_by_formula_is_reweighting_by_items(
    items: list[tuple[float, bool]], prevalence: float, cut: float
) -> None:
    risk, bad = np.array([r for r, _ in items]), np.array([b for _, b in items])
    if bad.all() or not bad.any():
        return
    weights, flagged = cal.prevalence_weights(bad, prevalence), risk > cut
    point = cal.at_prevalence(cal.share_above(risk[bad], cut), cal.share_above(risk[~bad], cut), prevalence)
    if flagged.any():
        assert point.precision == pytest.approx(weights[flagged & bad].sum() / weights[flagged].sum())


# --- agreement
def test_kappa_by_hand() -> None:
    # 10 items, marginals (5, 3, 2) and (5, 3, 2); off by one twice. Linear: observed 0.2, expected
    # (5·3+3·5+3·2+2·3)/100 + 2·(5·2+2·5)/100 = 0.82. Quadratic: 0.42 + 4·0.2 = 1.22.
    table = np.array([[4, 1, 0], [1, 2, 0], [0, 0, 2]], dtype=float)
    assert weighted_kappa(table, 1) == pytest.approx(1 - 0.2 / 0.82)
    assert weighted_kappa(table, 2) == pytest.approx(1 - 0.2 / 1.22)
    assert weighted_kappa(np.diag([3.0, 2.0, 1.0])) == 1
    assert math.isnan(weighted_kappa(np.zeros((3, 3)))) and math.isnan(weighted_kappa(np.diag([3.0, 0, 0])))


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.floats(0.1, 5)), min_size=2, max_size=20))
def test_kappa_agrees_with_scikit_learn(items: list[tuple[int, int, float]]) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    truth, said, weights = (list(column) for column in zip(*items, strict=True))
    table = confusion(truth, said, 3, weights)
    assert table.sum() == pytest.approx(1)
    for power, name in ((1, "linear"), (2, "quadratic")):
        ours = weighted_kappa(table, power)
        if not math.isnan(ours):
            oracle = metrics.cohen_kappa_score(truth, said, labels=[0, 1, 2], weights=name, sample_weight=weights)
            assert ours == pytest.approx(oracle)


# --- calibration
def test_calibration_by_hand() -> None:
    # bins: [0.1,0.2) two items, none bad; [0.9,1] two items, one bad. |0.1 − 0|·½ + |0.95 − 0.5|·½ = 0.275
    risk, bad = [0.1, 0.1, 0.9, 1.0], [False, False, True, False]
    bins = cal.reliability(risk, bad)
    assert [(one.low, one.count, one.share_bad) for one in bins] == [(0.1, 2, 0.0), (0.9, 2, 0.5)]
    assert cal.calibration_error(bins) == pytest.approx(0.275)
    assert cal.brier(risk, bad) == pytest.approx((0.01 + 0.01 + 0.01 + 1) / 4)
    assert math.isnan(cal.calibration_error([])) and math.isnan(cal.brier([], []))
    with pytest.raises(ValueError, match=r"0\.\.1"):
        cal.reliability([1.2], [True])


@given(LABELLED, st.integers(1, 12))
def test_bins_hold_every_item_once(items: list[tuple[float, bool]], count: int) -> None:
    risk, bad = [r for r, _ in items], [b for _, b in items]
    bins = cal.reliability(risk, bad, bins=count)
    assert sum(one.count for one in bins) == len(items)
    assert sum(one.weight for one in bins) == pytest.approx(1)
    assert sum(one.weight * one.share_bad for one in bins) == pytest.approx(sum(bad) / len(bad))
    assert all(one.low - 1e-6 <= one.mean_risk <= one.high + 1e-6 for one in bins)
    assert 0 <= cal.calibration_error(bins) <= 1


def test_a_decimal_edge_opens_its_bin() -> None:
    assert [one.low for one in cal.reliability([k / 10 for k in range(11)], [False] * 11)] == [
        k / 10 for k in range(10)
    ]


# --- uncertainty
def test_wilson_by_hand() -> None:
    # 8 of 10 at 95 %: Brown, Cai and DasGupta's formula gives 0.490 … 0.943
    assert wilson(8, 10) == pytest.approx((0.4901625, 0.9433178), abs=1e-6)
    assert wilson(0, 0) == (0.0, 1.0) and wilson(0, 5)[0] == 0 and wilson(5, 5)[1] == 1
    with pytest.raises(ValueError, match="hits"):
        wilson(3, 2)


@given(st.integers(0, 60), st.integers(1, 60))
def test_wilson_solves_its_equation(hits: int, count: int) -> None:
    hits = min(hits, count)
    share = hits / count
    low, high = wilson(hits, count)
    assert 0 <= low <= share <= high <= 1
    for end in (low, high):
        if 0 < end < 1:
            assert abs(share - end) == pytest.approx(Z95 * math.sqrt(end * (1 - end) / count))


def test_bootstrap_draws_families_not_items() -> None:
    # two families, all good or all bad: a draw is 0, ½ or 1, never anything between
    values = np.array([0.0] * 50 + [1.0] * 50)
    families = ["a"] * 50 + ["b"] * 50
    assert cal.cluster_bootstrap(families, lambda at: float(values[at].mean()), 200, 1) == (0.0, 1.0)
    one_each = [str(number) for number in range(100)]
    low, high = cal.cluster_bootstrap(one_each, lambda at: float(values[at].mean()), 400, 1)
    assert 0.36 < low < 0.45 and 0.55 < high < 0.64  # ± 1.96 · √(¼ / 100)


@settings(max_examples=20)
@given(st.integers(0, 5))
def test_bootstrap_is_a_function_of_its_seed(seed: int) -> None:
    values = np.arange(12.0)
    families = [str(number % 4) for number in range(12)]

    def once() -> tuple[float, float]:
        return cal.cluster_bootstrap(families, lambda at: float(values[at].mean()), 50, seed)

    assert once() == once()
    assert all(math.isnan(end) for end in cal.cluster_bootstrap(["one"] * 12, lambda at: 1.0))
    assert all(math.isnan(end) for end in cal.cluster_bootstrap(families, lambda at: math.nan))
