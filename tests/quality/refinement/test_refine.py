"""Routing, rewriting, reconstruction and the bounded recursion."""

from __future__ import annotations

import pytest

from quality.items.item import provenance
from quality.items.part import SourcePart
from quality.judges.judge import Verdict, route
from quality.judges.rules import RulesJudge
from quality.judges.verdicts import judge_part
from quality.refinement.refine import refine_part
from quality.refinement.rewrite import ProofRewriter, replace_once
from schemas.actions import Click, Finished, Scroll, Type, Wait, parse
from schemas.tables import Samples, Screens, Steps


@pytest.mark.parametrize(
    ("alignment", "reachability", "score", "where"),
    [
        (10, 7, 7, "keep"),
        (7, 10, 7, "keep"),
        (6, 9, 6, "rewrite"),
        (9, 4, 4, "rewrite"),
        (3, 9, 3, "reconstruct"),
        (0, 0, 0, "reconstruct"),
        (None, 8, 8, "keep"),
        (5, None, 5, "rewrite"),
        (None, None, None, "review"),
    ],
)
def test_the_lower_axis_decides_where_an_item_goes(alignment, reachability, score, where):
    verdict = Verdict("step:a/b/0", alignment, reachability, "", 1.0, "j", "m", "r")
    assert (verdict.score, verdict.disposition) == (score, where) and route(score) == where


@pytest.mark.parametrize("value", [11, -1, 7.5, True, "8"])
def test_a_score_out_of_range_is_no_verdict(value):
    with pytest.raises(ValueError, match="int 0..10"):
        Verdict("step:a/b/0", value, None, "", 1.0, "j", "m", "r")


def part_of(world, *episodes, samples=()):
    rows = [step.row for episode in episodes for step in episode.steps]
    tables = Steps.table(rows), Samples.table(samples), Screens.table(world.rows.values())
    return SourcePart("p", *tables, world.bank())


def refine(world, *episodes, samples=(), rounds=3, judge=None):
    part = part_of(world, *episodes, samples=samples)
    judge = judge or RulesJudge()
    return refine_part(part, judge_part(part, judge), judge, ProofRewriter(), rounds)


def actions(refined):
    return [parse(row["action_text"]) for row in refined.steps if row["action_text"]]


def test_a_contradicted_scroll_is_flipped_with_its_points_and_scored_again(world, scrolled):
    pages = [world.screen(scrolled(k)) for k in (0, 150)]
    wrong = Scroll((500, 300), (500, 700), "up")
    refined = refine(world, world.episode((wrong, pages[0]), (Wait(), pages[1])))
    assert actions(refined) == [Scroll((500, 700), (500, 300), "down"), Wait()]
    origin = provenance(refined.steps[0])
    assert origin["parent"] == "step:made/e1/0" and origin["repairs"] == ["flip"] and origin["round"] == 1
    assert any(v.item_id == "step:made/e1/0@r1" and v.round == 1 and v.score >= 7 for v in refined.verdicts)


def test_a_slightly_shifted_click_snaps_to_the_element_named_and_a_far_one_is_discarded(world, buttons):
    page, after = world.page(buttons), world.page(buttons[:1])
    near = world.episode((Click((750, 300)), page, 'Tap "Search"'), (Wait(), after))
    assert actions(refine(world, near))[0] == Click((750, 195))
    far = world.episode((Click((750, 900)), page, 'Tap "Search"'), (Wait(), after))
    refined = refine(world, far)
    assert actions(refined) == [Wait()]
    assert refined.rejects[0].reason.startswith("discarded") and refined.rejects[0].score <= 3


def test_a_repeated_click_without_effect_is_dropped_and_leaves_a_gap_in_the_numbers(world, buttons):
    page, after, last = world.page(buttons), world.page(buttons, note="x"), world.page(buttons[:2])
    episode = world.episode(
        (Click((750, 195)), page), (Click((750, 195)), after), (Click((250, 195)), after), (Wait(), last)
    )
    refined = refine(world, episode)
    assert [row["step_index"] for row in refined.steps] == [0, 2, 3]
    assert refined.rejects[0].reason.startswith("dropped")


