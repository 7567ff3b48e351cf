"""Stages → Dagster assets: each calls its stage's function and shows its manifest.

Without `from __future__ import annotations`: Dagster reads the parameters' types as they are.
"""

import datetime
import json
import os
import re
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import dagster as dg

from dagster_project.assets import checks, upstream
from dagster_project.assets.keys import asset_key
from dagster_project.assets.launch_config import Given, Shown, config_of, defaults, given_to
from dagster_project.assets.metadata import Confirmed, amount, column_schema, describe, of_the_run, pictures
from dagster_project.assets.origins import code_references, column_lineage
from dagster_project.assets.resources import JudgeResource, StoreResource, work
from dagster_project.assets.source_worth import observations
from dagster_project.assets.tail_condition import TAIL
from dagster_project.execution.live_pictures import LiveReader, show_on
from dagster_project.execution.run_stage import Reporter
from dagster_project.lineage.model_card import write_cards
from dagster_project.settings import deployment
from dagster_project.settings.deployment import Deployment
from dagster_project.stages.stage import GraphStage, StageWork
from pipelines.store.manifest import Manifest

if TYPE_CHECKING:
    from dagster_project.preflight import probes

listeners: list[Callable[[str, str, Mapping[str, Any]], None]] = []
"""Called with ("start" | "done" | "failed", key, facts) around each stage of this process; the demo prints them."""


ENDED = re.compile(r"External execution process failed with code (-?\d+)")
"""How Pipes tells that a process failed (its error is private); the code is below nought if a signal ended it."""
ATTEMPTS, WAIT_S = 3, 5
"""Of a stage whose own process was killed."""

ROUNDS = dg.DynamicPartitionsDefinition(name="round")
"""Rounds of the generation loop: round_001, round_002, …"""
EXPERIMENTS = dg.DynamicPartitionsDefinition(name="experiment")
"""Experiments by their names."""


def build(
    stages: Mapping[str, GraphStage],
    late: Mapping[str, float] | None = None,
    here: Collection[str] = (),
    settings: Deployment | None = None,
) -> list[dg.AssetsDefinition]:
    """One asset with its checks for each stage. `late`: hours after which a group or asset is late. `here`:
    stages that would have a process of their own, and run in this one all the same, outside their pools: those bound
    what a daemon starts side by side. `settings`: whose values the launchpad shows as defaults; None: those of the
    deployment."""
    shown = defaults(deployment.load() if settings is None else settings)
    return [
        _asset(
            replace(stage, pool=None) if stage.key in here else stage,
            stages,
            _freshness(stage, late or {}),
            stage.external and stage.key not in here,
            shown,
        )
        for stage in stages.values()
    ]


def _freshness(stage: GraphStage, late: Mapping[str, float]) -> dg.FreshnessPolicy | None:
    """Late after so many hours, by the asset's key, else its group's; a warning after three quarters of them."""
    hours = late.get(stage.key, late.get(stage.group))
    if hours is None or stage.partitioned:
        return None
    fail = datetime.timedelta(hours=hours)
    # Amber at three quarters, so that somebody can look before it is late.
    warn = fail * 0.75
    return dg.FreshnessPolicy.time_window(fail, warn if warn >= datetime.timedelta(minutes=1) else None)


def external(reasons: Mapping[str, str], settings: Deployment) -> list[dg.AssetSpec]:
    """Sources that feed nothing here, with the reason: visible, outside the fan-in."""
    return [
        dg.AssetSpec(
            asset_key(f"raw/{name}"),
            group_name="raw",
            tags={"source": name, "enabled": "false"},
            owners=list(settings.source(name).owners or settings.owners),
            description=why,
        )
        for name, why in reasons.items()
    ]


