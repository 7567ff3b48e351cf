"""Reads a judge bench's folder: as a judge gets it, and its truth (`quality.items.truth`), which no judge gets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from quality.items.folder import read_directory
from quality.items.part import SourcePart
from quality.items.screens import ScreenBank, ScreenSource
from quality.items.truth import BANDS, DEFECTS, LABELS, Truth


class _PicturesOnly:
    """A `ScreenSource` that gives pictures and nothing else: no folder, no path."""

    __slots__ = ("screen_bytes",)

    def __init__(self, source: ScreenSource) -> None:
        self.screen_bytes = source.screen_bytes


def judged_part(folder: Path, elements: bool = True) -> SourcePart:
    """The bench as a judge gets it: as `read_directory` reads it, without its place on the disk; with
    `elements=False` no screen lists any."""
    part = read_directory(folder)
    screens = part.screens
    if not elements:
        place = screens.schema.get_field_index("elements")
        empty = pa.array([[]] * screens.num_rows, screens.schema.field(place).type)
        screens = screens.set_column(place, screens.schema.field(place), empty)
    # Without its folder: a judge that knew the path could open the truth beside it.
    return replace(part, key="bench", screens=screens, bank=ScreenBank(screens, _PicturesOnly(part.bank.source)))


def read_truth(folder: Path, part: SourcePart) -> list[dict[str, Any]]:
    """Rows of `truth.parquet`. Raises `ValueError` if it is missing, malformed, or names items the bench lacks."""
    path = folder / "truth.parquet"
    try:
        table = pq.read_table(path)
        Truth.check(table)
    except FileNotFoundError:
        raise ValueError(
            f"{folder}: expected truth.parquet of a judge bench, found none; build one with `vesper judge bench`"
        ) from None
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ValueError(f"{path}: isn't the truth of a judge bench: {error}") from error
    rows = table.to_pylist()
    known = {
        item_id
        for episode in part.episodes
        for item_id in (episode.item_id, *(s.item_id for s in episode.actions))
        # Only these three kinds of items are labelled.
    }
    known |= {sample.item_id for sample in part.native_samples}
    met: set[str] = set()
    for row in rows:
        item_id = row["item_id"]
        problem = None
        if item_id not in known:
            problem = "names no episode, step with an action, or sample of the bench"
        elif item_id in met:
            problem = "is there twice"
        elif row["label"] not in LABELS or row["band"] not in BANDS:
            problem = f"has label {row['label']!r:.40} and band {row['band']!r:.40}, expected {LABELS} and {BANDS}"
        elif row["label"] == "planted" and row["kind"] not in DEFECTS:
            problem = f"has the defect {row['kind']!r:.40}, expected one of {', '.join(DEFECTS)}"
        if problem:
            raise ValueError(f"{path}: item {item_id!r:.120} {problem}")
        met.add(item_id)
    # An empty truth would give perfect figures.
    if not rows:
        raise ValueError(f"{path}: expected labelled items, found none")
    return rows
