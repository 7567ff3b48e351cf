"""OpenLineage events while versions are committed, by the official client and the transport that it is told to use.

The client reads its own settings: $OPENLINEAGE_URL (with $OPENLINEAGE_API_KEY), $OPENLINEAGE_CONFIG, or variables
`OPENLINEAGE__TRANSPORT__*` (http, file, kafka, …). Where none is set, nothing is loaded and nothing is sent.

    $VESPER_HOME/tracking/openlineage/<time>-<run id>.json   an event that waits
    $VESPER_HOME/tracking/openlineage/<…>.refused            one that the catalogue won't have
    $VESPER_HOME/tracking/openlineage/unreachable            when the catalogue last didn't answer

A commit writes its event into that folder and goes on; a thread sends what waits there. So a catalogue that is slow or
away holds nobody up, and what it missed goes out, by whichever process commits next, once it is back.
"""

from __future__ import annotations

import atexit
import functools
import json
import logging
import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dagster_project.lineage.manifests import Manifests
from dagster_project.lineage.openlineage import PRODUCER, Event, run_events
from pipelines import extras
from pipelines.store import Store
from pipelines.store.manifest import Manifest
from pipelines.store.store import on_commit
from pipelines.whole_files import put_json

if TYPE_CHECKING:
    from openlineage.client.event_v2 import RunEvent

logger = logging.getLogger(__name__)
PAUSE_S = 60.0
"""After a catalogue didn't answer, nobody asks it for so long."""
EXIT_S = 3.0
"""A process that ends waits so long for what it just committed to be sent."""
_VARIABLES = ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG")


def configured(environment: Mapping[str, str] | None = None) -> bool:
    """Whether somebody told the client where events go."""
    found = os.environ if environment is None else environment
    return any(found.get(name) for name in _VARIABLES) or any(
        name.startswith("OPENLINEAGE__TRANSPORT") for name in found
    )


def follow() -> None:
    """Send an event for each version that this process commits from now on, if the client is told where to."""
    # Once a process, however often definitions are loaded.
    if not configured() or _keep in on_commit:
        return
    try:
        extras.require("openlineage")
    except extras.MissingExtra as error:
        logger.warning("OpenLineage: no events are sent: %s", error)
        return
    on_commit.append(_keep)


def _keep(manifest: Manifest) -> None:
    """Put a version's event into the folder, and have it sent."""
    try:
        # Versions know their folder; the store is what lies above its `assets`.
        home = next(parent.parent for parent in manifest.folder.parents if parent.name == "assets")
        [event] = run_events(Manifests(Store(home)), [manifest])
        folder = home / "tracking" / "openlineage"
        # In the order of commits: inputs come before what was made of them.
        put_json(folder / f"{time.time_ns():020}-{event['run']['runId']}.json", event)
        queue_of(folder).send()
    except Exception as error:  # whatever goes wrong here: lineage is told beside the work, not instead of it
        logger.warning("OpenLineage: %s %s wasn't kept: %s", manifest.asset, manifest.version, error)


class EventQueue:
    """Sends what waits in a folder, in a thread of its own, one event after the other."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._unreachable = folder / "unreachable"
        self._asked = self._done = 0
        self._changed = threading.Condition()
        threading.Thread(target=self._run, name="openlineage", daemon=True).start()
        atexit.register(self._leave)

    def send(self) -> None:
        """Have the thread look into the folder. Returns at once."""
        with self._changed:
            self._asked += 1
            self._changed.notify_all()

    def wait(self, timeout_s: float) -> bool:
        """Wait until all that was there was sent, or wasn't taken; False if that took too long."""
        with self._changed:
            return self._changed.wait_for(lambda: self._done >= self._asked, timeout_s)

    def _leave(self) -> None:
        # The next process would wait as long at its end, for the client tries a dead catalogue for nine seconds.
        if not self.wait(EXIT_S):
            self._unreachable.touch()

    def _run(self) -> None:
        while True:
            with self._changed:
                # What a catalogue missed is tried again while this process lives.
                self._changed.wait_for(lambda: self._asked > self._done, PAUSE_S)
                asked = self._asked
            try:
                self._send_all()
            except Exception as error:  # a folder that can't be read any more: the next commit tries again
                logger.warning("OpenLineage: %s", error)
            with self._changed:
                self._done = asked
                self._changed.notify_all()

    def _send_all(self) -> None:
        waiting = sorted(self._folder.glob("*.json"))
        # Another process may have found it out a moment ago: then this one doesn't wait for it, too.
        if not waiting or (self._unreachable.exists() and time.time() - self._unreachable.stat().st_mtime < PAUSE_S):
            return
        from openlineage.client import OpenLineageClient  # of an extra, and only where it is asked for

        client = OpenLineageClient()
        for place, path in enumerate(waiting):
            try:
                event = run_event(json.loads(path.read_text(encoding="utf-8")))
            except FileNotFoundError:  # sent by another process
                continue
            try:
                client.emit(event)
            except Exception as error:  # whatever the transport raises
                if _is_refused(error):
                    logger.warning("OpenLineage: the catalogue refused %s: %s", path.name, error)
                    path.replace(path.with_suffix(".refused"))
                    continue
                self._unreachable.touch()
                left = len(waiting) - place
                logger.warning("OpenLineage: events that wait in %s: %d: %s", self._folder, left, error)
                return
            path.unlink(missing_ok=True)
        self._unreachable.unlink(missing_ok=True)