def _asset(
    stage: GraphStage,
    stages: Mapping[str, GraphStage],
    freshness: dg.FreshnessPolicy | None,
    own_process: bool,
    shown: Shown,
) -> dg.AssetsDefinition:
    if stage.settings not in shown.schemas:
        form = config_of(stage, shown)
        shown.schemas[stage.settings] = None if form is None else form.to_config_schema().as_field()
    found = {
        "dagster/column_schema": column_schema(stage.columns) if stage.columns is not None else None,
        "dagster/column_lineage": column_lineage(stage, stages),
        "dagster/code_references": code_references(stage),
    }
    metadata: dict[str, Any] = {name: value for name, value in found.items() if value is not None}

    # Pictures of a stage may stand on another's page, which says where to look.
    beside = "".join(
        f"\n\n`{other.key}` shows it, here under Events." for other in stages.values() if other.shown_on == stage.key
    )
    # The upstream of raw files: a new revision makes the raw asset stale.
    observed = [upstream.key_of(name) for name in upstream.names_of({stage.key: stage})]

    @dg.asset(
        key=asset_key(stage.key),
        deps=[*map(asset_key, stage.deps), *observed],
        description=stage.description + beside,
        group_name=stage.group,
        code_version=stage.code_version,
        kinds=set(stage.kinds),
        owners=list(stage.owners),
        tags=dict(stage.tags),
        metadata=metadata,
        check_specs=checks.specs(stage),
        # Only the training tail starts by itself; without inputs there is nothing to wait for.
        automation_condition=TAIL if stage.job in ("train", "evaluate_suites") and stage.deps else None,
        freshness_policy=freshness,
        pool=stage.pool,
        partitions_def=ROUNDS if stage.by_round else EXPERIMENTS if stage.by_experiment else None,
        config_schema=shown.schemas[stage.settings],
    )
    def built(context: dg.AssetExecutionContext, store: StoreResource, judge: JudgeResource) -> Iterator[Any]:
        partition = context.partition_key if stage.partitioned else ""
        name = stage.stored_as(partition)
        _notify("start", name, {})
        began = time.monotonic()
        try:
            # Settings and preflight before anything is spent: a wrong word ends the run in a second.
            given = _given(stage, stages, context, shown)
            _preflight(stage, stages, context, work(store, judge, given))
            if own_process:
                # Its own process gives memory back when it ends, and can be killed without the daemon.
                manifest = _in_own_process(stage, partition, context, store, judge, given)
            else:
                report = Reporter(context.log.info, show_on(context))
                stage_work = replace(work(store, judge, given), on_event=report, progress=sys.stderr.isatty())
                manifest = stage.run(replace(stage_work, partition=partition))
            # Cards are beside the version's files and none of them: failing to write one is a warning.
            if unwritten := write_cards(store.open(), manifest):
                context.log.warning(unwritten)
            result = _result(stage, manifest, store, context, time.monotonic() - began)
        except Exception as error:
            # Told to listeners and raised again: Dagster decides what follows.
            _notify("failed", name, {"reason": f"{type(error).__name__}: {error}"})
            raise
        # Where one source lags behind, its last good version is used and said to be.
        left_out = (result.metadata or {}).get("not fresh")
        if isinstance(left_out, dg.TextMetadataValue):
            context.log.warning(
                f"{name}: without what is new of {left_out.value}: no good version, or a newer one failed"
            )
        warned = [check.name for check in manifest.checks if not check.passed and not check.blocking]
        if stage.shown_on and manifest.checks_passed:
            context.log_event(_observed(stage.shown_on, name, manifest, store))
        _notify("done", name, {"passed": manifest.checks_passed, "amount": amount(stage, manifest), "warned": warned})
        for observed_worth in observations(manifest):
            context.log_event(observed_worth)
        yield result

    return built


def _observed(shown_on: str, name: str, manifest: Manifest, store: StoreResource) -> dg.AssetObservation:
    """A version's pictures for the page of another asset: an observation, as nothing of that asset was made."""
    seen = {title: dg.MetadataValue.md(text) for title, text in pictures(manifest, store.open()).items()}
    return dg.AssetObservation(asset_key(shown_on), f"{name}, version {manifest.version}", metadata=seen)


def _given(
    stage: GraphStage, stages: Mapping[str, GraphStage], context: dg.AssetExecutionContext, shown: Shown
) -> Given:
    """What the launchpad sets for a stage. The first stage of a run looks at what is set for all of them, so that a
    wrong value ends the run before anything is made."""
    config = context.run.run_config
    try:
        # The first stage of a run looks at the settings of all, the others have seen it do so.
        for other in stages.values() if context.run.run_id not in _known else ():
            given_to(other, config, shown)
        return given_to(stage, config, shown)
    except ValueError as error:
        raise dg.Failure(str(error), allow_retries=False) from None


_known: dict[str, "probes.Known"] = {}
"""Run → what was looked for in this process already; of the last run only."""


def _preflight(
    stage: GraphStage, stages: Mapping[str, GraphStage], context: dg.AssetExecutionContext, given: StageWork
) -> None:
    """Fail before anything is spent if what this stage needs, or what the run makes of it, isn't here."""
    from dagster_project.preflight import probes  # what it asks (devices, worlds, the trainer) is a second of start-up

    if context.run.run_id not in _known:
        # Of the last run only: what is installed may change between runs.
        _known.clear()
    known = _known.setdefault(context.run.run_id, {})
    # What the run has selected, as the last stages' needs are asked before the first one starts.
    chosen = {key.to_user_string() for key in context.job_def.asset_layer.executable_asset_keys}
    lines = probes.missing(stages, given, stage.key, chosen, known)
    if lines:
        listed = dg.MetadataValue.md("\n".join(f"- {line}" for line in lines))
        raise dg.Failure("; ".join(lines), metadata={"missing": listed}, allow_retries=False)


