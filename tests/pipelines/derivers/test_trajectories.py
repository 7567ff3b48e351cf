"""Derivers of whole trajectories: pure, valid, and held to what may be taught, whatever they return."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipelines.derivers.base import DeriveConfig, IndexedElement, NamePool, ScreenDeriver, ScreenView
from pipelines.derivers.derive import DERIVERS, find_deriver, screen_facts
from pipelines.derivers.page import function_of
from pipelines.derivers.trajectories import TRAJECTORY_DERIVERS, derive_trajectories, find_trajectory_deriver
from pipelines.derivers.trajectory import (
    RL_OBJECTIVES,
    JudgedTrajectory,
    RunVerdict,
    TrajectoryDeriver,
    TrajectorySample,
    refusal,
    trajectory_sample,
)
from pipelines.prompts import prompt_text, reply_text
from schemas.action_types import Click
from schemas.actions import parse, parse_reply
from schemas.ids import item_episode
from schemas.tables import Samples, Screens

ACTIONS = ("Click(box=(500,150))", "Click(box=(500,450))", "Finished(content='')")


def run(verdict: RunVerdict) -> JudgedTrajectory:
    """A run over three screens; on the first one stands Cart, on the second one Pay, too."""
    names = (("Cart",), ("Cart", "Pay"), ("Thanks",))
    rows = [
        {
            "source": "generated",
            "episode_id": "run",
            "step_index": n,
            "split": "train",
            "platform": "web",
            "instruction": "Buy it",
            "screenshot_sha256": f"{n}" * 64,
            "width_px": 100,
            "height_px": 100,
            "action_text": text,
            "thought": None,
            "conclusion": None,
            "target_box": None,
        }
        for n, text in enumerate(ACTIONS)
    ]
    shown = {
        f"{n}" * 64: tuple(
            IndexedElement(k, (400, 100 + 300 * k, 600, 200 + 300 * k), "button", name, name)
            for k, name in enumerate(found)
        )
        for n, found in enumerate(names)
    }
    return JudgedTrajectory(rows, verdict, screen_facts(rows, Screens.table([]), DeriveConfig()), shown)  # type: ignore[arg-type]


SUCCESS, FAILURE = RunVerdict(10, "success", True), RunVerdict(0, "failure", True)
REPLAYED = RunVerdict(
    0, "failure", True, frozenset({1}), {1: "Click(box=(500,150))"}, {0: "PressBack()", 1: "PressBack()"}
)
ROUGH, LOCATED = RunVerdict(5, "rough"), RunVerdict(0, "failure", True, frozenset({1}), {1: "Click(box=(9,9))"})


def act(of: JudgedTrajectory, step: int, text: str, stage: str = "offline_rl") -> TrajectorySample:
    objective = "navigation" if stage == "offline_rl" else "vqa"
    answer = reply_text(parse(text), "web")
    made = trajectory_sample(of, [of.steps[step]], "state", stage, 1, "Do it.", answer, objective=objective)  # type: ignore[arg-type]
    assert made is not None
    return made


@pytest.mark.parametrize("name", TRAJECTORY_DERIVERS)
@pytest.mark.parametrize("verdict", [SUCCESS, FAILURE, ROUGH, LOCATED, REPLAYED, replace(REPLAYED, decision="rough")])
def test_a_member_is_pure_and_all_that_it_makes_is_accepted(name: str, verdict: RunVerdict) -> None:
    made = [derive_trajectories([run(verdict)], [name], licence="MIT") for _ in range(2)]
    assert made[0].corpus.equals(made[1].corpus) and made[0].judges.equals(made[1].judges)
    assert not made[0].refused
    for table in (made[0].corpus, made[0].judges):
        Samples.check(table)
        assert all(parents[0] == item_episode("generated", "run") for parents in table["parents"].to_pylist())
    for row in made[0].corpus.to_pylist():
        said, action = json.loads(row["provenance"]), parse_reply(row["answer"]).action
        wrong = verdict.decision == "failure" or 1 in (verdict.wrong or ())
        assert not (wrong and said["step"] == 1 and action == parse(ACTIONS[1])), "a wrong step is never an answer"
        assert row["objective"] not in RL_OBJECTIVES or verdict.decision != "rough"


@pytest.mark.parametrize("name", TRAJECTORY_DERIVERS)
def test_a_member_makes_something_of_what_it_is_for(name: str) -> None:
    runs = [run(REPLAYED), run(SUCCESS)]
    assert any(derive_trajectories([one], [name], licence="MIT").kinds for one in runs)


def test_an_error_gives_its_correction_the_way_back_and_a_second_try() -> None:
    made = derive_trajectories([run(REPLAYED)], ["error_recovery", "reflection"], licence="MIT")
    said = {
        (one["kind"], one["step"]): row
        for row in [*made.corpus.to_pylist(), *made.judges.to_pylist()]
        for one in [json.loads(row["provenance"])]
    }
    answers = {key: parse_reply(row["answer"]).action for key, row in said.items()}
    right, back = parse(ACTIONS[0]), parse("PressBack()")
    assert answers["correction", 1] == right == answers["retry", 1]
    assert answers["way_back", 2] == back == answers["reversal", 1] == answers["reversal", 2]
    assert "2. Click(box=(500,450))\n3. PressBack()" in prompt_text(said["retry", 1]["messages"])
    assert said["verification", 2]["answer"] == "no"
    assert prompt_text(said["verification", 2]["messages"]).endswith('Did it do this? Click the button "Cart"')
    assert ("correction", 2) not in said and ("way_back", 1) not in said, "only of what was wrong"


def test_step_data_says_what_the_screens_show() -> None:
    made = derive_trajectories([run(SUCCESS)], ["step_data"], licence="MIT")
    answers = {
        (row["images"][0][0], row["provenance"].partition('"kind":"')[2].partition('"')[0]): row["answer"]
        for row in made.corpus.to_pylist()
    }
    assert answers["0", "effect"] == '"Pay"' and answers["1", "effect"] == '"Thanks"'
    assert answers["0", "intent"] == 'Click the button "Cart"' and "Click" in answers["1", "action"]
    assert made.kinds["progress"] == 3


def said_by(deriver: str, verdict: RunVerdict) -> dict[tuple[str, int], dict[str, Any]]:
    """(kind, step) → the row of a deriver's sample of the run."""
    made = derive_trajectories([run(verdict)], [deriver], licence="MIT")
    rows = [*made.corpus.to_pylist(), *made.judges.to_pylist()]
    return {(one["kind"], one["step"]): row for row in rows for one in [json.loads(row["provenance"])]}


