"""The jobs `promote_version`, `roll_back_version` and `compare_versions`: what `vesper promote`, `rollback` and `diff`
do, from the launchpad, so that Dagster knows of it.

Without `from __future__ import annotations`: Dagster reads the parameters' types as they are.
"""

from collections.abc import Callable
from enum import Enum
from typing import Any

import dagster as dg
from pydantic import Field

from dagster_project.assets.keys import asset_key
from dagster_project.assets.resources import StoreResource
from dagster_project.lineage.diff import compare
from dagster_project.lineage.diff_page import diff_page
from dagster_project.lineage.manifests import Manifests
from pipelines.store import StoreError, choose_version
from pipelines.store.current_version import VersionChange
from pipelines.store.manifest import mainline_key
from trainer.stages import care_gate


class AliasChoice(Enum):
    """What is to name the version."""

    current = "current"
    candidate = "candidate"
    production = "production"

    @property
    def alias(self) -> str:
        return "" if self is AliasChoice.current else self.value


class Choice(dg.Config):
    """A version of an asset, and what is to name it."""

    asset: str = Field(description="The asset: gold/aitw, or a checkpoint by its name (unified).")
    version: str = Field(
        default="",
        description="The version, or the beginning of its name; empty: the newest to promote, the one before to roll "
        "back to.",
    )
    alias: AliasChoice = Field(
        default=AliasChoice.current,
        description="current: what others read. candidate, production: an alias, which no build moves.",
    )
    why: str = Field(default="", description="The reason, which the journal keeps.")
    force: bool = Field(default=False, description="Even though blocking checks failed; needs a reason.")


class Comparison(dg.Config):
    """Two versions of an asset."""

    before: str = Field(description="ASSET@VERSION, ASSET@ALIAS, or a checkpoint: the older one.")
    after: str = Field(description="The newer one, said likewise; ASSET alone is its current version.")


@dg.op(description="Makes a version current, or has an alias name it; the asset's page then shows that version.")
def promote_one(context: dg.OpExecutionContext, config: Choice, store: StoreResource) -> None:
    _choose(context, config, store, care_gate.promote)


@dg.op(description="Goes back to an earlier version, or has an alias do so; the asset's page then shows that version.")
def roll_back_one(context: dg.OpExecutionContext, config: Choice, store: StoreResource) -> None:
    _choose(context, config, store, choose_version.roll_back)


@dg.op(description="What entered and left between two versions, and why; on the run and on the asset's page.")
def compare_two(context: dg.OpExecutionContext, config: Comparison, store: StoreResource) -> None:
    manifests = Manifests(store.open())
    try:
        found = compare(manifests, config.before, config.after)
    except ValueError as error:
        # A wrong name stays wrong: trying again would only delay the message.
        raise dg.Failure(str(error), allow_retries=False) from None
    page = dg.MetadataValue.md(diff_page(found))
    context.add_output_metadata({"difference": page})
    # On the page of what was named: of two checkpoints it is their data that is compared.
    named = manifests.start(config.after).manifest
    asset = mainline_key(named.asset) if named is not None else found.after[0].partition("@")[0]
    context.log_event(
        dg.AssetObservation(
            asset_key(asset), metadata={"difference": page}, description=f"{config.before} → {config.after}"
        )
    )


@dg.job(description="Make a version of an asset current, or have an alias (candidate, production) name it.")
def promote_version() -> None:
    promote_one()


@dg.job(description="Go back to an earlier version of an asset, or have an alias do so.")
def roll_back_version() -> None:
    roll_back_one()


@dg.job(description="Compare two versions of an asset: what entered, left and changed, and why.")
def compare_versions() -> None:
    compare_two()


JOBS = (promote_version, roll_back_version, compare_versions)


def _choose(
    context: dg.OpExecutionContext, config: Choice, store: StoreResource, act: Callable[..., VersionChange]
) -> None:
    opened, (asset, version) = store.open(), choose_version.asset_of(config.asset)
    try:
        said, alias = config.version or version or None, config.alias.alias
        change = act(opened, asset, said, why=config.why, force=config.force, alias=alias)
    except (StoreError, ValueError) as error:
        raise dg.Failure(str(error), allow_retries=False) from None
    manifest = opened.version(asset, change.version)
    facts: dict[str, Any] = {
        "version": change.version,
        "before": change.before or "none",
        "named": config.alias.value,
        "who": change.who,
        "why": change.why or "not said",
        "folder": dg.MetadataValue.path(str(manifest.directory)),
    }
    sentence = f"{change.action}: {config.alias.value} is {change.version}"
    key = asset_key(asset)
    if config.alias is AliasChoice.current:
        # a materialisation, not an observation: what was built from the other version is stale from now on
        tags = {"dagster/data_version": manifest.data_version}
        context.log_event(dg.AssetMaterialization(key, sentence, metadata=facts, tags=tags))
    else:
        context.log_event(dg.AssetObservation(key, sentence, metadata=facts))
    context.add_output_metadata(facts)
