"""`review/queue`: which items people are to look at, from the gold and the rejects of all sources; and opening them.

One part a gold part holds its candidates (no more of a cell than a whole queue would take, so a large source costs no
memory), one last part the queue drawn from all. Unchanged parts aren't read again.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.store import PartSpec, PartWriter, Store
from pipelines.store.files import StoreError
from pipelines.store.manifest import Check, CheckSpec, Manifest
from quality.code_version import code_digest
from quality.items.folder import read_directory
from quality.items.item import Episode, Item, Row, base_id, make_episode, make_samples
from quality.items.part import SourcePart, load_part
from quality.items.screens import ScreenBank, ScreenSource
from quality.judges.verdicts import last_verdicts
from quality.review.sampling import (
    Cell,
    Judged,
    QueueConfig,
    QueuedItem,
    ReviewCandidate,
    draw,
    episode_candidate,
    first_of_cells,
    is_native,
    sample_candidate,
)
from quality.review.trajectories import ReviewTrajectory, shown
from schemas.ids import digest
from schemas.tables import Column, Samples, Screens, Steps, Table, Verdicts

ASSET = "review/queue"
CODE_VERSION = f"1.{code_digest(('review/queue', 'review/sampling', 'items/screens', 'items/item', 'items/part'))}"
FULL = CheckSpec("the queue is as long as it can be", "Fewer items were drawn than there are candidates for")
HAS_ITEMS = CheckSpec("there is something to review", "No candidate has a picture", blocking=False)
OPENABLE = CheckSpec("every item can be opened", "An item's screens aren't in the store")
ALL_STRATA = CheckSpec("every stratum is drawn from", "Some kinds of items have nobody in the queue", blocking=False)
CHECKS = (FULL, HAS_ITEMS, OPENABLE, ALL_STRATA)


class Queue(Table, version=1):
    """An item to review; `priority` 0 comes first, `weight` is how many candidates it stands for."""

    item_id = Column(pa.string(), "the item to look at")
    source = Column(pa.string(), "name of the dataset")
    stratum = Column(pa.string(), "source, platform and objective, with an episode's rarest action")
    reason = Column(pa.string(), "why it was drawn, in words")
    priority = Column(pa.int32(), "0 comes first")
    band = Column(pa.string(), "band of scores that it was drawn from")
    score = Column(pa.int8(), "the judge's lowest on it and its steps, 0 to 10", null=True)
    confidence = Column(pa.float32(), "of the judge, 0 to 1", null=True)
    weight = Column(pa.float64(), "how many candidates it stands for")
    origin = Column(pa.string(), "gold or rejected")
    part = Column(pa.string(), "part of the source's data that holds it")


class Candidates(Table, version=1):
    """An item that may be drawn."""

    item_id = Column(pa.string(), "the item")
    source = Column(pa.string(), "name of the dataset")
    platform = Column(pa.string(), "mobile, web or desktop")
    kind = Column(pa.string(), "its objective, or the rarest action of an episode")
    score = Column(pa.int8(), "the judge's lowest on it and its steps, 0 to 10", null=True)
    confidence = Column(pa.float32(), "of the judge, 0 to 1", null=True)
    origin = Column(pa.string(), "gold or rejected")
    part = Column(pa.string(), "part of the source's data that holds it")


@dataclass(frozen=True)
class Inputs:
    """A source's gold and what it was built from; None where a source (generated trajectories) has no such stage."""

    gold: Manifest
    unified: Manifest | None
    verdicts: Manifest | None

    @classmethod
    def of(cls, store: Store, gold: Manifest) -> "Inputs":
        source = gold.asset.partition("/")[2]

        def made_from(stage: str) -> Manifest | None:
            version = gold.inputs.get(f"{stage}/{source}")
            return store.version(f"{stage}/{source}", version) if version else None

        return cls(gold, made_from("unified"), made_from("verdicts"))

    @property
    def source(self) -> str:
        return self.gold.asset.partition("/")[2]

    def files(self, key: str) -> list[dict[str, str]]:
        """Hashes of all files that a part's candidates depend on."""
        manifests = (self.gold, self.unified, self.verdicts)
        return [manifest.part_hashes.get(key, {}) if manifest else {} for manifest in manifests]


