"""Finding rows in the tables of many versions at once: column filters of Arrow over each file once."""

import functools
import json
import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dagster_project.lineage.id_index import index_of
from dagster_project.lineage.manifests import Node
from dagster_project.lineage.table_files import TableFile, distinct_files, open_files
from pipelines.store.manifest import Manifest

Row = dict[str, Any]
FILE = "__filename"


def isin(column: str, values: Iterable[str]) -> pc.Expression:
    """Rows whose text column is one of `values`, of which there may be none."""
    return pc.field(column).isin(pa.array(sorted(set(values)), pa.string()))


def scan(paths: Sequence[Path], columns: Sequence[str], where: pc.Expression) -> list[tuple[Path, Row]]:
    """(file, row) of all rows that meet a filter; row groups whose statistics exclude it aren't read. Raises
    `ValueError` if a file is missing or damaged."""
    if not paths:
        return []
    import pyarrow.dataset as ds

    names = {str(path): path for path in paths}
    try:
        # One scan of all files: Arrow reads them side by side, and only the row groups that can match.
        table = ds.dataset(list(names), format="parquet").to_table(columns=[*columns, FILE], filter=where)
    except (OSError, pa.ArrowInvalid) as error:
        raise ValueError(f"a table of the store can't be read: {str(error).splitlines()[0][:200]}") from error
    rows = table.to_pylist()
    return [(names[row.pop(FILE)], row) for row in rows]


class TableVersions:
    """One table (`steps`, `samples`, ...) over versions of assets; a file that several versions hold is read once, and
    one that isn't asked of isn't opened."""

    def __init__(self, manifests: Iterable[Manifest], table: str) -> None:
        self.table = table
        self._files = distinct_files(manifests, table)

    @functools.cached_property
    def _by_path(self) -> dict[Path, TableFile]:
        return {file.path: file for file in self._files}

    def stem(self, path: Path) -> str:
        """What the part of a file is called: the same in `unified`, `verdicts` and `gold`."""
        return self._by_path[path].entry.part

    def where(
        self, columns: Sequence[str], where: pc.Expression, stems: Collection[str] | None = None
    ) -> list[tuple[Path, Row]]:
        """`scan` over all files, or those of some parts."""
        return scan(open_files(self._of(stems)), columns, where)

    def with_ids(
        self, columns: Sequence[str], column: str, ids: Collection[str], where: pc.Expression | None = None
    ) -> list[tuple[Path, Row]]:
        """Rows whose text `column` is one of `ids` (and that meet `where`); of the files only those are opened that the
        index names."""
        files = self._files
        # Files whose index doesn't know any of the ids aren't even opened.
        found = index_of(files[0].home).files_with(column, files, ids) if files and ids else []
        wanted = isin(column, ids)
        return scan(open_files(found), columns, wanted if where is None else wanted & where)

    def _of(self, stems: Collection[str] | None) -> list[TableFile]:
        return [file for file in self._files if stems is None or file.entry.part in stems]

    def versions(self, paths: Iterable[Path]) -> set[Node]:
        """The versions that hold one of these files."""
        return {(manifest.asset, manifest.version) for path in paths for manifest in self._by_path[path].holders}

    def listing(
        self,
        column: str,
        wanted: Collection[str],
        stems: Collection[str] | None = None,
        *,
        key: str = "sample_id",
        prefix: bool = False,
    ) -> dict[str, Path]:
        """Rows whose list `column` holds one of `wanted` (or a text that begins so) → {key of the row: its file}."""
        found: dict[str, Path] = {}
        values = pa.array(sorted(wanted), pa.string())
        for path in open_files(self._of(stems)):
            table = pq.read_table(path, columns=[key, column])
            flat = pc.list_flatten(table[column])
            # Rows of the flattened list, back to the row of the table that each is in.
            rows = pc.list_parent_indices(table[column])
            hit = _begins(flat, sorted(wanted)) if prefix else pc.is_in(flat, value_set=values)
            for name in table[key].take(pc.unique(rows.filter(hit))).to_pylist():
                found[name] = path
        return found


def _begins(texts: pa.ChunkedArray, prefixes: Sequence[str]) -> pa.ChunkedArray:
    hit = pa.chunked_array([pa.repeat(pa.scalar(False), len(texts))])
    for prefix in prefixes:
        hit = pc.or_(hit, pc.starts_with(texts, prefix))
    return hit


ROUNDS = 9
"""Rounds of refinement that are looked for; an item of round n goes by `<item>@rN`."""


def with_rounds(names: Iterable[str]) -> list[str]:
    """Item ids, and those of the items that refinement built from them, sorted."""
    return sorted({f"{name}{round_}" for name in names for round_ in ("", *(f"@r{n}" for n in range(1, ROUNDS + 1)))})


def without_round(item_id: str) -> str:
    """The item that `<item>@rN` was built from."""
    return re.sub(r"@r\d+$", "", item_id)


def plain_json(text: str | None) -> Any:
    """A JSON column's value; the text itself where it isn't JSON."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text
