"""Row groups of shards on demand: checksum on first open, a bounded cache, safe for several threads."""

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.store.files import file_sha256
from pipelines.training_data.chat_turns import prompts
from schemas.ids import digest

CACHE_BYTES = 512 * 2**20
_FOR_OTHER_READERS = ("images.list.element.path", "messages.list.element.content.list.element.image_index")
OPEN_FILES = 128
"""Open parquet files a thread keeps."""


class ShardError(RuntimeError):
    """A shard is missing, damaged or not a shard; names the file and what to do."""


@dataclass(frozen=True)
class ShardRows:
    """A shard and the rows chosen of it: `rows`, `repeats` and `row_groups` have one entry a row.

    `sha256` is of the whole file; None leaves the check out (a file outside a store).
    """

    path: Path
    sha256: str | None
    rows: Sequence[int]
    repeats: Sequence[int]
    row_groups: Sequence[int]

    @property
    def name(self) -> str:
        """The file's name."""
        return self.path.name

    @classmethod
    def whole(cls, path: Path) -> "ShardRows":
        """Every row of a file once. Raises `ValueError` if it isn't a shard."""
        try:
            file = pq.ParquetFile(path)
        except (OSError, pa.ArrowException) as error:
            raise ValueError(f"{path}: not a readable parquet shard: {str(error).splitlines()[0]}") from error
        names = set(file.schema_arrow.names)
        if missing := {"sample_id", "images", "messages", "answer"} - names:
            raise ValueError(f"{path}: not a shard, columns {sorted(missing)} are missing")
        # Of each row its row group, which the reader fetches by.
        sizes = [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]
        groups = np.repeat(np.arange(len(sizes)), sizes)
        return cls(path, None, range(len(groups)), [1] * len(groups), groups.tolist())

    def digest(self) -> str:
        """Digest of what is read, not of where it lies."""
        return digest([self.name, self.sha256, list(self.rows), list(self.repeats)])


def shard_paths(path: Path) -> list[Path]:
    """The shards of a folder that `vesper shard` wrote (`data/*.parquet`, once `shards/*.parquet`), or of a plain
    folder of shards; a file is itself. Raises `ValueError` for a folder without any."""
    if not path.is_dir():
        # New and old layout before the plain folder, which may hold an index beside them.
        return [path]
    for folder in (path / "data", path / "shards", path):
        if found := sorted(folder.glob("*.parquet")):
            return found
    raise ValueError(f"{path}: expected shards (data/*.parquet), as `vesper shard` writes them, found none")


class _RowGroupPictures:
    """The column `images` of a row group. Pictures lie in Arrow's buffer until a row asks for its own: so only those
    in use are copied, into memory that the row before has just freed."""

    __slots__ = ("_data", "_ends", "_rows")

    def __init__(self, column: pa.ChunkedArray) -> None:
        lists = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()  # which copies even a single one
        data = lists.values.field("bytes")
        self._rows: list[int] = lists.offsets.to_numpy().tolist()
        _, ends, buffer = data.buffers()
        # A slice of a longer column begins behind the buffer's start.
        first = data.offset
        self._ends: list[int] = np.frombuffer(ends, np.int32)[first : first + len(data) + 1].tolist()
        self._data = memoryview(buffer or b"")

    def of(self, row: int) -> list[bytes]:
        """The encoded pictures of a row, counted from the group's first."""
        data, ends = self._data, self._ends
        return [data[ends[n] : ends[n + 1]].tobytes() for n in range(self._rows[row], self._rows[row + 1])]


def _values(column: pa.ChunkedArray) -> list[Any]:
    values: list[Any] = column.to_pylist()
    return values


class _RowGroup:
    """A row group in memory, of which single rows are made; `messages` of either form (`chat_turns`) as JSON."""

    __slots__ = ("_columns", "_first", "_names", "_pictures", "size")

    def __init__(self, table: pa.Table, first: int) -> None:
        self._first, self.size = first, table.get_total_buffer_size()
        self._names = [name for name in table.column_names if name != "images"]
        self._columns = [(prompts if name == "messages" else _values)(table[name]) for name in self._names]
        self._pictures = _RowGroupPictures(table["images"]) if "images" in table.column_names else None

    def row(self, row: int) -> dict[str, object]:
        """The row of the shard as a dict of its own."""
        place = row - self._first
        values = {name: column[place] for name, column in zip(self._names, self._columns, strict=True)}
        if self._pictures is not None:
            values["images"] = self._pictures.of(place)
        return values


