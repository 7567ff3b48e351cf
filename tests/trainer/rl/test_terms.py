"""Reward terms that a setting names: the contract of every member, then what each of them is for."""

from __future__ import annotations

import inspect
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generators.worlds.care.care_case import CareOutcome
from schemas.actions import Click, Drag, Wait
from trainer.online.rewards import trajectory_scores
from trainer.online.rollouts import Rollout
from trainer.proving.methods import MethodCheck
from trainer.rl.grpo import group_advantages
from trainer.rl.own_terms import MEMBERS, bounds_of, label, own_function
from trainer.rl.rewards import ReplyTarget, bounds, group_scores
from trainer.settings.grpo import GrpoConfig
from trainer.settings.online import TrajectoryReward
from trainer.settings.rewards import OwnTerm, RewardConfig

GROUND = ReplyTarget("grounding", boxes=((100.0, 100.0, 200.0, 200.0),))
REFUSE = ReplyTarget("grounding", refusal=True)
CLICK = ReplyTarget("navigation", Click((500, 500)))
DRAG = ReplyTarget("navigation", Drag((0, 0), (1000, 1000)))
WAIT = ReplyTarget("navigation", Wait())
TRUTHS = (GROUND, REFUSE, CLICK, DRAG, WAIT)
FIELDS = {"text": "reply_terms", "texts": "group_terms"}
"""What a term looks at, by the name of its first argument → the setting that names it."""


OF_REPLIES = [name for name in MEMBERS if next(iter(inspect.signature(own_function(name)).parameters)) in FIELDS]
"""The members that look at replies; those of trajectories have tests of their own."""


def asked_for(name: str, weight: float = 1.0, **options: object) -> RewardConfig:
    """Rewards with one member of ours among them, named in the settings as a user would."""
    field = FIELDS[next(iter(inspect.signature(own_function(name)).parameters))]
    return RewardConfig(**{field: {name: {"weight": weight, "options": options}}})


def step(action: str, thought: str = "") -> str:
    return f"<think>{thought}</think><action>{action}</action><conclusion></conclusion>"


REPLIES = st.one_of(
    st.text(max_size=30),
    st.builds("[{},{}]".format, st.integers(-1, 1000), st.integers(-1, 1000)),
    st.builds(
        step,
        st.one_of(
            st.sampled_from(["Wait()", "Click(box=(500,500))", "Drag(start=(0,0), end=(9,9))", "Click(box=(", ""]),
            st.builds("Click(box=({},{}))".format, st.integers(0, 1000), st.integers(0, 1000)),
        ),
        st.text("ab ", max_size=9),
    ),
)


class TestEveryMember:
    @pytest.mark.parametrize("name", OF_REPLIES)
    @settings(max_examples=60, deadline=None)
    @given(texts=st.lists(REPLIES, min_size=1, max_size=5), truth=st.sampled_from(TRUTHS))
    def test_stays_in_its_range_and_answers_the_same_again(
        self, name: str, texts: list[str], truth: ReplyTarget
    ) -> None:
        config = asked_for(name)
        found = group_scores(texts, truth, config)
        low, high = bounds_of(name)
        assert all(low <= one[label(name)] <= high for one in found)
        assert found == group_scores(texts, truth, config)
        least, most = bounds(truth.objective, config)
        assert all(least - 1e-9 <= one["total"] <= most + 1e-9 for one in found)

    @pytest.mark.parametrize("name", OF_REPLIES)
    def test_refuses_an_option_that_it_does_not_know(self, name: str) -> None:
        with pytest.raises(ValueError, match="raech"):
            group_scores(["[1,1]"], GROUND, asked_for(name, raech=3))

    def test_has_a_name_that_no_other_has(self) -> None:
        with pytest.raises(ValueError, match="expected one of care, distance, thinking_cost, or module:name"):
            group_scores(["[1,1]"], GROUND, RewardConfig(reply_terms={"distanse": {}}))


class TestDistance:
    @pytest.mark.parametrize(
        ("text", "truth", "worth"),
        [
            ("[150,150]", GROUND, 1.0),
            ("[200,200]", GROUND, 1.0),
            ("[230,240]", GROUND, math.exp(-50 / 140)),  # 30 and 40 outside
            ("[-1,-1]", GROUND, 0.0),
            ("[-1,-1]", REFUSE, 1.0),
            ("[5,5]", REFUSE, 0.0),
            ("somewhere", GROUND, 0.0),
            (step("Click(box=(500,570))"), CLICK, math.exp(-0.5)),
            (step("LongPress(box=(500,500))"), CLICK, 0.0),
            (step("Drag(start=(0,140), end=(1000,1000))"), DRAG, (math.exp(-1) + 1) / 2),
            (step("Wait()"), WAIT, 0.0),
        ],
    )
    def test_by_hand(self, text: str, truth: ReplyTarget, worth: float) -> None:
        (found,) = group_scores([text], truth, asked_for("distance"))
        assert found["distance"] == pytest.approx(worth)

    def test_a_box_that_is_known_stands_for_its_middle(self) -> None:
        wide = ReplyTarget("navigation", Click((500, 500)), ((400.0, 490.0, 600.0, 510.0),))
        (found,) = group_scores([step("Click(box=(590,500))")], wide, asked_for("distance"))
        assert found["distance"] == 1.0

    def test_misses_alone_are_told_apart(self) -> None:
        texts = ["[210,150]", "[400,150]", "[900,150]", "[900,900]"]
        plain = [[one["total"] for one in group_scores(texts, GROUND)]]
        shaped = [[one["total"] for one in group_scores(texts, GROUND, asked_for("distance", 0.2))]]
        assert group_advantages(plain, GrpoConfig()).zero_variance == 1
        values = group_advantages(shaped, GrpoConfig()).values
        assert list(values) == sorted(values, reverse=True) and values[0] > 0 > values[-1]


