"""Credit within a trajectory: the contract of every estimator, and planted trajectories whose harmful steps are known.

Planted: a way of screens to a goal. A member of a group goes it, or ends on the way without success; into successes
harmful steps are put at random: one that changes nothing, a look at a screen aside and back, a step back.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
import torch
from online_runs import settings, train

from trainer.online.credit import MEMBERS
from trainer.online.credit.assign import credit_figures, reply_advantages
from trainer.online.rewards import trajectory_scores
from trainer.online.rollouts import ReplySample, Rollout
from trainer.proving.methods import MethodCheck
from trainer.rl.grpo import Advantages, group_advantages, grpo_loss
from trainer.rl.reward_figures import totals
from trainer.settings.online import CreditConfig, OnlineGrpo, TrajectoryReward

GRPO = OnlineGrpo()


def planted(one: Rollout) -> list[float]:
    """True labels."""
    return [0.0 if json.loads(sample.messages)["harmful"] else 1.0 for sample in one.samples]


TRUE_LABELS = CreditConfig(estimator="step_labels", options={"labeller": f"{__name__}:planted"})


def rollout(screens: list[str], harmful: list[bool], success: bool | None, replayed: bool = False) -> Rollout:
    samples = tuple(
        ReplySample(json.dumps({"harmful": bad}), screen.encode(), "web", (1, 2), (-0.1, -0.1), 0)
        for screen, bad in zip(screens, harmful, strict=True)
    )
    return Rollout("k", "t", samples, success, len(samples), 0, "done", replayed=replayed)


def member(draw: random.Random, length: int) -> Rollout:
    """One that goes the way of `length` screens, or ends on it."""
    if draw.random() < 0.4:
        end = draw.randrange(length)
        return rollout([f"s{i}" for i in range(end + 1)], [False] * end + [True], False)
    screens: list[str] = []
    harmful: list[bool] = []
    planted = draw.randrange(length) if draw.random() < 0.6 else None
    for i in range(length):
        if i == planted:
            aside = f"a{draw.randrange(99)}"
            back = [f"s{i - 1}"] if i else []
            on_the_way = draw.choice([[], [aside], back])
            screens += [f"s{i}", *on_the_way]
            harmful += [True] + [False] * len(on_the_way)
        screens.append(f"s{i}")
        harmful.append(False)
    return rollout(screens, harmful, True)


def planted_groups(seed: int, number: int = 40) -> list[list[Rollout]]:
    draw = random.Random(seed)
    return [[member(draw, length) for _ in range(8)] for length in (draw.randint(3, 8) for _ in range(number))]


def advantages_of(groups: list[list[Rollout]], credit: CreditConfig) -> tuple[Advantages, list[list[float]]]:
    """Of trajectories, and of each of their replies, with success as the only reward."""
    scores = [trajectory_scores([one.outcome for one in group], TrajectoryReward(eta=1.0)) for group in groups]
    whole = group_advantages(totals(scores), GRPO)
    own = reply_advantages(groups, totals(scores), whole, credit, GRPO)
    filled = [[value if one is None else one for one in some] for some, value in zip(own, whole.values, strict=True)]
    return whole, filled


def share_below_zero(credit: CreditConfig, seed: int, harmful: bool, number: int = 40) -> float:
    """Of the steps of successes that are harmful, or that are not, in groups that count in the loss."""
    groups = planted_groups(seed, number)
    whole, filled = advantages_of(groups, credit)
    rollouts = [one for group in groups for one in group]
    below = [
        value < 0
        for one, values, weight in zip(rollouts, filled, whole.weights, strict=True)
        if one.success and weight > 0
        for sample, value in zip(one.samples, values, strict=True)
        if json.loads(sample.messages)["harmful"] == harmful
    ]
    assert len(below) > number
    return sum(below) / len(below)


CREDITS = {
    "trajectory": CreditConfig(),
    "shared_screens": CreditConfig(estimator="shared_screens"),
    "step_labels, effects": CreditConfig(estimator="step_labels"),
    "step_labels, true": TRUE_LABELS,
}


def run(member: str, seed: int, share: float = 1.0) -> dict[str, float]:
    """Steps of successes with a negative advantage, percent: of those that do harm, and of the others."""
    number = max(4, round(40 * share))
    harm, sound = (100 * share_below_zero(CREDITS[member], seed, harmful, number) for harmful in (True, False))
    return {"harmful_negative": harm, "sound_negative": sound}


CHECK = MethodCheck(
    name="planted_harm",
    system="GiGPO; WebGen-Agent",
    asks="harmful steps of successes with a negative advantage, percent (wanted: 95; trajectories 0)",
    members=tuple(CREDITS),
    reference="trajectory",
    figures=("harmful_negative", "sound_negative"),
    run=run,
)


class TestPlantedSteps:
    @pytest.mark.parametrize("seed", range(5))
    def test_a_trajectory_hides_them(self, seed: int) -> None:
        assert share_below_zero(CreditConfig(), seed, harmful=True) == 0.0

    @pytest.mark.parametrize("seed", range(5))
    def test_shared_screens_show_them(self, seed: int) -> None:
        credit = CreditConfig(estimator="shared_screens")
        assert share_below_zero(credit, seed, harmful=True) >= 0.95
        assert share_below_zero(credit, seed, harmful=False) <= 0.05

    @pytest.mark.parametrize("seed", range(5))
    def test_labels_show_them(self, seed: int) -> None:
        assert share_below_zero(TRUE_LABELS, seed, harmful=True) >= 0.95
        assert share_below_zero(TRUE_LABELS, seed, harmful=False) == 0.0

    def test_luck_is_no_merit(self) -> None:
        """Two end on the screen where the third gets back from a detour: its detour is worth less than the screen."""
        group = [
            rollout(["s", "aside", "s"], [True, False, False], True),
            rollout(["s"], [True], False),
            rollout(["s"], [False], True),
        ]
        _, filled = advantages_of([group], CreditConfig(estimator="shared_screens", options={"gamma": 0.5}))
        # v(s) = (γ²·v(s) + 1 + 0 + 1) / 4 = 2 / 3.75; the steps on s are worth γ²·v(s), 1, 0 and 1
        value = 2 / 3.75
        expected = group_advantages([[0.25 * value, 1.0, 0.0, 1.0]], GRPO).values
        assert filled[0][0] == pytest.approx(expected[0]) and filled[0][0] < 0
        assert [filled[0][2], filled[1][0], filled[2][0]] == pytest.approx(expected[1:])
        # nobody else stood on the screen aside
        assert filled[0][1] == pytest.approx(group_advantages([[1.0, 0.0, 1.0]], GRPO).values[0])

    def test_effects_label_what_changed_nothing(self) -> None:
        group = [rollout(["s", "s", "t"], [True, False, False], True), rollout(["s", "t"], [False, True], False)]
        _, filled = advantages_of([group], CreditConfig(estimator="step_labels"))
        whole = group_advantages([[1.0, 0.0]], GRPO).values
        assert filled[0][0] < 0 < filled[0][1] == filled[1][0]
        assert (filled[0][2], filled[1][1]) == whole  # of the last step no picture tells

    @pytest.mark.parametrize("found", ["[1.0]", "[2.0, 0.0]"])
    def test_a_labeller_that_says_something_else_is_named(self, found: str, tmp_path: Path) -> None:
        (tmp_path / "odd.py").write_text(f"def odd(rollout):\n    return {found}\n", encoding="utf-8")
        credit = CreditConfig(estimator="step_labels", options={"labeller": f"{tmp_path}/odd.py:odd"})
        with pytest.raises(ValueError, match=r"odd.py:odd': expected 2 numbers in 0..1 or None"):
            advantages_of([[rollout(["s", "t"], [False] * 2, True), rollout(["s", "t"], [False] * 2, False)]], credit)


@pytest.mark.parametrize("name", MEMBERS)
class TestEveryEstimator:
    def test_answers_for_every_reply_and_for_no_lost_one(self, name: str) -> None:
        groups = planted_groups(3, number=6)
        groups[0][2] = Rollout("k", "t", (), None, 0, 0, "failed")
        _, filled = advantages_of(groups, CreditConfig(estimator=name))
        assert [len(some) for some in filled] == [len(one.samples) for group in groups for one in group]
        assert filled == advantages_of(groups, CreditConfig(estimator=name))[1]

    def test_without_weight_is_the_trajectory(self, name: str) -> None:
        groups = planted_groups(4, number=6)
        _, filled = advantages_of(groups, CreditConfig(estimator=name, weight=0.0))
        _, whole = advantages_of(groups, CreditConfig())
        assert [value for some in filled for value in some] == pytest.approx([v for some in whole for v in some])

    def test_says_how_many_replies_it_compared(self, name: str) -> None:
        groups = planted_groups(5, number=6)
        scores = [trajectory_scores([one.outcome for one in group], TrajectoryReward()) for group in groups]
        whole = group_advantages(totals(scores), GRPO)
        credit = CreditConfig(estimator=name)
        own = reply_advantages(groups, totals(scores), whole, credit, GRPO)
        figures = credit_figures([one for group in groups for one in group], whole, own)
        if name == "trajectory":
            assert figures == {}
        else:
            assert 0.3 < figures["credit/compared"] <= 1.0 and figures["credit/negative_in_success"] > 0


@pytest.mark.slow
def test_a_run_reports_what_it_compared(start: Path, tmp_path: Path) -> None:
    found = train(start, tmp_path / "out", settings(updates=2, eval_steps=0, credit={"estimator": "shared_screens"}))
    assert any(0 < row.get("credit/compared", 0.0) <= 1 for row in found.metrics["curve"])
    plain = train(start, tmp_path / "plain", settings(updates=2, eval_steps=0))
    assert not any("credit/compared" in row for row in plain.metrics["curve"])


def test_a_name_that_no_estimator_has_is_told() -> None:
    with pytest.raises(ValueError, match="credit: expected one of trajectory, shared_screens, step_labels"):
        advantages_of(planted_groups(1, number=1), CreditConfig(estimator="shared_screen"))


def test_the_loss_takes_a_reply_s_own_advantage() -> None:
    whole = group_advantages([[1.0, 0.0]], GRPO)
    grpo = GRPO.changed(beta=0.0, entropy_coef=0.0)

    def slope(advantage_S: list[float | None], values: tuple[float, ...] = whole.values) -> torch.Tensor:
        logprobs = torch.zeros(3, 2, requires_grad=True)
        given = Advantages(values, whole.weights, 1, 0, 0)
        parts = grpo_loss(
            logprobs, torch.zeros(3, 2), torch.ones(3, 2), [0, 0, 1], given, [4, 2], grpo, advantage_S=advantage_S
        )
        parts.loss.backward()
        assert logprobs.grad is not None
        return logprobs.grad

    assert torch.equal(slope([None] * 3), slope([]))
    found = slope([-2.0, None, None])
    assert found[0].tolist() == [0.5 * 2.0 / 4] * 2  # weight 1/2, 4 tokens: it is made less likely
    assert torch.equal(found[1:], slope([])[1:])
