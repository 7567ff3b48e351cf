"""The mapped tables of one part, written in chunks of bounded size: no record spans two.

Rows lie in order of the digests by which they are put into buckets (`pipelines.unify.buckets`), a few thousand to a row
group, so that whoever wants some buckets reads little else."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.mapping.fullest_list import is_fuller
from pipelines.mapping.unicode_text import without_nul
from pipelines.store import PartWriter
from pipelines.unify.buckets import TABLES, screens_with_digests, with_digests

CHUNK_ROWS = 24_576
"""Less than a full batch, which is in order already: together with another it would be sorted again."""
CHUNK_BYTES = 128 << 20
BUFFERED_ROWS = 2_048
"""Rows held as dicts before they become a table: a dict takes many times the memory."""
GROUP_ROWS = 4_096
"""Rows of a row group."""


class ChunkWriter:
    """Collects rows and tables of whole records; `may_end` between two records writes them once they are many."""

    def __init__(self, out: PartWriter) -> None:
        self._out = out
        self._rows: dict[str, list[Mapping[str, Any]]] = {name: [] for name in TABLES}
        self._tables: dict[str, list[pa.Table]] = {name: [] for name in TABLES}
        self._held = self._main = self._bytes = self._chunk = 0
        self._screens: dict[str, Sequence[Mapping[str, Any]]] = {}
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

    def is_news(self, sha256: str, elements: Sequence[Mapping[str, Any]]) -> bool:
        """Whether this chunk has no row of the picture yet, or one with a poorer list of elements."""
        # A picture is met again and again: only a list that says more than the last one is written.
        known = self._screens.get(sha256)
        if known is not None and not is_fuller(elements, known):
            return False
        self._screens[sha256] = elements
        return True

    def _settle(self, name: str) -> None:
        if self._rows[name]:
            table = TABLES[name].table(self._rows[name])
            self._tables[name].append(table)
            self._bytes += table.nbytes
            self._rows[name] = []

    def may_end(self) -> None:
        """Between two records: write a chunk if there is enough for one."""
        # Bytes as well as rows: elements of web pages make a few thousand rows as large as many plain ones.
        if self._main >= CHUNK_ROWS or self._bytes >= CHUNK_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what is held."""
        tables: dict[str, pa.Table] = {}
        for name in TABLES:
            self._settle(name)
            parts, self._tables[name] = self._tables[name], []
            if parts:
                tables[name], cells = without_nul(pa.concat_tables(parts))
                self.texts_cleaned += cells
                self._count_missing(name, tables[name])
        # Screens go by the rows that show them, so steps and samples of the chunk have to be known first.
        steps, samples = tables.get("steps"), tables.get("samples")
        for name, table in tables.items():
            rows = screens_with_digests(table, steps, samples) if name == "screens" else with_digests(name, table)
            self._out.table(name, rows, chunk=self._chunk, passing=True, group_rows=GROUP_ROWS)
        self._chunk += bool(tables)
        self._held = self._main = self._bytes = 0
        # Another chunk is another file: it has to hold the screens of its own rows.
        self._screens.clear()

    def _count_missing(self, name: str, table: pa.Table) -> None:
        if name == "steps":
            self.images_missing += table["screenshot_sha256"].null_count
        elif name == "samples":
            empty = pc.equal(pc.list_value_length(table["images"]), 0)
            self.images_missing += pc.sum(pc.fill_null(empty, True)).as_py() or 0
