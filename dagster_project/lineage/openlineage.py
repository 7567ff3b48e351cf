"""Committed manifests as OpenLineage run events (https://openlineage.io/spec/2-0-2/OpenLineage.json), one a version.

Wall time isn't part of a manifest, so an event's time is when its file was written. Runs are named by a UUID (version
5) of asset and version: the same manifest is the same run in every export.
"""

import uuid
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from dagster_project.lineage.manifests import Manifests
from dagster_project.lineage.origins import dataset_licence, revision_of
from pipelines.store.manifest import Manifest
from vesper import __version__

SPEC = "https://openlineage.io/spec/2-0-2/OpenLineage.json"
FACETS = "https://openlineage.io/spec/facets"
PRODUCER = "urn:vesper:lineage"
NAMESPACE = "vesper"
_RUNS = uuid.uuid5(uuid.NAMESPACE_URL, PRODUCER)
Event = dict[str, Any]


def run_events(manifests: Manifests, chosen: Iterable[Manifest]) -> Iterator[Event]:
    """One `RunEvent` a manifest, inputs first: COMPLETE, or FAIL if a blocking check failed."""
    for manifest in _ordered(chosen):
        yield _event(manifests, manifest)


def run_id(manifest: Manifest) -> str:
    """The UUID of the run that committed a version."""
    return str(uuid.uuid5(_RUNS, f"{manifest.asset}@{manifest.version}"))


def _ordered(chosen: Iterable[Manifest]) -> list[Manifest]:
    left = {(m.asset, m.version): m for m in chosen}
    ordered: list[Manifest] = []
    done: set[tuple[str, str]] = set()
    while left:
        # Inputs before what was made from them, so that a catalogue knows each dataset when it is read.
        ready = sorted(n for n, m in left.items() if all(p in done or p not in left for p in m.inputs.items()))
        for node in ready or sorted(left):  # manifests that name one another in a circle: in any order, none lost
            ordered.append(left.pop(node))
            done.add(node)
    return ordered


def _event(manifests: Manifests, manifest: Manifest) -> Event:
    path = manifest.directory / "manifest.json"
    # UTC with a Z, which is the form that the standard's examples have.
    written = (
        datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )
    inputs = [_input(manifests.find(node), *node) for node in sorted(manifest.inputs.items())]
    output = _dataset(manifest, manifest.asset, manifest.version)
    output["outputFacets"] = {"outputStatistics": _statistics(manifest)}
    return {
        "eventTime": written,
        "eventType": "COMPLETE" if manifest.checks_passed else "FAIL",
        "producer": PRODUCER,
        "schemaURL": f"{SPEC}#/$defs/RunEvent",
        "run": {"runId": run_id(manifest), "facets": _run_facets(manifest)},
        "job": {"namespace": NAMESPACE, "name": manifest.asset, "facets": {"jobType": _job_type()}},
        "inputs": inputs,
        "outputs": [output],
    }


def _facet(schema: str, **fields: object) -> Event:
    return {"_producer": PRODUCER, "_schemaURL": schema, **fields}


def _job_type() -> Event:
    return _facet(
        f"{FACETS}/2-0-4/JobTypeJobFacet.json#/$defs/JobTypeJobFacet",
        processingType="BATCH",
        integration="VESPER",
        jobType="ASSET",
    )


def _run_facets(manifest: Manifest) -> Event:
    engine = _facet(
        f"{FACETS}/1-1-1/ProcessingEngineRunFacet.json#/$defs/ProcessingEngineRunFacet",
        name="vesper",
        version=__version__,
    )
    own = _facet(
        f"{SPEC}#/$defs/RunFacet",
        asset=manifest.asset,
        version=manifest.version,
        dataVersion=manifest.data_version,
        codeVersion=manifest.code_version,
        configHash=manifest.config_hash,
        counts=manifest.counts,
        checks=[
            {"name": c.name, "passed": c.passed, "blocking": c.blocking, "found": c.found, "expected": c.expected}
            for c in manifest.checks
        ],
    )
    return {"processing_engine": engine, "vesper_manifest": own}


def _dataset(manifest: Manifest | None, asset: str, version: str) -> Event:
    """A dataset under its asset key; `version` is the facet that tells its versions apart."""
    facets = {
        "version": _facet(
            f"{FACETS}/1-0-1/DatasetVersionDatasetFacet.json#/$defs/DatasetVersionDatasetFacet", datasetVersion=version
        )
    }
    # Only raw datasets have a publisher, and so a licence and a revision.
    if manifest is not None and asset.startswith("raw/"):
        facts = {"licence": dataset_licence(asset.removeprefix("raw/")), "revision": revision_of(manifest)}
        facets["tags"] = _facet(
            f"{FACETS}/1-0-0/TagsDatasetFacet.json#/$defs/TagsDatasetFacet",
            tags=[{"key": key, "value": value, "source": "VESPER"} for key, value in sorted(facts.items())],
        )
    return {"namespace": NAMESPACE, "name": asset, "facets": facets}


def _input(manifest: Manifest | None, asset: str, version: str) -> Event:
    """A dataset as it is read, with the checks that it was committed with."""
    dataset = _dataset(manifest, asset, version)
    if manifest is not None and manifest.checks:
        asserted = [
            {
                "assertion": c.name,
                "success": c.passed,
                "expected": c.expected,
                "actual": c.found,
                "severity": "error" if c.blocking else "warn",
            }
            for c in manifest.checks
        ]
        dataset["inputFacets"] = {
            "dataQualityAssertions": _facet(
                f"{FACETS}/1-1-0/DataQualityAssertionsDatasetFacet.json#/$defs/DataQualityAssertionsDatasetFacet",
                assertions=asserted,
            )
        }
    return dataset


def _statistics(manifest: Manifest) -> Event:
    """Rows of all tables together (where there are any), bytes and number of files."""
    fields = {"size": sum(entry.bytes for entry in manifest.files), "fileCount": len(manifest.files)}
    rows = [entry.rows for entry in manifest.files if entry.rows is not None]
    if rows:
        fields["rowCount"] = sum(rows)
    return _facet(
        f"{FACETS}/1-0-2/OutputStatisticsOutputDatasetFacet.json#/$defs/OutputStatisticsOutputDatasetFacet", **fields
    )
