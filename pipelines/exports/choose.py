"""Which rows of the shards an export takes: filters, scores of the judge, and the mixture where it is asked for.

Everything here reads light columns; pictures are read row group by row group, in the order of the choice.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from pipelines.exports.filters import Filters
from pipelines.exports.records import Picture, Sample, ext_of
from pipelines.store import Manifest, Store, StoreError
from pipelines.training_data import mixture
from pipelines.training_data.chat_turns import trained_turns
from pipelines.training_data.dataset_card import Group
from schemas.ids import item_sample
from schemas.tables import OBJECTIVES, SPLITS

_LIGHT = ["sample_id", "parents", *Group._fields]
_MORE = ["tokens", "parents", "synthetic", "provenance"]
_WHOLE = ["messages", "answer", "images", "target_boxes", *_MORE]
_VERSION = re.compile(r"@r\d+$")


@dataclass(frozen=True, slots=True)
class Chosen:
    """A row of a shard that is exported."""

    shard: Path
    row_group: int
    row: int
    """Within the row group, from 0."""
    sample_id: str
    group: Group
    score: int | None
    copy: int = 1
    """Which of its repeats this is, from 1."""


def choose(store: Store, shards: Manifest, filters: Filters, objectives: Sequence[str] = OBJECTIVES) -> list[Chosen]:
    """The rows that filters leave of `objectives`, by split, then in the order of the shards.

    Raises `ValueError`, which names what there is, for a source that no row has and if nothing is left; `StoreError` if
    verdicts or a mixture are asked for that the store doesn't hold for these shards.
    """
    scores = verdict_scores(store, shards) if filters.score is not None else {}
    repeats = _repeats(store, shards) if filters.mixture else None
    chosen: list[Chosen] = []
    seen: set[Group] = set()
    for path, number, row_group, row, plain in _light(shards.paths("shard")):
        group = Group(*(plain[name] for name in Group._fields))
        seen.add(group)
        if group.objective not in objectives or not filters.takes(group):
            continue
        # The sample itself and what it was derived from: the worst of them counts.
        items = (item_sample(plain["sample_id"]), *(_VERSION.sub("", parent) for parent in plain["parents"]))
        known = [scores[item] for item in items if item in scores]
        score = min(known) if known else None
        if filters.score is not None and (score is None or score < filters.score):
            continue
        times = 1 if repeats is None else repeats.get((path.name, number), 0)
        chosen += [Chosen(path, row_group, row, plain["sample_id"], group, score, copy + 1) for copy in range(times)]
    unscored = "; no judge's score is in its gold" if filters.score is not None and not scores else ""
    filters.require(shards.asset, seen, len(chosen), unscored)
    # Split by split, since a file holds one; sorting is stable, so rows stay in the order of their shards.
    return sorted(chosen, key=lambda one: SPLITS.index(one.group.split))


def counted(shards: Manifest) -> Counter[Group]:
    """All rows of the shards by group."""
    return Counter(Group(*(plain[name] for name in Group._fields)) for *_, plain in _light(shards.paths("shard")))


def _light(paths: Sequence[Path]) -> Iterator[tuple[Path, int, int, int, dict[str, Any]]]:
    """(file, row, its row group, its place within that, the light columns), row by row."""
    for path in paths:
        file, number = pq.ParquetFile(path), 0
        for row_group in range(file.num_row_groups):
            for row, plain in enumerate(file.read_row_group(row_group, _LIGHT).to_pylist()):
                yield path, number, row_group, row, plain
                number += 1


def verdict_scores(store: Store, shards: Manifest) -> dict[str, int]:
    """Item (without the version that a repair gave it) → its last score, of the gold that the shards were made from.
    Raises `StoreError` if that gold, or the verdicts that it was refined from, aren't in the store any more."""
    last: dict[str, tuple[int, int]] = {}
    for asset, version in sorted(shards.inputs.items()):
        if not asset.startswith("gold/"):
            continue
        gold = store.version(asset, version)
        first = [store.version(name, used) for name, used in gold.inputs.items() if name.startswith("verdicts/")]
        # Verdicts of round 0 first, then later rounds over them.
        for manifest in (*first, gold):
            for path in manifest.paths("verdicts"):
                for row in pq.read_table(path, columns=["item_id", "round", "score"]).to_pylist():
                    item = _VERSION.sub("", row["item_id"])
                    if row["score"] is not None and row["round"] >= last.get(item, (0, 0))[0]:
                        last[item] = (row["round"], row["score"])
    return {item: score for item, (_, score) in last.items()}


def _repeats(store: Store, shards: Manifest) -> dict[tuple[str, int], int]:
    """(name of a shard, row) → how often the mixture takes it."""
    manifest = store.require(mixture.ASSET)
    # A mixture of other shards counts other rows.
    if manifest.inputs.get(shards.asset) != shards.version:
        raise StoreError(
            f"{mixture.ASSET} {manifest.version}: expected a mixture of {shards.asset} {shards.version}, found one of "
            f"{manifest.inputs.get(shards.asset)}; materialise it, or export without it"
        )
    return {
        (row["shard"], number): times
        for row in manifest.read("mixture", mixture.Mixture.schema).to_pylist()
        for number, times in zip(row["rows"], row["repeats"], strict=True)
    }


def read(chosen: Sequence[Chosen], start: int = 0) -> Iterator[Sample]:
    """The samples from a place on with their pictures, in the order given; neighbours of one row group are read
    together."""
    placed = enumerate(chosen[start:], start)
    # Neighbours of a row group are read at once, as a row group is what can be read.
    for (path, row_group), rows in groupby(placed, key=lambda pair: (pair[1].shard, pair[1].row_group)):
        held = pq.ParquetFile(path).read_row_group(row_group, _WHOLE).to_pylist()
        yield from (_sample(index, one, held[one.row]) for index, one in rows)


def _sample(index: int, one: Chosen, row: dict[str, Any]) -> Sample:
    said = row["messages"]
    return Sample(
        # A sample that is taken twice needs two names.
        one.sample_id if one.copy == 1 else f"{one.sample_id}-{one.copy}",
        one.group,
        trained_turns(said, row["answer"]) if isinstance(said, str) else said,
        row["answer"],
        tuple(Picture(image["bytes"], ext_of(image["path"] or "")) for image in row["images"]),
        row["target_boxes"],
        one.score,
        {name: row[name] for name in _MORE},
        index,
    )