def build_queue(store: Store, sources: Sequence[str], config: QueueConfig | None = None) -> Manifest:
    """Gold, rejects and verdicts of `sources` → table `queue`. Raises `StoreError` if one has no gold."""
    config = config or QueueConfig()
    found = [Inputs.of(store, store.require(f"gold/{source}")) for source in sorted(set(sources))]
    work = {
        PartSpec(f"{one.source}.{key}", digest([CODE_VERSION, config.plain(), one.files(key)])): (one, key)
        for one in found
        for key in one.gold.part_hashes
    }
    # The queue is drawn from all parts, so it is one of its own.
    last = PartSpec("queue", digest([CODE_VERSION, config.plain(), [spec.inputs_digest for spec in work]]))
    inputs = {m.asset: m.version for one in found for m in (one.gold, one.unified, one.verdicts) if m is not None}
    with store.build(
        ASSET, code_version=CODE_VERSION, config=config.plain(), inputs=inputs, parts=[*work, last]
    ) as build:
        sizes: Counter[Cell] = Counter()
        paths: list[Path] = []
        for spec, (one, key) in work.items():
            # Each part hands on only what could be drawn from it.
            result = build.run_part(spec, lambda out, one=one, key=key: _candidates(out, store, one, key, config))  # type: ignore[misc]
            sizes.update({(stratum, name): size for stratum, name, size in result.counts["cells"]})
            paths += [build.root / entry.path for entry in result.files]

        def write(out: PartWriter) -> dict[str, object]:
            rows = [row for path in paths for row in pq.read_table(path).to_pylist()]
            drawn = draw([ReviewCandidate(**row) for row in rows], config, sizes)
            out.table("queue", Queue.table(asdict(one) for one in drawn))
            # Opened once at the end: an item that can't be shown mustn't reach a person.
            opened = sum(1 for _ in _open(store, {one.source: one for one in found}, [asdict(one) for one in drawn]))
            return {"opened": opened, **_queue_counts(drawn, sizes)}

        counts = build.run_part(last, write).counts
        return build.commit(counts=counts, checks=_checks(counts, config))


def _queue_counts(drawn: Sequence[QueuedItem], sizes: Mapping[Cell, int]) -> dict[str, Any]:
    strata = {stratum for stratum, _ in sizes}
    return {
        "queued": len(drawn),
        "candidates": sum(sizes.values()),
        "strata": len(strata),
        "strata_drawn": len({one.stratum for one in drawn}),
        "bands": dict(sorted(Counter(one.band for one in drawn).items())),
        "sources": dict(sorted(Counter(one.source for one in drawn).items())),
    }


def _checks(counts: Mapping[str, Any], config: QueueConfig) -> list[Check]:
    queued, wanted = counts["queued"], min(config.size, counts["candidates"])
    return [
        FULL.check(queued == wanted, queued, wanted),
        HAS_ITEMS.check(queued > 0, queued, "more than 0", limit=0),
        OPENABLE.check(counts["opened"] == queued, counts["opened"], queued),
        ALL_STRATA.check(
            counts["strata_drawn"] == min(counts["strata"], wanted),
            counts["strata_drawn"],
            min(counts["strata"], wanted),
        ),
    ]


def _candidates(out: PartWriter, store: Store, one: Inputs, key: str, config: QueueConfig) -> dict[str, Any]:
    gold = load_part(one.gold, key, store)
    # Verdicts of later rounds lie in gold.
    judged = [one.verdicts, one.gold] if one.verdicts else [one.gold]
    rows = [row for m in judged for row in m.read_part(key, "verdicts", Verdicts.schema).to_pylist()]
    raw = load_part(one.unified, key, store) if one.unified else None
    # Cells' true sizes go along, as weights need them.
    retained, sizes = first_of_cells(candidates_of(gold, rows, raw), config)
    names = Candidates.schema.names
    out.table("candidates", Candidates.table({n: getattr(c, n) for n in names} for c in _with_part(retained, key)))
    return {"cells": [[*cell, size] for cell, size in sorted(sizes.items())]}