def test_dynamics_ask_for_the_action_and_for_the_screen() -> None:
    found = said_by("dynamics", SUCCESS)
    for step, text in enumerate(ACTIONS[:2]):
        following = found["next_screen", step]
        place = int(following["answer"])
        assert following["images"][0][0] == str(step) and following["images"][place][0] == str(step + 1)
        assert len(set(following["images"][1:])) == len(following["images"]) - 1
        first = found.get(("first_action", step))
        assert first is None or parse_reply(first["answer"]).action == parse(text)
    failed = said_by("dynamics", FAILURE)
    assert ("next_screen", 1) in failed and not [kind for kind, _ in failed if kind == "first_action"]


def test_plans_are_of_straight_successes_only() -> None:
    found = said_by("planning", SUCCESS)
    assert found["subgoals", 0]["answer"] == '1. Click the button "Cart"\n2. Click the button "Pay"'
    assert found["plan_done", 2]["answer"] == "yes"
    assert [row["answer"] for (kind, step), row in found.items() if kind == "plan_done" and step < 2] == ["no"]
    [following] = [row for (kind, _), row in found.items() if kind == "next_subgoal"]
    assert following["answer"] in found["subgoals", 0]["answer"]
    strayed = replace(SUCCESS, wrong=frozenset({0}))
    assert not said_by("planning", FAILURE) and not said_by("planning", ROUGH) and not said_by("planning", strayed)


