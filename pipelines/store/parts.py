"""The parts of a version: run once, written with a receipt, found again by what they were made from.

<asset>/<version>/part-<key>.<table>.parquet   what a part wrote
<asset>/parts/<digest>.json                    its receipt: its files with their hashes, and its counts
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.store.files import FileEntry, file_sha256, sealed, unsealed
from pipelines.store.object_store.binding import copies_of
from pipelines.store.object_store.copies import StoreCopies
from pipelines.whole_files import whole_file
from schemas.ids import digest

_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
ROW_GROUP_ROWS = 50_000
_UNIQUE = frozenset({"action_text", "native_action", "native", "provenance"})
"""Columns of texts most of which are different: a dictionary of them would be made for nothing."""
_ORDERED = frozenset({"episode_id", "step_index", "sample_id", "screenshot_sha256", "bucket"})
"""Columns that tables are sorted by. Only their first and last values tell a reader which rows it can leave out: the
others have about the same ones everywhere."""


@dataclass(frozen=True, slots=True)
class PartSpec:
    """A unit of work: its name within the asset, and the digest of all that its result depends on."""

    key: str
    inputs_digest: str

    def __post_init__(self) -> None:
        if not _KEY.fullmatch(self.key):
            raise ValueError(f"part key: expected letters, digits, '.', '_' and '-', found {self.key!r}")


@dataclass(frozen=True, slots=True)
class PartResult:
    """A finished part: its files, its counts, and whether it was there already."""

    key: str
    files: list[FileEntry]
    side_files: list[FileEntry]
    counts: dict[str, Any]
    skipped: bool


class PartWriter:
    """Given to a part's function: collects the files it writes, all in the version's folder."""

    def __init__(self, root: Path, version: str, stem: str) -> None:
        self._root = root
        self._version = version
        self._stem = stem
        self._entries: list[tuple[str, str | None, int | None, bool]] = []
        (root / version).mkdir(parents=True, exist_ok=True)

    def table(
        self,
        name: str,
        table: pa.Table,
        *,
        hashed: bool = True,
        chunk: int = 0,
        passing: bool = False,
        group_rows: int = ROW_GROUP_ROWS,
    ) -> None:
        """Write a table as `part-<key>.<name>.parquet`. A part too large for one file writes several: those of chunk n
        are named `part-<key>.<n>.<name>.parquet`, and stand for a part of their own to whoever reads the asset.

        `passing`: the table is read once, by the next stage of the same asset, and is written for speed instead of
        size. `group_rows`: rows of a row group, which a reader that looks for few of them reads whole."""
        number = f".{chunk:04d}" if chunk else ""
        relative = f"{self._version}/part-{self._stem}{number}.{name}.parquet"
        # Ids and words repeat and shrink by a dictionary; texts that are all different would only fill one.
        repeating = [column for column in table.column_names if column not in _UNIQUE]
        pq.write_table(
            table,
            self._root / relative,
            compression="lz4" if passing else "zstd",
            row_group_size=group_rows,
            use_dictionary=repeating,
            write_statistics=[name for name in table.column_names if name in _ORDERED],
            write_batch_size=group_rows,
        )
        self._entries.append((relative, name, table.num_rows, hashed))

    def path(self, name: str, *, table: str | None = None, hashed: bool = True) -> Path:
        """A path to write a file of one's own to, under the version's folder (`a/b.txt` makes the folder)."""
        relative = f"{self._version}/{name}"
        # A name may come from data: resolved, so that neither `..` nor a link leads out of the folder.
        if not (self._root / relative).resolve().is_relative_to((self._root / self._version).resolve()):
            raise ValueError(f"file name {name!r} leaves the version's folder")
        (self._root / relative).parent.mkdir(parents=True, exist_ok=True)
        self._entries.append((relative, table, None, hashed))
        return self._root / relative

    def side(self, kind: str, data: bytes) -> None:
        """Write a small file about the part, `part-<key>.<kind>`, which isn't part of the data version."""
        self.bytes(f"part-{self._stem}.{kind}", data, hashed=False)

    def arrow(self, kind: str, table: pa.Table) -> None:
        """The same with a table, `part-<key>.<kind>.arrow`, which opens many times faster than a parquet file."""
        path = self.path(f"part-{self._stem}.{kind}.arrow", hashed=False)
        with pa.ipc.new_file(path, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
            stream.write_table(table)

    def bytes(self, name: str, data: bytes, *, hashed: bool = True) -> None:
        """Write a small file."""
        self.path(name, hashed=hashed).write_bytes(data)

    def finish(self) -> tuple[list[FileEntry], list[FileEntry]]:
        """Hash what was written: (files, side files)."""
        lists: tuple[list[FileEntry], list[FileEntry]] = ([], [])
        for relative, table, rows, hashed in self._entries:
            path = self._root / relative
            if table is not None and rows is None:
                rows = pq.ParquetFile(path).metadata.num_rows
            entry = FileEntry(relative, table, rows, path.stat().st_size, file_sha256(path))
            lists[0 if hashed else 1].append(entry)
        return lists


PartFunction = Callable[[PartWriter], Mapping[str, Any] | None]


def run_part(
    root: Path, version: str, spec: PartSpec, function: PartFunction, *, stem: str | None = None
) -> PartResult:
    """Run one part unless it is there already; the marker is written last, so a killed part is done anew.

    `root` is the asset's folder; `stem` is what the part's files are named after (default: its key). Safe to call from
    several processes on different parts.
    """
    # Asked again although the caller has: another process may have finished the part meanwhile.
    if (found := find_part(root, spec)) is not None:
        return found
    writer = PartWriter(root, version, stem or spec.key)
    counts = dict(function(writer) or {})
    # Hashed before the receipt is written: the receipt is what makes the part exist.
    files, side_files = writer.finish()
    result = PartResult(spec.key, files, side_files, counts, skipped=False)
    marker = marker_of(root, spec)
    put_text(marker, sealed(json.dumps(asdict(result), sort_keys=True)))
    if (copies := copies_of(root)) is not None:
        # Behind a URL: files, then the receipt, so that no other machine finds one without its files.
        copies.put_part(root, marker, (*files, *side_files))
    return result


def find_part(root: Path, spec: PartSpec) -> PartResult | None:
    """A part that was run before and whose files are all there; else None. Of one that another machine ran, only the
    side files are fetched."""
    marker = marker_of(root, spec)
    if (copies := copies_of(root)) is not None:
        return _finished_anywhere(copies, root, marker)
    return _finished(root, marker)


def marker_of(root: Path, spec: PartSpec) -> Path:
    return root / "parts" / f"{digest([spec.key, spec.inputs_digest])[:32]}.json"


def _finished(root: Path, marker: Path) -> PartResult | None:
    if not marker.exists():
        return None
    found = read_marker(marker.read_text("utf-8", "replace"), marker)
    for entry in (*found.files, *found.side_files):
        path = root / entry.path
        # By size alone, as each rerun looks at every part; readers hold files to their digests.
        if not path.exists() or path.stat().st_size != entry.bytes:
            return None
    return found


def _finished_anywhere(copies: StoreCopies, root: Path, marker: Path) -> PartResult | None:
    """A part that is whole here is put there, if its receipt isn't there yet (this machine was cut off)."""
    here = _finished(root, marker)
    # One listing of the asset's receipts, instead of asking for each.
    is_there = marker.relative_to(root).as_posix() in copies.sizes(root)
    if here is not None:
        # The machine was cut off between the local receipt and the one behind the URL: make that good.
        if not is_there:
            copies.put_part(root, marker, (*here.files, *here.side_files))
        return here
    text = copies.read_text(marker) if is_there else None
    if text is None:
        return None
    found = read_marker(text, f"{copies.objects.url}/{copies.name(marker)}")
    # A receipt whose files were collected since: the part is run again.
    if not all(copies.has(root, entry) for entry in (*found.files, *found.side_files)):
        return None
    copies.fetch(root, found.side_files)
    return found


def read_marker(text: str, place: str | Path) -> PartResult:
    """A finished part by its receipt. Raises `StoreError`, which names its `place`, if it isn't what was written."""
    return unsealed(text, place, "the receipt of a part", lambda plain: PartResult(**{**plain, "skipped": True}))


def put_text(path: Path, text: str) -> None:
    """Make a small file appear whole or not at all, as one PUT does on an object store. One below `feedback/` is put
    behind the home's URL too, if it has one."""
    with whole_file(path, lasting=True) as part:
        part.write_text(text, encoding="utf-8")
    if (copies := copies_of(path, "feedback")) is not None:
        copies.put_feedback(path)
