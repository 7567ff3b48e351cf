"""Proof that nothing of what was taken down is left under a store: every file is looked at, whatever wrote it.

Tables row by row, by the same rule that removed rows; pictures by their bytes, those in shards too; the native files of
each source through its adapter; SQLite files by their pages and all other files by the names in them. The list itself
(`takedown.json`), file names in listings and digests are no content and stay.
"""

import hashlib
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.decompression import BombError, unpacked_gzip
from pipelines.mapping.adapter import Raw
from pipelines.store.files import file_sha256
from pipelines.store.object_store.binding import copies_at
from pipelines.store.object_store.withdrawn import fetch_everything, remote_screens
from pipelines.store.small_greys import SUFFIX
from pipelines.takedown.raw_files import PICTURES, remaining
from pipelines.takedown.tables import SearchTerms, matches
from pipelines.takedown.withdrawn import NAME, TakenDown

_UNREADABLE = frozenset({".safetensors", ".npy"})
"""Numbers only."""
_LISTINGS = frozenset(
    {"files.json", "listing.json", "takedown.json", "taken_down.json", "promotions.jsonl", "store_url.json"}
)
"""Names and digests of raw files; what this store remembers on purpose."""


@dataclass(frozen=True, slots=True)
class Left:
    """Something that is still there."""

    place: str
    """A file, relative to the store; of raw files `raw/<source>: <file>`."""
    what: str


def verify(home: Path, taken: TakenDown, raws: Mapping[str, Raw]) -> list[Left]:
    """All that is left, in order of its place. `raws` are the native files of the sources that the list touches."""
    terms = SearchTerms.of(taken, shown=True)
    found = []
    # Other machines may have put what this one has never seen.
    if (copies := copies_at(home)) is not None:
        fetch_everything(copies)
        found += [
            Left(copies.name(path), "a picture")
            for path in remote_screens(copies, sorted(taken.screens))
            if not path.exists()
        ]
    # Native files are read by their adapters below, which know what a record is there.
    inside = {path.resolve() for raw in raws.values() for path in (raw.root, *raw.companions.values())}
    for path in _files(home, inside):
        if (what := _look(path, taken, terms)) is not None:
            found.append(Left(path.relative_to(home).as_posix(), what))
    for source, raw in sorted(raws.items()):
        found += [Left(f"raw/{source}: {file}", "a native record or picture") for file in remaining(source, raw, taken)]
    return found


def _files(home: Path, raws: set[Path]) -> Iterator[Path]:
    """All files of the store but the native ones, which their adapters read."""
    for path in sorted(home.rglob("*")):
        if path.is_file() and not path.is_symlink() and raws.isdisjoint(path.resolve().parents):
            yield path


def _look(path: Path, taken: TakenDown, terms: SearchTerms) -> str | None:
    if path.name == NAME or path.name in _LISTINGS or path.suffix in (*_UNREADABLE, ".keys", ".ids", ".lock"):
        return None
    if path.suffix.lower() in (*PICTURES, SUFFIX):
        # By its bytes as well as its name: a copy under another name is still the picture.
        return "a picture" if path.stem in taken.screens or file_sha256(path) in taken.screens else None
    try:
        if path.suffix == ".parquet":
            return _table(path, taken, terms)
        if path.suffix == ".arrow":
            return None  # names of raw files that a part read, with their digests
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = unpacked_gzip(data)
    except (OSError, EOFError, BombError, zlib.error, pa.ArrowException) as error:
        # What can't be read can't be called clean.
        return f"can't be read, so nobody knows: {' '.join(str(error).split())[:120]}"
    if path.parent.name == "parts" or path.parent.parts[-2:] == ("cache", "raw"):  # names and digests of files
        return None
    means = taken.is_meant_by if path.suffix == ".jsonl" else taken.stands_in
    return "its name" if means(data) else None


def _table(path: Path, taken: TakenDown, terms: SearchTerms) -> str | None:
    file = pq.ParquetFile(path)
    for place in range(file.metadata.num_row_groups):
        group = file.read_row_group(place)
        rows = int(matches(group, terms).sum())
        if rows:
            return f"{rows} rows"
        for name in group.column_names:
            if any(hashlib.sha256(data).hexdigest() in taken.screens for data in _pictures(group[name])):
                return "a picture in a row"
    return None


def _pictures(column: pa.ChunkedArray) -> Iterator[bytes]:
    """Encoded pictures of a column: plain bytes, or `images` of a shard."""
    kind = column.type
    if pa.types.is_binary(kind):
        yield from (value for value in column.to_pylist() if value)
    elif (
        pa.types.is_list(kind) and pa.types.is_struct(kind.value_type) and kind.value_type.get_field_index("bytes") >= 0
    ):
        values = column.combine_chunks().flatten().field("bytes")
        yield from (value for value in values.to_pylist() if value)