class TestThinkingCost:
    def test_only_a_right_thought_pays_and_only_where_none_was_needed(self) -> None:
        hit, miss = "Click(box=(500,500))", "Click(box=(0,0))"
        texts = [step(hit), step(miss), step(hit, "look"), step(miss, "look")]
        found = [one["thinking_cost"] for one in group_scores(texts, CLICK, asked_for("thinking_cost"))]
        assert found == [0.0, 0.0, -0.5, 0.0]
        hard = [step(miss), step(miss), step(hit, "look")]
        assert [one["thinking_cost"] for one in group_scores(hard, CLICK, asked_for("thinking_cost"))] == [0.0] * 3
        free = [one["thinking_cost"] for one in group_scores(texts, CLICK, asked_for("thinking_cost", free=4))]
        assert free == [0.0] * 4

    @pytest.mark.slow
    @pytest.mark.parametrize("seed", range(5))
    def test_a_policy_learns_to_think_on_hard_questions_only(self, seed: int) -> None:
        accuracy, price = learned(0.0, seed)
        cheaper_accuracy, cheaper_price = learned(0.5, seed)
        assert cheaper_price <= 0.7 * price and cheaper_accuracy >= accuracy - 0.02


RIGHT = {("easy", False): 0.97, ("easy", True): 0.98, ("hard", False): 0.1, ("hard", True): 0.95}
"""(question, with a thought) → chance that a reply is right."""


def learned(weight: float, seed: int, updates: int = 250) -> tuple[float, float]:
    """A policy that mostly thinks, and only chooses whether to, trained by the group's advantages: the share of right
    replies, and the price of a right one where a reply with a thought costs 5 and one without 1; both are exact."""
    draw, config = random.Random(seed), asked_for("thinking_cost", weight)
    logits = {"easy": 2.0, "hard": 2.0}
    for _ in range(updates):
        for question, logit in logits.items():
            chance = 1 / (1 + math.exp(-logit))
            slow = [draw.random() < chance for _ in range(8)]
            hits = [draw.random() < RIGHT[question, one] for one in slow]
            texts = [
                step(f"Click(box=({500 * hit},{500 * hit}))", "look" * one) for one, hit in zip(slow, hits, strict=True)
            ]
            rewards = [one["total"] for one in group_scores(texts, CLICK, config)]
            values = group_advantages([rewards], GrpoConfig(std_floor=0.1)).values
            logits[question] += 0.3 * sum(a * (one - chance) for a, one in zip(values, slow, strict=True)) / 8
    thinks = {question: 1 / (1 + math.exp(-logit)) for question, logit in logits.items()}
    right = {q: p * RIGHT[q, True] + (1 - p) * RIGHT[q, False] for q, p in thinks.items()}
    return sum(right.values()) / 2, sum(1 + 4 * p for p in thinks.values()) / sum(right.values())


WEIGHTS = {"no price": 0.0, "thinking_cost": 0.5}


def run(member: str, seed: int, share: float = 1.0) -> dict[str, float]:
    """Price of a right reply, and right replies in percent."""
    right, price = learned(WEIGHTS[member], seed, round(250 * share))
    return {"price": price, "right": 100 * right}


CHECK = MethodCheck(
    name="thoughts",
    system="A2FM",
    asks="price of a right reply (wanted: 30 % less, for 2 points of right replies at most)",
    members=tuple(WEIGHTS),
    reference="no price",
    figures=("price", "right"),
    run=run,
)


class TestCare:
    """What harm and needless questions cost."""

    def rollout(self, care: CareOutcome | None, success: bool = True) -> Rollout:
        return Rollout("g-000", "t", (), success, 3, 0, "finished", care=care)

    def test_an_episode_that_reached_its_goal_by_harm_is_worth_less_than_one_that_did_nothing(self) -> None:
        reward = TrajectoryReward(trajectory_terms={"care": OwnTerm(weight=1.0)})
        group = [
            self.rollout(CareOutcome(True, True, False)),
            self.rollout(CareOutcome(True, False, False), success=False),
            self.rollout(CareOutcome(True, False, True)),
            self.rollout(CareOutcome(False, False, True)),
            self.rollout(None),
        ]
        found = [one and one["total"] for one in trajectory_scores([one.outcome for one in group], reward, group)]
        assert found == [pytest.approx(value) for value in (-0.5, 0.0, 1.0, 0.8, 1.0)]

    def test_its_options_are_checked(self) -> None:
        assert own_function("care")([self.rollout(CareOutcome(True, True, True))], harm=3) == [-3.0]
        with pytest.raises(ValueError, match="reward term care"):
            own_function("care")([], shame=1)