def test_steps_after_finished_are_cut_off(world, buttons):
    page, after = world.page(buttons), world.page(buttons, note="x")
    episode = world.episode(
        (Click((750, 195)), page), (Finished(), after), (Click((750, 195)), after), (Click((250, 195)), page)
    )
    refined = refine(world, episode)
    assert [type(action).__name__ for action in actions(refined)] == ["Click", "Finished"]
    assert len(refined.rejects) == 2


@pytest.mark.parametrize("outcome", ["failure", "success"])
def test_a_failed_trace_stays_failed_whatever_follows_its_finished(world, buttons, outcome):
    page, after = world.page(buttons), world.page(buttons, note="x")
    steps = [(Click((250, 195)), page), (Click((750, 195)), after), (Finished(), page)]
    for trailing in ([], [(Click((250, 195)), page), (Wait(), after)]):
        refined = refine(world, world.episode(*steps, *trailing, episode_outcome=outcome))
        assert len(refined.steps) == (3 if outcome == "success" else 0)


def test_the_end_that_a_cut_keeps_is_still_held_against_the_goal(world, buttons):
    page, after = world.page(buttons), world.page(buttons, note="x")
    steps = [(Click((250, 195)), page), (Finished(), after), (Click((750, 195)), after)]
    refined = refine(world, world.episode(*steps, instruction='Open "Settings" and buy "oat milk"'))
    assert actions(refined) == [Click((250, 195))], "a part of the way, and no word that it is the whole"
    assert provenance(refined.steps[0])["repairs"] == ["cut:early_finish"]


def test_the_instruction_is_rewritten_to_what_was_typed_and_shows_and_never_without_that_proof(world, buttons):
    page = world.page(buttons)
    shown = world.page([*buttons, ((20, 400, 340, 440), "Hamburg")])
    goal = 'Search for "Homburg"'
    proven = refine(world, world.episode((Type("Hamburg"), page), (Wait(), shown), instruction=goal))
    assert {row["instruction"] for row in proven.steps} == {'Search for "Hamburg"'}
    assert provenance(proven.steps[0])["repairs"] == ["rewrite:proof"]
    unproven = refine(
        world, world.episode((Type("Hamburg"), page), (Wait(), world.page(buttons, note="x")), instruction=goal)
    )
    assert unproven.steps == [] and all(reject.reason.startswith("unrepaired") for reject in unproven.rejects)


def test_boxes_are_moved_back_and_wrong_names_rewritten(world, buttons):
    page = world.page(buttons)
    rows = [
        world.grounding("Search", page, (200, 130, 340, 180), 0),  # shifted: the box is no element's
        world.grounding("Search", page, (20, 100, 160, 150), 1),  # the box is the element Settings: the words are wrong
        world.grounding("Save note", page, (20, 300, 340, 350), 2),
    ]
    refined = refine(world, samples=rows)
    by_k = {int(row["sample_id"], 16): row for row in refined.samples}
    assert by_k[0]["target_boxes"][0] == pytest.approx([200 / 0.36, 100 / 0.64, 340 / 0.36, 150 / 0.64], abs=0.1)
    assert by_k[0]["answer"] == "[750,195]" and provenance(by_k[0])["repairs"] == ["snap"]
    assert "Where is Settings?" in by_k[1]["messages"] and by_k[1]["answer"] == rows[1]["answer"]
    assert by_k[2] == {**rows[2], "target_boxes": by_k[2]["target_boxes"]}


def test_boxes_moved_together_come_back_and_a_sound_one_among_them_is_kept(world):
    # nothing but the others of its picture says where a box belongs: its expression names no element
    buttons = [((20, 60 + 100 * k, 120 + 13 * k, 100 + 100 * k), f"B{k}") for k in range(6)]
    page = world.page(buttons)
    right = [world.grounding(f"the {k + 1}th button", page, box, k) for k, (box, _) in enumerate(buttons)]
    off = [(box[0] + 30, box[1] + 20, box[2] + 30, box[3] + 20) for box, _ in buttons]
    moved = [world.grounding(f"the {k + 1}th button", page, box, k) for k, box in enumerate(off)]
    for rows, repaired in ((moved, 6), ([right[0], *moved[1:4]], 3)):
        refined = refine(world, samples=rows)
        assert refined.rejects == [] and len(refined.samples) == len(rows)
        for row, truth in zip(sorted(refined.samples, key=lambda row: row["sample_id"]), right, strict=False):
            assert row["target_boxes"][0] == pytest.approx(truth["target_boxes"][0], abs=0.1)
        assert [provenance(row).get("repairs") for row in refined.samples].count(["move"]) == repaired


