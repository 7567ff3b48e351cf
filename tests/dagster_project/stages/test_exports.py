"""`exports` of the deployment: no asset unless it is named; one an export, of the corpus after the shards' scan."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from corpusmaker import commit, light_source, light_tasks
from hub_folder import write_hub

from dagster_project import definitions
from dagster_project.assets import factory
from dagster_project.assets.keys import asset_key
from dagster_project.settings.deployment import Deployment, DeploymentError, load
from dagster_project.stages import exports, graph
from dagster_project.stages.stage import GraphStage, Job, StageWork
from pipelines.store import Store, StoreError
from pipelines.training_data.mixture import build_mixture
from pipelines.training_data.shards import build_shards
from schemas.settings import SettingsError

SAID: dict[str, Any] = {
    "exports": [
        "trl",
        {"form": "ms-swift", "objective": ["vqa"], "score": None},
        {"kind": "pool", "form": "trl"},
        {"kind": "checkpoint", "form": "hub", "name": "agent"},
    ]
}
NAMES = ["exports/trl", "exports/ms_swift", "exports/pool_trl", "exports/agent"]
TRAINED: dict[str, Job] = {"checkpoints/unified": "train", "evaluations/unified": "train"}


def stages(said: dict[str, Any]) -> dict[str, GraphStage]:
    return {stage.key: stage for stage in exports.stages(Deployment.parsed(said), TRAINED)}


def test_the_graph_has_those_that_are_named() -> None:
    assert not [key for key in graph.stages(Deployment()) if key.startswith("exports/")]
    found = graph.stages(Deployment.parsed(SAID))
    assert [key for key in found if key.startswith("exports/")] == NAMES
    assert found["exports/trl"].deps == ("mid_training/shards", "hygiene/shard_scan")
    assert found["exports/pool_trl"].deps == ("task_pool/shards",)
    assert found["exports/agent"].deps == ("checkpoints/unified", "evaluations/unified")
    assert found["exports/agent"].job == found["checkpoints/unified"].job == "train"


def test_a_file_says_them_like_other_settings(tmp_path: Path) -> None:
    (tmp_path / "deployment.yaml").write_text(
        "exports: [trl, {form: webdataset, licence: ['Apache-*'], mixture: true}]\n"
    )
    [plain, filtered] = load(tmp_path / "deployment.yaml").exports
    assert plain.form == "trl" and filtered.licence == ("Apache-*",)
    [_, stage] = exports.stages(load(tmp_path / "deployment.yaml"), {})
    assert "mid_training/mixture" in stage.deps


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("tlr", r"exports: form: expected one of trl, .* for a corpus, found 'tlr' \(did you mean trl\?\)"),
        ({"kind": "pool", "form": "ms-swift"}, r"for a pool, found 'ms-swift' \(it is there for a corpus\)"),
        ({"kind": "pool", "form": "trl", "score": 0}, "exports: score: expected source, licence, platform for a pool"),
        ({"kind": "checkpoint", "form": "hub", "split": ["train"]}, "split: expected no filter for a checkpoint"),
        ({"kind": "checkpoint", "form": "hub", "checkpoint": "unifed"}, "'unifed'; did you mean unified?"),
        ({"form": "hub", "name": "trl"}, "exports/trl is there twice; give one of them another `name`"),
    ],
)
def test_mistakes_are_named(said: object, error: str) -> None:
    with pytest.raises(DeploymentError, match=error):
        stages({"exports": ["trl", said] if said != "tlr" else [said]})


def test_values_of_settings_are_checked() -> None:
    with pytest.raises(SettingsError, match=r"exports.0.objective.0: expected perception"):
        Deployment.parsed({"exports": [{"form": "trl", "objective": ["x"]}]})
    with pytest.raises(SettingsError, match=r"exports.0.name: expected a-z, 0-9, _ and -, found '../x'"):
        Deployment.parsed({"exports": [{"form": "trl", "name": "../x"}]})


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Shards, a pool, and a checkpoint that `from_pretrained` loads, with its evaluation."""
    folder = tmp_path_factory.mktemp("store")
    store = Store(folder / "home")
    light_source(store, folder / "raw", "toy", 1)
    commit(store, "hygiene/duplicates", {}, {"displaced": displaced()})
    shards = build_shards(store, ["toy"])
    build_mixture(store)
    light_tasks(store, "toy")
    weights = {f"model/{path.name}": path.read_bytes() for path in write_hub(folder / "tiny", "dense").iterdir()}
    made = commit(store, "checkpoints/unified", {shards.asset: shards.version}, files=weights)
    commit(store, "evaluations/unified", {made.asset: made.version}, counts={"grounding hit": 0.625})
    return store


def displaced() -> object:
    from quality.duplicates.dedup import DISPLACED

    return DISPLACED.empty_table()


def test_a_run_makes_each_and_its_lines_load_it(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By Dagster; the lines of its page are run as they stand there."""
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setenv("VESPER_HOME", str(store.home))
    found, instance = stages(SAID), dg.DagsterInstance.ephemeral()
    resources = {"store": definitions.StoreResource(home=str(store.home)), "judge": definitions.JudgeResource()}
    assert dg.materialize(factory.build(found), instance=instance, resources=resources).success
    for key in ("exports/trl", "exports/pool_trl", "exports/agent"):
        event = instance.get_latest_materialization_event(asset_key(key))
        assert event is not None and event.asset_materialization is not None
        shown = {name: value.value for name, value in event.asset_materialization.metadata.items()}
        made = store.require(key)
        assert shown["folder"] == str(made.directory) and shown.get("dagster/row_count") == made.counts.get("rows")
        [lines] = re.findall(r"```python\n(.*?)```", shown["to copy"], re.DOTALL)
        bound: dict[str, Any] = {}
        exec(re.split(r"\n\w*Trainer\(model", lines)[0], bound)
        assert bound["model"].num_parameters() if key == "exports/agent" else len(bound["data"]) == made.counts["rows"]
    assert "| grounding hit | 0.6250 |" in (store.require("exports/agent").directory / "README.md").read_text()
    assert f"vesper serve {store.require('exports/agent').directory}\n" in shown["to copy"]
    card = (store.require("exports/ms_swift").directory / "README.md").read_text()
    assert "| objective | vqa" in card and "grounding" not in card.partition("| of |")[2]


@pytest.mark.parametrize("name", NAMES)
def test_what_the_policy_denies_is_not_exported(store: Store, name: str) -> None:
    denying = {**SAID, "licences": {"deny": ["MIT", "unknown"]}}
    before = store.current(name)
    with pytest.raises(ValueError, match="source toy: licence '(MIT|unknown)' is denied by the deployment's policy"):
        stages(denying)[name].run(StageWork(store, Deployment.parsed(denying)))
    assert store.current(name) == before


def test_shards_that_no_scan_has_passed_are_not_exported(store: Store) -> None:
    commit(store, "fingerprints/screenspot", {})
    with pytest.raises(StoreError, match="hygiene/shard_scan has not passed it"):
        stages(SAID)["exports/ms_swift"].run(StageWork(store, Deployment.parsed(SAID)))
