"""`upstream/<source>`: what a source's raw files come from, observed. A new revision makes that source stale, then
what is built from it; nothing else.

The version is the commit of its hub repository where the deployment says to ask (`upstream.hub`), the digest of
its native files where they were put here by hand, and the generator's settings where they are embedded.

Without `from __future__ import annotations`: Dagster reads the parameters' types as they are.
"""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import dagster as dg

from dagster_project.assets.resources import StoreResource
from dagster_project.settings import deployment
from dagster_project.settings.deployment import Deployment
from dagster_project.stages.sources import embedded_version, follow, raw_folder
from dagster_project.stages.stage import GraphStage, StageWork
from pipelines.raw import upstream
from pipelines.raw.remote_file import PullError

GROUP = "upstream"
UNKNOWN = "unknown"
AT_ONCE = 8
"""Repositories that are asked at the same time."""


def names_of(stages: Mapping[str, GraphStage]) -> list[str]:
    """The sources, companions and suites whose raw files the graph reads."""
    return sorted(key.partition("/")[2] for key in stages if key.startswith("raw/"))


def key_of(name: str) -> dg.AssetKey:
    """`upstream/<source>`."""
    return dg.AssetKey([GROUP, name])


def assets(stages: Mapping[str, GraphStage], settings: Deployment) -> list[Any]:
    """One observable source asset a source, all looked at by one step, so that a hub that doesn't answer for one of
    them holds up none."""
    owners = {name: list(stages[f"raw/{name}"].owners) for name in names_of(stages)}

    @dg.multi_observable_source_asset(
        name="upstream_revisions",
        can_subset=True,
        specs=[
            dg.AssetSpec(
                key_of(name),
                group_name=GROUP,
                owners=owners[name],
                skippable=True,
                tags={"source": name},
                description=f"What raw/{name} comes from: {origin_text(settings, name)}.",
            )
            for name in names_of(stages)
        ],
    )
    def observe(context: dg.AssetExecutionContext, store: StoreResource) -> Iterator[dg.ObserveResult]:
        work = StageWork(store.open(), deployment.load())
        names = sorted(key.path[-1] for key in context.selected_asset_keys)
        # Asked side by side: a slow hub must not hold up the others.
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for seen in pool.map(lambda name: look(work, name), names):
                if seen.problem:
                    context.log.warning(f"{GROUP}/{seen.name}: {seen.problem}")
                # Unknown now means unchanged: an observation that isn't yielded would skip what follows.
                version = seen.version or _last(context.instance, key_of(seen.name))
                metadata = {"origin": seen.origin, **({"problem": seen.problem} if seen.problem else {})}
                yield dg.ObserveResult(
                    asset_key=key_of(seen.name), data_version=dg.DataVersion(version), metadata=metadata
                )

    return [observe]


@dataclass(frozen=True, slots=True)
class UpstreamVersion:
    """What was found upstream of a source. `version` "" if that couldn't be known now; `problem` says why."""

    name: str
    version: str
    origin: str
    problem: str = ""


def look(work: StageWork, name: str) -> UpstreamVersion:
    """What is upstream of a source now. Never raises: what can't be seen is reported."""
    origin = origin_text(work.deployment, name)
    try:
        if (followed := follow(work.deployment, name)) is not None:
            return UpstreamVersion(
                name, upstream.hub_version(followed.download, followed.revision, endpoint=followed.endpoint), origin
            )
        # Drawn here, so its settings are its upstream.
        if work.deployment.native_folder(name) is None and work.deployment.embedded.enabled:
            return UpstreamVersion(name, embedded_version(work.deployment), origin)
        found = upstream.files_version(work.store.home, name, raw_folder(work, name))
        return UpstreamVersion(name, found, origin, "" if found else "there are no native files")
    except (PullError, OSError, ValueError) as error:
        return UpstreamVersion(name, "", origin, str(error).splitlines()[0][:300])


def origin_text(settings: Deployment, name: str) -> str:
    """Where a source's raw files come from, in words."""
    if (followed := follow(settings, name)) is not None:
        return f"the hub's {followed.download.repo} at {followed.revision or 'its newest revision'}"
    if settings.native_folder(name) is None and settings.embedded.enabled:
        return "embedded data, made here"
    return "the native files in its folder"


def _last(instance: dg.DagsterInstance, key: dg.AssetKey) -> str:
    """The version seen last: what can't be asked now hasn't changed as far as anybody knows."""
    event = instance.fetch_observations(key, limit=1).records
    observation = event[0].asset_observation if event else None
    return str((observation.tags or {}).get("dagster/data_version", UNKNOWN)) if observation else UNKNOWN
