"""Runs whose worker is gone are found: Dagster's default launcher, with the health check that it lacks.

The default launcher starts a run as a child of the code location's server, which notices when the child dies. Nobody
notices when the server itself was killed, or its machine: the run would stay "started" for ever.

`dagster.yaml` of homes in use names this module, so it keeps its place.

The only file that knows Dagster's private modules. A launcher is public, but neither what its health check answers
with, nor the call by which a code location is asked for a run, nor the server's thread has a public name; there is no
public way to look after runs either. `pyproject.toml` holds Dagster below the next minor version, and the tests ask a
real server.
"""

import logging
import sys

from dagster import DagsterRun, DefaultRunLauncher
from dagster._core.launcher import CheckRunHealthResult, WorkerStatus

log = logging.getLogger(__name__)


class CheckedRunLauncher(DefaultRunLauncher):
    """The default launcher; the daemon's run monitoring asks the code location whether it has a run."""

    @property
    def supports_check_run_worker_health(self) -> bool:
        return True

    def check_run_worker_health(self, run: DagsterRun) -> CheckRunHealthResult:
        """FAILED if the code location answers that it doesn't know the run (it was restarted since). One that
        doesn't answer may be starting: its runs are looked at again later."""
        from dagster._core.errors import DagsterUserCodeUnreachableError
        from dagster._grpc.types import CanCancelExecutionRequest, CanCancelExecutionResult
        from dagster._serdes import deserialize_value

        client = self._get_grpc_client_for_termination(run.run_id)
        if client is None:
            # Without a client there is nothing to ask, and the run is looked at again later.
            return CheckRunHealthResult(WorkerStatus.RUNNING, "it has ended, or wasn't given to a code location yet")
        try:
            reply = client.can_cancel_execution(CanCancelExecutionRequest(run_id=run.run_id), timeout=10)
        except DagsterUserCodeUnreachableError as error:
            return CheckRunHealthResult(WorkerStatus.RUNNING, f"its code location doesn't answer: {error}")
        if deserialize_value(reply, CanCancelExecutionResult).can_cancel:
            return CheckRunHealthResult(WorkerStatus.RUNNING)
        return CheckRunHealthResult(WorkerStatus.FAILED, "its code location was started anew and doesn't have it")


def keep_watching_runs() -> None:
    """Let a code location's server go on looking after its runs when the database was away for a while.

    The thread that finds dead run workers (`DagsterApiServer._cleanup_thread`) ends at the first error, such as a
    PostgreSQL that is being started again, and then no run that dies is ever noticed. What it couldn't do is done at
    its next look. Called where the definitions are loaded, which a code location's server does.
    """
    server_module = sys.modules.get("dagster._grpc.server")
    if server_module is None:  # no server runs in this process
        return
    DagsterApiServer = server_module.DagsterApiServer
    look = DagsterApiServer._check_for_orphaned_runs
    # Once a process, as definitions may be loaded several times.
    if getattr(look, "goes_on", False):
        return

    def check(server: object) -> None:
        try:
            look(server)
        except Exception as error:
            # Whatever the database says, the thread must not end: nobody would start it again.
            log.warning("run workers couldn't be looked after, trying again: %s: %s", type(error).__name__, error)

    check.goes_on = True  # type: ignore[attr-defined]
    DagsterApiServer._check_for_orphaned_runs = check
