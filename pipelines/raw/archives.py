"""Archives of native files, unpacked as data from strangers: no name leads out, no link is followed, no bomb works."""

from __future__ import annotations

import functools
import io
import os
import shutil
import tarfile
import zipfile
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from pipelines.store.files import file_sha256

MAX_BYTES = 2 << 40
"""Most bytes that an archive may unpack to; the largest source known has 0.2 TB."""
MAX_RATIO = 200
"""Most bytes unpacked per byte of archive, once more than `RATIO_FROM` were unpacked."""
RATIO_FROM = 100 << 20
_SPLIT = b"PK\x07\x08"
"""How a zip begins that zip itself split into parts."""
SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz")


class ArchiveError(ValueError):
    """An archive that is damaged, or one of whose members must not be unpacked."""


def is_archive(path: Path) -> bool:
    """Whether a path names an archive that `unpack` reads."""
    return path.is_file() and path.name.lower().endswith(SUFFIXES)


def unpack(archive: Path, cache: Path) -> Path:
    """Unpack into `cache/<sha256 of the archive>` and return that folder; a second call finds it there.

    Raises `ArchiveError` naming the member: an absolute name, one with `..`, a link or device, more bytes than
    `MAX_BYTES` or `MAX_RATIO` allow, or a damaged archive. Nothing of a refused archive is left behind.
    """
    target = cache / file_sha256(archive)
    if target.is_dir():
        return target
    partial = cache / f".{target.name}.{os.getpid()}"
    shutil.rmtree(partial, ignore_errors=True)
    try:
        with archive.open("rb") as stream:
            extract(stream, archive.name, partial, archive.stat().st_size)
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return target


def extract(
    stream: IO[bytes] | io.RawIOBase, name: str, folder: Path, packed_bytes: int, starts: Sequence[int] = (0,)
) -> int:
    """Write the members of a zip or (compressed) tar, known by its first bytes, below `folder`; how many there were.

    `name` is for messages, `starts` says where in the stream each part of a split zip begins. A zip must be seekable; a
    tar is read once, from front to back, and never held. A member that is there already with the same size (and
    checksum, in a zip) is not written again: `folder` may hold what was unpacked of the same archive, and of no other.
    Raises `ArchiveError`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = count = 0
    try:
        for member in _members(stream, name, starts):
            path = _inside(folder, member.name, name)
            count += 1
            if member.stands(path):
                written += member.size
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_name(f".{path.name}.part")
            with partial.open("wb") as out:
                for block in member.blocks():
                    written += len(block)
                    if written > MAX_BYTES or (written > RATIO_FROM and written > MAX_RATIO * packed_bytes):
                        raise ArchiveError(
                            f"{name}: {member.name!r} unpacks to too much ({written} bytes so far): a bomb?"
                        )
                    out.write(block)
            partial.replace(path)
    except (
        zipfile.BadZipFile,
        tarfile.TarError,
        zlib.error,
        EOFError,
        OSError,
        RuntimeError,
        NotImplementedError,
    ) as error:
        raise ArchiveError(f"{name}: damaged or unreadable archive: {error}") from error
    return count


@dataclass(frozen=True, slots=True)
class _ArchiveMember:
    name: str
    size: int
    crc32: int | None
    open: Callable[[], IO[bytes]]

    def stands(self, path: Path) -> bool:
        if not path.is_file() or path.stat().st_size != self.size:
            return False
        return self.crc32 is None or zlib.crc32(path.read_bytes()) == self.crc32

    def blocks(self) -> Iterator[bytes]:
        with self.open() as stream:
            while block := stream.read(1 << 20):
                yield block


def _members(stream: Any, name: str, starts: Sequence[int]) -> Iterator[_ArchiveMember]:
    first = stream.read(4)
    stream.seek(0)
    if first[:2] == b"PK":
        with _open_zip(stream, starts) if first == _SPLIT else zipfile.ZipFile(stream) as source:
            for info in source.infolist():
                if (info.external_attr >> 16) & 0o170000 == 0o120000:
                    raise ArchiveError(f"{name}: {info.filename!r} is a link; only plain files are unpacked")
                if not info.is_dir():
                    yield _ArchiveMember(info.filename, info.file_size, info.CRC, functools.partial(source.open, info))
        return
    with tarfile.open(fileobj=stream, mode="r|*") as packed:
        for entry in packed:
            if entry.isdir():
                continue
            if not entry.isreg():
                raise ArchiveError(f"{name}: {entry.name!r} is a link or device; only plain files are unpacked")
            yield _ArchiveMember(entry.name, entry.size, None, functools.partial(_plain, packed, entry))


def _open_zip(stream: Any, starts: Sequence[int]) -> zipfile.ZipFile:
    """A zip that zip itself split, its parts joined: entries count their offsets from the part they begin in, and
    Python's zipfile takes them all to lie in the part that holds the directory."""
    source = zipfile.ZipFile(_OneDisk(stream))  # type: ignore[arg-type]
    base = starts[bisect_right(starts, source.start_dir) - 1]
    for info in source.infolist():
        if info.volume >= len(starts):
            raise ArchiveError(f"{info.filename!r} begins in part {info.volume + 1}; there are {len(starts)}")
        info.header_offset += starts[info.volume] - base
        if hasattr(info, "_end_offset"):  # newer Pythons compute it, from the offsets as they were
            info._end_offset = None
    return source


class _OneDisk(io.RawIOBase):
    """A stream in which the zip64 locator says that there is one disk: Python's zipfile refuses more."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        size = stream.seek(0, io.SEEK_END)
        begin = max(size - (1 << 16) - 22, 0)
        stream.seek(begin)
        tail = stream.read(size - begin)
        at = tail.rfind(b"PK\x05\x06") - 20
        self._locator = begin + at if at >= 0 and tail[at : at + 4] == b"PK\x06\x07" else None
        stream.seek(0)

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """As of the stream."""
        return int(self._stream.seek(offset, whence))

    def tell(self) -> int:
        """As of the stream."""
        return int(self._stream.tell())

    def readinto(self, buffer: Any) -> int:
        """As of the stream, but for the number of the locator's disk and of all disks."""
        at = self.tell()
        data = bytearray(self._stream.read(len(buffer)))
        if self._locator is not None:
            for place, byte in enumerate((0, 0, 0, 0, 1, 0, 0, 0)):
                where = self._locator + (4 + place if place < 4 else 12 + place) - at  # bytes 4..7 and 16..19
                if 0 <= where < len(data):
                    data[where] = byte
        buffer[: len(data)] = data
        return len(data)


def _plain(packed: tarfile.TarFile, entry: tarfile.TarInfo) -> IO[bytes]:
    found = packed.extractfile(entry)
    assert found is not None  # a regular member
    return found


def _inside(root: Path, name: str, archive: str) -> Path:
    parts = name.replace("\\", "/").split("/")
    if name.startswith(("/", "\\")) or ".." in parts or ":" in parts[0] or "\0" in name:
        raise ArchiveError(f"{archive}: member {name[:120]!r} leads out of the folder it is unpacked to")
    return root.joinpath(*[part for part in parts if part not in ("", ".")])
