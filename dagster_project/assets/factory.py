"""Stages → Dagster assets: each calls its stage's function and shows its manifest.

Without `from __future__ import annotations`: Dagster reads the parameters' types as they are.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import dagster as dg

from dagster_project import checks
from dagster_project.automation import TAIL
from dagster_project.deployment import Deployment
from dagster_project.graph import Stage
from dagster_project.metadata import column_schema, describe, row_count
from dagster_project.resources import JudgeResource, StoreResource, work
from pipelines.manifest import Manifest

listeners: list[Callable[[str, str, Mapping[str, Any]], None]] = []
"""Called with ("start" | "done" | "failed", key, facts) around each stage of this process; the demo prints them."""


ROUNDS = dg.DynamicPartitionsDefinition(name="round")
"""Rounds of the generation loop: round_001, round_002, …"""


def asset_key(key: str) -> dg.AssetKey:
    """`unified/aitw` → AssetKey(["unified", "aitw"])."""
    return dg.AssetKey(key.split("/"))


def build(stages: Mapping[str, Stage]) -> list[dg.AssetsDefinition]:
    """One asset with one blocking check for each stage."""
    return [_asset(stage) for stage in stages.values()]


def external(reasons: Mapping[str, str], deployment: Deployment) -> list[dg.AssetSpec]:
    """Sources that feed nothing here, with the reason: visible, outside the fan-in."""
    return [
        dg.AssetSpec(
            asset_key(f"raw/{name}"), group_name="raw", tags={"source": name, "enabled": "false"},
            owners=list(deployment.source(name).owners or deployment.owners),
            description=why,
        )
        for name, why in reasons.items()
    ]  # fmt: skip


def _asset(stage: Stage) -> dg.AssetsDefinition:
    metadata: dict[str, Any] = {}
    if stage.columns is not None:
        metadata["dagster/column_schema"] = column_schema(stage.columns)

    @dg.asset(
        key=asset_key(stage.key),
        deps=[asset_key(dep) for dep in stage.deps],
        description=stage.description,
        group_name=stage.group,
        code_version=stage.code_version,
        kinds=set(stage.kinds),
        owners=list(stage.owners),
        tags=dict(stage.tags),
        metadata=metadata,
        check_specs=[checks.spec(asset_key(stage.key))],
        automation_condition=TAIL if stage.job == "train" else None,
        pool=stage.pool,
        partitions_def=ROUNDS if stage.by_round else None,
    )
    def made(context: dg.AssetExecutionContext, store: StoreResource, judge: JudgeResource) -> Iterator[Any]:
        partition = context.partition_key if stage.by_round else ""
        name = f"{stage.key}/{partition}" if partition else stage.key
        _tell("start", name, {})
        try:
            if stage.external:
                manifest = _in_own_process(stage, name, context, store, judge)
            else:
                manifest = stage.run(replace(work(store, judge), partition=partition))
        except Exception as error:
            _tell("failed", name, {"reason": f"{type(error).__name__}: {error}"})
            raise
        result = _result(stage, manifest, store)
        _tell("done", name, {"passed": manifest.checks_passed, "rows": row_count(stage, manifest)})
        yield result

    return made


def _tell(what: str, key: str, facts: Mapping[str, Any]) -> None:
    for listener in listeners:
        listener(what, key, facts)


def _result(stage: Stage, manifest: Manifest, store: StoreResource) -> dg.MaterializeResult:
    return dg.MaterializeResult(
        metadata=describe(stage, manifest, store.open()),
        data_version=dg.DataVersion(manifest.data_version),
        check_results=[checks.result(manifest)],
    )


def _in_own_process(
    stage: Stage, name: str, context: dg.AssetExecutionContext, store: StoreResource, judge: JudgeResource
) -> Manifest:
    """Run a stage through `run_stage.py`; its events are logged, its version comes back as a message. `name` is the
    stage's key, with the round where it has one."""
    settings = judge.settings()
    environment = {
        "VESPER_HOME": store.home,
        "VESPER_JUDGE": settings.name,
        "VESPER_JUDGE_BASE_URL": settings.base_url or "",
        "VESPER_JUDGE_MODEL": settings.model or "",
    }
    done = dg.PipesSubprocessClient(forward_termination=True).run(
        command=[sys.executable, "-m", "dagster_project.run_stage", name],
        context=context,
        env={**os.environ, **environment},
    )
    for message in done.get_custom_messages():
        if "version" in message:
            return store.open().version(name, message["version"])
    raise dg.Failure(f"{stage.key}: the process ended without naming the version it made")
