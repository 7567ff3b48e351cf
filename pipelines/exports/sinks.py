"""Files that take one record after the other: parquet, JSON lines, tar. The same records give the same bytes."""

import contextlib
import io
import json
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

Row = Mapping[str, object]
ROW_GROUP_ROWS = 16
"""As in the shards: a trainer that reads rows in any order decodes few pictures for nothing."""


class Sink(Protocol):
    """A file in the making."""

    def add(self, row: Row) -> int:
        """Take a row → about how many bytes it adds."""

    def close(self) -> None:
        """Finish the file."""


class _JsonLines:
    def __init__(self, path: Path) -> None:
        self._stream = path.open("wb")

    def add(self, row: Row) -> int:
        return self._stream.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")

    def close(self) -> None:
        self._stream.close()


class _Parquet:
    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._schema, self._rows = schema, list[Row]()
        self._writer = pq.ParquetWriter(path, schema, compression="zstd")

    def add(self, row: Row) -> int:
        self._rows.append(row)
        if len(self._rows) == ROW_GROUP_ROWS:
            self._flush()
        return _size(row)

    def _flush(self) -> None:
        self._writer.write_table(pa.Table.from_pylist(self._rows, schema=self._schema))
        self._rows = []

    def close(self) -> None:
        if self._rows:
            self._flush()
        self._writer.close()


def _size(value: object) -> int:
    """Bytes of the texts and pictures in a value."""
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, Mapping):
        return sum(map(_size, value.values()))
    return sum(map(_size, value)) if isinstance(value, list | tuple) else 8


class _Tar:
    """A row is files, name → bytes."""

    def __init__(self, path: Path) -> None:
        self._tar = tarfile.TarFile(path, "w", format=tarfile.USTAR_FORMAT)

    def add(self, row: Row) -> int:
        size = 0
        for name, data in row.items():
            assert isinstance(data, bytes), f"{name}: expected the bytes of a file, found {type(data).__name__}"
            member = tarfile.TarInfo(name)  # of no time and nobody, so that equal rows give equal bytes
            member.size = len(data)
            self._tar.addfile(member, io.BytesIO(data))
            # A header block stands before each member.
            size += len(data) + tarfile.BLOCKSIZE
        return size

    def close(self) -> None:
        self._tar.close()


@contextlib.contextmanager
def open_sink(path: Path, suffix: str, schema: pa.Schema | None) -> Iterator[Sink]:
    """A file of the kind that `suffix` names, finished at the end; `schema` is that of a parquet file."""
    sink: Sink
    if suffix == ".parquet":
        assert schema is not None, f"{path}: a parquet file needs a schema"
        sink = _Parquet(path, schema)
    else:
        sink = _Tar(path) if suffix == ".tar" else _JsonLines(path)
    try:
        yield sink
    except BaseException:
        # What a full disk stopped can't be finished either, and the first error says why.
        with contextlib.suppress(Exception):
            sink.close()
        raise
    sink.close()
