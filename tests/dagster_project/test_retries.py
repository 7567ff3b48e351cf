"""What dies is taken up again, from what is whole; what fails for a reason isn't."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest
import yaml
from dagster._core.events import RunFailureReason
from dagster._core.execution.retries import auto_reexecution_should_retry_run

from dagster_project import definitions
from dagster_project.assets import factory
from dagster_project.automation import asset_jobs
from dagster_project.settings import dagster_home, deployment
from dagster_project.stages import graph
from dagster_project.stages.stage import GraphStage
from pipelines.store import Check, PartSpec, Store

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}

# --- a run whose process was killed -----------------------------------------------------------------------------------
TINY = """
import os, signal
from pathlib import Path
import dagster as dg

HERE = Path(__file__).parent

@dg.op
def dear():
    (HERE / "dear").write_text((HERE / "dear").read_text() + "x" if (HERE / "dear").exists() else "x")

@dg.op(ins={"after": dg.In(dg.Nothing)})
def deadly():
    if not (HERE / "killed").exists():
        (HERE / "killed").write_text("")
        os.kill(os.getpid(), signal.SIGKILL)
    (HERE / "done").write_text("")

@dg.job(executor_def=dg.in_process_executor)
def tiny():
    deadly(after=dear())

if __name__ == "__main__":
    with dg.DagsterInstance.get() as found:
        dg.execute_job(dg.reconstructable(tiny), instance=found)
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """$DAGSTER_HOME with the shipped settings."""
    monkeypatch.setenv("DAGSTER_HOME", "")
    return dagster_home.prepare(tmp_path)


def test_a_killed_run_is_taken_up_from_what_is_done(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tiny_job.py").write_text(TINY)
    environment = {**os.environ, "DAGSTER_HOME": str(home)}
    died = subprocess.run([sys.executable, str(tmp_path / "tiny_job.py")], env=environment, capture_output=True)
    assert died.returncode == -signal.SIGKILL
    monkeypatch.syspath_prepend(str(tmp_path))
    import tiny_job  # type: ignore[import-not-found]

    with dg.DagsterInstance.get() as found:
        [run] = found.get_runs()
        assert run.status == dg.DagsterRunStatus.STARTED
        found.report_run_failed(run, "its worker is gone")  # as run monitoring does
        failed = found.get_run_by_id(run.run_id)
        assert failed is not None and auto_reexecution_should_retry_run(found, failed, RunFailureReason.UNKNOWN)
        assert not auto_reexecution_should_retry_run(found, failed, RunFailureReason.STEP_FAILURE)
        again = dg.execute_job(
            dg.reconstructable(tiny_job.tiny),
            found,
            reexecution_options=dg.ReexecutionOptions.from_failure(run.run_id, found),
        )
        assert again.success
    assert (tmp_path / "dear").read_text() == "x", "what was done isn't done twice"
    assert (tmp_path / "done").exists()


def test_jobs_say_how_often(tmp_path: Path) -> None:
    said = yaml.safe_load(dagster_home.TEMPLATE.read_text())
    assert said["run_retries"] == {"enabled": True, "max_retries": 3, "retry_on_asset_or_op_failure": False}
    assert said["freshness"] == {"enabled": True}
    jobs = asset_jobs.jobs(graph.stages(deployment.Deployment(raw_root=tmp_path)))
    assert {name: job.tags.get("dagster/max_retries") for name, job in jobs.items()} == {
        **dict.fromkeys(jobs),
        "observe_upstream": "0",
        "train": "5",
        "train_others": "5",
    }


def test_what_the_tail_starts_is_retried_and_queued_as_train_is(tmp_path: Path) -> None:
    """Its runs are of Dagster's own job for assets, which has no tags."""
    loaded = definitions.build(deployment.Deployment(raw_root=tmp_path))
    sensor = loaded.resolve_sensor_def("training_tail")
    assert isinstance(sensor, dg.AutomationConditionSensorDefinition)
    wanted = {"dagster/max_retries": "5", asset_jobs.ONE_AT_A_TIME: "train"}
    assert sensor.run_tags == wanted and wanted.items() <= loaded.resolve_job_def("train").tags.items()


# --- a stage's own process that was killed ----------------------------------------------------------------------------
DIES = """#!{python}
import os, signal, sys
from pathlib import Path
from dagster_pipes import open_dagster_pipes

seen = Path({seen!r})
times = len(seen.read_text()) if seen.exists() else 0
seen.write_text("x" * (times + 1))
if times < {deaths}:
    {death}
with open_dagster_pipes() as pipes:
    pipes.report_custom_message({{"version": {version!r}}})
"""


@pytest.mark.parametrize(
    ("deaths", "death", "tried", "made"),
    [
        (2, "os.kill(os.getpid(), signal.SIGKILL)", 3, True),
        (9, "os.kill(os.getpid(), signal.SIGKILL)", 3, False),
        (9, "sys.exit(1)", 1, False),
    ],
)
def test_a_killed_stage_is_started_again(
    deaths: int, death: str, tried: int, made: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(factory, "WAIT_S", 0)
    monkeypatch.setenv("VESPER_HOME", str(tmp_path))
    store, spec = Store(tmp_path), PartSpec("a", "b")
    with store.build("checkpoints/base", code_version="1", parts=[spec]) as build:
        build.run_part(spec, lambda out: out.bytes("a.txt", b"x"))
        manifest = build.commit(checks=[Check("there", True, "1", "1")])
    seen, script = tmp_path / "seen", tmp_path / "python"
    script.write_text(
        DIES.format(python=sys.executable, seen=str(seen), deaths=deaths, death=death, version=manifest.version)
    )
    script.chmod(0o755)
    monkeypatch.setattr(factory.sys, "executable", str(script))
    stage = GraphStage("checkpoints/base", (), "train", lambda work: manifest, "a toy", ("file",), "1", external=True)
    result = dg.materialize(
        factory.build({stage.key: stage}),
        instance=dg.DagsterInstance.ephemeral(),
        raise_on_error=False,
        resources={"store": definitions.StoreResource(home=str(tmp_path)), "judge": definitions.JudgeResource()},
        run_config=QUIET,
    )
    assert result.success == made and len(seen.read_text()) == tried
    if "sys.exit" in death:
        [failure] = [event for event in result.all_events if event.is_step_failure]
        said = failure.step_failure_data.user_failure_data.description
        assert said.endswith("failed with code 1 and told no reason; its last words are in the step's stderr")