def _is_refused(error: Exception) -> bool:
    """Whether the catalogue read the event and won't have it, so that sending it again is of no use."""
    status = getattr(getattr(error, "response", None), "status_code", 0)
    # Logins, timeouts and "too many requests" may be mended.
    return 400 <= status < 500 and status not in (401, 403, 404, 408, 429)


@functools.cache
def queue_of(folder: Path) -> EventQueue:
    """The one that sends what waits in a folder, in this process."""
    return EventQueue(folder)


def run_event(event: Event) -> RunEvent:
    """One of our events as the client's."""
    from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState

    run, job = event["run"], event["job"]
    return RunEvent(
        eventTime=event["eventTime"],
        eventType=RunState[event["eventType"]],
        producer=PRODUCER,
        run=Run(runId=run["runId"], facets=_facets(run["facets"])),
        job=Job(namespace=job["namespace"], name=job["name"], facets=_facets(job["facets"])),
        inputs=[
            InputDataset(
                one["namespace"],
                one["name"],
                facets=_facets(one["facets"]),
                inputFacets=_facets(one.get("inputFacets", {})),
            )
            for one in event["inputs"]
        ],
        outputs=[
            OutputDataset(
                one["namespace"], one["name"], facets=_facets(one["facets"]), outputFacets=_facets(one["outputFacets"])
            )
            for one in event["outputs"]
        ],
    )


def _facets(said: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Facets as the client's classes; our own (`vesper_manifest`) becomes one with the fields that it has."""
    import attr
    from openlineage.client.generated import (
        data_quality_assertions_dataset,
        dataset_version_dataset,
        job_type_job,
        output_statistics_output_dataset,
        processing_engine_run,
        tags_dataset,
    )
    from openlineage.client.generated.base import RunFacet

    classes: dict[str, Any] = {
        "jobType": job_type_job.JobTypeJobFacet,
        "processing_engine": processing_engine_run.ProcessingEngineRunFacet,
        "version": dataset_version_dataset.DatasetVersionDatasetFacet,
        "outputStatistics": output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet,
    }
    found = {}
    for name, value in said.items():
        fields = {word: one for word, one in value.items() if not word.startswith("_")}
        if name == "tags":
            tags = [tags_dataset.TagsDatasetFacetFields(**tag) for tag in fields["tags"]]
            facet: Any = tags_dataset.TagsDatasetFacet(tags=tags)
        elif name == "dataQualityAssertions":
            # The client's class may know fewer fields than we say.
            known = {field.name for field in attr.fields(data_quality_assertions_dataset.Assertion)}
            checks = [{word: one for word, one in check.items() if word in known} for check in fields["assertions"]]
            facet = data_quality_assertions_dataset.DataQualityAssertionsDatasetFacet(
                assertions=[data_quality_assertions_dataset.Assertion(**check) for check in checks]
            )
        elif name in classes:
            facet = classes[name](**fields)
        else:
            # A facet of our own is no class of the client's, and is made as the attrs class that it wants.
            kind: Any = attr.make_class("VesperManifestRunFacet", list(fields), bases=(RunFacet,), kw_only=True)
            facet = kind(**fields)
        found[name] = facet
    return found