def test_a_page_says_what_it_is_for_and_what_opened_it() -> None:
    found = said_by("page_levels", FAILURE)
    assert found["page_function", 1]["answer"] == 'Press: "Cart", "Pay"'
    assert found["opened_by", 0]["answer"] == 'button "Cart" [500,150]'
    names = [f"Item {n}" for n in range(6)]
    fields = [
        IndexedElement(n, (0, 100 * n + 50, 900, 100 * n + 90), "text field", name, name)
        for n, name in enumerate(names)
    ]
    title = IndexedElement(9, (0, 0, 900, 40), "heading", "Order", "Order")
    listed = 'Title: Order\nFill in: "Item 0", "Item 1", "Item 2", "Item 3" and 2 more'
    assert function_of([*fields, title]) == listed
    assert function_of([title]) == "" == function_of([*fields, replace(fields[0], name="long" * 20)])
    screen = ScreenView("0" * 64, 100, 100, "own", "train", "web", ("run", 0), ("step:own/run/0",), (*fields, title))
    optional = find_deriver("page_function")
    assert isinstance(optional, ScreenDeriver) and "page_function" not in DERIVERS, "it runs where it is named"
    [made] = optional.derive(screen, NamePool(), DeriveConfig())
    assert made.answer == listed and made.objective == "vqa"


def test_actions_are_taught_only_where_they_were_right() -> None:
    for verdict, step, text, taught in (
        (SUCCESS, 0, ACTIONS[0], True),
        (SUCCESS, 0, ACTIONS[1], False),  # not what was done there
        (FAILURE, 0, ACTIONS[0], False),
        (LOCATED, 0, ACTIONS[0], True),  # before the first error
        (LOCATED, 1, ACTIONS[1], False),
        (LOCATED, 1, "Click(box=(9,9))", True),  # its correction
        (LOCATED, 2, ACTIONS[2], False),
        (RunVerdict(10, "success", True, frozenset({1})), 1, ACTIONS[1], False),
        (RunVerdict(0, "failure", True, undo={0: "PressBack()"}), 1, "PressBack()", True),
        (RunVerdict(0, "failure", True, undo={0: "PressBack()"}), 0, "PressBack()", False),
    ):
        of = run(verdict)
        assert (refusal(of, act(of, step, text)) == "") == taught, (verdict, step, text)
        assert (refusal(of, act(of, step, text, "mid_training")) == "") == taught, "whatever kind and objective it has"


def test_a_rough_run_trains_mid_training_only() -> None:
    of = run(ROUGH)
    assert refusal(of, act(of, 0, ACTIONS[0])) == "a rough run's, for RL"
    assert refusal(of, act(of, 0, ACTIONS[0], "mid_training")) == ""
    made = derive_trajectories([of], ["step_data"], licence="MIT")
    assert made.kinds["action"] and "navigation" not in made.corpus["objective"].to_pylist()


def test_a_deriver_of_a_file_is_held_to_the_same(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "from pipelines.derivers.trajectory import TrajectoryDeriver, trajectory_sample\n"
        "@TrajectoryDeriver\n"
        "def own(run):\n"
        "    for row in run.steps:\n"
        "        yield trajectory_sample(run, [row], 'own', 'mid_training', 1, 'Next?', row['action_text'])\n",
        encoding="utf-8",
    )
    name = f"{tmp_path}/own.py:own"
    assert derive_trajectories([run(FAILURE)], [name], licence="MIT").refused == {
        "an action of a failure that may be wrong": 3
    }
    assert derive_trajectories([run(SUCCESS)], [name], licence="MIT").kinds == {"own": 3}
    with pytest.raises(ValueError, match="did you mean step_data"):
        find_trajectory_deriver("step_dat")


def test_pictures_that_are_missing_give_no_sample() -> None:
    of = run(SUCCESS)
    of.steps[0]["screenshot_sha256"] = None
    assert trajectory_sample(of, [of.steps[0]], "effect", "mid_training", 1, "What?", "x") is None
    assert isinstance(TRAJECTORY_DERIVERS["step_data"], TrajectoryDeriver) and isinstance(parse(ACTIONS[0]), Click)
