"""A demo: what it trains with, and one after another that was killed."""

from __future__ import annotations

from pathlib import Path
from queue import Queue
from typing import Any

import dagster as dg
import pytest

from dagster_project.assets import factory
from dagster_project.demo import training, whole_graph
from dagster_project.settings import dagster_home, deployment
from dagster_project.stages import graph
from trainer.modeling.checkpoint import read_preset
from trainer.presets import NANO_BASE
from trainer.stages.settings import stage_settings


def test_runs_of_a_killed_demo_are_ended_and_no_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_HOME", "")
    monkeypatch.delenv("VESPER_POSTGRES_URL", raising=False)
    dagster_home.prepare(tmp_path)
    with dg.DagsterInstance.get() as history:
        runs = [
            history.create_run_for_job(_job(), status=dg.DagsterRunStatus.STARTED, tags=tags)
            for tags in ({whole_graph.MARK: ""}, {})
        ]
    whole_graph.end_killed()
    with dg.DagsterInstance.get() as history:
        told = [found.status for run in runs if (found := history.get_run_by_id(run.run_id))]
    assert told == [dg.DagsterRunStatus.CANCELED, dg.DagsterRunStatus.STARTED]


def test_a_demos_two_processes_wait_for_no_place_in_a_pool() -> None:
    stages = graph.stages(deployment.load())
    trained = {key: stage for key, stage in stages.items() if stage.pool == "trainer"}
    assert trained and all(asset.op.pool == "trainer" for asset in factory.build(trained))
    assert all(asset.op.pool is None for asset in factory.build(trained, here=trained))


def _job() -> dg.JobDefinition:
    @dg.op
    def work() -> None: ...

    @dg.job
    def made() -> None:
        work()

    return made


def test_a_checkpoint_is_evaluated_once_the_next_stage_begins_and_each_process_is_told_the_end() -> None:
    waiting: Queue[str | None] = Queue()
    made = whole_graph.EvaluationsAsMade(frozenset({"evaluations/base", "evaluations/mid_trained"}), waiting)
    for key, passed in (("gold/aitw", True), ("checkpoints/base", True), ("checkpoints/mid_trained", False)):
        before = waiting.qsize()
        made("start", key, {})
        made("done", key, {"passed": passed})
        assert waiting.qsize() - before == (key == "checkpoints/mid_trained"), "Dagster knows of it by then"
    made.end()
    assert [waiting.get_nowait() for _ in range(waiting.qsize())] == ["evaluations/base", None, None]


def test_whole_demos_evaluate_what_they_train() -> None:
    names = ("base", "mid_trained", "offline_grounding", "online_web", "linear", "unified")
    assert {f"evaluations/{name}" for name in names} < whole_graph._evaluations()
    assert not any("judge" in key or "heldout" in key for key in whole_graph._evaluations())


@pytest.mark.parametrize("demo", [training.WHOLE, training.FIRST_LOOK])
def test_what_a_demo_trains_with_is_understood_and_what_is_said_wins(
    demo: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VESPER_TRAINER", '{"midtrain": {"max_steps": 7, "warmup_steps": 2}}')
    training.train_as(demo)
    given = deployment.load().trainer
    assert given["midtrain"]["batch_size"] == demo["midtrain"]["batch_size"]
    settings = stage_settings("mid_trained", given)
    assert settings.weights == "nano_base"  # a demo has no time to learn to see
    assert settings.midtrain.max_steps == 7


def test_the_whole_demo_reads_windows_that_its_weights_see_at_scale_1() -> None:
    reading = stage_settings("mid_trained", training.WHOLE).reading
    assert reading.mode == "windows"
    assert reading.window[0] * reading.window[1] <= read_preset(NANO_BASE).max_pixels
