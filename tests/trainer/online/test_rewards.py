"""Rewards by golden table and closed form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.online.rewards import RolloutOutcome, fewest_steps, trajectory_scores
from trainer.rl.reward_figures import totals
from trainer.settings.online import TrajectoryReward

DEFAULT = TrajectoryReward()
GOLDEN = [
    # group, rewards with r_comp 1, eta 0.9, penalty 0.1, floor -0.5
    ([RolloutOutcome(True, 4), RolloutOutcome(True, 8), RolloutOutcome(False, 3)], [1.0, 0.9, 0.0]),
    ([RolloutOutcome(True, 2), RolloutOutcome(True, 5), RolloutOutcome(None, 1)], [1.0, 0.9**1.5, None]),
    ([RolloutOutcome(True, 4, 1), RolloutOutcome(True, 4)], [0.9, 1.0]),
    ([RolloutOutcome(False, 9, 2), RolloutOutcome(False, 9, 5), RolloutOutcome(False, 20, 12)], [-0.2, -0.5, -0.5]),
    ([RolloutOutcome(True, 3, replayed=True), RolloutOutcome(False, 4)], [1.0, 0.0]),
    ([RolloutOutcome(True, 3, 1, replayed=True), RolloutOutcome(False, 4, 1)], [0.9, -0.1]),
    # a replayed success is no T_min, however short
    ([RolloutOutcome(True, 2, replayed=True), RolloutOutcome(True, 6), RolloutOutcome(True, 9)], [1.0, 1.0, 0.9**0.5]),
]


@pytest.mark.parametrize(("group", "expected"), GOLDEN)
def test_golden(group: list[RolloutOutcome], expected: list[float | None]) -> None:
    [found] = totals([trajectory_scores(group, DEFAULT)])
    assert found == [one if one is None else pytest.approx(one) for one in expected]


def test_the_terms_tell_what_a_reward_is_made_of() -> None:
    group = [RolloutOutcome(True, 8, 1), RolloutOutcome(False, 9, 12), RolloutOutcome(None, 1), RolloutOutcome(True, 4)]
    slow, failed, lost, _ = trajectory_scores(group, DEFAULT)
    assert slow == {"success": 1.0, "length_factor": 0.9, "unparsable_penalty": -0.1, "total": pytest.approx(0.8)}
    assert failed == {"success": 0.0, "unparsable_penalty": -0.5, "total": -0.5} and lost is None


def test_fewest_steps_are_those_of_live_successes() -> None:
    assert (
        fewest_steps([RolloutOutcome(False, 1), RolloutOutcome(None, 1), RolloutOutcome(True, 2, replayed=True)])
        is None
    )
    assert fewest_steps([RolloutOutcome(True, 7), RolloutOutcome(True, 5), RolloutOutcome(True, 2, replayed=True)]) == 5


outcomes = st.builds(RolloutOutcome, st.sampled_from([True, False, None]), st.integers(1, 40), st.integers(0, 12))
settings = st.builds(
    TrajectoryReward,
    r_comp=st.floats(0.1, 5),
    eta=st.floats(0.01, 1),
    unparsable_penalty=st.floats(0, 1),
    penalty_floor=st.floats(-2, 0),
)


@given(st.lists(outcomes, min_size=1, max_size=8), settings)
def test_bounds_and_order(group: list[RolloutOutcome], config: TrajectoryReward) -> None:
    [found] = totals([trajectory_scores(group, config)])
    least = fewest_steps(group)
    for one, value in zip(group, found, strict=True):
        assert (value is None) == (one.success is None)
        if value is not None:
            assert config.penalty_floor <= value <= config.r_comp
            if one.success and not one.unparsable and one.steps == least:
                assert value == pytest.approx(config.r_comp)
            if not one.unparsable:  # a success is never worth less than a failure
                assert value >= 0 and (one.success or value == 0)


@pytest.mark.parametrize("wrong", [{"eta": 0.0}, {"eta": 1.1}, {"r_comp": 0.0}, {"penalty_floor": 0.1}])
def test_settings_that_make_no_sense(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=rf"TrajectoryReward: {next(iter(wrong))}: expected "):
        TrajectoryReward(**wrong)
