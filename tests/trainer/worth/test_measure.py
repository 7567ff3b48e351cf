"""Points with intervals: a planted effect is found, noise isn't; and the mixture that planted transfer proposes."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from trainer.worth.measure import Measured, difference, says, worth_row
from trainer.worth.mixture_search import propose
from trainer.worth.page import markdown, page
from trainer.worth.plan import Plan
from trainer.worth.pools import Cost
from trainer.worth.probe import ProbeResult
from trainer.worth.tables import HARMS, HELPS, RULE, SAYS_NOTHING, Worth
from trainer.worth.variants import Comparison, Variant

DOMAINS = {"grounding": 120, "navigation/web": 60}


def _answers(chance: Callable[[str], float], seed: int, seeds: int = 3) -> Measured:
    """Answers with a chance of being right by domain; four questions a screen, each screen easier or harder."""
    results = []
    for run in range(seeds):
        records = []
        for domain, count in DOMAINS.items():
            for number in range(count):
                ease = random.Random(f"{domain} {number // 4}").uniform(-0.2, 0.2)
                draw = random.Random(f"{seed} {run} {domain} {number}").random()
                right = float(draw < chance(domain) + ease)
                records.append(
                    {
                        "sample_id": f"{domain} {number}",
                        "cluster": f"{domain} {number // 4}",
                        "domain": domain,
                        "right": right,
                        "loss": 1.0 - right,
                    }
                )
        results.append(ProbeResult(records, 30.0))
    return Measured([Plan((), 0)] * seeds, results)


def test_a_planted_effect_is_found_and_its_sign_is_right() -> None:
    control = _answers(lambda domain: 0.4, 0)
    better, worse = _answers(lambda domain: 0.6, 1), _answers(lambda domain: 0.2, 2)
    gain = difference(better, control, "right")
    assert says(gain) == HELPS and gain.low < 0.2 < gain.high
    assert says(difference(worse, control, "right")) == HARMS
    only_web = _answers(lambda domain: 0.8 if domain == "navigation/web" else 0.4, 3)
    assert says(difference(only_web, control, "right", "navigation")) == HELPS
    assert says(difference(only_web, control, "right", "grounding")) == SAYS_NOTHING


def test_noise_says_nothing() -> None:
    control = _answers(lambda domain: 0.4, 0)
    said = [says(difference(_answers(lambda domain: 0.4, seed), control, "right")) for seed in range(10, 50)]
    # 95 %: of forty, two would be false alarms; more than six have a chance below 1 %
    assert sum(word != SAYS_NOTHING for word in said) <= 6


def test_a_row_has_points_of_a_hundred_and_its_loss() -> None:
    control, better = _answers(lambda domain: 0.4, 0), _answers(lambda domain: 0.6, 1)
    compared = Comparison(RULE, "a", Variant("with", (), {}), Variant("without", (), {}), Cost(7))
    row = worth_row(compared, {"with": better, "without": control})
    gap = difference(better, control, "right")
    assert row["points"] == pytest.approx(100 * gap.mean) and row["low"] == pytest.approx(100 * gap.low)
    assert row["loss"] == pytest.approx(gap.mean), "loss of the control less that of the treatment"
    assert row["questions"] == 180 and row["clusters"] == 45 and row["seeds"] == 3 and row["rows"] == 7
    Worth.table([row])


def test_the_mixture_follows_planted_transfer() -> None:
    base = _answers(lambda domain: 0.2, 0)
    alone = {
        # forgets the other domain: that costs no share, the others are there for it
        "grounding": _answers(lambda domain: 0.7 if domain == "grounding" else 0.1, 1),
        "navigation": _answers(lambda domain: 0.6 if domain == "navigation/web" else 0.1, 2),
        "perception": _answers(lambda domain: 0.45 if domain == "grounding" else 0.2, 3),
        "vqa": _answers(lambda domain: 0.2, 4),
    }
    found = propose(alone, base, 0.05)
    assert found.shares is not None and sum(found.shares.values()) == pytest.approx(1.0)
    # grounding 0.5 and perception 0.25 share the domain grounding, navigation has the other:
    # 0.05 + 0.8 · ½ · ⅔ = 0.32 and 0.05 + 0.8 · ½ · ⅓ = 0.18, 0.05 + 0.8 · ½ = 0.45, and the floor
    expected = {"grounding": 0.32, "perception": 0.18, "navigation": 0.45, "vqa": 0.05}
    assert found.shares == pytest.approx(expected, abs=0.05)
    assert all(low <= found.shares[name] <= high for name, (low, high) in found.intervals.items())
    assert found.intervals["grounding"][0] > found.intervals["vqa"][1]


def test_a_mixture_is_not_proposed_where_nothing_transfers() -> None:
    base = _answers(lambda domain: 0.3, 0)
    found = propose({name: _answers(lambda domain: 0.3, n) for n, name in enumerate("ab", 1)}, base, 0.05)
    assert found.shares is None


def test_a_page_escapes_what_comes_from_data() -> None:
    control, better = _answers(lambda domain: 0.4, 0), _answers(lambda domain: 0.6, 1)
    compared = Comparison(RULE, "<script>a|b", Variant("with", (), {}), Variant("without", (), {}), Cost(7))
    row = worth_row(compared, {"with": better, "without": control})
    row |= {"judge_tokens": 1200, "judge_minutes": 0.5, "probe_minutes": 3.0}
    shown, text = page("Worth", [row]), markdown([row])
    assert "<script>" not in shown and "<svg" in shown and "helps" in shown and "1,200" in shown
    assert (
        "<script>" not in text and len({line.count(" | ") for line in text.splitlines() if line.startswith("|")}) <= 2
    )
