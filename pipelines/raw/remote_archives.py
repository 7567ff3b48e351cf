"""Archives on the hub, unpacked while they are read: neither an archive nor a part of one is ever stored or held whole.

An archive of many parts is read as one: parts that were cut by size (`x.tar.gz.part-000`, `x_aa`) and zips that zip
itself split (`x.z01`, …, `x.zip`), whose directory counts offsets per part. A tar is read front to back and the
sha256 of each part compared with what the hub says; of a zip only the members' bytes are asked for, and each member's
checksum is compared. What a killed run has unpacked already isn't written again.
"""

import hashlib
import io
import shutil
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import IO, Any

from pipelines.raw.archives import ArchiveError, extract
from pipelines.raw.remote_file import ATTEMPTS, FIRST_WAIT_S, PullError, RemoteFile

BLOCK_BYTES = 4 << 20


def unpack_remote(
    repo: str,
    commit: str,
    parts: Sequence[RemoteFile],
    folder: Path,
    *,
    endpoint: str | None = None,
    first_wait_s: float = FIRST_WAIT_S,
) -> int:
    """Unpack one archive, given as its parts in any order, below a folder of its own; how many members it has.

    Raises `PullError` if a part has another checksum, `ArchiveError` for a damaged archive, a member that must not be
    unpacked, or if the hub doesn't answer or the disk is full: then what was unpacked stays, for the next run, else
    the folder goes.
    """
    from huggingface_hub import HfFileSystem

    system = HfFileSystem(endpoint=endpoint, skip_instance_cache=True)

    def opener(file: RemoteFile) -> Callable[[], IO[bytes]]:
        path = f"datasets/{repo}@{commit}/{file.path}"
        return lambda: system.open(path, "rb", block_size=BLOCK_BYTES)

    ordered = sorted(parts, key=_order)
    with JoinedParts([(opener(file), file) for file in ordered], first_wait_s) as joined:
        stream = io.BufferedReader(joined, BLOCK_BYTES)
        try:
            count = extract(stream, ordered[-1].path, folder, joined.size, joined.starts)
            joined.verify()
        except (ArchiveError, PullError) as error:
            # A connection that broke leaves what was unpacked; wrong bytes leave nothing.
            if not _right_bytes(error.__cause__):
                shutil.rmtree(folder, ignore_errors=True)
            raise
    return count


def _right_bytes(cause: BaseException | None) -> bool:
    """Whether what stopped it was a connection, or the system (which numbers its errors; those of damaged gzip
    and bzip2 data have no number), not the bytes."""
    return isinstance(cause, PullError) or (isinstance(cause, OSError) and cause.errno is not None)


def _order(file: RemoteFile) -> tuple[bool, str]:
    """By name, the `.zip` after its `.z01`, `.z02`, …"""
    return file.path.endswith(".zip"), file.path


class JoinedParts(io.RawIOBase):
    """Parts as one seekable stream. A read that fails is tried again from a freshly opened part."""

    def __init__(
        self, parts: Sequence[tuple[Callable[[], IO[bytes]], RemoteFile]], first_wait_s: float = FIRST_WAIT_S
    ) -> None:
        self._parts = parts
        self._wait = first_wait_s
        self._starts = [0, *accumulate(file.size for _, file in parts)]
        self._at = 0
        self._open: tuple[int, Any] | None = None
        self._hashes = [(hashlib.sha256(), 0) for _ in parts]
        """Of each part: the hash of what was read of it front to back, and how far that is."""

    @property
    def size(self) -> int:
        """Bytes of all parts."""
        return self._starts[-1]

    @property
    def starts(self) -> list[int]:
        """Where each part begins in the whole."""
        return self._starts[:-1]

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """Where the next read begins."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """As of any stream."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.size}[whence]
        self._at = max(base + offset, 0)
        return self._at

    def readinto(self, buffer: Any) -> int:
        """At most up to the end of a part."""
        if self._at >= self.size:
            return 0
        place = bisect_right(self._starts, self._at) - 1
        offset = self._at - self._starts[place]
        wanted = min(len(buffer), self._parts[place][1].size - offset)
        data = self._read(place, offset, wanted)
        state, seen = self._hashes[place]
        # Only what is read front to back can be hashed; a zip is checked member by member.
        if seen == offset:
            state.update(data)
            self._hashes[place] = (state, seen + len(data))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def verify(self) -> None:
        """Raise `PullError` if a part that was read from front to back has another sha256 than the hub says."""
        for (_, file), (state, seen) in zip(self._parts, self._hashes, strict=True):
            if seen == file.size and file.sha256 is not None and state.hexdigest() != file.sha256:
                raise PullError(f"{file.path!r}: its bytes have another checksum than the hub says; pull again")

    def close(self) -> None:
        """Close what is open."""
        if self._open is not None:
            self._open[1].close()
            self._open = None
        super().close()

    def _read(self, place: int, offset: int, wanted: int) -> bytes:
        wait, last = self._wait, ""
        for attempt in range(ATTEMPTS):
            try:
                if self._open is None or self._open[0] != place:
                    if self._open is not None:
                        self._open[1].close()
                    self._open = (place, self._parts[place][0]())
                stream = self._open[1]
                # Sought again only where it must be, as seeking opens a new request.
                if stream.tell() != offset:
                    stream.seek(offset)
                if data := stream.read(wanted):
                    return bytes(data)
                last = f"nothing at byte {offset}"
            except Exception as error:  # whatever the network library raises: it is tried again, and then named
                last = f"{type(error).__name__}: {str(error)[:120]}"
            self._open = None
            if attempt < ATTEMPTS - 1:
                time.sleep(wait)
                wait *= 2
        raise PullError(f"{self._parts[place][1].path!r}: can't be read on in {ATTEMPTS} attempts; last: {last}")
