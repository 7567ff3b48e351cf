"""One event starts one run, whenever the daemon that asks for it is killed; and another one when it comes back."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import toy_asked
from dagster._core.instance.ref import InstanceRef
from dagster._core.test_utils import create_test_daemon_workspace_context, freeze_time, instance_for_test
from dagster._core.workspace.load_target import ModuleTarget
from dagster._daemon.sensor import execute_sensor_iteration
from dagster._time import get_current_datetime

CORE = "dagster._core"
IN_THIS_PROCESS = {
    "run_launcher": {"module": f"{CORE}.launcher.sync_in_memory_run_launcher", "class": "SyncInMemoryRunLauncher"},
    "run_coordinator": {"module": f"{CORE}.run_coordinator", "class": "DefaultRunCoordinator"},
}


TOY = ModuleTarget("toy_asked", attribute=None, working_directory=None, location_name="toy")


def _look(workspace: Any, when: datetime, dies_at: str = "") -> None:
    """One look of the daemon, which gets `kill -9` at a point that Dagster names."""
    flags: Any = {"new": {dies_at: signal.SIGKILL}} if dies_at else None
    with freeze_time(when):
        daemon = logging.getLogger("daemon")
        said = list(execute_sensor_iteration(workspace, daemon, None, None, debug_crash_flags=flags))
    assert not any(said), said  # errors


def _daemon(ref: InstanceRef, when: datetime, dies_at: str) -> None:
    """A daemon's process."""
    with dg.DagsterInstance.from_ref(ref) as instance, create_test_daemon_workspace_context(TOY, instance) as workspace:
        _look(workspace, when, dies_at)


@pytest.mark.parametrize("dies_at", ["TICK_CREATED", "RUN_IDS_RESERVED", "RUN_LAUNCHED"])
def test_a_daemon_that_dies_between_request_and_cursor_starts_no_second_run(
    dies_at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    support = Path(toy_asked.__file__).parent
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(support.parents[1]), str(support)]))  # of the code location
    event = tmp_path / "event"
    monkeypatch.setenv("TOY_EVENT", str(event))
    began = get_current_datetime()
    event.write_text("y-after-x")
    with instance_for_test(IN_THIS_PROCESS) as instance:
        killed = multiprocessing.get_context("spawn").Process(target=_daemon, args=(instance.get_ref(), began, dies_at))
        killed.start()
        killed.join(120)
        assert killed.exitcode == -signal.SIGKILL
        with create_test_daemon_workspace_context(TOY, instance) as workspace:
            for minute, said, runs in ((1, "y-after-x", 1), (2, "y-after-x", 1), (3, "", 1), (4, "y-after-x", 2)):
                event.write_text(said)
                _look(workspace, began + timedelta(minutes=minute))
                made = [run.status for run in instance.get_runs()]
                assert made == [dg.DagsterRunStatus.SUCCESS] * runs, f"minute {minute}"
