"""The surveyor goes where something is new, and goes on from what earlier rounds saw."""

from __future__ import annotations

import pytest

from generators.policies.exploration import Way
from generators.policies.policy import PastTurn, PolicyView
from generators.policies.surveying import Survey, SurveyingPolicy, survey_of
from generators.tasks.world_interface import ScreenElement
from schemas.action_types import Click, Finished, PressBack, Type
from tests.support.exploring import POLICIES, bigram_entropy, counts, explored, varied_figures

MENU = tuple(ScreenElement((left, 0, left + 100, 100), "link", f"{left}", "", "") for left in (0, 200, 400))
FIELD = (ScreenElement((0, 0, 100, 100), "textbox", "", "Your name", ""),)


def seen(policy: SurveyingPolicy, elements: tuple[ScreenElement, ...]) -> object:
    return policy.decide(PolicyView("look", b"", (100, 100), "web", (), elements)).action


def test_what_was_done_elsewhere_is_less_new_and_what_was_done_here_is_left() -> None:
    policy = SurveyingPolicy()
    policy.begin("look", "web", 0)
    done = [seen(policy, MENU) for _ in range(4)]
    assert set(done) == {Click((50, 50)), Click((250, 50)), Click((450, 50)), PressBack()}
    # The same menu on another screen, beside one link that was never clicked.
    fresh = ScreenElement((600, 0, 700, 100), "link", "new", "", "")
    assert seen(policy, (*MENU, fresh)) == Click((650, 50))


def test_an_episode_leaves_its_survey_and_begin_forgets_it() -> None:
    policy = SurveyingPolicy(turns=1)
    policy.begin("look", "web", 0)
    first = seen(policy, MENU)
    policy.begin("look", "web", 0)
    assert seen(policy, MENU) == first and policy.survey == Survey()
    going_on = SurveyingPolicy(survey=policy.seen)
    going_on.begin("look", "web", 0)
    assert seen(going_on, MENU) != first
    with pytest.raises(ValueError, match="at least 1 turn, found 0"):
        SurveyingPolicy(0)


def test_it_types_into_the_field_that_has_the_focus_and_ends_after_its_turns() -> None:
    policy = SurveyingPolicy(turns=2)
    policy.begin("look", "web", 0)
    clicked = PastTurn(Click((50, 50)))
    kinds = {type(policy.decide(PolicyView("look", b"", (9, 9), "web", (clicked,), FIELD)).action) for _ in range(3)}
    assert Type in kinds
    assert policy.decide(PolicyView("look", b"", (9, 9), "web", (clicked, clicked), FIELD)).action == Finished()


def test_rounds_leave_surveys_of_what_they_saw() -> None:
    [graph] = explored(1, 4, POLICIES["explorer"]).explorations.values()
    survey = survey_of(graph)
    assert len(survey.led) > 10 and set(survey.led) <= set(survey.tried)
    assert all(key in survey.options[here] or key[0] == "type" for here, key in survey.led)
    assert set(survey.led.values()) <= set(survey.options)


def test_it_finds_more_than_a_walk_by_chance() -> None:
    walked, surveyed = (counts(explored(4, 3, POLICIES[name])) for name in ("walk", "surveyor"))
    assert surveyed["screens"] > 1.3 * walked["screens"] and surveyed["ways"] > walked["ways"]


def test_entropy_is_of_pairs_of_actions_that_follow_one_another() -> None:
    # a b, b a, a b, and c d, whose screens don't meet the ones before: two pairs once, one twice.
    ways = [Way(0, "a", 1), Way(1, "b", 0), Way(0, "a", 1), Way(1, "b", 5), Way(7, "c", 8), Way(8, "d", 9)]
    assert bigram_entropy(ways) == 2 * 0.25 * 2 + 0.5 * 1
    assert bigram_entropy([Way(0, "a", 0)] * 3) == 0


def test_it_walks_in_more_ways_than_those_who_only_go_for_goals() -> None:
    goals, surveyed = (explored(3, 2, POLICIES[name]) for name in ("goal", "surveyor"))
    whole, same = varied_figures("surveyor", surveyed, goals, 1.2)
    assert whole.fine and same.value > 1
