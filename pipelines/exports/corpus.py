"""The corpus as an export: which rows of the shards, in which parts, and its card."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from pipelines.exports.asset import CODE_VERSION
from pipelines.exports.choose import Chosen, choose, read
from pipelines.exports.export import Export, ExportPiece, ExportPlan, rows_by_split
from pipelines.exports.filters import Filters
from pipelines.exports.form import ExportForm
from pipelines.exports.forms import CORPUS
from pipelines.exports.records import Sample
from pipelines.store import Manifest, Store
from pipelines.training_data import mixture
from pipelines.training_data.dataset_card import Card, Group


def corpus_export(store: Store, shards: Manifest, form: str, filters: Filters | None = None) -> Export[Chosen, Sample]:
    """The rows that filters leave of the shards, in a form. Raises as `choose` does."""
    kind, filters = CORPUS[form], filters or Filters()
    mixed = store.require(mixture.ASSET).version if filters.mixture else ""
    settings = {"code": CODE_VERSION, "form": kind.version, "filters": filters.plain(), "mixture": mixed}
    chosen = choose(store, shards, filters, kind.objectives)

    def by_shard() -> Iterator[ExportPiece[Chosen]]:
        digests = {Path(entry.path).name: entry.sha256 for entry in shards.files if entry.table == "shard"}
        found: dict[Path, list[Chosen]] = {}
        for one in chosen:
            found.setdefault(one.shard, []).append(one)
        for path, rows in found.items():
            places = [[one.row_group, one.row, one.copy, one.score] for one in rows]
            yield ExportPiece(path.stem, [digests[path.name], places], rows)

    return Export(
        ExportPlan("corpus", form, shards.asset, shards.version, settings),
        kind,
        chosen,
        read,
        by_shard,
        partial(_card, kind, shards),
        filters.shard_mb,
        {mixture.ASSET: mixed} if mixed else {},
    )


def _card(form: ExportForm[Sample], shards: Manifest, groups: Mapping[Group, int]) -> Card:
    rows = rows_by_split(groups)
    splits_text = ", ".join(f"{number} {split}" for split, number in rows.items())
    patterns = {split: form.files.format(split=split, part="*") for split in rows}
    notes = f"{form.notes}\n" if form.notes else ""
    return Card(
        title=f"Training samples for GUI agents, for {form.loader}",
        about=f"{sum(rows.values())} samples ({splits_text}), exported by `vesper export corpus --to {form.name}`.\n\n"
        f"```{form.language}\n{form.loading}\n```\n\n{notes}",
        groups=groups,
        data_files=patterns if form.files.endswith(".parquet") else {},
        lineage={shards.asset: shards.version, **dict(sorted(shards.inputs.items()))},
    )
