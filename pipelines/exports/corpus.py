"""The corpus exported: to a folder, or as an asset of the store of which only changed shards are written again."""

import contextlib
from collections import Counter
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

from pipelines.exports.choose import Chosen, choose, read
from pipelines.exports.filters import Filters, Refuses, require_allowed
from pipelines.exports.folder import ExportPlan, Report, export_folder, finish, total
from pipelines.exports.form import ExportForm
from pipelines.exports.forms import CORPUS
from pipelines.exports.parts import WrittenPart, write_parts
from pipelines.exports.records import Picture, Sample
from pipelines.store import CheckSpec, Manifest, PartSpec, PartWriter, Store
from pipelines.training_data import mixture
from pipelines.training_data.dataset_card import Card, Group, card_texts
from pipelines.training_data.shards import ASSET as SHARDS
from schemas.ids import digest

CODE_VERSION = "1"
ALL_EXPORTED = CheckSpec("every chosen row is in the export", "The export holds more or fewer rows than were chosen")


def asset_of(form: str) -> str:
    """Key of the asset that holds the corpus in a form."""
    return f"exports/{form.replace('-', '_')}"


def export_corpus(
    store: Store,
    shards: Manifest,
    form: str,
    folder: Path,
    filters: Filters | None = None,
    report: Report = lambda line: None,
    *,
    refuses: Refuses,
) -> dict[Group, int]:
    """Export the rows that filters leave → rows by group. A second call goes on where the first was stopped.

    Raises `ValueError` for filters that leave nothing, and if the folder or a licence forbids it.
    """
    kind, filters = CORPUS[form], filters or Filters()
    plan = ExportPlan("corpus", form, shards.asset, shards.version, _settings(store, kind, filters))
    chosen = choose(store, shards, filters, kind.objectives)
    there = {one.group for one in chosen}
    groups = export_folder(
        folder, kind, plan, there, refuses, lambda taken: read(chosen, taken), filters.shard_mb, report
    )
    finish(folder, corpus_card(kind, shards, groups), kind.beside(_splits(groups)))
    return groups


def _settings(store: Store, form: ExportForm[Sample], filters: Filters) -> dict[str, Any]:
    """All that the bytes depend on beside the shards."""
    mixed = store.require(mixture.ASSET).version if filters.mixture else ""
    return {"code": CODE_VERSION, "form": form.version, "filters": filters.plain(), "mixture": mixed}


def _splits(groups: Mapping[Group, int]) -> dict[str, int]:
    rows: Counter[str] = Counter()
    for group, number in groups.items():
        rows[group.split] += number
    return dict(sorted(rows.items()))


def corpus_card(form: ExportForm[Sample], shards: Manifest, groups: Mapping[Group, int]) -> Card:
    """The card of an exported corpus."""
    rows = _splits(groups)
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


def build_export(store: Store, form: str, filters: Filters | None = None, *, refuses: Refuses) -> Manifest:
    """The current shards → the asset of a form, a part for each shard: one that didn't change isn't written again.

    Raises `ValueError` if filters leave nothing or the policy refuses a licence of what they leave, `StoreError`
    without shards or while no scan has passed them (see `mixture.require_scan`).
    """
    kind, filters, shards = CORPUS[form], filters or Filters(), store.require(SHARDS)
    # What the scan found must not leave the house either.
    mixture.require_scan(store, shards)
    chosen: dict[Path, list[Chosen]] = {}
    for one in choose(store, shards, filters, kind.objectives):
        chosen.setdefault(one.shard, []).append(one)
    require_allowed(shards.asset, {one.group for rows in chosen.values() for one in rows}, refuses)
    digests = {Path(entry.path).name: entry.sha256 for entry in shards.files if entry.table == "shard"}
    inputs = {shards.asset: shards.version}
    settings = _settings(store, kind, filters)
    if filters.mixture:
        inputs[mixture.ASSET] = settings["mixture"]
    base = [CODE_VERSION, form, kind.version, filters.shard_mb]
    specs = {
        PartSpec(
            path.stem, digest([base, digests[path.name], [[o.row_group, o.row, o.copy, o.score] for o in rows]])
        ): rows
        for path, rows in chosen.items()
    }
    # The card depends on all parts, so it is one of its own.
    about = PartSpec("about", digest([base, inputs, sorted(spec.inputs_digest for spec in specs)]))
    with store.build(
        asset_of(form), code_version=CODE_VERSION, config=settings, inputs=inputs, parts=[*specs, about]
    ) as build:
        written: list[WrittenPart] = []
        for spec, rows in specs.items():
            result = build.run_part(spec, lambda out, rows=rows, key=spec.key: _part(out, kind, rows, key, filters))  # type: ignore[misc]
            written += [WrittenPart.parsed(plain) for plain in result.counts["parts"]]
        groups = total(written)

        def describe(out: PartWriter) -> dict[str, int]:
            for name, text in {**kind.beside(_splits(groups)), **card_texts(corpus_card(kind, shards, groups))}.items():
                out.bytes(name, text.encode())
            return {}

        build.run_part(about, describe)
        rows_written, wanted = sum(groups.values()), sum(map(len, chosen.values()))
        check = ALL_EXPORTED.check(rows_written == wanted, rows_written, wanted)
        return build.commit(counts={"rows": rows_written, "files": len(written)}, checks=[check])


def _part(
    out: PartWriter, form: ExportForm[Sample], rows: list[Chosen], key: str, filters: Filters
) -> dict[str, object]:
    put: set[str] = set()

    def put_picture(picture: Picture) -> None:
        # A picture of many rows is one file.
        if (name := picture.path) not in put:
            put.add(name)
            out.bytes(name, picture.data)

    names = (f"{key}-{number:03d}" for number in count())
    parts = write_parts(
        form, read(rows), filters.shard_mb, names, lambda name: contextlib.nullcontext(out.path(name)), put_picture
    )
    return {"parts": [part.plain() for part in parts]}
