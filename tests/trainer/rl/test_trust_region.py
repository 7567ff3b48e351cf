"""Controllers of the KL term's weight: the contract of each, what they are for, and what runs make of them."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.rl.grpo import group_advantages, grpo_loss
from trainer.rl.trust_region import MEMBERS, UpdateMeasures
from trainer.rl.trust_region.assign import checked, controller, update_options
from trainer.settings.grpo import GrpoConfig, LearnerConfig

FIGURES = st.none() | st.floats(0, 50)
HISTORIES = st.lists(st.builds(UpdateMeasures, FIGURES, st.none() | st.floats(-5, 5), FIGURES), max_size=12)


def config(**grpo: object) -> LearnerConfig:
    return LearnerConfig(learning_rate=0.1, grpo=grpo)


@pytest.mark.parametrize("name", MEMBERS)
class TestEveryController:
    @pytest.mark.slow
    @settings(max_examples=60, deadline=None)
    @given(beta=st.floats(1e-4, 1), history=HISTORIES)
    def test_gives_a_weight_that_the_history_decides(
        self, name: str, beta: float, history: list[UpdateMeasures]
    ) -> None:
        found = controller(name)(beta, history)
        assert math.isfinite(found) and found >= 0
        assert found == controller(name)(beta, list(history))

    def test_starts_from_the_settings(self, name: str) -> None:
        assert controller(name)(0.3, []) == 0.3
        assert controller(name)(0.3, [UpdateMeasures()] * 3) == 0.3

    def test_refuses_an_option_that_it_does_not_know(self, name: str) -> None:
        with pytest.raises((ValueError, TypeError), match="taget"):
            checked(GrpoConfig(beta=0.1, kl_weight={"controller": name, "options": {"taget": 1}}))


class TestTargetKl:
    def test_by_hand(self) -> None:
        far = controller("target_kl")(0.1, [UpdateMeasures(kl=0.5)] * 2, target=0.4, gain=0.2, error_clip=1.0)
        assert far == pytest.approx(0.1 * (1 + 0.2 * 0.25) ** 2)
        clipped = controller("target_kl")(0.1, [UpdateMeasures(kl=9.0)], target=0.4, gain=0.2, error_clip=0.5)
        assert clipped == pytest.approx(0.1 * 1.1)

    def test_a_long_time_near_the_reference_costs_nothing_later(self) -> None:
        near = [UpdateMeasures(kl=0.0)] * 50
        late = controller("target_kl")(0.1, [*near, UpdateMeasures(kl=9.0)], target=0.4)
        assert late == controller("target_kl")(0.1, [UpdateMeasures(kl=9.0)], target=0.4)


def test_a_reward_above_its_past_raises_the_weight() -> None:
    rising = controller("reward_guided")(0.1, [UpdateMeasures(reward=one) for one in (0.0, 0.0, 1.0)])
    # mean 1/3, sample std 0.57735: z = 1.1547
    assert rising == pytest.approx(0.1 * (1 + 1.1547), rel=1e-4)
    assert controller("reward_guided")(0.1, [UpdateMeasures(reward=one) for one in (1.0, 1.0, -9.0)]) < 0.1


class TestUpdateOptions:
    def test_defaults_are_the_settings_themselves(self) -> None:
        plain = config(beta=0.1, entropy_coef=0.2)
        assert update_options(plain, [{"kl": 3.0, "reward": 1.0, "entropy": 0.0}]) is plain.grpo

    def test_a_curve_as_runs_write_it(self) -> None:
        named = config(beta=0.1, kl_weight={"controller": "target_kl", "options": {"target": 0.4}})
        curve = [{"kind": "update", "update": 1}, {"kind": "update", "update": 2, "kl": 9.0}]
        assert update_options(named, curve).beta == pytest.approx(0.1 * 1.05)

    def test_the_bonus_counts_below_the_floor_alone(self) -> None:
        floored = config(entropy_coef=0.2, entropy_floor=0.5)
        given = [[], [{"entropy": 0.6}], [{"entropy": 0.6}, {"entropy": 0.4}], [{"entropy": 0.4}, {}]]
        assert [update_options(floored, curve).entropy_coef for curve in given] == [0.0, 0.0, 0.2, 0.2]

    def test_one_of_your_own_is_named_by_its_path_and_held_to_a_weight(self, tmp_path: Path) -> None:
        (tmp_path / "mine.py").write_text("def mine(beta, measured, to=0.7):\n    return to\n", encoding="utf-8")
        named = {"controller": f"{tmp_path}/mine.py:mine", "options": {"to": 0.5}}
        assert update_options(config(beta=0.1, kl_weight=named), []).beta == 0.5
        with pytest.raises(ValueError, match=r"mine.py:mine': expected a finite number, 0 or more, found -1"):
            update_options(config(beta=0.1, kl_weight={**named, "options": {"to": -1}}), [])

    def test_without_a_reference_there_is_nothing_to_weigh(self) -> None:
        with pytest.raises(ValueError, match="expected beta above 0 for 'target_kl'"):
            checked(GrpoConfig(kl_weight={"controller": "target_kl"}))
        with pytest.raises(ValueError, match="kl_weight: expected one of fixed, target_kl, reward_guided"):
            checked(GrpoConfig(beta=0.1, kl_weight={"controller": "target_lk"}))


class TestBoundedLoss:
    """What bounds a step, by hand: one reply of one token, the old policy at p = 0.5."""

    def slope(self, now: float, advantage: float, **grpo: object) -> float:
        logprobs = torch.tensor([[math.log(now)]], requires_grad=True)
        old = torch.tensor([[math.log(0.5)]])
        alone = group_advantages([[0.0, 1.0]], GrpoConfig(scale_rewards="none"))
        given = GrpoConfig.parsed(grpo)
        parts = grpo_loss(
            logprobs, old, torch.ones(1, 1), [0], alone, [1, 1], given, reference_SL=old, advantage_S=[advantage]
        )
        parts.loss.backward()
        assert logprobs.grad is not None
        return float(logprobs.grad) * 2  # its trajectory's weight is a half

    def test_dual_clip(self) -> None:
        # ratio 1.8: without it the whole ratio pushes a bad reply down
        assert self.slope(0.9, -2.0) == pytest.approx(1.8 * 2.0)
        assert self.slope(0.9, -2.0, delta=1.5) == 0.0
        assert self.slope(0.6, -2.0, delta=1.5) == pytest.approx(1.2 * 2.0)
        with pytest.raises(ValueError, match=r"expected delta above 1 \+ epsilon_high, 1.5, found 1.4"):
            GrpoConfig(epsilon_high=0.5, delta=1.4)

    def test_advantages_are_clipped(self) -> None:
        clipped = group_advantages([[1.0] + [0.0] * 7], GrpoConfig(advantage_clip=1.5))
        assert max(clipped.values) == 1.5 and min(clipped.values) == pytest.approx(-0.3535, abs=1e-3)

    def test_the_corrected_kl_pulls_by_its_own_gradient(self) -> None:
        # d/dlogπ of r · (e^d − d − 1) with r = π/π_old and e^d = π_ref/π: r · log(π/π_ref), here 1.8 · log 1.8
        found = self.slope(0.9, 0.0, beta=1.0, use_bias_correction_kl=True)
        assert found == pytest.approx(1.8 * math.log(1.8), rel=1e-4)
        assert self.slope(0.9, 0.0, beta=1.0) == pytest.approx(1 - 0.5 / 0.9, rel=1e-4)
