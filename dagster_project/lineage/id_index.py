"""Which files of tables hold an id: a lookup that opens a few files of a store of ten thousand.

Parts are cut by digests, so the least and greatest id of each file say nothing of what lies between. For each column an
index keeps a 32-bit hash of every id beside the number of its file; what a hash finds is read and compared, so two ids
of one hash cost a file more and change no answer. Files go by their sha256: one that several versions hold is indexed
once, and an entry never goes out of date.

The index is a cache in segments, one for the files of each stage that ended (`index_version`) or that were new to a
question. Whoever deletes it waits once; `vesper gc` does, so that it holds nothing of what is gone.
"""

import contextlib
import functools
import os
import shutil
import tempfile
import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dagster_project.lineage.table_files import TableFile, distinct_files, open_files
from pipelines.store.collect_garbage import ID_INDEX
from pipelines.store.files import StoreError
from pipelines.store.manifest import Manifest
from pipelines.store.object_store.binding import copies_of

KEYS = {
    "steps": "episode_id",
    "samples": "sample_id",
    "verdicts": "item_id",
    "rejects": "item_id",
    "index": "sample_id",
    "displaced": "item_id",
}
"""Table → the column that its rows are looked up by."""
INDEXED = ("unified/", "verdicts/", "gold/", "hygiene/duplicates", "mid_training/shards")
"""Assets with so many rows that they are indexed as soon as they are made."""
MOST_SEGMENTS = 8
"""Segments of a column beyond which they are made one."""


@dataclass(frozen=True)
class Segment:
    """Ids of some files: `hashes` (uint32) in order, and at the same place the number of the file in `digests`."""

    digests: list[str]
    hashes: np.ndarray
    files: np.ndarray

    def holders(self, wanted: np.ndarray) -> set[str]:
        """Digests of the files that hold one of some hashes."""
        # Both ends of the run of each hash in the sorted column.
        first, past = (np.searchsorted(self.hashes, wanted, side) for side in ("left", "right"))
        return {self.digests[file] for a, b in zip(first, past, strict=True) for file in self.files[a:b].tolist()}


class IdIndex:
    """The index of a store. A folder that can't be written to costs each process its own index in memory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._segments: dict[str, list[Segment]] = {}

    def files_with(self, column: str, files: Sequence[TableFile], ids: Collection[str]) -> list[TableFile]:
        """Which of some files may hold one of `ids` in a text column, in their order; `add` reads those that are
        new."""
        self.add(column, files)
        wanted = hashes_of(sorted(ids))
        # Hashes only: a file may be named by chance, and is then read in vain, never missed.
        found = {digest for segment in self._segments[column] for digest in segment.holders(wanted)}
        return [file for file in files if file.entry.sha256 in found]

    def add(self, column: str, files: Sequence[TableFile]) -> None:
        """Read the files that aren't in the index of a text column yet. Raises `ValueError` or `StoreError` for one
        that is missing or damaged."""
        if column not in self._segments:
            self._segments[column] = _stored(self._folder / column)
        known = {digest for segment in self._segments[column] for digest in segment.digests}
        fresh = {file.entry.sha256: file for file in files if file.entry.sha256 not in known}
        if fresh:
            self._segments[column].append(_read(column, list(fresh.values())))
            # Each question would search all segments, so many are merged into one.
            if len(self._segments[column]) > MOST_SEGMENTS:
                self._segments[column] = [_merged(self._segments[column])]
            self._keep(column)

    def _keep(self, column: str) -> None:
        """Write the newest segment; after a merge it takes the place of all others."""
        segments, folder = self._segments[column], self._folder / column
        with contextlib.suppress(OSError):
            # What was there before the new segment, which after a merge holds all of it.
            before = [path for path in folder.iterdir() if path.is_dir()] if folder.is_dir() else []
            _write(folder, segments[-1])
            if len(segments) == 1:
                for path in before:
                    shutil.rmtree(path, ignore_errors=True)


@functools.lru_cache(maxsize=8)
def index_of(home: Path) -> IdIndex:
    """The index of the store in a folder, one a process."""
    return IdIndex(home / ID_INDEX)


def index_version(manifest: Manifest) -> None:
    """Index what a stage just made, if it is of `INDEXED` in a store of this machine's own; of one behind a URL, whose
    other readers have caches of their own, a question fetches what it needs. Never fails: a question tries again."""
    # Behind a URL each machine has an index of its own, made when it is asked.
    if not manifest.asset.startswith(INDEXED) or copies_of(manifest.folder) is not None:
        return
    with contextlib.suppress(OSError, ValueError, StoreError):
        for table, column in KEYS.items():
            if files := distinct_files([manifest], table):
                index_of(files[0].home).add(column, files)


def hashes_of(ids: Collection[str]) -> np.ndarray:
    """CRC-32 of each id: uint32 [n]."""
    return np.fromiter((zlib.crc32(name.encode()) for name in ids), np.uint32, len(ids))


def _read(column: str, files: Sequence[TableFile]) -> Segment:
    found = [_ids(path, column) for path in open_files(files)]
    # The number of its file beside each hash.
    numbers = np.repeat(np.arange(len(found), dtype=np.uint32), [len(one) for one in found])
    return _sorted([file.entry.sha256 for file in files], np.concatenate(found), numbers)


def _ids(path: Path, column: str) -> np.ndarray:
    try:
        ids = pq.read_table(path, columns=[column])[column]
    except (OSError, pa.ArrowInvalid) as error:
        raise ValueError(f"a table of the store can't be read: {str(error).splitlines()[0][:200]}") from error
    # Nulls name nothing (a table may have optional ids).
    return hashes_of(pc.drop_null(pc.unique(ids)).to_pylist())


def _sorted(digests: list[str], hashes: np.ndarray, files: np.ndarray) -> Segment:
    order = np.argsort(hashes, kind="stable")
    return Segment(digests, hashes[order], files[order])


def _merged(segments: list[Segment]) -> Segment:
    starts = np.cumsum([0, *(len(segment.digests) for segment in segments)], dtype=np.uint32)
    # File numbers of later segments are shifted behind those of earlier ones.
    files = np.concatenate([segment.files + start for segment, start in zip(segments, starts, strict=False)])
    digests = [digest for segment in segments for digest in segment.digests]
    return _sorted(digests, np.concatenate([segment.hashes for segment in segments]), files)


def _stored(folder: Path) -> list[Segment]:
    """The segments in a folder; one that can't be read is one less."""
    found = []
    # A damaged segment counts as missing, and its files are read again.
    for path in sorted(folder.glob("segment-*")):
        with contextlib.suppress(OSError, ValueError):
            hashes, files = (np.load(path / f"{name}.npy", mmap_mode="r") for name in ("hashes", "files"))
            found.append(Segment((path / "digests.txt").read_text(encoding="ascii").split(), hashes, files))
    return found


def _write(folder: Path, segment: Segment) -> None:
    """A new segment, which is there whole or not at all. Raises `OSError`."""
    folder.mkdir(parents=True, exist_ok=True)
    # Under another name first: readers look for `segment-*` only.
    unfinished = Path(tempfile.mkdtemp(prefix="new-", dir=folder))
    try:
        np.save(unfinished / "hashes.npy", segment.hashes)
        np.save(unfinished / "files.npy", segment.files)
        (unfinished / "digests.txt").write_text("\n".join(segment.digests), encoding="ascii")
        os.rename(unfinished, folder / unfinished.name.replace("new-", "segment-", 1))
    except OSError:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
