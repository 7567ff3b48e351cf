"""A part of a source: its tables, and the items built from them on use.

`load_part` reads one part of `unified/<source>`; no picture is decoded before a judge asks for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.store.manifest import Manifest
from quality.items.item import Episode, Item, Sample, episodes_of, make_samples
from quality.items.screens import ScreenBank, ScreenSource
from schemas.tables import Samples, Screens, Steps


@dataclass(frozen=True)
class SourcePart:
    """One part of a source: tables and the items built from them."""

    key: str
    steps: pa.Table
    samples: pa.Table
    screens: pa.Table
    bank: ScreenBank = field(repr=False)

    @cached_property
    def episodes(self) -> list[Episode]:
        return list(episodes_of(self.steps, self.bank))

    @cached_property
    def native_samples(self) -> list[Sample]:
        return make_samples(self.samples.to_pylist(), self.bank)

    @property
    def items(self) -> list[Item]:
        return [*self.episodes, *self.native_samples]


def part_keys(manifest: Manifest) -> dict[str, dict[str, str]]:
    """Parts of a manifest: key → {table: sha256 of its file}."""
    parts: dict[str, dict[str, str]] = {}
    for entry in manifest.files:
        if entry.table is not None:
            parts.setdefault(_part_key(entry.path, entry.table), {})[entry.table] = entry.sha256
    return parts


def rows_by_part(manifest: Manifest) -> dict[str, int]:
    """Parts of a manifest: key → rows of `steps` and `samples`, which are what is judged."""
    rows: dict[str, int] = {}
    for entry in manifest.files:
        if entry.table is not None:
            counted = (entry.rows or 0) if entry.table in ("steps", "samples") else 0
            key = _part_key(entry.path, entry.table)
            rows[key] = rows.get(key, 0) + counted
    return rows


def _part_key(path: str, table: str) -> str:
    return path.rpartition("/")[2].removeprefix("part-").removesuffix(f".{table}.parquet")


def load_part(manifest: Manifest, key: str, source: ScreenSource) -> SourcePart:
    """One part of a unified manifest. Tables the part lacks are empty."""

    def read(name: str, schema: pa.Schema) -> pa.Table:
        for entry in manifest.files:
            if entry.table == name and _part_key(entry.path, name) == key:
                return pq.read_table(manifest.root / entry.path)
        return schema.empty_table()

    screens = read("screens", Screens.schema)
    return SourcePart(
        key, read("steps", Steps.schema), read("samples", Samples.schema), screens, ScreenBank(screens, source)
    )