def _notify(what: str, key: str, facts: Mapping[str, object]) -> None:
    for listener in listeners:
        listener(what, key, facts)


def _result(
    stage: GraphStage, manifest: Manifest, store: StoreResource, context: dg.AssetExecutionContext, seconds: float
) -> dg.MaterializeResult:
    metadata = describe(stage, manifest, store.open(), _confirmed(context.instance, manifest.inputs))
    if (lineage := context.assets_def.metadata_by_key[context.asset_key].get("dagster/column_lineage")) is not None:
        metadata["dagster/column_lineage"] = lineage  # the UI reads it of the materialisation
    last = _last(context)
    return dg.MaterializeResult(
        metadata=of_the_run(metadata, context.run_id, seconds, last),
        # Equal data, equal data version: what is downstream isn't stale after a rerun.
        data_version=dg.DataVersion(manifest.data_version),
        check_results=checks.results(stage, manifest),
    )


def _last(context: dg.AssetExecutionContext) -> dg.AssetMaterialization | None:
    """What was said of the asset, or of this round of it, when it was last made."""
    rounds = [context.partition_key] if context.has_partition_key else None
    wanted = dg.AssetRecordsFilter(context.asset_key, asset_partitions=rounds)
    records = context.instance.fetch_materializations(wanted, limit=1).records
    return records[0].asset_materialization if records else None


def _confirmed(instance: dg.DagsterInstance, keys: Iterable[str]) -> dict[str, Confirmed]:
    """What Dagster knows of assets' last materialisations; those that it doesn't know are left out."""
    records = instance.get_asset_records([asset_key(key) for key in keys]) if keys else []
    found = {}
    for record in records:
        event = record.asset_entry.last_materialization_record
        built = event.asset_materialization if event is not None else None
        if event is not None and built is not None:
            version = (built.tags or {}).get("dagster/data_version", "")
            # Which version the record is of: an older one is still read where the newest failed its checks.
            found[record.asset_entry.asset_key.to_user_string()] = Confirmed(event.timestamp, version)
    return found


def _in_own_process(
    stage: GraphStage,
    partition: str,
    context: dg.AssetExecutionContext,
    store: StoreResource,
    judge: JudgeResource,
    given: Given,
) -> Manifest:
    """Run a stage through `run_stage.py`; its events are logged, its version comes back as a message. `partition` is
    its round or experiment where it has one. Raises `dg.Failure` with the reason that the process told, and
    `dg.RetryRequested` if it was killed."""
    settings, ranks = judge.settings(), stage.ranks(given)
    environment = {
        "VESPER_HOME": store.home,
        "VESPER_JUDGE": settings.name,
        "VESPER_JUDGE_BASE_URL": settings.base_url or "",
        "VESPER_JUDGE_MODEL": settings.model or "",
        "VESPER_RUN_SETTINGS": json.dumps(given) if given else "",
    }
    reasons: list[str] = []
    show = show_on(context)

    def hear(message: Mapping[str, object]) -> None:
        if "failed" in message:
            reasons.append(str(message["failed"]))
        else:
            show(message)

    try:
        reader = LiveReader(hear)
        done = dg.PipesSubprocessClient(forward_termination=True, message_reader=reader).run(
            command=[
                sys.executable,
                "-m",
                "dagster_project.execution.run_stage",
                f"{stage.key}/{partition}" if partition else stage.key,
                *([str(ranks)] if ranks > 1 else []),
            ],
            context=context,
            # All of ours, as the stage reads the deployment and its secrets from it.
            env={**os.environ, **environment},
        )
    except Exception as error:
        ended = ENDED.search(str(error))
        if ended is None:
            raise
        # Killed by a signal: nothing of the stage is to blame, and what was whole is found by the next
        # attempt.
        if int(ended[1]) < 0:  # by whom ever: what is whole is kept, so the next attempt goes on from there
            raise dg.RetryRequested(max_retries=ATTEMPTS - 1, seconds_to_wait=WAIT_S) from error
        unreported = f"{error} and told no reason; its last words are in the step's stderr"
        raise dg.Failure(reasons[0] if reasons else unreported) from error  # of several ranks the one that failed first
    # The version alone comes back: everything else lies in the store.
    for message in done.get_custom_messages():
        if "version" in message:
            return store.open().version(stage.stored_as(partition), message["version"])
    raise dg.Failure(f"{stage.key}: the process ended without naming the version it made")