class _File:
    """An open shard: where its row groups start, and the leaf columns to read of it."""

    __slots__ = ("_file", "_leaves", "starts")

    def __init__(self, path: Path, columns: Sequence[str] | None) -> None:
        self._file = pq.ParquetFile(path, pre_buffer=False)  # no thread to fetch a local file
        sizes = [self._file.metadata.row_group(group).num_rows for group in range(self._file.num_row_groups)]
        self.starts: list[int] = np.concatenate([[0], np.cumsum(sizes)]).astype(int).tolist()
        paths = [self._file.schema.column(place).path for place in range(len(self._file.schema))]
        # The dot, so that a column `app` doesn't take `app_version` along.
        wanted = None if columns is None else tuple(f"{name}." for name in columns)
        self._leaves = [
            path
            for path in paths
            if (wanted is None or f"{path}.".startswith(wanted)) and path not in _FOR_OTHER_READERS
        ]

    def group(self, number: int) -> _RowGroup:
        """A row group, read. Raises `OSError` or `ArrowException` if it can't be."""
        return _RowGroup(self._file.read_row_group(number, self._leaves, use_threads=False), self.starts[number])

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class ShardFiles:
    """Rows by (shard, row group, row). One instance may be used by several threads."""

    def __init__(
        self,
        shards: Sequence[ShardRows],
        *,
        columns: Sequence[str] | None = None,
        verify: bool = True,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        self._shards = list(shards)
        self._columns = list(columns) if columns is not None else None
        self._verify = verify
        self._limit = cache_bytes
        self._lock = threading.Lock()
        self._shard_locks = [threading.Lock() for _ in self._shards]
        self._verified: set[int] = set()
        self._groups: OrderedDict[tuple[int, int], _RowGroup] = OrderedDict()
        self._held = 0
        self._local = threading.local()

    def row(self, shard: int, group: int, row: int) -> dict[str, object]:
        """A row as a dict of its own, `images` as a list of encoded bytes. Raises `ShardError`."""
        return self._group(shard, group).row(row)

    def rows(self, places: Iterable[tuple[int, int, int]]) -> list[dict[str, object]]:
        """The same for many (shard, row group, row), in the order given."""
        return [self._group(shard, group).row(row) for shard, group, row in places]

    def _group(self, shard: int, group: int) -> _RowGroup:
        key = (shard, group)
        # The lock is held for look-ups only: threads read different row groups at once.
        with self._lock:
            known = self._groups.get(key)
            if known is not None:
                self._groups.move_to_end(key)
                return known
        file = self._file(shard)
        try:
            loaded = file.group(group)
        except (OSError, pa.ArrowException) as error:
            raise ShardError(f"{self._shards[shard].path}: row group {group} can't be read: {error}") from error
        with self._lock:
            # Another thread may have read the same meanwhile; one of the two is remembered.
            if key not in self._groups:
                self._groups[key] = loaded
                self._held += loaded.size
                # The oldest go first, and the one just read stays even if it is larger than the limit.
                while self._held > self._limit and len(self._groups) > 1:
                    self._held -= self._groups.popitem(last=False)[1].size
        return loaded

    def _file(self, shard: int) -> _File:
        """This thread's handle: parquet handles aren't shared between threads."""
        files: OrderedDict[int, _File] = self._local.__dict__.setdefault("files", OrderedDict())
        if shard in files:
            files.move_to_end(shard)
            return files[shard]
        self._check(shard)
        try:
            files[shard] = _File(self._shards[shard].path, self._columns)
        except (OSError, pa.ArrowException) as error:
            raise ShardError(f"{self._shards[shard].path}: can't be opened: {error}") from error
        if len(files) > OPEN_FILES:
            files.popitem(last=False)[1].close()
        return files[shard]

    def _check(self, shard: int) -> None:
        rows = self._shards[shard]
        if not self._verify or rows.sha256 is None:
            return
        # One lock a shard: many threads open the same shard at first, and one of them hashes it.
        with self._shard_locks[shard]:
            if shard in self._verified:
                return
            if not rows.path.is_file():
                raise ShardError(f"{rows.path}: missing; materialise the shards again")
            found = file_sha256(rows.path)
            if found != rows.sha256:
                raise ShardError(f"{rows.path}: sha256 is {found}, the mixture says {rows.sha256}; the file is damaged")
            self._verified.add(shard)
