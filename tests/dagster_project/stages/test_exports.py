"""`exports` of the deployment: no asset unless it is named, one a form with its filters, after the shards' scan."""

from __future__ import annotations

from pathlib import Path

import pytest
from corpusmaker import commit
from goldmaker import gold

from dagster_project.settings.deployment import Deployment, DeploymentError, load
from dagster_project.stages import exports, graph
from dagster_project.stages.stage import StageWork
from pipelines.store import StoreError
from pipelines.training_data.shards import build_shards
from schemas.settings import SettingsError

SAID = {"exports": ["trl", {"form": "ms-swift", "objective": ["vqa"], "score": None}]}


def test_the_graph_has_those_that_are_named() -> None:
    assert not [key for key in graph.stages(Deployment()) if key.startswith("exports/")]
    found = graph.stages(Deployment.parsed(SAID))
    assert [key for key in found if key.startswith("exports/")] == ["exports/trl", "exports/ms_swift"]
    assert found["exports/trl"].deps == ("mid_training/shards", "hygiene/shard_scan")


def test_a_file_says_them_like_other_settings(tmp_path: Path) -> None:
    (tmp_path / "deployment.yaml").write_text(
        "exports: [trl, {form: webdataset, licence: ['Apache-*'], mixture: true}]\n"
    )
    [plain, filtered] = load(tmp_path / "deployment.yaml").exports
    assert plain.form == "trl" and filtered.licence == ("Apache-*",)
    [_, stage] = exports.stages(load(tmp_path / "deployment.yaml"))
    assert "mid_training/mixture" in stage.deps


def test_mistakes_are_named() -> None:
    with pytest.raises(DeploymentError, match="exports: unknown form 'tlr'; did you mean trl?"):
        list(exports.stages(Deployment.parsed({"exports": ["tlr"]})))
    with pytest.raises(SettingsError, match=r"exports.0.objective.0: expected perception"):
        Deployment.parsed({"exports": [{"form": "trl", "objective": ["x"]}]})


def test_a_stage_makes_its_asset_of_scanned_shards_only(tmp_path: Path) -> None:
    store = gold(tmp_path, count=4)
    build_shards(store, ["toy"])
    deployment = Deployment.parsed(SAID)
    [_, stage] = exports.stages(deployment)
    made = stage.run(StageWork(store, deployment))
    assert made.asset == "exports/ms_swift" and made.checks_passed
    card = (made.directory / "README.md").read_text()
    assert "| objective | vqa" in card and "grounding" not in card.partition("| of |")[2]
    denying = Deployment.parsed({**SAID, "licences": {"deny": ["CC0*"]}})
    with pytest.raises(ValueError, match="source toy: licence 'CC0-1.0' is denied by the deployment's policy"):
        stage.run(StageWork(store, denying))
    assert store.require("exports/ms_swift").version == made.version
    commit(store, "fingerprints/screenspot", {})
    with pytest.raises(StoreError, match="hygiene/shard_scan has not passed it"):
        stage.run(StageWork(store, deployment))
