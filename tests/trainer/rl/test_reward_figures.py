"""Figures of an update's rewards are TRL's, worked out by hand."""

from __future__ import annotations

import pytest

from trainer.rl.grpo import group_advantages
from trainer.rl.reward_figures import reward_figures, totals
from trainer.rl.rewards import ReplyTarget, group_scores
from trainer.settings.grpo import GrpoConfig
from trainer.settings.rewards import RewardConfig


def test_means_and_sample_deviations_are_over_all_completions_whatever_their_group() -> None:
    truth = ReplyTarget("grounding", boxes=((0.0, 0.0, 100.0, 100.0),))
    config = RewardConfig(w_format=0.5, w_answer=2.0)
    groups = [group_scores(texts, truth, config) for texts in (["[50,50]", "[50,50]"], ["[500,500]", "nothing"])]
    found = reward_figures([one for group in groups for one in group])
    # totals 2.5, 2.5, 0.5, 0: mean 1.375, squares around it 2 · 1.125² + 0.875² + 1.375² = 5.1875, by n − 1
    assert found == {
        "reward": pytest.approx(1.375),
        "reward_std": pytest.approx((5.1875 / 3) ** 0.5),
        "rewards/format/mean": 0.75,
        "rewards/format/std": pytest.approx(0.5),
        "rewards/point/mean": 0.5,
        "rewards/point/std": pytest.approx((1 / 3) ** 0.5),
    }
    assert group_advantages(totals(groups), GrpoConfig()).zero_variance == 1


def test_a_term_counts_where_it_is_and_one_or_none_has_no_spread() -> None:
    found = reward_figures([{"success": 1.0, "length_factor": 0.9, "total": 0.9}, {"success": 0.0, "total": 0.0}])
    assert (found["rewards/length_factor/mean"], found["rewards/length_factor/std"]) == (0.9, 0.0)
    assert found["rewards/success/mean"] == 0.5 and "rewards/total/mean" not in found
    assert reward_figures([]) == {"reward": 0.0, "reward_std": 0.0}
    assert totals([[{"total": 1.0}, None]]) == [[1.0, None]]
