"""Gold samples + pictures → immutable parquet shards that train, and that anyone can open.

A shard holds samples with the encoded bytes of all their pictures, in row groups of at most 16 rows. It is plain
parquet with Hugging Face's `features` in the metadata, so `datasets.load_dataset("parquet", data_files=...)` shows
pictures. Rows are ordered by picture, and the picture column is dictionary-encoded: a screen with fifteen questions
is written once in its row group, not fifteen times. Shuffling is the reader's work (`pipelines.training_data.reader`).

One or more shards belong to one gold part and are made by one `run_part`: a changed gold part touches its own only.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.store import Check, CheckSpec, Manifest, PartSpec, PartWriter, Store
from pipelines.store.files import FileEntry
from pipelines.training_data.chat_turns import MEANING, TURNS
from pipelines.training_data.removed import PEOPLE, SAFETY, Removed, removed_items
from pipelines.training_data.row_groups import row_groups
from schemas.ids import digest
from schemas.rows import SampleRow
from schemas.tables import BOX, SPLITS, Column, Samples, Table

ASSET = "mid_training/shards"
CODE_VERSION = "5"
ROW_GROUP_ROWS = 16
SHARD_BYTES = 128 * 2**20
"""Of pictures and text before compression; a shard is closed once it has this much."""
_DICTIONARY_BYTES = 64 * 2**20

IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
"""The storage type of Hugging Face's Image feature."""
GIVEN_SPLITS = CheckSpec("only the given splits", "A row of another split was packed")
EACH_SAMPLE_ONCE = CheckSpec("each sample once", "A sample id occurs twice")
ALL_PACKED = CheckSpec("every sample is packed or left out", "Packed + left out ≠ samples of gold")
HAS_ROWS = CheckSpec("there is something to train on", "No row is left")
HAS_HELD_OUT = CheckSpec("there is something to evaluate on", "No row of the test split; warns where gold has none")
CHECKS = (GIVEN_SPLITS, EACH_SAMPLE_ONCE, ALL_PACKED, HAS_ROWS)
HELDOUT_CHECKS = (GIVEN_SPLITS, EACH_SAMPLE_ONCE, ALL_PACKED, HAS_HELD_OUT)


class ShardIndex(Table, version=2):
    """Where each packed sample lies."""

    sample_id = Column(pa.string(), "item id of the sample")
    shard = Column(pa.string(), "file that holds it")
    row = Column(pa.int32(), "row of the file, from 0")
    row_group = Column(pa.int32(), "row group of the file, from 0")
    tokens = Column(pa.int32(), "length, counted as the table of samples says")
    objective = Column(pa.string(), "perception, vqa, grounding or navigation")
    source = Column(pa.string(), "name of the dataset")
    platform = Column(pa.string(), "mobile, web or desktop")
    split = Column(pa.string(), "train, validation or test")
    action = Column(pa.string(), "type of the action that a navigation sample answers with; empty for others")


def _feature(dtype: pa.DataType) -> dict[str, Any]:
    if dtype == IMAGE:
        return {"_type": "Image"}
    if pa.types.is_fixed_size_list(dtype):
        return {"feature": _feature(dtype.value_type), "length": dtype.list_size, "_type": "List"}
    if pa.types.is_list(dtype):
        return {"feature": _feature(dtype.value_type), "_type": "List"}
    if pa.types.is_struct(dtype):
        return {field.name: _feature(field.type) for field in dtype}
    return {"dtype": "float32" if dtype == pa.float32() else str(dtype), "_type": "Value"}


def shard_schema() -> pa.Schema:
    """`Samples` with `images` as list<struct<bytes, path>>, `messages` as typed turns with the answer as the last (see
    `chat_turns`), and the features key that `datasets` reads."""
    other = {"images": pa.list_(IMAGE), "messages": TURNS}
    # `datasets` takes its features from the metadata only where a field is nullable; nulls are excluded by `Samples`.
    fields = [pa.field(f.name, other.get(f.name, f.type)) for f in Samples.schema]
    metadata = {**(Samples.schema.metadata or {}), **features_of(fields)}
    return pa.schema(fields, metadata={**metadata, b"vesper.table": b"shard"})


def features_of(fields: Sequence[pa.Field]) -> dict[bytes, str]:
    """The metadata of a schema from which `datasets` knows what columns hold, pictures among them."""
    features = {field.name: _feature(field.type) for field in fields}
    return {b"huggingface": json.dumps({"info": {"features": features}})}