class Stubborn(RulesJudge):
    """Never content: the recursion must end all the same."""

    def judge(self, items, round_number=0, habits=None):
        self.rounds = round_number
        return [
            Verdict(v.item_id, 5, 5, "no", 1.0, "stubborn", "m", "1", round_number)
            for v in super().judge(items, round_number, habits)
        ]


class Tireless(ProofRewriter):
    """Always has another wording."""

    def rewrite_episode(self, episode, verdict, findings):
        return [{**step.row, "instruction": step.row["instruction"] + "!"} for step in episode.steps]


def test_the_recursion_ends_after_max_rounds(world, buttons):
    part = part_of(world, world.episode((Click((750, 195)), world.page(buttons))))
    judge = Stubborn()
    refined = refine_part(part, judge_part(part, judge), judge, Tireless(), 3)
    assert refined.rounds == judge.rounds == 3
    assert refined.steps == [] and refined.rejects[0].row["instruction"] == "do it!!!"
    assert provenance(refined.rejects[0].row)["repairs"] == ["rewrite:proof"] * 3


def test_what_repairs_make_is_not_kept_unless_the_judge_says_so(world, scrolled):
    class Contrary(RulesJudge):
        def judge(self, items, round_number=0, habits=None):
            scores = 2 if round_number else 3
            return [
                Verdict(v.item_id, scores, scores, "no", 1.0, "c", "m", "1", round_number)
                for v in super().judge(items, round_number, habits)
            ]

    pages = [world.screen(scrolled(k)) for k in (0, 150)]
    refined = refine(world, world.episode((Scroll(direction="up"), pages[0]), (Wait(), pages[1])), judge=Contrary())
    assert refined.steps == [] and {reject.score for reject in refined.rejects} == {2}


class Grudging(RulesJudge):
    """Says what it is told of each step, and nothing good of a trace that holds a bad one."""

    def __init__(self, alignments):
        super().__init__()
        self.alignments = alignments

    def judge(self, items, round_number=0, habits=None):
        found = []
        for item in items:
            told = {step.item_id: self.alignments[step.row["step_index"]] for step in item.actions}
            reach = 9 if all(score is not None and score >= 4 for score in told.values()) else 3
            for name, score in [*told.items(), (item.item_id, None)]:
                found.append(Verdict(name, score, reach, "told", 1.0, "grudging", "m", "1", round_number))
        return found


@pytest.mark.parametrize(
    ("alignments", "gold"),
    [
        ([9, 9, 2, 9, 9], [0, 1, 3, 4]),
        ([9, 9, 0, 9, 9], [0, 1, 3, 4]),
        ([9, 2, 9, 9, 9, 2, 9, 9], [0, 2, 3, 4, 6, 7]),
        ([9, 2, 9, 2, 9], []),  # too many
        ([9, 9, 2, 5, 9], []),  # another one is doubtful
        ([9, 9, 2, None, 9], []),
        ([2, 9], []),  # what is left is no trace
    ],
)
def test_the_rest_of_a_trace_is_judged_without_its_few_bad_steps(world, buttons, alignments, gold):
    # no step can be repaired: nothing says what its click was meant for
    steps = [(Click((750, 195)), world.page(buttons, note=str(number))) for number in range(len(alignments))]
    refined = refine(world, world.episode(*steps), judge=Grudging(alignments))
    assert [row["step_index"] for row in refined.steps] == gold
    assert len(refined.steps) + len(refined.rejects) == len(alignments)
    assert all(reject.reason == "discarded: told" for reject in refined.rejects)
    if gold:
        assert {reject.score for reject in refined.rejects} == {min(alignments)}
        assert refined.rounds == 1


def test_a_replacement_needs_exactly_one_place():
    assert replace_once("find Bern", "Bern", r"\1 Basel") == r"find \1 Basel"
    assert replace_once("Bern to Bern", "Bern", "Basel") is None and replace_once("Berne", "Bern", "Basel") is None
