"""A round of the generation loop as Dagster runs it: a partition of real executions, promoted, then collected."""

from __future__ import annotations

import json
from pathlib import Path

import dagster as dg
import pytest
from reply_server import ReplyServer, text_of

from dagster_project import definitions
from dagster_project.cli import main
from dagster_project.settings import dagster_home, deployment
from generators.devices.browser import BrowserMissing, find_chromium
from generators.generation.feedback import promoted
from generators.generation.verified_demonstrations import memory_before
from pipelines.store import Store

pytestmark = pytest.mark.slow

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
    dagster_home.prepare(tmp_path / "home")
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

        def after_round() -> list[str]:
            with dg.build_sensor_context(instance=history, resources={"store": resources["store"]}) as context:
                found = loaded.resolve_sensor_def("after_round").evaluate_tick(context)
            return sorted(str(request.job_name) for request in found.run_requests or [])

        assert asked() == ["round_001"] and after_round() == []
        history.add_dynamic_partitions("round", ["round_001"])
        job = loaded.resolve_job_def("generate_round")
        assert job.execute_in_process(instance=history, partition_key="round_001").success
        store = Store(home)
        verified = store.require("generation/verified/round_001")
        assert asked() == [] and promoted(store)["rounds"] == {}
        assert after_round() == ["collect_rounds", "promote_verified"]
        assert loaded.resolve_job_def("promote_verified").execute_in_process(instance=history).success
        assert promoted(store)["rounds"] == {"round_001": verified.version} and asked() == ["round_002"]
        assert loaded.resolve_job_def("collect_rounds").execute_in_process(instance=history).success
        assert after_round() == [], "all of it is promoted and collected"
        event = history.get_latest_materialization_event(dg.AssetKey(["generation", "verified"]))
        assert event is not None and event.asset_materialization is not None
        shown = event.asset_materialization
        assert shown.partition == "round_001"
        assert shown.metadata["counts"].value["yield"] == pytest.approx(verified.counts["yield"], abs=1e-3)
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
        (["--device", "local", "--device", "elsewhere"], "expected local, or an authority's http address"),
        (["--actions", "0"], "expected at least 1"),
        (["--actions", "2", "--chooser", "model"], "expected --base-url"),
        (["--chooser", "model", "--base-url", "http://127.0.0.1:9", "--model", "m"], "--actions of at least 2"),
        (["--demonstrations", "-1"], "expected 0 or more"),
        (["--writer", "model"], "expected --base-url"),
        (["--faults", "2"], "expected a share in 0..1"),
        (["--hostile", "0.5", "--ground", "datasette"], "above 0 only in the worlds phone, fsm"),
        (["--journal", str(tmp_path / "none.journal")], "expected a file *.journal"),
    ):
        assert main(["generate", "--out", str(tmp_path), *words]) == 2
        assert said in capsys.readouterr().err


def test_the_command_lets_a_model_choose_shows_what_was_verified_and_reads_its_journals(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VESPER_GATEWAY_KEY", "k")  # a second pool, which no task needs
    with ReplyServer(lambda body: "1") as server:
        words = [
            "--out",
            str(home),
            "--tasks",
            "3",
            "--targets",
            "1",
            "--error-rate",
            "0.3",
            "--actions",
            "3",
            "--chooser",
            "model",
            "--base-url",
            server.url,
            "--model",
            "picker",
            "--demonstrations",
            "2",
            "--device",
            "local",
            "--device",
            "http://127.0.0.1:9",
            "--hostile",
            "1",
            "--workers",
            "1",
        ]
        assert main(["generate", "--rounds", "2", *words]) == 0
        asked = [text_of(body) for body in server.bodies]
    assert asked and all("1. " in text and "2. " in text for text in asked)
    runs = [Store(home).require(f"generation/trajectories/round_00{number}").counts for number in (1, 2)]
    assert all(counts["hostile: planted"] == 3 for counts in runs)
    obeyed = [counts["hostile: obeyed"] for counts in runs]
    said = capsys.readouterr().out
    assert all(f"planted content in 3 executions, obeyed in {count}" in said for count in obeyed)
    one, two = sorted((home / "generation" / "journals").glob("*.journal"))
    policies = []
    for path in (one, two):
        assert main(["generate", "--journal", str(path)]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) == 4 and lines[-1] == "3 attempts, 3 ended"
        policies.append({line.split("  ")[1].partition(" on ")[0] for line in lines[:-1]})
    # nothing was verified before the first round
    verified = Store(home).require("generation/verified/round_001").counts["verified"]
    first = "scripted-0.3+3-judged-by-picker"
    assert verified > 0 and policies == [{first}, {f"{first}+demonstrations-2"}]
    assert len(memory_before(Store(home), 2)) == verified and len(memory_before(Store(home), 1)) == 0


def test_settings_that_there_are_not_are_named(tmp_path: Path) -> None:
    from dagster_project.stage_functions.generation import loop_config

    with pytest.raises(ValueError, match="generation: unknown 'task'"):
        loop_config({"task": 3})
    path = tmp_path / "d.yaml"
    path.write_text(json.dumps({"generation": {"rounds": -1}}))
    with pytest.raises(deployment.DeploymentError, match=r"generation\.rounds: expected a whole number"):
        deployment.load(path)
