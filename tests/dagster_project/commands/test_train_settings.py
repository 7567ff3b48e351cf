"""`vesper train` trains with the settings that the graph would, and what it is given goes over them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dagster_project import cli
from dagster_project.commands import training
from pipelines.store import Store
from pipelines.store.manifest import Manifest


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store, a deployment and an environment that each say something of the trainer's settings."""
    (tmp_path / "d.yaml").write_text(
        "trainer: {midtrain: {max_steps: 5, batch_size: 4}, online: {grpo: {beta: 0.5}}, seed: 1, device: cuda}\n"
    )
    monkeypatch.setenv("VESPER_DEPLOYMENT", str(tmp_path / "d.yaml"))
    monkeypatch.setenv("VESPER_TRAINER", json.dumps({"midtrain": {"batch_size": 8}, "seed": 2}))
    (tmp_path / "home" / "assets").mkdir(parents=True)
    return Store(tmp_path / "home").home


def _given(monkeypatch: pytest.MonkeyPatch, *words: str) -> dict[str, Any]:
    """What the command trains with."""
    seen: list[dict[str, Any]] = []

    def run_stage(stage: str, home: Path, config: dict[str, Any], *more: Any, **how: Any) -> Manifest:
        seen.append(config)
        raise ValueError("seen enough")

    monkeypatch.setattr(training, "run_stage", run_stage)
    assert cli.main(["train", *words]) == 2
    return seen[0]


def test_flags_go_over_config_the_variable_and_the_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("base", "--home", str(home))
    said = {"midtrain": {"max_steps": 5, "batch_size": 8}, "online": {"grpo": {"beta": 0.5}}, "device": "cuda"}
    assert _given(monkeypatch, *words) == {**said, "seed": 2}
    config = json.dumps({"online": {"grpo": {"epsilon": 0.1}}, "seed": 3, "device": "cpu"})
    found = _given(monkeypatch, *words, "--config", config, "--seed", "4")
    assert found == {**said, "online": {"grpo": {"beta": 0.5, "epsilon": 0.1}}, "seed": 4, "device": "cpu"}


def test_a_file_is_a_config_too(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run.json").write_text('{"weights": "nano_base"}')
    found = _given(monkeypatch, "base", "--home", str(home), "--config", f"@{tmp_path}/run.json")
    assert found["weights"] == "nano_base"


def test_what_is_wrong_is_said_of_where_it_stands(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["train", "base", "--home", str(home), "--config", '{"midtrain": {"steps": 1}}']) == 2
    assert "--config: midtrain: unknown 'steps'" in capsys.readouterr().err
