"""Compressed bytes from strangers, read no further than their size warrants, so that none fills memory or disk.

What a few packed bytes unpack to is counted as it comes, headers and all, before anything is held whole.
"""

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

MAX_BYTES = 2 << 40
"""Most bytes that an archive or a compressed file may unpack to; the largest source known has 0.2 TB."""
MAX_RATIO = 200
"""Most bytes unpacked per packed byte, past `RATIO_FROM` unpacked bytes: JSON packs some 30 to 1, zeros 1000."""
RATIO_FROM = 100 << 20
XZ_MEMORY = 128 << 20
"""Memory that unpacking xz may take, in bytes; its strongest preset needs 65 MiB, a file can ask for 4 GiB."""
_BLOCK = 1 << 16
_GZIP, _BZIP2, _XZ = b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00"


class BombError(ValueError):
    """More bytes than the packed ones warrant."""


class Allowance:
    """Bytes that may come of `packed_bytes`; `name` is for the message."""

    def __init__(self, name: str, packed_bytes: int) -> None:
        self.name, self._packed, self._taken = name, packed_bytes, 0

    def take(self, count: int) -> None:
        """Count bytes. Raises `BombError` once they are too many."""
        self._taken += count
        if self._taken > MAX_BYTES or (self._taken > RATIO_FROM and self._taken > MAX_RATIO * self._packed):
            raise BombError(
                f"{self.name}: {self._packed} bytes unpack to too much ({self._taken} bytes so far): a bomb?"
            )


class Decompressed(io.RawIOBase):
    """The plain bytes of a stream packed by gzip, bzip2 or xz, known by its first bytes, or not packed at all.

    Several packed streams in a row are one, as their tools read them. Raises `BombError` past `allowance` and past
    `limit`, the place in the plain bytes up to which a reader says it will go; `EOFError`, `zlib.error`, `OSError` and
    `lzma.LZMAError` for damage.
    """

    def __init__(self, stream: Any, allowance: Allowance, limit: int | None = None) -> None:
        self.limit = limit
        self._stream, self._allowance, self._at = stream, allowance, 0
        self._pending = stream.read(_BLOCK)
        self._magic, self._make = _engine(self._pending)
        self._engine = self._make()

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """At most as many bytes as fit."""
        data = self._next(len(buffer))
        self._at += len(data)
        self._allowance.take(len(data))
        if self.limit is not None and self._at > self.limit:
            raise BombError(f"{self._allowance.name}: a header that does not end by byte {self.limit}: a bomb?")
        buffer[: len(data)] = data
        return len(data)

    def _next(self, count: int) -> bytes:
        if self._magic is None:
            data, self._pending = self._pending or self._stream.read(count), b""
            data, self._pending = data[:count], data[count:]
            return bytes(data)
        while True:
            if self._engine.eof:
                rest = (self._engine.unused_data or self._stream.read(_BLOCK)).lstrip(b"\0")  # gzip pads with zeros
                if not rest.startswith(self._magic):
                    return b""
                self._engine, self._pending = self._make(), rest
            if not self._pending and getattr(self._engine, "needs_input", True):
                self._pending = self._stream.read(_BLOCK)
            ended = not self._pending and getattr(self._engine, "needs_input", True)
            data = self._engine.decompress(self._pending, count)
            self._pending = getattr(self._engine, "unconsumed_tail", b"")  # zlib alone leaves a tail to its caller
            if data:
                return bytes(data)
            if ended and not self._engine.eof:
                raise EOFError("the packed bytes end early")


def _engine(head: bytes) -> tuple[bytes | None, Callable[[], Any]]:
    if head.startswith(_GZIP):
        return _GZIP, lambda: zlib.decompressobj(zlib.MAX_WBITS | 16)
    if head.startswith(_BZIP2):
        return _BZIP2, bz2.BZ2Decompressor
    if head.startswith(_XZ):
        return _XZ, lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=XZ_MEMORY)
    return None, lambda: None


def open_plain(path: Path) -> IO[bytes]:
    """A file's plain bytes as a stream, unpacked if its name ends in `.gz`. Reading raises as `Decompressed` does."""
    if not path.name.endswith(".gz"):
        return path.open("rb")
    stream = path.open("rb")
    head = stream.read(len(_GZIP))
    stream.seek(0)
    if head not in (_GZIP, b""):
        stream.close()
        raise gzip.BadGzipFile(f"not a gzipped file ({head!r})")
    return _Closing(Decompressed(stream, Allowance(path.name, path.stat().st_size)), stream)


class _Closing(io.BufferedReader):
    """Closes the file below, too."""

    def __init__(self, plain: Decompressed, below: IO[bytes]) -> None:
        super().__init__(plain, 1 << 17)
        self._below = below

    def close(self) -> None:
        """Both."""
        super().close()
        self._below.close()


def unpacked_gzip(data: bytes) -> bytes:
    """Plain bytes of gzip in memory. Raises as `Decompressed` does, and `gzip.BadGzipFile` for anything else."""
    if not data.startswith(_GZIP):
        raise gzip.BadGzipFile(f"not a gzipped file ({data[:2]!r})")
    return Decompressed(io.BytesIO(data), Allowance("gzip", len(data))).readall()
