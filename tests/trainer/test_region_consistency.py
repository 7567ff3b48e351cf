"""Agreement of replies: by hand, by counting pixels, by property; and what training on it alone does."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.region_consistency import consensus, region_consistency
from trainer.rewards import RewardConfig, Truth, bounds, group_rewards, reward

POINTS = st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=1, max_size=6)


def _say(*points: tuple[int, int]) -> list[str]:
    return [f"[{x},{y}]" for x, y in points]


def test_worked_by_hand() -> None:
    # squares of 60: the second covers half of the first, the third is elsewhere
    found = region_consistency(_say((100, 100), (130, 100), (900, 900)), 60)
    assert found == pytest.approx([(1 + 0.5) / 3, (1 + 0.5) / 3, 1 / 3])
    assert region_consistency(["[500,500]", "nothing", "[-1,-1]", "[-1,-1]"], 60) == [0.25, 0.0, 0.5, 0.5]


@given(POINTS)
def test_it_equals_a_count_of_votes_on_a_grid_of_pixels(points: list[tuple[int, int]]) -> None:
    side = 40
    votes = np.zeros((1100, 1100))
    cuts = [(slice(y + 20, y + 60), slice(x + 20, x + 60)) for x, y in points]  # shifted, so that none is cut off
    for cut in cuts:
        votes[cut] += 1
    expected = [votes[cut].mean() / len(points) for cut in cuts]
    assert region_consistency(_say(*points), side) == pytest.approx(expected)


@given(POINTS, st.randoms(use_true_random=False))
def test_bounded_and_the_same_in_any_order(points: list[tuple[int, int]], rng: random.Random) -> None:
    found = region_consistency(_say(*points))
    assert all(1 / len(points) - 1e-9 <= one <= 1 + 1e-9 for one in found)
    order = list(range(len(points)))
    rng.shuffle(order)
    assert region_consistency(_say(*(points[i] for i in order))) == pytest.approx([found[i] for i in order])


def test_the_consensus_is_where_most_meet() -> None:
    assert consensus([(100, 100), (110, 104), (105, 96), (900, 900)]) == (105, 100)
    assert consensus([(-1, -1), (-1, -1), (400, 400)]) == (-1, -1)
    assert consensus([None, (7, 9)]) == (7, 9)
    assert consensus([None, None]) is None and consensus([]) is None
    with pytest.raises(ValueError, match="a side > 0, found 0"):
        consensus([(1, 1)], 0)


def test_many_votes_are_better_than_one_where_errors_scatter() -> None:
    rng = random.Random(5)
    one = many = 0
    for _ in range(200):
        true = rng.randint(100, 900), rng.randint(100, 900)
        points = [
            (true[0] + rng.randint(-15, 15), true[1] + rng.randint(-15, 15)) if rng.random() < 0.5
            else (rng.randint(0, 1000), rng.randint(0, 1000)) for _ in range(8)
        ]  # fmt: skip
        agreed = consensus(points)
        assert agreed is not None
        one += max(abs(a - b) for a, b in zip(points[0], true, strict=True)) <= 30
        many += max(abs(a - b) for a, b in zip(agreed, true, strict=True)) <= 30
    assert many > 1.5 * one


def test_as_a_reward_it_reads_no_truth_and_adds_by_its_weight() -> None:
    texts = ["[100,100]", "[100,100]", "[800,800]", "no point"]
    blind = RewardConfig(w_format=0.1, w_answer=0.0, w_consistency=0.9)
    truths = [Truth("grounding", boxes=((90.0, 90.0, 110.0, 110.0),)), Truth("grounding", refusal=True)]
    first, other = (group_rewards(texts, truth, blind) for truth in truths)
    assert first == other == pytest.approx([0.1 + 0.9 * 0.5] * 2 + [0.1 + 0.9 * 0.25, 0.0])
    assert bounds("grounding", blind) == (0.0, pytest.approx(1.0)) and bounds("navigation", blind)[1] == 0.1
    plain = RewardConfig()
    assert group_rewards(texts, truths[0], plain) == [reward(text, truths[0], plain) for text in texts]
    with pytest.raises(ValueError, match="region"):
        RewardConfig(region=0)
