"""TFRecord files, plain or GZIP, read and written without TensorFlow; every checksum is verified.

A record is: length (8 bytes, little-endian), masked CRC32C of those 8 bytes, payload, masked CRC32C of the payload.
The length has a checksum of its own, so after a damaged payload the next record is still found; after a damaged
length nothing more of the file can be read, and that is said.
"""

import contextlib
import gzip
import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import google_crc32c

MAX_RECORD_BYTES = 1 << 30
"""Largest payload accepted: a longer one is a damaged or hostile length (or a decompression bomb)."""

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Frame:
    """One record of a file: its place, and its payload or what is wrong with it.

    `offset` counts bytes of the uncompressed stream. `partial` is True if some bytes of a record were there
    (so that one record was certainly lost), False if the damage lies between records.
    """

    index: int
    offset: int
    data: bytes | None
    reason: str | None = None
    detail: str = ""
    partial: bool = False
    size: int | None = None
    """Bytes of the payload, if the record's end is known (so that the next one can be read)."""


def crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli) of bytes, 0..2**32-1."""
    return int(google_crc32c.value(data))


def masked_crc32c(data: bytes) -> int:
    """The form stored in TFRecords: rotated right by 15 bits, plus a constant."""
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def frame(payload: bytes) -> bytes:
    """One payload as a TFRecord record."""
    length = struct.pack("<Q", len(payload))
    return b"".join(
        [length, struct.pack("<I", masked_crc32c(length)), payload, struct.pack("<I", masked_crc32c(payload))]
    )


def dumps(payloads: Iterable[bytes], *, compress: bool = True) -> bytes:
    """Payloads → the bytes of a TFRecord file. GZIP output has no time stamp: equal payloads, equal bytes."""
    plain = b"".join(frame(payload) for payload in payloads)
    return gzip.compress(plain, compresslevel=6, mtime=0) if compress else plain


def write(path: str | Path, payloads: Iterable[bytes], *, compress: bool = True) -> int:
    """Write a TFRecord file, record by record; returns the number of records."""
    count = 0
    with open(path, "wb") as file, contextlib.ExitStack() as stack:
        out: BinaryIO | gzip.GzipFile = file
        if compress:
            out = stack.enter_context(gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=file, mtime=0))
        for payload in payloads:
            out.write(frame(payload))
            count += 1
    return count


def scan(path: str | Path) -> Iterator[Frame]:
    """Stream the records of a file, damaged ones included; never raises on damaged content.

    Reasons: `truncated_record` (the file ends inside a record, or the GZIP stream has no end), `bad_crc` (payload
    damaged, reading goes on; or length damaged, reading ends), `bad_gzip`, `record_too_large`. Raises `OSError` if
    the file can't be opened.
    """
    with open(path, "rb") as file:
        yield from scan_stream(file)


def scan_stream(file: BinaryIO) -> Iterator[Frame]:
    """The same for an open, seekable binary file."""
    head = file.read(12)
    file.seek(0)
    # By its content: files have no ending that tells.
    stream: BinaryIO | gzip.GzipFile = gzip.GzipFile(fileobj=file, mode="rb") if _is_gzip(head) else file
    index, offset = 0, 0
    while True:
        found = _next(stream, index, offset)
        if found is None:
            return
        yield found
        if found.size is None:
            return
        # 8 bytes of length, 4 of checksum, the payload, 4 of checksum.
        offset += 16 + found.size
        index += 1


def _is_gzip(head: bytes) -> bool:
    """GZIP magic, unless the bytes are the sound header of a plain record of that length."""
    # The length of a plain record may begin with the same two bytes.
    if len(head) == 12 and struct.unpack("<I", head[8:])[0] == masked_crc32c(head[:8]):
        return False
    return head[:2] == b"\x1f\x8b"


def _next(stream: BinaryIO | gzip.GzipFile, index: int, offset: int) -> Frame | None:
    """The next record; None at a clean end of the file."""

    def damaged(reason: str, detail: str, *, partial: bool = True) -> Frame:
        return Frame(index, offset, None, reason, detail, partial)

    header, problem = _take(stream, 12)
    if problem is not None:
        return damaged(problem[0], f"{problem[1]} after {len(header)} of 12 header bytes", partial=bool(header))
    if not header:
        return None
    if len(header) < 12:
        return damaged("truncated_record", f"the file ends after {len(header)} of 12 header bytes")
    size, crc = struct.unpack("<QI", header)
    # A wrong length would lead anywhere.
    if crc != masked_crc32c(header[:8]):
        return damaged("bad_crc", "length: the checksum differs, so nothing after it can be found")
    if size > MAX_RECORD_BYTES:
        return damaged("record_too_large", f"{size} bytes; at most {MAX_RECORD_BYTES} are accepted")
    payload, problem = _take(stream, size)
    checksum, problem = (b"", problem) if problem is not None or len(payload) < size else _take(stream, 4)
    got = len(payload) + len(checksum)
    if problem is not None:
        return damaged(problem[0], f"{problem[1]} after {got} of {size + 4} bytes")
    if got < size + 4:
        return damaged("truncated_record", f"the file ends after {got} of {size + 4} bytes")
    # The length was right, so the next record can be found.
    if struct.unpack("<I", checksum)[0] != masked_crc32c(payload):
        detail = f"payload of {size} bytes: the checksum differs"
        return Frame(index, offset, None, "bad_crc", detail, partial=True, size=size)
    return Frame(index, offset, payload, size=size)


def _take(stream: BinaryIO | gzip.GzipFile, count: int) -> tuple[bytes, tuple[str, str] | None]:
    """Up to `count` bytes, and (reason, detail) if the stream broke. Read in pieces, so that a length that lies
    allocates no more than the file holds."""
    parts: list[bytes] = []
    left, problem = count, None
    try:
        while left:
            # read1 hands out what a broken GZIP stream still gives before it raises; read would lose it
            piece = stream.read1(min(_CHUNK, left))  # type: ignore[union-attr]
            if not piece:
                break
            parts.append(piece)
            left -= len(piece)
    except EOFError:
        problem = ("truncated_record", "the GZIP stream ends early")
    except (gzip.BadGzipFile, zlib.error) as error:
        problem = ("bad_gzip", str(error))
    return parts[0] if len(parts) == 1 else b"".join(parts), problem