SHARD = shard_schema()
MEANINGS = {**Samples.meanings, "images": "the screenshots, encoded, in order of use", "messages": MEANING}
"""What stands in each column of a shard."""


@dataclass(frozen=True, slots=True)
class ShardConfig:
    """What enters the shards' config hash."""

    splits: tuple[str, ...] = ("train",)
    row_group_rows: int = ROW_GROUP_ROWS
    shard_bytes: int = SHARD_BYTES
    exclude_held_out_pictures: bool = True
    """Leave out of training shards what shows a picture (same bytes) that a validation or test sample shows."""

    def __post_init__(self) -> None:
        if not self.splits or set(self.splits) - set(SPLITS):
            raise ValueError(f"shards: expected splits of {SPLITS}, found {self.splits}")
        if not 1 <= self.row_group_rows <= ROW_GROUP_ROWS:
            raise ValueError(f"shards: expected row groups of 1 to {ROW_GROUP_ROWS} rows, found {self.row_group_rows}")
        if "train" in self.splits and len(self.splits) > 1:
            raise ValueError(f"shards: train can't be packed together with other splits, found {self.splits}")


@dataclass(frozen=True, slots=True)
class _Barred:
    """What of a part may not be packed: pictures (sha256), and samples (ids) that are contaminated, unsafe, or refused
    by people."""

    pictures: frozenset[str]
    samples: frozenset[str]
    unsafe: frozenset[str]
    refused: frozenset[str] = frozenset()


def build_shards(
    store: Store,
    sources: Sequence[str],
    asset: str = ASSET,
    splits: Sequence[str] = ("train",),
    config: ShardConfig | None = None,
) -> Manifest:
    """Gold samples of the given splits → shards (`manifest.paths("shard")`) and their `index` table.

    Each sample once. Left out, and counted: samples without (all) their pictures, and from training those that
    `hygiene/contamination`, `hygiene/safety` or `hygiene/human_verdicts` removed and those whose picture is held out
    elsewhere. Held-out shards are empty, and say so, where no source has such a split. Raises `StoreError` if a
    source has no gold or a picture is missing or damaged.
    """
    config = config or ShardConfig(splits=tuple(splits))
    manifests = [store.require(f"gold/{source}") for source in sources]
    parts = [(manifest, entry) for manifest in manifests for entry in manifest.files if entry.table == "samples"]
    training = config.splits == ("train",)
    held = _held_out(parts) if config.exclude_held_out_pictures and training else set()
    removed = removed_items(store) if training else Removed()
    unsafe = removed_items(store, SAFETY) if training else Removed()
    people = removed_items(store, PEOPLE) if training else Removed()
    plan = {**_plain(config), "code": CODE_VERSION, "schema": digest(str(SHARD))}
    specs = {}
    for manifest, entry in parts:
        near = sorted(held & _pictures(manifest, entry)) if held else []
        gone = sorted(removed.samples & _ids(manifest, entry)) if removed.samples else []
        bad, refused = _unsafe(manifest, entry, unsafe), _unsafe(manifest, entry, people)
        key = f"{manifest.asset.split('/', 1)[1].replace('/', '_')}-{entry.part}"
        # What nobody refused has the digest that it had before people could.
        spec = PartSpec(key, digest([plan, entry.sha256, near, gone, bad, *([refused] if refused else [])]))
        barred = _Barred(frozenset(near), frozenset(gone), frozenset(bad), frozenset(refused))
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
        for spec, manifest, entry, barred in specs.values():
            result = build.run_part(
                spec,
                lambda out, manifest=manifest, entry=entry, barred=barred, key=spec.key: _pack(  # type: ignore[misc]
                    out, store, pq.read_table(manifest.root / entry.path), key, config, barred
                ),
            )
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


def _pack(
    out: PartWriter, store: Store, samples: pa.Table, key: str, config: ShardConfig, barred: _Barred
) -> dict[str, int]:
    Samples.check(samples)
    counts = Counter(gold_samples=samples.num_rows)
    chosen = samples.filter(pc.is_in(samples["split"], pa.array(list(config.splits))))
    counts["other_split"] = samples.num_rows - chosen.num_rows
    usable = [_reason(row, barred) for row in chosen.select(["sample_id", "images", "messages"]).to_pylist()]
    for reason in REASONS:
        counts[reason] = usable.count(reason)
    chosen = chosen.filter(pa.array([reason == "" for reason in usable], pa.bool_()))
    chosen = chosen.append_column("_picture", pc.binary_join(chosen["images"], ","))
    chosen = chosen.sort_by([("_picture", "ascending"), ("sample_id", "ascending")]).drop_columns(["_picture"])
    index: list[dict[str, Any]] = []
    for number, groups in enumerate(_shards(store, chosen, config)):
        name = f"{key}-{number:03d}.parquet"
        write_shard(out.path(name, table="shard"), _listed(groups, name, index), config)
        counts["shards"] += 1
    out.table("index", pa.Table.from_pylist(index, schema=ShardIndex.schema))
    counts["packed"] = len(index)
    return dict(counts)


