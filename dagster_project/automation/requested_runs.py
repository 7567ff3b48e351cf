"""What a sensor has asked for, kept in its cursor: so that nothing is asked for twice, and nothing is swallowed.

Dagster never starts a second run for a run key, whatever became of the first. A key that is only a digest of a state
would swallow that state when it comes again (A, then B, then A), and a run that failed for good; so each key ends with
a number that grows with each request and is stored beside what was requested.

The number moves with the cursor and never without it, so one event has one key. Dagster keeps a tick's requests
together with its cursor before it starts the first run: a daemon that dies before that looks again with the old cursor
and comes to the same key; one that dies later takes up the same requests, and passes over runs that are there already.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import dagster as dg
from dagster import DagsterRunStatus as Status

TRIES = 3
"""How often the same event is requested, if nothing came of it: then somebody has to look."""
AGAIN_S = 3600.0
"""How long it is waited before the same event is requested again."""
OPEN = (Status.QUEUED, Status.STARTING, Status.STARTED, Status.CANCELING)


@dataclass(frozen=True)
class LastRequest:
    """The last request for a run of a job: for what `event`, at what time (seconds since 1970), how many times; and how
    many requests there were in all."""

    event: str = ""
    at: float = 0.0
    tries: int = 0
    count: int = 0

    def key(self, job: str) -> str:
        """The request's run key."""
        return f"{job}-{self.event}-{self.count}"


def read_cursor(cursor: str | None) -> dict[str, Any]:
    """A sensor's cursor as plain data; empty for none, or for one that another version of the sensor wrote."""
    try:
        found = json.loads(cursor or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def read_request(kept: Mapping[str, object], job: str) -> LastRequest:
    """What was asked of a job by a cursor's plain data; nothing if that doesn't say."""
    found = kept.get(job)
    # Another version of the sensor may have written something else here.
    return LastRequest(**found) if isinstance(found, dict) else LastRequest()


def ask(
    instance: dg.DagsterInstance, job: str, event: str, kept: Mapping[str, object], now: float
) -> tuple[dict[str, Any], dg.RunRequest | None, str]:
    """(what the cursor is to keep, the request if it is time for one, else why it isn't) for an event that is to be
    settled by a run of `job`; "" for none, which also forgets the last: the same event may then come again.

    An event is asked for once; again, `TRIES` times in all, if it is still there `AGAIN_S` later. While a run of the
    job is open nothing is requested: a queued one will see what is new, and after one at work the state shows it.
    """
    before = read_request(kept, job)
    # Nothing new: the count stays, so that no run key ever comes again.
    if not event:
        return {job: asdict(LastRequest(count=before.count))}, None, f"{job}: nothing new"
    same = {job: asdict(before)}
    # An open run either hasn't read yet, or shows in the state when it ends.
    if instance.get_runs_count(dg.RunsFilter(job_name=job, statuses=list(OPEN))):
        return same, None, f"{job}: a run is queued or in progress"
    # The same event as before is a second try, which is made late and not for ever.
    again = event == before.event
    if again and before.tries >= TRIES:
        return same, None, f"{job}: asked for {TRIES} times in vain; look at its last runs, then start it by hand"
    if again and now - before.at < AGAIN_S:
        wait = time.strftime("%H:%M:%S UTC", time.gmtime(before.at + AGAIN_S))
        return same, None, f"{job}: was asked for already; if nothing comes of it, again at {wait}"
    requested = LastRequest(event, now, before.tries + 1 if again else 1, before.count + 1)
    return {job: asdict(requested)}, dg.RunRequest(run_key=requested.key(job), job_name=job), ""
