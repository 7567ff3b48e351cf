"""One setting of the deployment: what sources are mapped to, and what the trainer's base speaks."""

from __future__ import annotations

from pathlib import Path

import pytest

from dagster_project.settings.deployment import DeploymentError, load
from dagster_project.stages import sources
from dagster_project.stages.training import trainer_config


def said(folder: Path, text: str) -> Path:
    """A deployment of its own: one file is read once."""
    path = folder / f"deployment-{len(list(folder.iterdir()))}.yaml"
    path.write_text(text)
    return path


def test_another_space_makes_all_sources_stale_and_the_usual_one_none(tmp_path: Path) -> None:
    plain, wide = load(said(tmp_path, "")), load(said(tmp_path, "action_space: v2"))
    of_plain, of_wide = ({stage.key: stage.code_version for stage in sources.stages(one)} for one in (plain, wide))
    unified = {key for key in of_plain if key.startswith("unified/")}
    assert unified and {key for key in of_plain if of_plain[key] != of_wide[key]} == unified
    assert all(of_wide[key] == f"{of_plain[key]}.v2" for key in unified)


def test_the_trainer_speaks_what_the_corpus_holds_unless_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VESPER_DEPLOYMENT", str(said(tmp_path, "trainer: {seed: 3}")))
    assert trainer_config() == {"seed": 3}
    monkeypatch.setenv("VESPER_DEPLOYMENT", str(said(tmp_path, "action_space: v2\ntrainer: {seed: 3}")))
    assert trainer_config() == {"action_space": "v2", "seed": 3}
    assert trainer_config({"action_space": "v1.5"})["action_space"] == "v1.5"


def test_a_space_that_there_is_not_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DeploymentError, match="action_space"):
        load(said(tmp_path, "action_space: v3"))
