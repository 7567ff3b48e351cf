"""Exports written without a policy of licences, for tests of what they hold."""

from __future__ import annotations

from pathlib import Path

from generators.tasks.pool_export import pool_export
from pipelines.exports.asset import asset_of, build_asset
from pipelines.exports.corpus import corpus_export
from pipelines.exports.filters import Filters
from pipelines.exports.folder import Report, write_folder
from pipelines.store import Manifest, Store
from pipelines.training_data.dataset_card import Group
from pipelines.training_data.shards import ASSET as SHARDS


def allowed(licence: str) -> str:
    """Nothing is refused."""
    return ""


def export_corpus(
    store: Store,
    shards: Manifest,
    form: str,
    folder: Path,
    filters: Filters | None = None,
    report: Report = lambda line: None,
) -> dict[Group, int]:
    """Shards → a folder."""
    return write_folder(folder, corpus_export(store, shards, form, filters), report, refuses=allowed)


def export_pool(
    store: Store, pool: Manifest, form: str, folder: Path, filters: Filters | None = None
) -> dict[Group, int]:
    """A pool → a folder."""
    return write_folder(folder, pool_export(store, pool, form, filters), refuses=allowed)


def build_export(store: Store, form: str) -> Manifest:
    """The current shards → the asset of a form."""
    return build_asset(store, asset_of(form), corpus_export(store, store.require(SHARDS), form), refuses=allowed)
