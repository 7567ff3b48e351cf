"""Voting: medians, ties, quorum, weights, and what enters an ensemble's identity."""

from __future__ import annotations

from statistics import median_low

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quality.judges.asking import item_ids
from quality.judges.ensemble import EnsembleJudge, VotingRule, calibrated_weights, weighted_median
from quality.judges.judge import Verdict, identity
from quality.judges.registry import JudgeConfig, build_judge
from quality.judges.rules import RulesJudge
from quality.model_client.errors import ModelError
from quality.model_client.questions import VerdictCost
from schemas.actions import Click, Wait
from tests.support.scripted_judge import ScriptedJudge

SCORES = st.lists(st.integers(0, 10), min_size=1, max_size=7)


class Member:
    """A judge that says what it is told: item kind → (alignment, reachability), or "pending"."""

    model = "none"

    def __init__(self, name, says, cost=None, risk=None):
        self.name, self.rubric_version = name, f"{name}-1"
        self.says, self.cost, self.risk = says, cost, risk

    def judge(self, items, round_number=0, habits=None):
        verdicts = []
        for item_id in item_ids(items):
            said = self.says[item_id.partition(":")[0]]
            waits = said == "pending"
            alignment, reach = (None, None) if waits else said
            common = (item_id, alignment, reach, f"{self.name} says so", 0.5, self.name, "none", self.rubric_version)
            verdicts.append(Verdict(*common, round_number, cost=self.cost, pending=waits, risk=self.risk))
        return verdicts


def member(name, alignment, reach, **more):
    return Member(name, {"episode": (None, reach), "step": (alignment, reach), "sample": (alignment, None)}, **more)


@pytest.fixture
def episode(world, buttons):
    page, after = world.page(buttons), world.page(buttons, note="x")
    return world.episode((Click((750, 195)), page, "Tap Search"), (Wait(), after))


def test_the_median_wins_and_the_reason_names_the_split(episode):
    members = [member("a", 9, 8), member("b", 3, 8), member("c", 8, 9)]
    whole, step, _ = EnsembleJudge(members).judge([episode])
    assert (whole.alignment, whole.reachability) == (None, 8) and (step.alignment, step.reachability) == (8, 8)
    assert "alignment 8 of a 9, b 3, c 8" in step.reason and "b says so" in step.reason
    assert whole.confidence == pytest.approx(0.9) and step.confidence == pytest.approx(0.4)


def test_a_tie_goes_to_the_lower_score(episode):
    whole, step, _ = EnsembleJudge([member("a", 9, 9), member("b", 6, 7)]).judge([episode])
    assert (step.alignment, whole.reachability) == (6, 7)


@pytest.mark.parametrize(("known", "judged"), [(0, False), (1, False), (2, True), (3, True), (4, True)])
def test_fewer_than_half_is_no_quorum(episode, known, judged):
    members = [member(f"m{k}", 8 if k < known else None, 8 if k < known else None) for k in range(4)]
    judge = EnsembleJudge(members)
    verdicts = judge.judge([episode])
    assert all((v.score == 8) is judged for v in verdicts)
    assert all((v.disposition == "review") is not judged for v in verdicts)
    assert judge.report["no_quorum"] == (0 if judged else 3)


def test_a_step_that_nobody_judged_isn_t_kept_for_its_episode_s_sake(episode):
    blind = [Member(name, {"episode": (None, 9), "step": (None, None)}) for name in "ab"]
    whole, step, _ = EnsembleJudge(blind).judge([episode])
    assert whole.score == 9 and step.score is None
    bad = [Member(name, {"episode": (None, 2), "step": (None, 2)}) for name in "ab"]
    assert EnsembleJudge(bad).judge([episode])[1].score == 2


def test_all_steps_inherit_one_view_of_their_episode(episode):
    sees = Member("a", {"episode": (None, 9), "step": (8, 9)})
    half = Member("b", {"episode": (None, 7), "step": (None, None)})
    whole, *steps = EnsembleJudge([sees, half]).judge([episode])
    assert {v.reachability for v in (whole, *steps)} == {7} and {v.alignment for v in steps} == {8}


def test_weights_decide_and_a_member_without_weight_only_speaks(episode):
    members = [member("a", 9, 9), member("b", 3, 3), member("c", 2, 2)]
    assert EnsembleJudge(members, VotingRule(weights=(5, 1, 1))).judge([episode])[1].score == 9
    silent = EnsembleJudge(members, VotingRule(weights=(0, 1, 1))).judge([episode])[1]
    assert silent.score == 2 and "a 9" in silent.reason


@given(SCORES)
def test_equal_weights_give_the_lower_median(scores):
    assert weighted_median(scores, [1.0] * len(scores)) == median_low(scores)