def _with_part(candidates: Iterable[ReviewCandidate], key: str) -> Iterator[ReviewCandidate]:
    for one in candidates:
        yield ReviewCandidate(**{**asdict(one), "part": key})


def candidates_of(
    gold: SourcePart, verdicts: Iterable[Row], raw: SourcePart | None = None
) -> Iterator[ReviewCandidate]:
    """Episodes and native samples that are gold, then those of `raw` of which nothing became gold. What has no picture
    is left out: nobody could say whether it is right."""
    judged = last_verdicts(verdicts)
    seen = set()
    for item in _reviewable(gold):
        seen.add(base_id(item.item_id))
        yield _candidate(item, judged, "gold")
    for item in _reviewable(raw) if raw else ():
        if base_id(item.item_id) not in seen:
            yield _candidate(item, judged, "rejected")


def _reviewable(part: SourcePart) -> Iterator[Item]:
    yield from (one for one in part.episodes if any(step.screen for step in one.steps))
    # Derived samples stand and fall with their parents.
    yield from (one for one in part.native_samples if one.row["images"] and is_native(one))


def _candidate(item: Item, judged: Judged, origin: str) -> ReviewCandidate:
    return (episode_candidate if isinstance(item, Episode) else sample_candidate)(item, judged, origin)  # type: ignore[arg-type]


# --- opening ----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class OpenQueue:
    """A queue with its items, in order of priority."""

    rows: dict[str, Row]
    items: dict[str, Item]
    version: str
    """Of the asset, or a digest of what a folder holds."""
    screens: tuple[Row, ...] = ()
    """Rows of `screens` of the items' pictures, if asked for."""

    @cached_property
    def trajectories(self) -> dict[str, ReviewTrajectory]:
        """The items as people see them."""
        return {item_id: shown(item) for item_id, item in self.items.items()}


def open_queue(store: Store, *, elements: bool = False) -> OpenQueue:
    """The current queue of a store; `elements`: with what is known of the screens, which people don't see.
    Raises `StoreError` if there is none, or an item of it is gone."""
    manifest = store.require(ASSET)
    opened = _open_rows(store, manifest, manifest.read("queue").to_pylist(), elements)
    # Better none than a queue with holes that nobody notices.
    if missing := [row["item_id"] for row in opened.rows.values() if row["item_id"] not in opened.items]:
        raise StoreError(f"{ASSET}: {len(missing)} items can't be opened, first {missing[0]}; materialise it again")
    return opened


def ever_queued(store: Store) -> set[str]:
    """Ids of all items that any version of the queue holds that is still there."""
    versions = (store.version(ASSET, path.parent.name) for path in store.root(ASSET).glob("*/manifest.json"))
    return {item_id for one in versions for item_id in one.read("queue", Queue.schema)["item_id"].to_pylist()}


def open_earlier(store: Store, wanted: Mapping[str, str], *, elements: bool = False) -> list[OpenQueue]:
    """Items that the current queue doesn't hold any more (item → digest of the content), from the versions before it,
    as far as they are still there."""
    left, found = dict(wanted), []
    for path in sorted(store.root(ASSET).glob("*/manifest.json")):
        manifest = store.version(ASSET, path.parent.name)
        rows = [row for row in manifest.read("queue", Queue.schema).to_pylist() if row["item_id"] in left]
        # A version that failed its checks was never shown.
        if not rows or not manifest.checks_passed:
            continue
        try:
            opened = _open_rows(store, manifest, rows, elements)
        except (StoreError, OSError):  # what it was built from is gone
            continue
        # Only what is still as people saw it.
        same = {i for i, one in opened.trajectories.items() if one.digest == left.get(i)}
        found.append(
            OpenQueue(
                {i: row for i, row in opened.rows.items() if i in same},
                {i: item for i, item in opened.items.items() if i in same},
                opened.version,
                opened.screens,
            )
        )
        # Each item once, from the first version that has it.
        left = {item_id: content for item_id, content in left.items() if item_id not in same}
    return found


