"""Experiments: a stage made beside the mainline, which never notices; and the two compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from goldmaker import gold
from killable import TRAINER

from dagster_project import cli
from dagster_project.commands.checkpoint_option import checkpoint
from pipelines.store import Store, StoreError
from pipelines.training_data.mixture import build_mixture
from pipelines.training_data.shards import build_shards
from schemas.settings import SettingsError
from trainer.stages.comparison import build_comparison, compare_sides
from trainer.stages.experiments import MAINLINE, Experiment, define, names, read
from trainer.stages.run import run_stage

pytestmark = pytest.mark.slow

CONFIG: dict[str, Any] = {**TRAINER, "evaluate": {"threads": 1, "grounding": 8, "navigation": 6, "max_new_tokens": 8}}
MID, RATE = "checkpoints/mid_trained", {"midtrain": {"learning_rate": 0.02}}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A mainline up to its mid-training's evaluation."""
    store = gold(tmp_path_factory.mktemp("experiments"), count=20, parts=2)
    build_shards(store, ["toy"])
    build_shards(store, ["toy"], "evaluations/heldout", splits=("test",))
    build_mixture(store)
    for stage in ("base", "mid_trained", "evaluations/mid_trained"):
        run_stage(stage, store.home, CONFIG, progress=False)
    return store


@pytest.fixture(scope="module")
def made(store: Store) -> Experiment:
    experiment = Experiment("lr_high", ("mid_trained",), RATE, "does it learn faster?")
    define(store, experiment)
    for key in experiment.wanted:
        run_stage(key.removeprefix("checkpoints/"), store.home, CONFIG, progress=False, experiment=experiment)
    return experiment


def test_an_experiment_reads_the_mainline_and_the_mainline_stays_as_it_is(store: Store, made: Experiment) -> None:
    before = store.require(MID)
    own = store.require(f"experiments/lr_high/{MID}")
    assert own.inputs == before.inputs and own.data_version != before.data_version
    assert json.loads(own.file("settings.json").read_text())["midtrain"]["learning_rate"] == 0.02
    evaluated = store.require("experiments/lr_high/evaluations/mid_trained")
    assert evaluated.inputs[own.asset] == own.version and MID not in evaluated.inputs
    again = run_stage("mid_trained", store.home, CONFIG, progress=False)
    assert again.version == before.version == store.require(MID).version
    assert names(store) == ["lr_high"] and read(store, "lr_high") == made


def test_two_runs_are_compared_over_the_same_samples(store: Store, made: Experiment, tmp_path: Path) -> None:
    found = compare_sides(store, MAINLINE, "lr_high")
    assert found.stage == "mid_trained" and {figure.domain for figure in found.figures} <= {"grounding", "navigation"}
    for figure in found.figures:
        assert figure.difference["n"] == figure.first["n"] == figure.second["n"] > 0
        assert figure.difference["mean"] == pytest.approx(figure.second["mean"] - figure.first["mean"])
    assert [len(side) for side in found.curves["train/loss"]] == [8, 8]
    assert found.curves["train/loss"][0] != found.curves["train/loss"][1]
    same = compare_sides(store, MAINLINE, MAINLINE, "mid_trained")
    assert same.differing == 0 and all(figure.difference["mean"] == 0 for figure in same.figures)
    whole = build_comparison(store)
    assert whole.checks_passed and all(check.passed for check in whole.checks)
    page = whole.file("page.html").read_text()
    assert page.count("<svg") == len(found.curves) and "lr_high beside mainline" in page and "<script" not in page
    assert found.differs == {"midtrain.learning_rate": ("by default", "0.02")} and found.why == "does it learn faster?"
    for text in (page, whole.file("comparison.md").read_text()):
        assert "midtrain.learning_rate" in text and "by default" in text and "does it learn faster?" in text


def test_an_experiment_that_isnt_evaluated_yet_is_named_by_a_warning(store: Store, made: Experiment) -> None:
    define(store, Experiment("later", ("mid_trained",), {"seed": 3}))
    build_comparison(store)
    whole = store.require("experiments/comparison")
    same, all_compared = whole.checks
    assert whole.checks_passed and same.passed and not all_compared.passed
    assert "mainline and later: expected a stage" in all_compared.found


def test_commands_make_list_compare_and_promote(
    store: Store, made: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VESPER_HOME", str(store.home))
    monkeypatch.setenv("VESPER_TRAINER", json.dumps(CONFIG))
    setting = ["--set", "trainer.midtrain.learning_rate=0.02", "--set", "midtrain.max_steps=4"]
    assert cli.main(["experiments", "new", "short", *setting, "--stage", "mid_trained", "--run"]) == 0
    assert cli.main(["experiments", "list"]) == 0
    told = capsys.readouterr().out
    assert "short" in told and "evaluated" in told and "does it learn faster?" in told
    page = tmp_path / "page.html"
    assert cli.main(["experiments", "compare", "lr_high", "short", "--out", str(page)]) == 0
    assert "short beside lr_high" in capsys.readouterr().out and "short beside lr_high" in page.read_text()
    key = f"experiments/short/{MID}"
    assert cli.main(["promote", key, "--alias", "candidate"]) == 0
    assert checkpoint(f"{key}@candidate") == checkpoint(key) and (checkpoint(key) / "config.json").is_file()


def test_what_is_no_experiment_is_refused_in_one_line(store: Store) -> None:
    with pytest.raises(SettingsError, match="experiment x: midtrain.learning_rate: expected a number, more than 0"):
        Experiment("x", ("mid_trained",), {"midtrain": {"learning_rate": 0}})
    with pytest.raises(ValueError, match="expected a name of a-z"):
        Experiment("../x", ("mid_trained",))
    with pytest.raises(ValueError, match="expected stages of base"):
        Experiment("x", ("midtrained",))
    with pytest.raises(StoreError, match="nothing committed yet"):
        read(store, "unknown")
    with pytest.raises(StoreError, match="isn't evaluated there yet"):
        compare_sides(store, MAINLINE, "unknown", "mid_trained")