@given(SCORES, st.data())
def test_a_weighted_median_doesn_t_depend_on_the_order_and_moves_with_its_votes(scores, data):
    weights = data.draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.5]), min_size=len(scores), max_size=len(scores)))
    if not any(weights):
        return
    found = weighted_median(scores, weights)
    pairs = data.draw(st.permutations(list(zip(scores, weights, strict=True))))
    assert weighted_median([s for s, _ in pairs], [w for _, w in pairs]) == found
    assert weighted_median([min(s + 1, 10) for s in scores], weights) >= found
    assert found in [s for s, w in zip(scores, weights, strict=True) if w > 0]


def test_pending_is_pending_unless_the_member_has_no_vote(episode):
    waiting = Member("w", dict.fromkeys(("episode", "step"), "pending"))
    judge = EnsembleJudge([member("a", 8, 8), waiting])
    assert all(v.pending and v.score is None for v in judge.judge([episode]))
    voteless = EnsembleJudge([member("a", 8, 8), waiting], VotingRule(weights=(1, 0))).judge([episode])
    assert [v.score for v in voteless] == [8, 8, 8]


def test_a_pending_episode_leaves_no_step_decided(episode):
    late = Member("w", {"episode": "pending", "step": (8, None)})
    assert all(v.pending for v in EnsembleJudge([late]).judge([episode]))


def test_costs_add_up_and_risk_is_finer_than_the_score(episode):
    dear = member("a", 8, 8, cost=VerdictCost(100, 10, 1.0))
    sure = member("b", 8, 8, cost=VerdictCost(50, 5, 0.5, True), risk=0.05)
    verdict = EnsembleJudge([dear, sure, member("c", 8, 8)]).judge([episode])[1]
    assert verdict.cost == VerdictCost(150, 15, 1.5, False)
    assert verdict.risk == pytest.approx((0.2 + 0.05 + 0.2) / 3)
    assert EnsembleJudge([member("a", None, None)]).judge([episode])[1].risk is None


def test_a_member_that_answers_about_other_items_is_an_error(episode):
    class Lost(Member):
        def judge(self, items, round_number=0, habits=None):
            return super().judge(items, round_number)[::-1]

    with pytest.raises(ModelError, match="member lost answered about other items"):
        EnsembleJudge([Lost("lost", {"episode": (None, 8), "step": (8, 8)})]).judge([episode])


def test_identity_changes_with_members_weights_and_quorum():
    a, b = member("a", 8, 8), member("b", 8, 8)
    made = [
        EnsembleJudge([a]),
        EnsembleJudge([a, b]),
        EnsembleJudge([b, a]),
        EnsembleJudge([a, a]),
        EnsembleJudge([a, b], VotingRule(quorum=1.0)),
        EnsembleJudge([a, b], VotingRule(weights=(2, 1))),
    ]
    assert len({tuple(identity(judge).values()) for judge in made}) == len(made)
    assert EnsembleJudge([a, a]).model == "a+a#2"


def test_calibrated_weights_are_log_odds_and_chance_has_none():
    right, chance, worse, perfect = calibrated_weights([0.8, 1 / 3, 0.1, 1.0])
    assert right == pytest.approx(2.0794, abs=1e-3) and chance == pytest.approx(0) and worse == 0
    assert right < perfect < 6


@pytest.mark.parametrize("bad", [{"quorum": 0}, {"quorum": 2}, {"weights": (0, 0)}, {"weights": (1, -1)}])
def test_a_rule_that_can_t_work_is_refused(bad):
    with pytest.raises(ValueError, match="ensemble: (quorum|weights)"):
        VotingRule(**bad)


def test_weights_must_match_the_members():
    with pytest.raises(ValueError, match="expected 1 weights, found 2"):
        EnsembleJudge([RulesJudge()], VotingRule(weights=(1, 1)))


def test_rules_and_two_models_vote_over_http(episode, tmp_path):
    def script(question):
        return {question.kind: 3 if question.model == "strict" else 9}

    with ScriptedJudge(script) as server:
        config = JudgeConfig(
            "ensemble", server.url, "kind", second_model="strict", members=("rules", "openai", "second"), cache=tmp_path
        )
        judge = build_judge(config)
        verdicts = judge.judge([episode])
        rules = RulesJudge().judge([episode])
        assert [v.score for v in verdicts] == [median_low([9, 3, r.score]) for r in rules]
        assert judge.requests_sent == len(server.bodies) == 6 and verdicts[0].cost.prompt_tokens == 200
        again = build_judge(config)
        assert [v.as_row() for v in again.judge([episode])] == [v.as_row() for v in verdicts]
        assert len(server.bodies) == 6 and again.requests_sent == 0
