"""Gold samples + pictures → immutable parquet shards that train, and that anyone can open.

A shard holds samples with the encoded bytes of all their pictures, in row groups of at most 16 rows. It is plain
parquet with Hugging Face's `features` in the metadata, so `datasets.load_dataset("parquet", data_files=...)` shows
pictures. Rows are ordered by picture, and the picture column is dictionary-encoded: a screen with fifteen questions
is written once in its row group, not fifteen times. Shuffling is the reader's work (`pipelines.training_data.reader`).

One or more shards belong to one gold part and are made by one `run_part`: a changed gold part touches its own only.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.engines.run_parts import Execution, PartCall, run_parts
from pipelines.store import Check, CheckSpec, Manifest, PartSpec, Store
from pipelines.store.files import FileEntry
from pipelines.training_data.packing import REASONS, Barred, ShardsPart, run_shards_part
from pipelines.training_data.removed import PEOPLE, SAFETY, Removed, removed_items
from pipelines.training_data.shard_form import SHARD, ShardConfig, ShardIndex
from schemas.action_types import ADDED_IN_V2, WIDEST
from schemas.ids import digest

ASSET = "mid_training/shards"
CODE_VERSION = "5"
ROWS_A_SECOND = 3_000
"""Samples that one core packs, roughly."""
GIVEN_SPLITS = CheckSpec("only the given splits", "A row of another split was packed")
EACH_SAMPLE_ONCE = CheckSpec("each sample once", "A sample id occurs twice")
ALL_PACKED = CheckSpec("every sample is packed or left out", "Packed + left out ≠ samples of gold")
HAS_ROWS = CheckSpec("there is something to train on", "No row is left")
HAS_HELD_OUT = CheckSpec("there is something to evaluate on", "No row of the test split; warns where gold has none")
CHECKS = (GIVEN_SPLITS, EACH_SAMPLE_ONCE, ALL_PACKED, HAS_ROWS)
HELDOUT_CHECKS = (GIVEN_SPLITS, EACH_SAMPLE_ONCE, ALL_PACKED, HAS_HELD_OUT)


def build_shards(
    store: Store,
    sources: Sequence[str],
    asset: str = ASSET,
    splits: Sequence[str] = ("train",),
    config: ShardConfig | None = None,
    execution: Execution | None = None,
) -> Manifest:
    """Gold samples of the given splits → shards (`manifest.paths("shard")`) and their `index` table.

    Each sample once. Left out, and counted: samples without (all) their pictures, and from training those that
    `hygiene/contamination`, `hygiene/safety` or `hygiene/human_verdicts` removed and those whose picture is held out
    elsewhere. Held-out shards are empty, and say so, where no source has such a split. `execution` says who packs the
    parts. Raises `StoreError` if a source has no gold or a picture is missing or damaged.
    """
    config = config or ShardConfig(splits=tuple(splits))
    manifests = [store.require(f"gold/{source}") for source in sources]
    parts = [(manifest, entry) for manifest in manifests for entry in manifest.files if entry.table == "samples"]
    # Evaluation shards may hold what training must not: that is what they are for.
    training = config.splits == ("train",)
    held = _held_out(parts) if config.exclude_held_out_pictures and training else set()
    removed = removed_items(store) if training else Removed()
    unsafe = removed_items(store, SAFETY) if training else Removed()
    people = removed_items(store, PEOPLE) if training else Removed()
    plan = {**_plain(config), "code": CODE_VERSION, "schema": digest(str(SHARD))}
    specs = {}
    for manifest, entry in parts:
        # Only what concerns this part goes into its digest, so that one more removed sample repacks one part.
        near = sorted(held & _pictures(manifest, entry)) if held else []
        gone = sorted(removed.samples & _ids(manifest, entry)) if removed.samples else []
        bad, refused = _unsafe(manifest, entry, unsafe), _unsafe(manifest, entry, people)
        key = f"{manifest.asset.split('/', 1)[1].replace('/', '_')}-{entry.part}"
        # What nobody refused has the digest that it had before people could.
        spec = PartSpec(key, digest([plan, entry.sha256, near, gone, bad, *([refused] if refused else [])]))
        barred = Barred(frozenset(near), frozenset(gone), frozenset(bad), frozenset(refused))
        specs[key] = (spec, manifest, entry, barred)
    inputs = {manifest.asset: manifest.version for manifest in manifests}
    inputs |= removed.inputs | unsafe.inputs | people.inputs
    with store.build(
        asset,
        code_version=CODE_VERSION,
        config=_plain(config),
        inputs=inputs,
        parts=[spec for spec, *_ in specs.values()],
    ) as build:
        counts: Counter[str] = Counter()
        calls = []
        for spec, manifest, entry, barred in specs.values():
            gold, rows = (manifest.asset, manifest.version), entry.rows or 0
            part = ShardsPart(str(store.home), asset, build.version, spec, gold, entry.path, config, barred)
            calls.append(PartCall(part, (spec,), rows / ROWS_A_SECOND, rows))
        # In the order of `specs`, whichever was done first.
        for result in run_parts(store, asset, run_shards_part, calls, execution):
            build.add(result)
            counts.update(result.counts)
        entries = [entry for result in build.results for entry in result.files if entry.table == "index"]
        index = pa.concat_tables(
            [pq.read_table(build.root / e.path) for e in entries] or [ShardIndex.schema.empty_table()]
        )
        return build.commit(counts=_totals(counts, index), checks=_checks(index, counts, config))


def _plain(config: ShardConfig) -> dict[str, Any]:
    return {
        "splits": list(config.splits),
        "row_group_rows": config.row_group_rows,
        "shard_bytes": config.shard_bytes,
        "exclude_held_out_pictures": config.exclude_held_out_pictures,
    }


def _pictures(manifest: Manifest, entry: FileEntry, splits: Sequence[str] | None = None) -> set[str]:
    table = pq.read_table(manifest.root / entry.path, columns=["split", "images"])
    if splits is not None:
        table = table.filter(pc.is_in(table["split"], pa.array(list(splits))))
    return set(pc.unique(pc.list_flatten(table["images"])).to_pylist())


def _ids(manifest: Manifest, entry: FileEntry) -> set[str]:
    return set(pq.read_table(manifest.root / entry.path, columns=["sample_id"])["sample_id"].to_pylist())


def _unsafe(manifest: Manifest, entry: FileEntry, removed: Removed) -> list[str]:
    if not (removed.samples or removed.steps or removed.episodes):
        return []
    table = pq.read_table(manifest.root / entry.path, columns=["sample_id", "parents"])
    rows = zip(table["sample_id"].to_pylist(), table["parents"].to_pylist(), strict=True)
    return sorted(name for name, parents in rows if removed.holds(name, parents))


def _held_out(parts: Sequence[tuple[Manifest, FileEntry]]) -> set[str]:
    return set().union(*(_pictures(manifest, entry, ("validation", "test")) for manifest, entry in parts))


def _totals(counts: Counter[str], index: pa.Table) -> dict[str, Any]:
    grouped = index.group_by("objective").aggregate([("tokens", "sum"), ("sample_id", "count")]).to_pylist()
    tokens = {row["objective"]: row["tokens_sum"] for row in grouped}
    held = set(pc.unique(index["action"]).to_pylist())
    space = {"action_space": WIDEST} if held & set(ADDED_IN_V2) else {}
    return {**dict(counts), **space, "tokens": dict(sorted(tokens.items())), "tokens_total": sum(tokens.values())}


def _checks(index: pa.Table, counts: Counter[str], config: ShardConfig) -> list[Check]:
    found = sorted(set(index["split"].to_pylist()))
    unique = len(set(index["sample_id"].to_pylist()))
    left_out = counts["other_split"] + sum(counts[reason] for reason in REASONS)
    there = counts["gold_samples"] - counts["other_split"]
    return [
        GIVEN_SPLITS.check(set(found) <= set(config.splits), str(found), str(sorted(config.splits))),
        EACH_SAMPLE_ONCE.check(
            unique == index.num_rows, f"{unique} ids in {index.num_rows} rows", "as many ids", unique, index.num_rows
        ),
        ALL_PACKED.check(
            counts["packed"] + left_out == counts["gold_samples"],
            f"{counts['packed']} packed + {left_out} left out",
            counts["gold_samples"],
            counts["packed"] + left_out,
        ),
        HAS_ROWS.check(index.num_rows > 0, index.num_rows, "at least 1", limit=1)
        if "train" in config.splits
        # A corpus whose sources have no such split is whole without it; one that lost all of it isn't.
        else HAS_HELD_OUT.check(
            index.num_rows > 0,
            f"{index.num_rows} of {there} samples of {', '.join(config.splits)} among {counts['gold_samples']} of gold",
            "at least 1",
            index.num_rows,
            1,
            blocking=there > 0,
        ),
    ]
