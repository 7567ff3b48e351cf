"""Archives of native files, unpacked as data from strangers: no name leads out, no link is followed, no bomb works."""

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
from lzma import LZMAError
from pathlib import Path
from typing import IO, Any

from pipelines.decompression import Allowance, BombError, Decompressed
from pipelines.raw.names import refused
from pipelines.store.files import file_sha256

MAX_HEADER_BYTES = 1 << 20
"""Most bytes between the contents of two members of a tar; a name has 4096 at most, extended attributes 64 KiB."""
MEAN_HEADER_BYTES = 16 << 10
"""Most of these bytes for each member, on average; what tar itself writes is 0.5 to 3 KiB."""
MAX_MEMBERS = 20_000_000
_BLOCK = 1 << 16
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

    Raises `ArchiveError` naming the member: one that `names.refused` refuses, a link or device, more bytes than
    `decompression.Allowance` or more headers than `MAX_HEADER_BYTES` allow, or a damaged archive. Nothing of a refused
    archive is left behind.
    """
    target = cache / file_sha256(archive)
    if target.is_dir():
        return target
    # A name of this process, so that two that unpack the same archive don't meet.
    partial = cache / f".{target.name}.{os.getpid()}"
    shutil.rmtree(partial, ignore_errors=True)
    try:
        with archive.open("rb") as stream:
            extract(stream, archive.name, partial, archive.stat().st_size)
        # In one step: whoever finds the folder finds all of it.
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
    written, count = Allowance(name, packed_bytes), 0
    try:
        for member in _members(stream, name, starts, packed_bytes):
            path = _inside(folder, member.name, name)
            count += 1
            if count > MAX_MEMBERS:
                raise ArchiveError(f"{name}: more than {MAX_MEMBERS} members: a bomb?")
            if member.stands(path):
                # What was unpacked before counts towards the limit as well.
                written.take(member.size)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_name(f".{path.name}.part")
            with partial.open("wb") as out:
                for block in member.blocks():
                    written.take(len(block))
                    out.write(block)
            partial.replace(path)
    except ArchiveError:
        raise
    except BombError as error:
        raise ArchiveError(str(error)) from error
    except (
        zipfile.BadZipFile,
        tarfile.TarError,
        zlib.error,
        LZMAError,
        EOFError,
        OSError,
        RuntimeError,
        # Forged headers (sparse maps, sizes) fail wherever the libraries read their numbers.
        ArithmeticError,
        LookupError,
        ValueError,
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
        return self.crc32 is None or _crc32(path) == self.crc32

    def blocks(self) -> Iterator[bytes]:
        with self.open() as stream:
            while block := stream.read(1 << 20):
                yield block


def _crc32(path: Path) -> int:
    value = 0
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            value = zlib.crc32(block, value)
    return value


def _members(stream: Any, name: str, starts: Sequence[int], packed_bytes: int) -> Iterator[_ArchiveMember]:
    first = stream.read(4)
    stream.seek(0)
    if first[:2] == b"PK":
        with _open_zip(stream, starts) if first == _SPLIT else zipfile.ZipFile(stream) as source:
            for info in source.infolist():
                # A link could lead a later member out of the folder.
                if (info.external_attr >> 16) & 0o170000 == 0o120000:
                    raise ArchiveError(f"{name}: {info.filename!r} is a link; only plain files are unpacked")
                if not info.is_dir():
                    yield _ArchiveMember(info.filename, info.file_size, info.CRC, functools.partial(source.open, info))
        return
    yield from _tar_members(stream, name, packed_bytes)


def _tar_members(stream: Any, name: str, packed_bytes: int) -> Iterator[_ArchiveMember]:
    """Members of a tar. Its reader holds a header whole whatever length it claims, so the stream itself ends where no
    sound header would still be read."""
    plain = Decompressed(stream, Allowance(name, packed_bytes), limit=_BLOCK + MAX_HEADER_BYTES)
    end = headers = count = 0
    with tarfile.open(fileobj=io.BufferedReader(plain, _BLOCK), mode="r|", bufsize=_BLOCK) as packed:  # type: ignore[call-overload]
        while (entry := packed.next()) is not None:
            packed.members.clear()  # type: ignore[attr-defined]  # else it holds all of them
            count += 1
            headers += entry.offset_data - end
            # Headers have no length of their own to be checked: many large ones fill the memory.
            if headers > MAX_HEADER_BYTES + count * MEAN_HEADER_BYTES:
                raise ArchiveError(f"{name}: {headers} bytes of headers for {count} members: a bomb?")
            end = entry.offset_data + entry.size
            plain.limit = end + 2 * _BLOCK + MAX_HEADER_BYTES
            if entry.isdir():
                continue
            if not entry.isreg():
                raise ArchiveError(f"{name}: {entry.name!r} is a link or device; only plain files are unpacked")
            yield _ArchiveMember(entry.name, entry.size, None, functools.partial(_plain, packed, entry))
    while stream.read(_BLOCK):  # what follows the end belongs to the checksum of the whole
        pass


def _open_zip(stream: object, starts: Sequence[int]) -> zipfile.ZipFile:
    """A zip that zip itself split, its parts joined: entries count their offsets from the part they begin in, and
    Python's zipfile takes them all to lie in the part that holds the directory."""
    source = zipfile.ZipFile(_OneDisk(stream))  # type: ignore[arg-type]
    # Offsets count from the part that an entry begins in, and zipfile reads them from the directory's part.
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
        # The end record is at most 64 kB of comment and 22 bytes from the end.
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
    if why := refused(name):
        raise ArchiveError(f"{archive}: member {name[:120]!r} {why}")
    return root.joinpath(*[part for part in name.replace("\\", "/").split("/") if part not in ("", ".")])
