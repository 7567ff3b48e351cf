"""Trackers of others: they hear what TensorBoard hears, in files, and a missing one is told before anything trains."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from trainer.runtime import report_to
from trainer.runtime.report_to import reporting, require

EVENTS: list[dict[str, Any]] = [
    {"kind": "step", "step": 0, "loss": 2.0},
    {"kind": "step", "step": 1, "loss": 1.5, "learning_rate": 0.1},
    {"kind": "saved", "step": 1},
]


def follow(name: str, home: Path, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    heard: list[dict[str, Any]] = []
    with reporting([name], home, "checkpoints/mid_trained", "0123456789abcdef", {"seed": 3}, heard.append) as event:
        for one in events:
            event(one)
    return heard


def test_mlflow_keeps_the_run_in_files_and_a_resumed_one_goes_on(tmp_path: Path) -> None:
    tracking = pytest.importorskip("mlflow.tracking", reason="mlflow-skinny isn't installed")
    assert follow("mlflow", tmp_path, EVENTS) == EVENTS, "every event is passed on"
    follow("mlflow", tmp_path, [{"kind": "step", "step": 2, "loss": 1.0}])
    client = tracking.MlflowClient(tracking_uri=(tmp_path / "tracking/mlruns").as_uri())
    experiment = client.get_experiment_by_name("vesper")
    [run] = client.search_runs([experiment.experiment_id])
    assert run.info.status == "FINISHED" and run.data.params == {"seed": "3"}
    losses = client.get_metric_history(run.info.run_id, "train/loss")
    assert [(one.step, one.value) for one in losses] == [(0, 2.0), (1, 1.5), (2, 1.0)]


def test_wandb_keeps_the_run_in_files(tmp_path: Path) -> None:
    pytest.importorskip("wandb", reason="wandb isn't installed: pip install wandb")
    assert follow("wandb", tmp_path, EVENTS) == EVENTS
    assert list((tmp_path / "tracking/wandb").glob("offline-run-*/run-0123456789abcdef.wandb"))


def test_a_run_that_failed_says_so(tmp_path: Path) -> None:
    tracking = pytest.importorskip("mlflow.tracking", reason="mlflow-skinny isn't installed")
    run_of = reporting(["mlflow"], tmp_path, "checkpoints/base", "f" * 16, {}, lambda event: None)
    with pytest.raises(RuntimeError, match="out of memory"), run_of:
        raise RuntimeError("out of memory")
    client = tracking.MlflowClient(tracking_uri=(tmp_path / "tracking/mlruns").as_uri())
    [run] = client.search_runs([client.get_experiment_by_name("vesper").experiment_id])
    assert run.info.status == "FAILED"


def test_a_tracker_that_isn_t_here_is_told_with_the_line_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match="report_to: mlflow isn't installed here; pip install mlflow-skinny"):
        require(["tensorboard", "mlflow"])
    require(["tensorboard"])
    assert set(report_to.OPENERS) == set(report_to.PACKAGES)
