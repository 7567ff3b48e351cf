"""A run that its code location doesn't have any more fails; one that can't be asked about is asked about again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from dagster import DefaultRunLauncher
from dagster._core.errors import DagsterUserCodeUnreachableError
from dagster._core.launcher import WorkerStatus
from dagster._grpc.types import CanCancelExecutionResult
from dagster._serdes import serialize_value

from dagster_project import run_launcher
from dagster_project.run_launcher import CheckedRunLauncher

RUN: Any = SimpleNamespace(run_id="one")


class CodeLocation:
    """Answers whether it has a run, or doesn't answer."""

    def __init__(self, has: bool | None) -> None:
        self.has = has

    def can_cancel_execution(self, request: Any, timeout: int) -> str:
        assert request.run_id == RUN.run_id
        if self.has is None:
            raise DagsterUserCodeUnreachableError("nobody there")
        return serialize_value(CanCancelExecutionResult(can_cancel=self.has))


@pytest.mark.parametrize(
    ("has", "status"), [(True, WorkerStatus.RUNNING), (False, WorkerStatus.FAILED), (None, WorkerStatus.RUNNING)]
)
def test_a_run_is_lost_only_if_its_code_location_says_so(
    monkeypatch: pytest.MonkeyPatch, has: bool | None, status: WorkerStatus
) -> None:
    assert hasattr(DefaultRunLauncher, "_get_grpc_client_for_termination"), "Dagster has renamed what we build on"
    launcher = CheckedRunLauncher()
    monkeypatch.setattr(launcher, "_get_grpc_client_for_termination", lambda run_id: CodeLocation(has))
    assert launcher.supports_check_run_worker_health
    assert launcher.check_run_worker_health(RUN).status == status


def test_a_run_that_nobody_was_given_yet_is_no_lost_one(monkeypatch: pytest.MonkeyPatch) -> None:
    launcher = CheckedRunLauncher()
    monkeypatch.setattr(launcher, "_get_grpc_client_for_termination", lambda run_id: None)
    assert launcher.check_run_worker_health(RUN).status == WorkerStatus.RUNNING


def test_run_workers_are_looked_after_again_when_the_database_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    from dagster._grpc.server import DagsterApiServer

    looks = []

    def look(server: Any) -> None:
        looks.append(server)
        if len(looks) == 1:
            raise ConnectionError("the database is away")

    monkeypatch.setattr(DagsterApiServer, "_check_for_orphaned_runs", look)
    run_launcher.keep_watching_runs()
    run_launcher.keep_watching_runs()  # the definitions may be loaded again
    server = SimpleNamespace()
    DagsterApiServer._check_for_orphaned_runs(server)  # type: ignore[arg-type]
    DagsterApiServer._check_for_orphaned_runs(server)  # type: ignore[arg-type]
    assert looks == [server, server]
