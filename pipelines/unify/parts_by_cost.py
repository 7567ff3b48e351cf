"""Native files as parts that cost about the same: small groups of files are joined, large files are read in pieces.

Which groups make up a part follows from their names and sizes alone. Groups are told apart by a digest of their name,
bit by bit: all whose digests begin alike are a part, unless they are too much for one; then the next bit parts them.
So a file that comes or goes changes the part that holds it, or splits it in two, or joins two, and no other. Pieces end
where a row group of parquet ends, or a line.
"""

import hashlib
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.mapping.adapter import Adapter, Raw
from pipelines.mapping.raw_files import Piece
from pipelines.store.remembered import remember, remembered
from schemas.ids import digest

LEAST_FILE_BYTES = 16 << 10
"""What a file counts at least: to open it costs as much as to map so many bytes."""
_DIGEST_BITS = 64
_BLOCK = 1 << 20
Place = tuple[int, int]
"""Number of a group among those of its source, and of a piece among those of its file."""


@dataclass(frozen=True)
class FilesPart:
    """Native files that are mapped together."""

    key: str
    groups: tuple[tuple[str, ...], ...]
    places: tuple[Place, ...]
    """Of each group: the order in which records are read, however groups are joined."""
    bytes: int
    """Of its native files."""
    piece: Piece | None = None


