"""Samples of whole trajectories against the truth of their worlds, by the bench's own measure, which can fail."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from trajectory_truth import Answers, MeasuredRun

from bench.figures import Figure
from bench.trajectory_samples import answer_figures, error_figures, law_figure, level_figures, measured_runs
from generators.generation.judged_runs import run_verdict
from pipelines.derivers.derive import derive_samples
from pipelines.derivers.trajectories import (
    TRAJECTORY_DERIVERS,
    TrajectorySamples,
    derive_trajectories,
    judged_trajectories,
)
from pipelines.derivers.trajectory import RL_OBJECTIVES
from schemas.rows import SampleRow

pytestmark = pytest.mark.slow

Measured = tuple[dict[str, MeasuredRun], dict[str, pa.Table], TrajectorySamples]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    """Some forty runs, of which many fail, and all that derivers make of them."""
    runs, tables = measured_runs(44, tmp_path_factory.mktemp("runs"))
    made = derive_trajectories([one.run for one in runs.values()], list(TRAJECTORY_DERIVERS), licence="MIT")
    return runs, tables, made


def all_rows(made: TrajectorySamples) -> list[SampleRow]:
    return [*made.corpus.to_pylist(), *made.judges.to_pylist()]


def test_what_is_derived_is_true_in_the_worlds(measured: Measured) -> None:
    runs, tables, made = measured
    rows = all_rows(made)
    figures: list[Figure] = [
        *error_figures(runs),
        law_figure(rows, runs),
        *answer_figures(rows, runs),
        *level_figures(made.corpus, runs, tables),
    ]
    assert not made.refused and not [str(figure) for figure in figures if not figure.fine]
    counted = {figure.name: int(figure.of.partition(" [")[0].split()[-1]) for figure in figures}
    measured_kinds = {name for name, count in counted.items() if count >= 5}
    assert {f"true: {kind}" for kind in ("correction", "way_back", "verification", "subgoals")} <= measured_kinds


def test_an_answer_that_is_wrong_is_seen(measured: Measured) -> None:
    runs, _, made = measured
    other = {"yes": "no", "no": "yes"}
    for kind, wrong in (
        ("verification", lambda row: other[row["answer"]]),
        ("plan_done", lambda row: other[row["answer"]]),
        ("way_back", lambda row: "Wait()"),
        ("retry", lambda row: "Click(box=(0,0))"),
        ("next_screen", lambda row: str(int(row["answer"]) % (len(row["images"]) - 1) + 1)),
        ("opened_by", lambda row: f"{row['answer'].rpartition(' ')[0]} [0,0]"),
    ):
        chosen = [row for row in all_rows(made) if json.loads(row["provenance"])["kind"] == kind][:10]
        answers = Answers(runs)
        answers.count([{**row, "answer": wrong(row)} for row in chosen])  # type: ignore[no-untyped-call, typeddict-item]
        assert answers.whole[kind] == len(chosen) > 0 and answers.right[kind] == 0, kind


def test_each_sample_of_a_rough_run_has_one_destination_and_it_is_no_rl(measured: Measured) -> None:
    """Runs that annotators found half done: they train mid-training or judges, and gold has no step of theirs."""
    runs, tables, _ = measured
    half = json.dumps([["judge", "partial", 0.9, "half of it"]])
    rows = [
        row if row["verified"] else {**row, "votes": half, "reason": "votes"}
        for row in tables["trajectories"].to_pylist()
    ]
    verdicts = {row["trajectory_id"]: run_verdict(row, rough_from=5) for row in rows}
    rough = {name for name, verdict in verdicts.items() if verdict is not None and verdict.decision == "rough"}
    good = {row["trajectory_id"] for row in rows if row["verified"]}
    assert len(rough) > 5 and not rough & good
    known = {name: verdict for name, verdict in verdicts.items() if verdict is not None}
    judged = list(judged_trajectories(tables["steps"], tables["screens"], known))
    # what a replay says of a run is known of a rough one as well
    located = [
        replace(run, verdict=replace(runs[name].run.verdict, decision=run.verdict.decision))
        for run in judged
        for name in [run.steps[0]["episode_id"]]
    ]
    made = derive_trajectories(located, list(TRAJECTORY_DERIVERS), licence="MIT")
    gold = tables["steps"].filter(pc.is_in(tables["steps"]["episode_id"], value_set=pa.array(sorted(good))))
    own = derive_samples(gold, tables["screens"], licence="MIT")
    ids = [name for table in (own, made.corpus, made.judges) for name in table["sample_id"].to_pylist()]
    assert len(set(ids)) == len(ids) and not rough & set(gold["episode_id"].to_pylist())
    of_rough = [row for row in all_rows(made) if json.loads(row["provenance"])["episode"] in rough]
    stages = {json.loads(row["provenance"])["stage"] for row in of_rough}
    assert stages == {"mid_training", "judge_training"} and not made.refused
    assert not [row for row in of_rough if row["objective"] in RL_OBJECTIVES]
    assert {json.loads(row["provenance"])["kind"] for row in of_rough} >= {"action", "correction", "first_action"}
