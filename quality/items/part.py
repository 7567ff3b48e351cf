"""A part of a source: its tables, and the items built from them on use.

`load_part` reads one part of `unified/<source>`; no picture is decoded before a judge asks for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

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


def rows_by_part(manifest: Manifest, names: Sequence[str] = ("steps", "samples")) -> dict[str, int]:
    """Parts of a manifest: key → rows of some tables, by default of what is judged."""
    return {
        key: sum(tables[name].rows or 0 for name in names if name in tables) for key, tables in manifest.by_part.items()
    }


def load_part(manifest: Manifest, key: str, source: ScreenSource) -> SourcePart:
    """One part of a unified manifest. Tables the part lacks are empty."""
    screens = manifest.read_part(key, "screens", Screens.schema)
    return SourcePart(
        key,
        manifest.read_part(key, "steps", Steps.schema),
        manifest.read_part(key, "samples", Samples.schema),
        screens,
        ScreenBank(screens, source),
    )
