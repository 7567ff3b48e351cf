"""However many refreshes a night has, the corpus is built once after the last of them."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import toy_house
from dagster._core.test_utils import create_test_daemon_workspace_context, freeze_time, instance_for_test
from dagster._core.workspace.load_target import ModuleTarget
from dagster._daemon.sensor import execute_sensor_iteration
from dagster._time import get_current_datetime

from dagster_project.automation.corpus_after_refresh import PATIENCE_S, decide
from dagster_project.settings.dagster_home import WHOLE_CORPUS

pytestmark = pytest.mark.slow

Status = dg.DagsterRunStatus
DONE, BROKEN = ["gold", "one"], ["gold", "two"]
CORE = "dagster._core"
IN_THIS_PROCESS = {
    "run_launcher": {"module": f"{CORE}.launcher.sync_in_memory_run_launcher", "class": "SyncInMemoryRunLauncher"},
    "run_coordinator": {"module": f"{CORE}.run_coordinator", "class": "DefaultRunCoordinator"},
}


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    """A history on disk (SQLite), as `make dev` has it."""
    with instance_for_test(IN_THIS_PROCESS) as made:
        yield made


@pytest.fixture
def defs() -> dg.Definitions:
    return toy_house.defs()


def _run(instance: dg.DagsterInstance, defs: dg.Definitions, job: str, *keys: list[str]) -> str:
    """A run that is really made."""
    chosen = [dg.AssetKey(key) for key in keys] or None
    made = defs.resolve_job_def(job).execute_in_process(instance=instance, asset_selection=chosen, raise_on_error=False)
    return made.run_id


def _open(instance: dg.DagsterInstance, defs: dg.Definitions, job: str, status: Status = Status.NOT_STARTED) -> str:
    """A run that waits, or is on its way."""
    return instance.create_run_for_job(defs.resolve_job_def(job), status=status).run_id


def _asked(instance: dg.DagsterInstance, later_s: float = 0.0) -> str | None:
    """The key of the run that would be asked for; None for none."""
    said = decide(instance, "refresh_sources", "build_corpus", time.time() + later_s)
    return said.run_key if isinstance(said, dg.RunRequest) else None


def test_refreshes_of_one_night_ask_for_one_corpus_after_the_last(instance: Any, defs: dg.Definitions) -> None:
    assert _asked(instance) is None, "nothing was refreshed"
    _run(instance, defs, "refresh_sources", DONE)
    waiting = _open(instance, defs, "refresh_sources")
    assert _asked(instance) is None, "another refresh is queued"
    instance.report_run_canceled(instance.get_run_by_id(waiting))
    last = _run(instance, defs, "refresh_sources", BROKEN)
    assert instance.get_run_by_id(last).status == Status.FAILURE, "however it ended"
    assert _asked(instance) == f"corpus-after-{last}"
    queued = _open(instance, defs, "build_corpus")
    _run(instance, defs, "refresh_sources", DONE)
    assert _asked(instance) is None, "the queued one will see it"
    instance.delete_run(queued)
    _run(instance, defs, "build_corpus")
    assert _asked(instance) is None, "it has seen them all"


def test_a_refresh_that_ends_while_the_corpus_is_built_asks_for_another(instance: Any, defs: dg.Definitions) -> None:
    _run(instance, defs, "refresh_sources", DONE)
    _run(instance, defs, "build_corpus")
    last = _run(instance, defs, "refresh_sources", DONE)  # ended after that had begun
    assert _asked(instance) == f"corpus-after-{last}"


def test_a_refresh_that_died_and_is_taken_up_again_is_waited_for(instance: Any, defs: dg.Definitions) -> None:
    died = _run(instance, defs, "refresh_sources", BROKEN)
    instance.add_run_tags(died, {"dagster/will_retry": "true"})
    assert _asked(instance) is None, "the same night would build the corpus twice"
    again = _run(instance, defs, "refresh_sources", DONE)
    instance.add_run_tags(died, {"dagster/auto_retry_run_id": again})
    assert _asked(instance) == f"corpus-after-{again}"


def test_one_that_was_canceled_in_the_queue_or_a_part_of_the_corpus_changes_nothing(
    instance: Any, defs: dg.Definitions
) -> None:
    instance.report_run_canceled(instance.get_run_by_id(_open(instance, defs, "refresh_sources")))
    assert _asked(instance) is None
    last = _run(instance, defs, "refresh_sources", DONE)
    part = _run(instance, defs, "build_corpus", ["mid_training", "shards"])  # as somebody would from the UI
    assert _asked(instance) == f"corpus-after-{last}"
    instance.add_run_tags(part, {WHOLE_CORPUS: ""})
    assert _asked(instance) is None, "a demo says that these were all"


def test_a_refresh_that_hangs_keeps_the_corpus_from_nobody(instance: Any, defs: dg.Definitions) -> None:
    ended = _run(instance, defs, "refresh_sources", DONE)
    _open(instance, defs, "refresh_sources", Status.STARTED)
    assert _asked(instance, PATIENCE_S - 60) is None
    assert _asked(instance, PATIENCE_S + 60) == f"corpus-after-{ended}"


def test_dagsters_daemon_starts_one_run_for_three_refreshes(
    instance: Any, defs: dg.Definitions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sensor as the daemon evaluates it, ticks and run keys included."""
    support = Path(toy_house.__file__).parent
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(support.parents[1]), str(support)]))  # of the code location
    target = ModuleTarget("toy_house", attribute=None, working_directory=None, location_name="toy")
    began = get_current_datetime()
    with create_test_daemon_workspace_context(target, instance) as workspace:

        def tick(minute: int) -> int:
            with freeze_time(began + timedelta(minutes=minute)):  # a sensor is evaluated every 30 s at most
                said = list(execute_sensor_iteration(workspace, logging.getLogger("daemon"), None, None))
            assert not any(said), said  # errors
            assert instance.all_instigator_state(), "the daemon didn't see the sensor"
            return int(instance.get_runs_count(dg.RunsFilter(job_name="build_corpus")))

        assert tick(0) == 0
        for keys in (DONE, BROKEN, DONE):
            _run(instance, defs, "refresh_sources", keys)
        assert [tick(1), tick(2)] == [1, 1]
        [run] = instance.get_runs(dg.RunsFilter(job_name="build_corpus"))
        assert run.status == Status.SUCCESS and run.tags["vesper/refreshes"] == "3"
        with freeze_time(began + timedelta(minutes=2.5)):  # the corpus run began in the future of this machine's clock
            _run(instance, defs, "refresh_sources", DONE)
        assert [tick(3), tick(4)] == [2, 2]
