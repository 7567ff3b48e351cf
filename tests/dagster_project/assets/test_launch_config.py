"""The launchpad's forms: what can be set, what its default is, and what becomes of what a person sets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from goldmaker import gold
from killable import TRAINER

from dagster_project import definitions
from dagster_project.assets import factory
from dagster_project.assets.launch_config import config_of, defaults, given_to
from dagster_project.settings import deployment
from dagster_project.stages import graph
from pipelines.store import Store
from pipelines.training_data.mixture import build_mixture
from pipelines.training_data.shards import build_shards
from schemas.settings import SettingsError

MID = "checkpoints/mid_trained"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "d.yaml").write_text("preflight: {free_gb: 0}\ntrainer: {midtrain: {learning_rate: 0.01}}\n")
    monkeypatch.setenv("VESPER_DEPLOYMENT", str(tmp_path / "d.yaml"))
    monkeypatch.setenv("VESPER_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_a_stage_s_form_shows_what_the_deployment_gives_with_texts_and_ranges(home: Path) -> None:
    stages, shown = graph.stages(deployment.load()), defaults(deployment.load())
    form = config_of(stages[MID], shown)
    assert form is not None and set(form.model_fields) == {
        "device",
        "midtrain",
        "validation_share",
        "validation_episodes",
        "validation_rows",
    }
    inner = form.model_fields["midtrain"].annotation
    assert isinstance(inner, type) and issubclass(inner, dg.Config)
    rate = inner.model_fields["learning_rate"]
    assert rate.default == 0.01 and rate.annotation is float and "more than 0" in str(rate.description)
    base = config_of(stages["checkpoints/base"], shown)
    assert base is not None and [one.value for one in base.model_fields["preset"].annotation] == [  # type: ignore[union-attr]
        "nano",
        "2b",
        "8b",
        "30b-a3b",
    ]
    assert {key for key, stage in stages.items() if stage.settings} >= {
        "mid_training/mixture",
        "verdicts/aitw",
        "generation/trajectories",
        "suites/miniwob",
        "evaluations/unified",
    }


def said(**settings: Any) -> dict[str, Any]:
    return {"ops": {"checkpoints__mid_trained": {"config": settings}}}


def test_only_what_a_person_changed_goes_over_the_deployment(home: Path) -> None:
    stages, shown = graph.stages(deployment.load()), defaults(deployment.load())
    assert given_to(stages[MID], {}, shown) == {}
    scaffolded = said(midtrain={"learning_rate": 0.01, "sigma": [40, 15], "max_steps": 7}, validation_share=0.08)
    assert given_to(stages[MID], scaffolded, shown) == {"trainer": {"midtrain": {"max_steps": 7}}}
    mixed = {"ops": {"mid_training__mixture": {"config": {"mixture": {"seed": 3, "max_repeats": 4}}}}}
    assert given_to(stages["mid_training/mixture"], mixed, shown) == {"mixture": {"seed": 3}}


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"midtrain": {"learning_rate": -1}}, "midtrain.learning_rate: expected a number, more than 0, found -1"),
        ({"midtrain": {"sigma": [1]}}, "midtrain.sigma"),
        ({"validation_share": 2.0}, "validation_share: expected a number, 0 or more and at most 1, found 2.0"),
    ],
)
def test_a_wrong_value_names_op_setting_expected_and_found(home: Path, settings: dict[str, Any], reason: str) -> None:
    stages, shown = graph.stages(deployment.load()), defaults(deployment.load())
    with pytest.raises(SettingsError) as refused:
        given_to(stages[MID], said(**settings), shown)
    assert "run config: ops.checkpoints__mid_trained.config: " in str(refused.value) and reason in str(refused.value)


def materialize(store: Store, keys: list[str], run_config: dict[str, Any]) -> tuple[bool, list[str]]:
    stages = graph.stages(deployment.load())
    with dg.DagsterInstance.ephemeral() as instance:
        done = dg.materialize(
            factory.build({key: stages[key] for key in keys}),
            instance=instance,
            raise_on_error=False,
            run_config=run_config,
            resources={"store": definitions.StoreResource(home=str(store.home)), "judge": definitions.JudgeResource()},
        )
        events = [entry.dagster_event for entry in instance.all_logs(done.run_id)]
        return done.success, [str(event.event_specific_data) for event in events if event is not None]


@pytest.mark.slow
def test_a_setting_of_the_launchpad_makes_another_version_in_its_own_process_and_a_wrong_one_none(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = gold(home, count=12)
    build_shards(store, ["toy"])
    before = build_mixture(store)
    monkeypatch.setenv("VESPER_TRAINER", json.dumps({**TRAINER, "seed": 1}))
    keys = ["mid_training/mixture", "checkpoints/base"]
    config = {
        "ops": {
            "mid_training__mixture": {"config": {"mixture": {"max_repeats": 2}}},
            "checkpoints__base": {"config": {"tokenizer_texts": 0}},
        }
    }
    passed, told = materialize(store, keys, config)
    assert not passed and store.require(keys[0]).version == before.version, "nothing ran"
    assert any("tokenizer_texts: expected a whole number, 1 or more, found 0" in line for line in told)
    assert store.current("checkpoints/base") is None
    config["ops"]["checkpoints__base"] = {"config": {"seed": 5}}
    passed, told = materialize(store, keys, config)
    assert passed, told[-5:]
    mixed, base = store.require(keys[0]), store.require(keys[1])
    assert mixed.config_hash != before.config_hash
    lineage = json.loads(base.file("lineage.json").read_text())
    assert lineage["config"]["seed"] == 5 and json.loads(base.file("settings.json").read_text())["seed"] == 5
