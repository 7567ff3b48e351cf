"""`corpus_after_refresh`: one corpus run for all refreshes that ended since the last one, once they have settled.

A night refreshes many sources, in runs of their own (`new_raw_files`) and in one (`nightly_refresh`). Each ends in
whatever state; what the corpus takes is each source's last good gold, so a run after the last of them sees all.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg
from dagster import DagsterRunStatus as Status

from dagster_project.settings.dagster_home import WHOLE_CORPUS

PATIENCE_S = 6 * 3600.0
"""How long a refresh that ended waits for others before the corpus is built without them: one that hangs, or a queue
that never empties, keeps the corpus from nobody."""
LOOKED_AT = 500
"""Newest runs of a job that are looked at."""
ENDED = (Status.SUCCESS, Status.FAILURE, Status.CANCELED)
WAITING = (Status.QUEUED, Status.NOT_STARTED)
"""A corpus run in one of these states hasn't read anything yet, so it will see what has ended by now."""


def corpus_sensor(refresh: Any, corpus: Any) -> dg.SensorDefinition:
    """Starts `corpus` when refreshes have ended, however they ended, and none is open any more."""

    @dg.sensor(
        name="corpus_after_refresh",
        job=corpus,
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Builds the corpus once for all refreshes that have ended, when none is queued or in progress.",
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        return decide(context.instance, refresh.name, corpus.name, time.time())

    return sensor


def decide(instance: dg.DagsterInstance, refresh: str, corpus: str, now: float) -> dg.RunRequest | dg.SkipReason:
    """What the runs of the two jobs ask for at the time `now` (seconds since 1970).

    Only runs that were begun count: one that was canceled in the queue has changed nothing. A refresh is settled by a
    corpus run of all assets that began after it had ended, whatever became of that. The request's key names the refresh
    that ended last, so asking twice starts one run.
    """
    # A run of single assets settles nothing: it left the rest of the corpus as it was.
    runs = _runs(instance, corpus)
    built = [run for run in runs if not run.dagster_run.asset_selection or WHOLE_CORPUS in run.dagster_run.tags]
    # It reads when it starts, and so sees all that has ended until then.
    if any(run.dagster_run.status in WAITING for run in built):
        return dg.SkipReason("a corpus run is queued already and will see what has ended")
    last = max((run.start_time for run in built if run.start_time is not None), default=0.0)
    refreshes = _runs(instance, refresh)
    ended = sorted(_ended_since(refreshes, last))
    if not ended:
        return dg.SkipReason("no refresh has ended since the corpus was built")
    # From the first that ended: a night that never becomes quiet keeps nobody waiting longer than this.
    waited_s, still_open = now - ended[0][0], sum(_is_open(run.dagster_run) for run in refreshes)
    if still_open and waited_s < PATIENCE_S:
        return dg.SkipReason(
            f"{len(ended)} refreshes have ended; {still_open} are queued, in progress or taken up again"
        )
    return dg.RunRequest(run_key=f"corpus-after-{ended[-1][1]}", tags={"vesper/refreshes": str(len(ended))})


def _runs(instance: dg.DagsterInstance, job: str) -> Sequence[dg.RunRecord]:
    return instance.get_run_records(dg.RunsFilter(job_name=job), limit=LOOKED_AT)


def _ended_since(refreshes: Sequence[dg.RunRecord], last: float) -> Iterator[tuple[float, str]]:
    """(when it ended, its id) of refreshes that were begun and ended after `last`."""
    for run in refreshes:
        # A run that Dagster takes up again hasn't ended, whatever its status says.
        over = run.dagster_run.status in ENDED and not run.dagster_run.is_complete_and_waiting_to_retry
        if over and run.start_time is not None and run.end_time is not None and run.end_time > last:
            yield run.end_time, run.dagster_run.run_id


def _is_open(run: dg.DagsterRun) -> bool:
    return run.status not in ENDED or run.is_complete_and_waiting_to_retry
