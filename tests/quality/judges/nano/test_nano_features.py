"""Features of the nano judge: what a goal asks for and nobody did, and what changed though nobody touched it."""

from __future__ import annotations

import math

from quality.evidence.words import word_f1
from quality.judges.nano.episode import EPISODE, episode_features
from quality.judges.nano.requirements import clauses_of
from quality.judges.nano.step import STEP, step_features
from quality.judges.nano.transition import TRANSITION, transition_features
from schemas.actions import Click, Finished, Type, Wait

GOAL = 'Open Settings, type "cats" into Search and then press Save note.'
SETTINGS, SEARCH, SAVE = (250, 195), (750, 195), (500, 508)


def told(episode):
    """Features of an episode whose steps tell what theirs do, nothing by trained heads."""
    before, steps = None, []
    for place, step in enumerate(episode.actions):
        steps.append(step_features(step, episode.instruction, [], (place, len(episode.actions)), word_f1, before))
        assert set(steps[-1]) == set(STEP)
        before = before if step.row["action_type"] == "Wait" else step
    found = episode_features(episode, steps, [], word_f1)
    assert set(found) == set(EPISODE)
    return found


def fielded(world, sha):
    """The screen with its second element as a text field."""
    world.rows[sha]["elements"][1]["role"] = "textbox"
    return sha


def test_the_parts_of_a_goal_come_in_order():
    assert clauses_of(GOAL) == ["Open Settings", 'type "cats" into Search', "press Save note."]
    assert clauses_of("and then, please.") == []


def test_what_nothing_was_done_about_shows_part_by_part(world, buttons):
    page = fielded(world, world.page(buttons))
    steps = [(Click(SETTINGS), page), (Click(SEARCH), page), (Type("cats"), page), (Click(SAVE), page)]
    whole, early, gap = (
        told(world.episode(*some, (Finished(), page), instruction=GOAL))
        for some in (steps, steps[:3], [steps[0], steps[3]])
    )
    assert whole["goal_reached"] == 1.0 and whole["goal_tail"] == 0 and whole["clauses"] == 3
    assert (
        early["goal_tail"] > 0 and early["goal_reached"] < 1 and early["clause_near_last"] < whole["clause_near_last"]
    )
    assert gap["goal_reached"] == 1.0 and gap["goal_gap"] > whole["goal_gap"]
    assert gap["clause_words_min"] == 0 < whole["clause_words_min"] and gap["clauses_unmet"] == 1
    assert (whole["named_open"], early["named_open"], gap["named_open"]) == (0, 1, 1)
    assert (whole["named_last_open"], early["named_last_open"], gap["named_last_open"]) == (0, 1, 0)
    assert early["last_is_Type"] == 1 and whole["last_is_Type"] == 0


def test_a_field_that_is_chosen_and_left_is_counted(world, buttons):
    page = fielded(world, world.page(buttons))
    typed = told(world.episode((Click(SEARCH), page), (Wait(), page), (Type("a"), page), (Finished(), page)))
    left = told(world.episode((Click(SEARCH), page), (Click(SAVE), page), (Finished(), page)))
    ended = told(world.episode((Click(SAVE), page), (Click(SEARCH), page), (Finished(), page)))
    assert [one["fields_chosen"] for one in (typed, left, ended)] == [1, 1, 1]
    assert [one["fields_left"] for one in (typed, left, ended)] == [0, 1, 1]
    assert typed["typed_unchosen_max"] == 0
    assert told(world.episode((Type("a"), page), (Finished(), page)))["typed_unchosen_max"] == 1


def test_text_that_is_typed_shows_where_the_field_was_chosen(world, buttons):
    empty = world.page(buttons)
    there, elsewhere = (
        world.page([(box, "cats" if place == at else label) for place, (box, label) in enumerate(buttons)])
        for at in (1, 2)
    )
    first = world.page(buttons[:2])
    near, far, none = (
        told(world.episode((Click(SAVE), first), (Click(SEARCH), empty), (Type("cats"), empty), (Finished(), last)))
        for last in (there, elsewhere, empty)
    )
    assert near["typed_shown_min"] == far["typed_shown_min"] == 1 and none["typed_shown_min"] == 0
    assert near["typed_gap_max"] < 1 < far["typed_gap_max"] and math.isnan(none["typed_gap_max"])


def test_what_changes_elsewhere_on_a_page_that_stays_is_counted(world, buttons):
    more = [*buttons, ((20, 420, 160, 470), "Help"), ((200, 420, 340, 470), "About")]
    page = world.page(more)
    changed = [(box, "Saved!" if label == "Save note" else label) for box, label in more]
    after = world.page(changed)
    for point, count in ((SAVE, 0.0), (SETTINGS, math.log1p(1))):
        [step, _] = world.episode((Click(point), page), (Finished(), after)).steps
        found = transition_features(step, step.next)
        assert set(found) == set(TRANSITION)
        assert found["rewritten_elsewhere"] == count and found["changed_elsewhere"] == count
    [step, _] = world.episode((Click(SAVE), page), (Finished(), world.page(buttons[:1]))).steps
    assert math.isnan(transition_features(step, step.next)["changed_elsewhere"])  # another page: nothing is said
