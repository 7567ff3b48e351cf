"""sha256 of native files, each read once and on all cores; whoever reads a small one next gets the bytes from here."""

import hashlib
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pipelines.engines.cores import usable_cores
from pipelines.store.files import file_sha256
from pipelines.store.remembered import remember, remembered

_SMALL = 1 << 20
_RECENT_BYTES = 64 << 20
_CLOCK_GRAIN_NS = 2_000_000_000
"""Two writes within it may get the same time of change; that of FAT is the coarsest, Linux's own file systems have some
milliseconds."""
_Stamp = tuple[int, int, int, int]


class RecentBytes:
    """The bytes of small files that were just hashed, for whoever reads them next in this process: most of the cost of
    a small file is to open it. What is taken is what was hashed."""

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}
        self._size = 0
        self._lock = threading.Lock()

    def put(self, name: str, data: bytes) -> None:
        """Keep a file, unless there is enough of them already."""
        with self._lock:
            self._take(name)
            if self._size + len(data) <= _RECENT_BYTES:
                self._files[name] = data
                self._size += len(data)

    def take(self, name: str) -> bytes | None:
        """A file's bytes, once; None if they aren't held."""
        with self._lock:
            return self._take(name)

    def _take(self, name: str) -> bytes | None:
        data = self._files.pop(name, None)
        self._size -= len(data or b"")
        return data

    def clear(self) -> None:
        """Let all go."""
        with self._lock:
            self._files.clear()
            self._size = 0


RECENT = RecentBytes()


class FileHashes:
    """sha256 of raw files, remembered by size, inode and times of change, so that an unchanged 100 GB tree is not read
    again.

    A write always sets a file's time of status change, which nobody can set back; so a file with the same one holds the
    same bytes, unless it was written twice within the clock's grain and read in between. Therefore a hash is kept only
    of a file whose last change lay further back than the grain when it was looked at: another is read again next time.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, list[int | str]] = remembered(path) or {}

    def sha256(self, path: str | Path) -> str:
        """Hash of a file, from memory if it is the file that it was."""
        return self.all([path])[0]

    def all(self, paths: Sequence[str | Path]) -> list[str]:
        """Hashes of many files, in their order. Large ones that must be read are read by a thread a core, as hashing
        lets other threads run; of small ones most of the cost is Python's, which doesn't."""
        names = [os.fspath(path) for path in paths]
        stamps = {name: _stamp(os.stat(name)) for name in names}
        found = {name: known for name, stamp in stamps.items() if (known := self._remembered(name, stamp)) is not None}
        unread = [name for name in stamps if name not in found]
        # By size, as threads help only where hashing takes longer than Python does.
        large = [name for name in unread if stamps[name][0] >= _SMALL]
        found |= zip(large, _on_all_cores(self._read, large), strict=True)
        found |= {name: self._read(name) for name in unread if stamps[name][0] < _SMALL}
        return [found[name] for name in names]

    def _remembered(self, name: str, stamp: _Stamp) -> str | None:
        known = self._known.get(name)
        if not known or known[:-1] != [*stamp]:
            return None
        RECENT.take(name)  # of an earlier read of it
        return str(known[-1])

    def _read(self, name: str) -> str:
        now, stamp = time.time_ns(), _stamp(os.stat(name))
        value = _hashed(name, stamp[0])
        # Changed lately: the clock's grain could hide a second change, so it isn't remembered.
        if max(stamp[1:3]) < now - _CLOCK_GRAIN_NS and _stamp(os.stat(name)) == stamp:
            self._known[name] = [*stamp, value]
        return value

    def save(self) -> None:
        """Keep what was seen for the next run. Several processes may do so at once."""
        remember(self._path, self._known)


def _on_all_cores(function: Callable[[str], str], names: Sequence[str]) -> list[str]:
    with ThreadPoolExecutor(max(1, min(usable_cores(), len(names)))) as pool:
        return list(pool.map(function, names))


def _stamp(status: os.stat_result) -> _Stamp:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def _hashed(name: str, size: int) -> str:
    if size >= _SMALL:
        return file_sha256(name)
    with open(name, "rb", buffering=0) as stream:
        data = stream.read()
    RECENT.put(name, data)
    return hashlib.sha256(data).hexdigest()
