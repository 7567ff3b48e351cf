"""OpenLineage events while versions are committed, by the official client and the transport that it is told to use.

The client reads its own settings: $OPENLINEAGE_URL (with $OPENLINEAGE_API_KEY), $OPENLINEAGE_CONFIG, or variables
`OPENLINEAGE__TRANSPORT__*` (http, file, kafka, …). Where none is set, nothing is loaded and nothing is sent. A
catalogue that doesn't answer costs a warning and never a build.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dagster_project.lineage.manifests import Manifests
from dagster_project.lineage.openlineage import PRODUCER, Event, run_events
from pipelines.store import Store
from pipelines.store.manifest import Manifest
from pipelines.store.store import on_commit

if TYPE_CHECKING:
    from openlineage.client import OpenLineageClient
    from openlineage.client.event_v2 import RunEvent

logger = logging.getLogger(__name__)
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
    if configured() and _send not in on_commit:
        on_commit.append(_send)


def _send(manifest: Manifest) -> None:
    try:
        emit(manifest)
    except Exception as error:  # whatever the transport raises: lineage is told beside the work, not instead of it
        logger.warning("OpenLineage: %s %s wasn't sent: %s", manifest.asset, manifest.version, error)


def emit(manifest: Manifest, client: OpenLineageClient | None = None) -> None:
    """Send the event of one version. Raises what the transport raises, and `ImportError` without the client."""
    from openlineage.client import OpenLineageClient  # of an extra, and only where it is asked for

    # Versions know their folder; the store is what lies above its `assets`.
    home = next(parent.parent for parent in manifest.folder.parents if parent.name == "assets")
    [event] = run_events(Manifests(Store(home)), [manifest])
    (client or OpenLineageClient()).emit(run_event(event))


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
