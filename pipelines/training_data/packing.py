"""One part of gold packed into shards: what is left out and why, pictures as bytes, and the index of its rows."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.store import PartResult, PartSpec, PartWriter, Store, run_part
from pipelines.training_data.row_groups import row_groups
from pipelines.training_data.shard_form import SHARD, ShardConfig, ShardIndex, write_shard
from schemas.rows import SampleRow
from schemas.tables import Samples


@dataclass(frozen=True, slots=True)
class Barred:
    """What of a part may not be packed: pictures (sha256), and samples (ids) that are contaminated, unsafe, or refused
    by people."""

    pictures: frozenset[str]
    samples: frozenset[str]
    unsafe: frozenset[str]
    refused: frozenset[str] = frozenset()


@dataclass(frozen=True)
class ShardsPart:
    """All a worker needs to pack a part of gold: plain data."""

    home: str
    asset: str
    version: str
    spec: PartSpec
    gold: tuple[str, str]
    """Asset and version of the part."""
    samples: str
    """Path of its file below the asset."""
    config: ShardConfig
    barred: Barred


def run_shards_part(item: ShardsPart) -> PartResult:
    """Pack one part; called by an engine's workers."""
    store = Store(item.home)
    gold = store.version(*item.gold)
    return run_part(
        store.root(item.asset),
        item.version,
        item.spec,
        lambda out: _pack(out, store, pq.read_table(gold.root / item.samples), item.spec.key, item.config, item.barred),
    )


def _pack(
    out: PartWriter, store: Store, samples: pa.Table, key: str, config: ShardConfig, barred: Barred
) -> dict[str, int]:
    Samples.check(samples)
    counts = Counter(gold_samples=samples.num_rows)
    chosen = samples.filter(pc.is_in(samples["split"], pa.array(list(config.splits))))
    counts["other_split"] = samples.num_rows - chosen.num_rows
    # In the order of `REASONS`: each sample has one reason, the gravest.
    usable = [_reason(row, barred) for row in chosen.select(["sample_id", "images", "messages"]).to_pylist()]
    for reason in REASONS:
        counts[reason] = usable.count(reason)
    chosen = chosen.filter(pa.array([reason == "" for reason in usable], pa.bool_()))
    # By picture, so that the rows of one screen share a row group, whose dictionary holds it once.
    chosen = chosen.append_column("_picture", pc.binary_join(chosen["images"], ","))
    chosen = chosen.sort_by([("_picture", "ascending"), ("sample_id", "ascending")]).drop_columns(["_picture"])
    index: list[dict[str, Any]] = []
    for number, groups in enumerate(_shards(store, chosen, config)):
        name = f"{key}-{number:03d}.parquet"
        write_shard(out.path(name, table="shard"), _listed(groups, name, index), config)
        counts["shards"] += 1
    out.table("index", pa.Table.from_pylist(index, schema=ShardIndex.schema))
    # The index is filled while the shards are written, so it is complete only here.
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


def _reason(row: SampleRow, barred: Barred) -> str:
    """Why a sample can't be packed (one of `REASONS`); empty if it can."""
    if row["sample_id"] in barred.samples:
        return "contaminated"
    if row["sample_id"] in barred.unsafe:
        return "unsafe"
    if row["sample_id"] in barred.refused:
        return "refused"
    # Each place for a picture in the chat needs its picture; a text without any teaches nothing about
    # screens.
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
    # One expression over the column: no answer is parsed.
    found = pc.struct_field(pc.extract_regex(group["answer"], r"<action>\s*(?P<type>[A-Za-z]+)"), "type").to_pylist()
    navigates = pc.equal(group["objective"], "navigation").to_pylist()
    return [name if name and asked else "" for name, asked in zip(found, navigates, strict=True)]


def _shards(store: Store, samples: pa.Table, config: ShardConfig) -> Iterator[Iterator[pa.Table]]:
    """Row groups with pictures, cut into shards of about `shard_bytes`; one is to be read to its end before the next.
    Only a row group and the next are in memory."""
    groups = row_groups(store, samples, config.row_group_rows, SHARD)
    # One row group ahead, to know before a shard is closed whether the next still fits.
    following = next(groups, None)

    def shard() -> Iterator[pa.Table]:
        nonlocal following
        size = 0
        # The first always fits, or a row group larger than a shard would never be written.
        while following is not None and (not size or size + following.nbytes <= config.shard_bytes):
            size += following.nbytes
            yield following
            following = next(groups, None)

    while following is not None:
        yield shard()
