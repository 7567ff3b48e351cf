"""The rows that probes draw from: training samples of gold, or derived again from unified data under another rule.

A row is light: its pictures are digests, read from the store when a probe trains. Of a large source some parts are
read, chosen by a hash of their names, the same for every rule; rows that show a held-out picture, or that hygiene
removed, never train.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.store import Store
from pipelines.store.manifest import Manifest
from pipelines.store.remembered import remember, remembered
from pipelines.training_data.mixture import DUPLICATES
from pipelines.training_data.removed import CONTAMINATION, PEOPLE, SAFETY, removed_items
from quality.items.item import Episode
from quality.items.part import SourcePart, load_part
from quality.judges.judge import Judge, identity
from quality.judges.verdicts import judge_part
from quality.refinement.gold import gold_tables, licence_of
from quality.refinement.refine import Refined
from schemas.ids import digest
from schemas.rows import SampleRow
from schemas.tables import Samples

Keep = Callable[[str], bool]
"""Whether a step or native sample, by its item id, trains."""


@dataclass(frozen=True, slots=True)
class PoolRow:
    """A row of `Samples`, its pictures by their digests, and the digest of its content."""

    row: SampleRow
    digest: str

    @classmethod
    def of(cls, row: SampleRow) -> "PoolRow":
        """A row with its digest: of what trains, not of where it came from."""
        # where a row came from may change though not a byte of it does
        what = ("sample_id", "objective", "messages", "answer", "target_boxes", "images")
        return cls(row, digest([row[name] for name in what]))  # type: ignore[literal-required]


Pool = tuple[PoolRow, ...]


@dataclass(frozen=True)
class Cost:
    """What a source or rule cost beside its probes: rows that it gives, and its judge's tokens and minutes."""

    rows: int
    judge_tokens: int = 0
    judge_minutes: float = 0.0


class RowPools:
    """The pools of a store. `golds`: the version of each source's gold that is read; `parts`: how many parts of each
    are; `derivers`: those of the deployment, by which samples are derived again."""

    def __init__(self, store: Store, golds: Mapping[str, Manifest], parts: int, derivers: tuple[str, ...] = ()) -> None:
        self.store, self.golds, self._parts, self._derivers = store, dict(sorted(golds.items())), parts, derivers
        self._removed = [removed_items(store, asset) for asset in (CONTAMINATION, SAFETY, PEOPLE)]

    @cached_property
    def _held_out(self) -> frozenset[str]:
        """Pictures that a validation or test sample of any source shows."""
        # test samples of any source: a screen may come by several
        found: set[str] = set()
        for gold in self.golds.values():
            table = gold.read("samples", Samples.schema, ["split", "images"])
            shown = table.filter(pc.not_equal(table["split"], "train"))["images"].combine_chunks()
            found |= set(pc.unique(pc.list_flatten(shown)).to_pylist())
        return frozenset(found)

    def gold(self, source: str, manifest: Manifest | None = None) -> Pool:
        """What of a source is gold and may train, of another version of it if one is given."""
        manifest = manifest or self.golds[source]
        chosen = self._chosen(manifest.part_hashes)
        return self._usable([manifest.read_part(key, "samples", Samples.schema) for key in chosen])

    def deduplicated(self, pool: Pool) -> Pool:
        """A pool without what `hygiene/duplicates` displaced; as it is while that asset has no version."""
        duplicates = self.store.current(DUPLICATES)
        if duplicates is None:
            return pool
        named = duplicates.read("displaced", pa.schema([("item_id", pa.string())]), ["item_id"])["item_id"].to_pylist()
        displaced = frozenset(named)
        return tuple(one for one in pool if f"sample:{one.row['sample_id']}" not in displaced)

    def unified(self, source: str, keep: Keep | None = None) -> Pool:
        """What of a source was unified, without any repair, as training samples: all of it, or the steps and native
        samples that `keep` lets through. Raises `StoreError` if the source isn't unified."""
        manifest = self.store.require(f"unified/{source}")
        tables = []
        for key in self._chosen(manifest.part_hashes):
            part = load_part(manifest, key, self.store)
            tables.append(gold_tables(part.screens, _kept(part, keep), licence_of(source), self._derivers)[1])
        return self._usable(tables)

    def scores(self, source: str) -> dict[str, int]:
        """Item → the score of round 0 in `verdicts/<source>`, without abstentions."""
        verdicts = self.store.require(f"verdicts/{source}")
        rows = verdicts.read("verdicts", columns=["item_id", "score"]).to_pylist()
        return {row["item_id"]: row["score"] for row in rows if row["score"] is not None}

    def judged(self, source: str, judge: Judge) -> dict[str, int]:
        """Item → the score that a judge which asks no model gives the parts that are read; kept beside the probes, so
        that equal parts are judged once."""
        manifest = self.store.require(f"unified/{source}")
        files = manifest.part_hashes
        found: dict[str, int] = {}
        for key in self._chosen(files):
            name = digest([identity(judge), source, key, files[key]])
            path = self.store.home / "cache" / "worth" / "verdicts" / f"{name}.json"
            if (scores := remembered(path)) is None:
                verdicts = judge_part(load_part(manifest, key, self.store), judge)
                scores = {verdict.item_id: verdict.score for verdict in verdicts}
                remember(path, scores)
            found |= {item: score for item, score in scores.items() if score is not None}
        return found

    def _chosen(self, keys: Mapping[str, object]) -> list[str]:
        """The parts that are read: an old part stays chosen until others with a smaller hash come."""
        # by a hash of the name: which parts are read doesn't depend on how many there are
        return sorted(sorted(keys, key=lambda key: digest(["worth", key]))[: self._parts])

    def _usable(self, tables: Sequence[pa.Table]) -> Pool:
        """The training rows of these tables that no held-out sample and no removal forbids, by their ids."""
        found = {}
        for table in tables:
            for row in table.filter(pc.equal(table["split"], "train")).to_pylist():
                # a row without pictures has nothing to see, and nothing to be held out by
                barred = not row["images"] or not self._held_out.isdisjoint(row["images"])
                if not barred and not any(one.holds(row["sample_id"], row["parents"]) for one in self._removed):
                    found[row["sample_id"]] = PoolRow.of(row)
        return tuple(found[name] for name in sorted(found))


def judge_costs(store: Store, assets: Sequence[str]) -> tuple[int, float]:
    """Tokens and minutes of all the answers behind the current versions of these assets, whichever night paid them."""
    tokens, seconds = 0, 0.0
    for manifest in filter(None, map(store.current, assets)):
        for path in manifest.paths("costs"):
            table = pq.read_table(path, columns=["prompt_tokens", "completion_tokens", "seconds"])
            tokens += sum(pc.sum(table[name]).as_py() or 0 for name in ("prompt_tokens", "completion_tokens"))
            seconds += pc.sum(table["seconds"]).as_py() or 0.0
    return tokens, seconds / 60


def _kept(part: SourcePart, keep: Keep | None) -> Refined:
    """The rows of a part that are let through, as they are; a last screen stays with the action that led to it."""
    if keep is None:
        steps = [step.row for episode in part.episodes for step in episode.steps]
        return Refined(steps=steps, samples=[sample.row for sample in part.native_samples])
    steps = [row for episode in part.episodes for row in _kept_steps(episode, keep)]
    return Refined(steps=steps, samples=[sample.row for sample in part.native_samples if keep(sample.item_id)])


def _kept_steps(episode: Episode, keep: Keep) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    led = False
    for step in episode.steps:
        # a last screen follows the action that led to it
        led = led if step.row["action_text"] is None else keep(step.item_id)
        if led:
            found.append(step.row)
    return found