def _listed(groups: Iterable[pa.Table], name: str, index: list[dict[str, Any]]) -> Iterator[pa.Table]:
    """The row groups of a shard; as each goes by, its rows are put into the index."""
    row = 0
    for place, group in enumerate(groups):
        actions = _action_types(group)
        for listed, action in zip(group.select(INDEX_COLUMNS).to_pylist(), actions, strict=True):
            index.append({**listed, "shard": name, "row": row, "row_group": place, "action": action})
            row += 1
        yield group


REASONS = ("contaminated", "unsafe", "refused", "without_picture", "held_out_picture")
INDEX_COLUMNS = ["sample_id", "tokens", "objective", "source", "platform", "split"]


def _reason(row: SampleRow, barred: _Barred) -> str:
    """Why a sample can't be packed (one of `REASONS`); empty if it can."""
    if row["sample_id"] in barred.samples:
        return "contaminated"
    if row["sample_id"] in barred.unsafe:
        return "unsafe"
    if row["sample_id"] in barred.refused:
        return "refused"
    places = sum(
        part.get("type") == "image"
        for turn in json.loads(row["messages"])
        for part in (turn["content"] if isinstance(turn["content"], list) else [])
    )
    if places != len(row["images"]) or places == 0:
        return "without_picture"
    return "held_out_picture" if barred.pictures.intersection(row["images"]) else ""


def _action_types(group: pa.Table) -> list[str]:
    """Of each row the type of its action, where its objective is navigation; empty where it has none."""
    found = pc.struct_field(pc.extract_regex(group["answer"], r"<action>\s*(?P<type>[A-Za-z]+)"), "type").to_pylist()
    navigates = pc.equal(group["objective"], "navigation").to_pylist()
    return [name if name and asked else "" for name, asked in zip(found, navigates, strict=True)]


def _shards(store: Store, samples: pa.Table, config: ShardConfig) -> Iterator[Iterator[pa.Table]]:
    """Row groups with pictures, cut into shards of about `shard_bytes`; one is to be read to its end before the next.
    Only a row group and the next are in memory."""
    groups = row_groups(store, samples, config.row_group_rows, SHARD)
    following = next(groups, None)

    def shard() -> Iterator[pa.Table]:
        nonlocal following
        size = 0
        while following is not None and (not size or size + following.nbytes <= config.shard_bytes):
            size += following.nbytes
            yield following
            following = next(groups, None)

    while following is not None:
        yield shard()


def write_shard(path: Path, groups: Iterable[pa.Table], config: ShardConfig) -> None:
    """A shard's file, each table a row group (or several, of `config.row_group_rows`). Groups that were read from an
    older shard keep its form."""
    following = iter(groups)
    first = next(following, None)
    schema = SHARD if first is None else first.schema
    leaves = _leaves(schema)
    pictures = "images.list.element.bytes"
    with pq.ParquetWriter(
        path,
        schema,
        compression={leaf: "NONE" if leaf == pictures else "ZSTD" for leaf in leaves},
        use_dictionary=True,
        dictionary_pagesize_limit=_DICTIONARY_BYTES,
        write_statistics=[leaf for leaf in leaves if leaf in ("sample_id", "objective", "source", "tokens")],
        store_schema=True,
    ) as writer:
        for group in following if first is None else chain([first], following):
            writer.write_table(group, row_group_size=config.row_group_rows)


def _leaves(schema: pa.Schema) -> list[str]:
    """Paths of the parquet leaf columns of a schema."""
    sink = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), sink)
    written = pq.ParquetFile(sink.getvalue()).schema
    return [written.column(i).path for i in range(len(written.names))]


def _totals(counts: Counter[str], index: pa.Table) -> dict[str, Any]:
    grouped = index.group_by("objective").aggregate([("tokens", "sum"), ("sample_id", "count")]).to_pylist()
    tokens = {row["objective"]: row["tokens_sum"] for row in grouped}
    return {**dict(counts), "tokens": dict(sorted(tokens.items())), "tokens_total": sum(tokens.values())}


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


assert SHARD.field("target_boxes").type == pa.list_(BOX)
