"""A round of the generation loop as Dagster runs it: a partition of real executions, promoted, then collected."""

from __future__ import annotations

import json
from pathlib import Path

import dagster as dg
import pytest

from dagster_project import definitions, deployment, instance
from dagster_project.cli import main
from generators.browser import BrowserMissing, find_chromium
from generators.generation.feedback import promoted
from pipelines.store import Store

SETTINGS = "generation: {ground: fsm, targets: 1, tasks: 2, error_rate: 0.0, rounds: 2}\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    try:
        find_chromium()
    except BrowserMissing as error:
        pytest.skip(str(error))
    (tmp_path / "deployment.yaml").write_text(SETTINGS)
    monkeypatch.setenv("VESPER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("VESPER_DEPLOYMENT", str(tmp_path / "deployment.yaml"))
    monkeypatch.setenv("DAGSTER_HOME", "")
    instance.prepare(tmp_path / "home")
    return tmp_path / "home"


def test_a_round_runs_as_a_partition_and_feeds_the_next(home: Path) -> None:
    loaded = definitions.build(deployment.load())
    next_round = next(sensor for sensor in loaded.sensors or [] if sensor.name == "next_round")
    resources = loaded.resources or {}
    with dg.DagsterInstance.get() as history:

        def asked() -> list[str | None]:
            with dg.build_sensor_context(instance=history, resources={"store": resources["store"]}) as context:
                found = next_round(context)
            return (
                [request.partition_key for request in found.run_requests] if isinstance(found, dg.SensorResult) else []
            )

        assert asked() == ["round_001"]
        history.add_dynamic_partitions("round", ["round_001"])
        job = loaded.resolve_job_def("generate_round")
        assert job.execute_in_process(instance=history, partition_key="round_001").success
        store = Store(home)
        verified = store.require("generation/verified/round_001")
        assert asked() == ["round_001"] and promoted(store)["rounds"] == {}
        assert loaded.resolve_job_def("promote_verified").execute_in_process(instance=history).success
        assert promoted(store)["rounds"] == {"round_001": verified.version} and asked() == ["round_002"]
        assert loaded.resolve_job_def("collect_rounds").execute_in_process(instance=history).success
        event = history.get_latest_materialization_event(dg.AssetKey(["generation", "verified"]))
        assert event is not None and event.asset_materialization is not None
        shown = event.asset_materialization
        assert shown.partition == "round_001" and shown.metadata["yield"].value == verified.counts["yield"]
        observed = history.get_latest_data_version_record(dg.AssetKey(["feedback", "verified"]))
        assert observed is not None
    assert store.require("gold/generated").counts["verified"] == verified.counts["verified"] > 0
    assert store.require("task_pool/generated").counts["tasks"] == verified.counts["verified"]


def test_the_command_refuses_what_cannot_be(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for words, said in (
        (["--rounds", "0"], "expected at least 1"),
        (["--policy", "openai"], "expected --base-url"),
        (["--device", "somewhere"], "expected local, or an authority's http address"),
        (["--policy", "checkpoint"], "needs --checkpoint DIR"),
    ):
        assert main(["generate", "--out", str(tmp_path), *words]) == 2
        assert said in capsys.readouterr().err


def test_settings_that_there_are_not_are_named(tmp_path: Path) -> None:
    from dagster_project.assets.generation import loop_config

    with pytest.raises(ValueError, match="generation: unknown 'task'"):
        loop_config({"task": 3})
    path = tmp_path / "d.yaml"
    path.write_text(json.dumps({"generation": {"rounds": -1}}))
    with pytest.raises(deployment.DeploymentError, match=r"generation\.rounds: expected a whole number"):
        deployment.load(path)