def _open_rows(store: Store, manifest: Manifest, listed: Iterable[Row], elements: bool) -> OpenQueue:
    """Rows of a version of the queue with those of their items that can be opened, in order of priority."""
    found = {}
    for asset, version in manifest.inputs.items():
        if asset.startswith("gold/"):
            one = Inputs.of(store, store.version(asset, version))
            found[one.source] = one
    # Order of priority, which is the order in which people are asked.
    rows = sorted(listed, key=lambda row: row["priority"])
    screens: list[Row] | None = [] if elements else None
    opened = {one.item_id: one for one in _open(store, found, rows, screens)}
    items = {row["item_id"]: opened[row["item_id"]] for row in rows if row["item_id"] in opened}
    return OpenQueue({row["item_id"]: row for row in rows}, items, manifest.version, tuple(screens or ()))


def _open(
    store: Store, inputs: Mapping[str, Inputs], rows: Iterable[Row], screens: list[Row] | None = None
) -> Iterator[Item]:
    grouped: dict[tuple[str, str, str], list[str]] = {}
    for row in rows:
        grouped.setdefault((row["source"], row["origin"], row["part"]), []).append(row["item_id"])
    for (source, origin, key), wanted in grouped.items():
        one = inputs[source]
        manifest = one.gold if origin == "gold" else one.unified
        if manifest is not None:
            yield from _open_part(manifest, one.unified, key, wanted, store, screens)


def _open_part(
    manifest: Manifest,
    unified: Manifest | None,
    key: str,
    wanted: Sequence[str],
    source: ScreenSource,
    screens: list[Row] | None,
) -> Iterator[Item]:
    """The wanted items of one part; only their rows are read. Rows of their screens are put into `screens`."""
    episodes = [base_id(name).partition(":")[2].partition("/")[2] for name in wanted if name.startswith("episode:")]
    samples = [base_id(name).partition(":")[2] for name in wanted if name.startswith("sample:")]
    steps = _where(manifest, key, "steps", "episode_id", episodes)
    rows = _where(manifest, key, "samples", "sample_id", samples)
    if screens is not None and unified is not None:
        shas = {row["screenshot_sha256"] for row in steps if row["screenshot_sha256"]}
        shas |= {sha for row in rows for sha in row["images"] or ()}
        screens += _where(unified, key, "screens", "screenshot_sha256", sorted(shas))
    bank = ScreenBank(Screens.schema.empty_table(), source)
    grouped: dict[str, list[Row]] = {}
    for row in steps:
        grouped.setdefault(row["episode_id"], []).append(row)
    yield from (make_episode(inside, bank) for inside in grouped.values())
    yield from make_samples(rows, bank)


def _where(manifest: Manifest, key: str, table: str, column: str, values: Sequence[str]) -> list[Row]:
    schema = {"steps": Steps.schema, "samples": Samples.schema, "screens": Screens.schema}[table]
    if not values:
        return []
    rows = manifest.read_part(key, table, schema, filters=[(column, "in", values)])
    return rows.to_pylist()  # type: ignore[no-any-return]


def open_folder(folder: Path, config: QueueConfig | None = None) -> OpenQueue:
    """A queue drawn from what `vesper unify` or `vesper refine` wrote (with the verdicts, if any lie there).
    Raises `ValueError` if the folder holds no such tables."""

    config = config or QueueConfig()
    part = read_directory(folder)
    path = folder / "verdicts.parquet"
    verdicts = pq.read_table(path).to_pylist() if path.is_file() else []
    items = {item.item_id: item for item in _reviewable(part)}
    if not items:
        raise ValueError(
            f"{folder}: expected items with screenshots to review, found none among {len(part.items)} items"
        )
    judged = last_verdicts(verdicts)
    candidates = [_candidate(item, judged, "gold") for item in items.values()]
    rows = [asdict(one) for one in draw(candidates, config)]
    return OpenQueue(
        {row["item_id"]: row for row in rows},
        {row["item_id"]: items[row["item_id"]] for row in rows},
        digest(sorted(items))[:16],
    )


__all__ = ["ASSET", "CODE_VERSION", "OpenQueue", "Queue", "build_queue", "open_folder", "open_queue"]
