"""The external process: it dies with its parent, takes its children along, and holds its output's lock."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest

from dagster_project.assets import factory
from dagster_project.assets.resources import JudgeResource, StoreResource
from dagster_project.automation import alerts
from dagster_project.execution.run_stage import Reporter, output_lock
from dagster_project.settings import dagster_home, deployment
from dagster_project.settings.deployment import Alerts
from dagster_project.stages import graph

ROOT = Path(__file__).parents[3]
CHILD = """
import subprocess, sys, time
from pathlib import Path
from dagster_project.execution.run_stage import output_lock, own_group
own_group()
with output_lock(Path(sys.argv[1]), "checkpoints/x"):
    grandchild = subprocess.Popen(["sleep", "60"])
    Path(sys.argv[1], "pids").write_text(f"{__import__('os').getpid()} {grandchild.pid}")
    while True:
        time.sleep(0.05)
"""
PARENT = """
import signal, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_DFL)  # Dagster's own runs leave it ignored in the process of the tests
subprocess.Popen([sys.executable, "-c", sys.argv[2], sys.argv[1]]).wait()
"""


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _started(folder: Path) -> list[int]:
    for _ in range(200):
        if (folder / "pids").exists() and (text := (folder / "pids").read_text()):
            return [int(word) for word in text.split()]
        time.sleep(0.05)
    raise AssertionError("the child didn't start")


def _gone(pids: list[int]) -> bool:
    for _ in range(100):
        if not any(_alive(pid) for pid in pids):
            return True
        time.sleep(0.05)
    return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_killing_the_run_worker_ends_the_trainer_and_its_children(tmp_path: Path, how: signal.Signals) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path), CHILD], cwd=ROOT)
    pids = _started(tmp_path)
    with (
        pytest.raises(RuntimeError, match=f"process {pids[0]} is making it already"),
        output_lock(tmp_path, "checkpoints/x"),
    ):
        pass
    parent.send_signal(how)
    parent.wait(10)
    assert _gone(pids)
    with output_lock(tmp_path, "checkpoints/x"):
        pass


def test_an_unknown_stage_fails_and_says_so(tmp_path: Path) -> None:
    """Through Pipes, as an asset does it: the process's failure is the asset's."""

    @dg.asset
    def made(context):  # type: ignore[no-untyped-def]
        command = [sys.executable, "-m", "dagster_project.execution.run_stage", "checkpoints/nope"]
        environment = {**os.environ, "VESPER_HOME": str(tmp_path)}
        return dg.PipesSubprocessClient().run(command=command, context=context, env=environment).get_results()

    result = dg.materialize([made], instance=dg.DagsterInstance.ephemeral(), raise_on_error=False)
    assert not result.success


def test_the_reason_of_a_process_reaches_the_run_and_who_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real process of a stage whose inputs were never made."""
    (tmp_path / "d.yaml").write_text("preflight: {free_gb: 0}\n")
    monkeypatch.setenv("VESPER_HOME", str(tmp_path))
    monkeypatch.setenv("VESPER_DEPLOYMENT", str(tmp_path / "d.yaml"))
    monkeypatch.delenv("VESPER_TRAINER", raising=False)
    stage = graph.stages(deployment.load())["checkpoints/linear"]
    resources = {"store": StoreResource(home=str(tmp_path)), "judge": JudgeResource()}
    with dg.DagsterInstance.ephemeral() as found:
        assets = factory.build({stage.key: replace(stage, needs=())})
        result = dg.materialize(assets, instance=found, resources=resources, raise_on_error=False)
        [failure] = [event for event in result.all_events if event.is_step_failure]
        context = dg.build_run_status_sensor_context(
            "tell_of_failures", result.get_run_failure_event(), found, result.dagster_run
        ).for_run_failure()
        [(step, told)] = alerts.failure_of(context, Alerts()).failed
    wanted = "StoreError: checkpoints/mid_trained: nothing committed yet in"
    assert failure.step_failure_data.user_failure_data.description.startswith(wanted)
    assert step == "checkpoints__linear" and told.startswith(wanted)


def test_rare_events_are_all_logged_and_steps_now_and_then() -> None:
    lines: list[str] = []
    report = Reporter(lines.append)
    report({"kind": "stage", "stage": "base"})
    for step in range(100):
        report({"kind": "step", "step": step, "loss": 0.123456})
    report({"kind": "validation", "step": 100, "loss": {"all": 1.0}})
    assert [line.partition(":")[0] for line in lines] == ["stage", "validation"]


def test_the_shipped_instance_settings_are_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_HOME", "")
    folder = dagster_home.prepare(tmp_path)
    with dg.DagsterInstance.from_config(str(folder)) as found:
        assert not found.telemetry_enabled
        assert found.get_concurrency_config().pool_config.default_pool_limit == 1
    (folder / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    dagster_home.prepare(tmp_path)
    assert (folder / "dagster.yaml").read_text() == "telemetry: {enabled: false}\n", "an edited copy is left alone"
