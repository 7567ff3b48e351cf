"""Whether the data is safe to train on: planted triggers, personal data, credentials, licences."""

from collections.abc import Sequence
from typing import Any

from dagster_project.settings.deployment import Deployment
from dagster_project.stages.stage import GraphStage, StageWork
from pipelines.store.manifest import Manifest
from quality.safety import scan as safety


def stage(deployment: Deployment, names: Sequence[str]) -> GraphStage:
    """`hygiene/safety` over the unified tables of `names`; sources that aren't unified yet are passed over. It depends
    on gold, so that the licence report counts what was kept."""
    return GraphStage(
        key=safety.ASSET,
        deps=tuple(f"gold/{name}" for name in names),
        job="build_corpus",
        kinds=("parquet",),
        run=lambda work: _scan(work, names),
        code_version=safety.CODE_VERSION,
        table="findings",
        columns=safety.Findings,
        checks=safety.CHECKS,
        # It comes after gold without reading it, so sources without gold aren't reported as left out.
        reads_gold=False,
        owners=deployment.owners,
        description="Screens with a planted trigger (blocking), personal data and credentials in what was asked and "
        "typed, shown by their shape only, and the licence report.",
    )


def _scan(work: StageWork, names: Sequence[str]) -> Manifest:
    present = safety.require_unified(work.store, names)
    said: Any = work.deployment.personal_data
    # A policy for a source that isn't here says nothing, and mustn't change the version.
    of_source = {name: policy for name, policy in said.items() if name in present}
    config = safety.SafetyConfig(said.get("default", "report"), of_source)
    return safety.scan_sources(work.store, present, config, work.deployment.licences.refuses, work.execution)