@dataclass(frozen=True)
class _FilesGroup:
    place: int
    files: tuple[str, ...]
    bytes: int
    cost: int
    """Bytes with those of the pictures beside it."""

    @property
    def bits(self) -> str:
        """Of its first file's name, so that a file more in a group moves no group."""
        # Text of zeros and ones: prefixes are compared, and shown in the name of a part.
        found = hashlib.sha256(self.files[0].encode("utf-8", "surrogateescape")).digest()[: _DIGEST_BITS // 8]
        return f"{int.from_bytes(found, 'big'):0{_DIGEST_BITS}b}"


def parts_by_cost(
    adapter: Adapter, raw: Raw, groups: Sequence[tuple[str, ...]], target: int, line_pieces: "LinePieces"
) -> list[FilesPart]:
    """The parts of a source whose adapter gave these `groups`, in the order of their first records. A part has about
    `target` bytes, pictures beside its files included, or is one group of more; only files of `Adapter.rows_alone` are
    read in pieces."""
    sizes = [sum(map(_size, map(raw.place, group))) for group in groups]
    # A single group that can't be cut is one part at any cost, so nobody has to count the pictures.
    beside = _pictures_beside(raw, groups, sum(sizes)) if len(groups) > 1 or adapter.rows_alone else 1
    parts: list[FilesPart] = []
    small: list[_FilesGroup] = []
    for place, (files, size) in enumerate(zip(groups, sizes, strict=True)):
        # Pictures can't be told apart by native file, so each file is charged the same factor.
        cost = max(size * beside, LEAST_FILE_BYTES * len(files))
        if cost < target:
            small.append(_FilesGroup(place, files, size, cost))
        else:
            parts += _large(adapter, raw, place, files, size, max(target // beside, 1), line_pieces)
    parts += [_joined(prefix, members) for prefix, members in _alike(small, target, "")]
    # The first of a name keeps its id, so parts come in the order in which the adapter listed their files.
    return sorted(parts, key=lambda part: part.places[0])


def _size(place: str) -> int:
    """Of a file; a link that leads nowhere has none."""
    # Its reader tells of it properly, as a missing file of this part.
    try:
        return os.path.getsize(place)
    except OSError:
        return 0


def _pictures_beside(raw: Raw, groups: Sequence[tuple[str, ...]], native: int) -> int:
    """How many times the bytes of the native files all files of the folder have: a power of two, so that a picture more
    doesn't move the borders of parts."""
    named = {raw.place(name) for group in groups for name in group}
    others = sum(_size(place) for name in raw.files("**/*") if (place := raw.place(name)) not in named)
    # Of the bytes of the native files, 1 where there are no pictures.
    return 1 << max(0, round(math.log2(1 + others / max(native, 1))))


def _alike(groups: Sequence[_FilesGroup], target: int, prefix: str) -> Iterator[tuple[str, Sequence[_FilesGroup]]]:
    """(the bits that digests of a part's groups have in common, these groups)"""
    # At 64 equal bits two names are the same, and no further bit would part them.
    if len(groups) > 1 and sum(group.cost for group in groups) > target and len(prefix) < _DIGEST_BITS:
        for bit in "01":
            longer = prefix + bit
            yield from _alike([group for group in groups if group.bits.startswith(longer)], target, longer)
    elif groups:
        yield prefix, groups


def _joined(prefix: str, groups: Sequence[_FilesGroup]) -> FilesPart:
    key = f"joined_{prefix or 'all'}" if len(groups) > 1 else part_key(groups[0].files)
    places = tuple((group.place, 0) for group in groups)
    return FilesPart(key, tuple(group.files for group in groups), places, sum(group.bytes for group in groups))


def part_key(group: tuple[str, ...]) -> str:
    """A readable name with a digest of the paths, so that two files of one name don't collide."""
    stem = "".join(char if char.isalnum() or char in "._-" else "_" for char in Path(group[0]).name)[:40]
    return f"{stem.lstrip('._-') or 'part'}-{digest(list(group))[:8]}"


def _large(
    adapter: Adapter,
    raw: Raw,
    place: int,
    files: tuple[str, ...],
    size: int,
    target: int,
    line_pieces: Callable[[str, int], list[Piece]],
) -> list[FilesPart]:
    """A group that is a part, or a file that is several."""
    pieces: list[Piece] = []
    if len(files) == 1 and size > target and files[0].endswith(adapter.rows_alone or ("\0",)):
        native = raw.place(files[0])
        pieces = row_group_pieces(native, target) if files[0].endswith(".parquet") else line_pieces(native, target)
    # One piece would be all of the file, which is then read as any other.
    if len(pieces) < 2:
        return [FilesPart(part_key(files), (files,), ((place, 0),), size)]
    share = size // len(pieces)
    return [
        FilesPart(f"{part_key(files)}-{number:05d}", (files,), ((place, number),), share, piece)
        for number, piece in enumerate(pieces)
    ]


def row_group_pieces(path: str, target: int) -> list[Piece]:
    """Runs of row groups of about `target` bytes; none where the file can't be opened, which its reader will tell."""
    try:
        with pq.ParquetFile(path) as table:
            metadata = table.metadata
            groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
            # Compressed bytes, as the target is in bytes on disk, like the sizes of other files.
            sizes = [sum(group.column(at).total_compressed_size for at in range(group.num_columns)) for group in groups]
            rows = [group.num_rows for group in groups]
    except (pa.ArrowException, OSError):
        return []
    # What lies before each row group, in bytes and rows.
    bytes_before, rows_before = ([0, *accumulate(counted)] for counted in (sizes, rows))
    pieces, first = [], 0
    for past in range(1, len(sizes) + 1):
        if past == len(sizes) or bytes_before[past] - bytes_before[first] >= target:
            pieces.append(Piece(first, past, rows_before[first]))
            first = past
    # The rows before a piece number its records as they are numbered in the whole file.
    return pieces


class LinePieces:
    """Where files of lines are cut, remembered by the hash of a file: to find it, all of it is read."""

    def __init__(self, path: Path, hashes: Mapping[str, str]) -> None:
        """`path`: where it is remembered; `hashes`: sha256 of files by their paths."""
        self._path, self._hashes = path, hashes
        self._known: dict[str, list[list[int]]] = remembered(path) or {}

    def __call__(self, path: str, target: int) -> list[Piece]:
        """Pieces of about `target` bytes, each of whole lines; none of a file that can't be read."""
        if path not in self._hashes:
            return []
        # The target is part of the key: another `part_bytes` cuts elsewhere.
        key = f"{self._hashes[path]} {target}"
        if key not in self._known:
            self._known[key] = list(_line_pieces(path, target))
            remember(self._path, self._known)
        return [Piece(*one) for one in self._known[key]]


def _line_pieces(path: str, target: int) -> Iterator[list[int]]:
    first = before = at = lines = 0
    with open(path, "rb", buffering=_BLOCK) as stream:
        while block := stream.read(_BLOCK):
            # A block ends inside a line: take the rest of it, as a piece holds whole lines.
            rest = b"" if block.endswith(b"\n") else stream.readline()
            at += len(block) + len(rest)
            lines += block.count(b"\n") + rest.count(b"\n")
            if at - first >= target:
                yield [first, at, before]
                first, before = at, lines
    if at > first:
        yield [first, at, before]
