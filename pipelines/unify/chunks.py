"""The tables of one part, written in chunks of bounded size: each is sorted, and no episode spans two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.mapping.columns import sorted_steps
from pipelines.mapping.unicode_text import without_nul
from pipelines.store import PartWriter
from schemas.tables import Quarantine, Samples, Screens, Steps, Table

CHUNK_ROWS = 24_576
"""Less than a full batch, which is in order already: together with another it would be sorted again."""
CHUNK_BYTES = 128 << 20
BUFFERED_ROWS = 2_048
"""Rows held as dicts before they become a table: a dict takes many times the memory."""
TABLES: dict[str, type[Table]] = {"steps": Steps, "samples": Samples, "screens": Screens, "quarantine": Quarantine}


class ChunkWriter:
    """Collects rows and tables of whole records; `may_end` between two records writes them once they are many."""

    def __init__(self, out: PartWriter) -> None:
        self._out = out
        self._rows: dict[str, list[Mapping[str, Any]]] = {name: [] for name in TABLES}
        self._tables: dict[str, list[pa.Table]] = {name: [] for name in TABLES}
        self._held = self._main = self._bytes = self._chunk = 0
        self._screens: set[str] = set()
        self.images = 0
        self.images_missing = 0
        self.texts_cleaned = 0

    def rows(self, name: str, rows: Sequence[Mapping[str, object]]) -> None:
        """Add rows as dicts."""
        self._rows[name] += rows
        self._hold(name, len(rows))
        if len(self._rows[name]) >= BUFFERED_ROWS:
            self._settle(name)

    def table(self, name: str, table: pa.Table) -> None:
        """Add rows as a table that was checked."""
        self._tables[name].append(table)
        self._hold(name, table.num_rows)
        self._bytes += table.nbytes

    def _hold(self, name: str, rows: int) -> None:
        self._held += rows
        self._main += rows if name in ("steps", "samples") else 0

    def is_new_screen(self, sha256: str) -> bool:
        """Whether a picture has no row in this chunk yet; it has one from now on."""
        if sha256 in self._screens:
            return False
        self._screens.add(sha256)
        return True

    def _settle(self, name: str) -> None:
        if self._rows[name]:
            table = TABLES[name].table(self._rows[name])
            self._tables[name].append(table)
            self._bytes += table.nbytes
            self._rows[name] = []

    def may_end(self) -> None:
        """Between two records: write a chunk if there is enough for one."""
        if self._main >= CHUNK_ROWS or self._bytes >= CHUNK_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what is held. The first chunk always has a quarantine table, be it empty."""
        if not self._held and self._chunk:
            return
        for name, kind in TABLES.items():
            self._settle(name)
            tables, self._tables[name] = self._tables[name], []
            if not tables and (name != "quarantine" or self._chunk):
                continue
            whole, cells = without_nul(pa.concat_tables(tables) if tables else kind.schema.empty_table())
            self.texts_cleaned += cells
            self._count(name, whole)
            del tables
            self._out.table(name, _SORTED.get(name, lambda table: table)(whole), chunk=self._chunk)
        self._chunk += 1
        self._held = self._main = self._bytes = 0
        self._screens.clear()

    def _count(self, name: str, table: pa.Table) -> None:
        if name == "steps":
            self.images_missing += table["screenshot_sha256"].null_count
        elif name == "samples":
            empty = pc.equal(pc.list_value_length(table["images"]), 0)
            self.images_missing += pc.sum(pc.fill_null(empty, True)).as_py() or 0
        elif name == "screens":
            self.images += table.num_rows


_SORTED = {
    "steps": sorted_steps,
    "samples": lambda table: table.sort_by("sample_id"),
    "screens": lambda table: table.sort_by("screenshot_sha256"),
}
