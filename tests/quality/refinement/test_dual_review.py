"""Two reviewers: what becomes of a step, who corrects it, and what false ones get through."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from generators.proving.false_successes import claimed_successes
from generators.proving.imperfect_reviewers import ReviewerAtRate, planted_steps, step_key
from generators.worlds.fsm.fsm_tasks import TaskMaker
from generators.worlds.fsm.sites import make_site
from quality.commands.judge import judge_directory
from quality.judges.judge import KEEP_FROM
from quality.judges.rules import RulesJudge
from quality.judges.thoughts import ThoughtJudge
from quality.refinement.dual_review import (
    REPAIR,
    DualRuling,
    JudgeReviewer,
    RulesReviewer,
    StepRuling,
    dual_review,
    outcomes_of,
)
from schemas.actions import Click, Finished, Scroll, format
from schemas.tables import Screens, Steps

SEARCH, SETTINGS = Click((750, 195)), Click((250, 195))
YES, NO = StepRuling(True, "fine"), StepRuling(False, "wrong")
FIXED = StepRuling(False, "wrong", SEARCH)


@pytest.mark.parametrize(
    ("one", "two", "outcome"),
    [
        (YES, YES, "accepted"),
        (YES, NO, "disputed"),
        (NO, YES, "disputed"),
        (NO, NO, "refused"),
        (FIXED, FIXED, "corrected"),
        (FIXED, NO, "refused"),
        (FIXED, StepRuling(False, "wrong", SETTINGS), "refused"),
        (NO, FIXED, "refused"),
    ],
)
def test_what_becomes_of_a_step(one: StepRuling, two: StepRuling, outcome: str, world: Any, buttons: Any) -> None:
    step = world.episode((SETTINGS, world.page(buttons))).steps[0]
    ruling = DualRuling(step, one, two)
    assert ruling.outcome == outcome
    assert (ruling.candidate is None) == (outcome in ("refused", "disputed"))
    if outcome == "corrected":
        assert ruling.candidate is not None and ruling.candidate["action_text"] == format(SEARCH)
        plain = json.loads(ruling.candidate["provenance"])
        assert plain["repairs"] == [REPAIR] and plain["parent"] == step.item_id


def test_the_rules_correct_what_they_can_prove_and_a_judge_agrees(world: Any, buttons: Any, scrolled: Any) -> None:
    pages = [world.page(buttons, note=str(n)) for n in range(2)]
    off = world.episode((SETTINGS, pages[0]), (Finished(), pages[1]), thought="I tap Search now.")
    ways = world.episode((Scroll(direction="up"), world.screen(scrolled(0))), (Finished(), world.screen(scrolled(200))))
    generalist = JudgeReviewer(ThoughtJudge(RulesJudge()))
    [first, *_] = dual_review([off], RulesReviewer(), generalist)
    assert first.outcome == "corrected" and first.specialist.corrected == SEARCH
    [second, *_] = dual_review([ways], RulesReviewer(), generalist)
    assert second.outcome == "corrected" and second.specialist.corrected == Scroll(direction="down")


def test_what_one_alone_sees_is_disputed(world: Any, buttons: Any) -> None:
    pages = [world.page(buttons, note=str(n)) for n in range(2)]
    contradicted = world.episode((SETTINGS, pages[0]), (Finished(), pages[1]), thought="I tap Search now.")
    # the rules judge alone doesn't read thoughts
    rulings = list(dual_review([contradicted], RulesReviewer(), JudgeReviewer(RulesJudge())))
    assert rulings[0].outcome == "disputed" and rulings[0].candidate is None
    assert rulings[0].as_dispute()["item_id"] == rulings[0].step.item_id
    assert sum(outcomes_of(rulings).values()) == 2


def test_two_that_err_by_themselves_let_few_wrong_steps_through() -> None:
    kinds = ("bank", "shop", "issues")
    tasks = [task.contract() for kind in kinds for task in islice(TaskMaker(make_site(kind, 1)).tasks(4), 4)]
    planted = list(planted_steps(list(claimed_successes(tasks, ("sound",), 0)), 0))
    truth = {step_key(one.step): one.right for one in planted}
    accepted = corrected = right = wrong = 0
    for seed in range(8):
        specialist = ReviewerAtRate("specialist", truth, 0.1, 0.1, 0.85, seed)
        generalist = ReviewerAtRate("generalist", truth, 0.2, 0.1, 0.0, seed)
        for one in planted:
            first = specialist.review(one.episode, one.step)
            ruling = DualRuling(one.step, first, generalist.review(one.episode, one.step, first))
            wrong += not one.sound
            accepted += not one.sound and ruling.outcome == "accepted"
            corrected += ruling.outcome == "corrected"
            right += ruling.outcome == "corrected" and first.corrected == one.right
    assert wrong >= 200 and accepted <= 0.05 * wrong
    assert corrected >= 100 and right >= 0.8 * corrected


def test_the_command_writes_candidates_and_disputes(world: Any, buttons: Any, tmp_path: Path) -> None:
    pages = [world.page(buttons, note=str(n)) for n in range(2)]
    episode = world.episode((SEARCH, pages[0], "Tap Search"), (Finished(), pages[1]))
    folder = tmp_path / "in"
    (folder / "screens").mkdir(parents=True)
    pq.write_table(Steps.table([step.row for step in episode.steps]), folder / "steps.parquet")
    pq.write_table(Screens.table(world.rows.values()), folder / "screens.parquet")
    for sha, data in world.data.items():
        (folder / "screens" / f"{sha}.png").write_bytes(data)
    report = judge_directory(folder, tmp_path / "out", dual=True)
    assert report["dual_review"] == {"accepted": 2, "corrected": 0, "refused": 0, "disputed": 0}
    assert pq.read_table(tmp_path / "out" / "candidates.parquet").num_rows == 2
    assert (tmp_path / "out" / "disputes.jsonl").read_text(encoding="utf-8") == ""
    assert all(one >= KEEP_FROM for one in pq.read_table(tmp_path / "out" / "verdicts.parquet")["score"].to_pylist())
