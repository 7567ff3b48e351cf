"""Native records out of raw files, whatever the format, with the source's own adapter as the proof.

A file is cut where its format allows it (lines, rows, elements of a JSON list or object, TFRecord frames, parquet rows,
or the whole file), in each of the ways of `ways`. Then the adapter reads the new file: exactly the records
that were taken down must be missing, all others must be as they were. Only then does the new file take the old one's
place, in one step. What no cut gets right is left as it is and reported: a person must rewrite that file or withdraw
it whole, and the ingest leaves the record out until then.
"""

import csv
import gzip
import io
import json
import os
import re
import shutil
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines import sources
from pipelines.decompression import unpacked_gzip
from pipelines.mapping.adapter import Adapter, Broken, Raw
from pipelines.native import tfrecord
from pipelines.raw.unpacked import drop_unpacked, unpacked_folders
from pipelines.store.files import file_sha256
from pipelines.takedown.ways import Cut, search, ways
from pipelines.takedown.withdrawn import TakenDown, TakenOfSource
from schemas.ids import digest

PICTURES = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".png", ".webp"})


@dataclass
class RawReport:
    """What was done to the raw files of a source."""

    source: str
    changed: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    """Whole files: records and pictures."""
    left: list[str] = field(default_factory=list)
    """Files that still hold a record, for a person to cut."""


def take_down_raw(source: str, raw: Raw, taken: TakenDown) -> RawReport:
    """Cut a source's records out of its native files; pictures that only they showed go whole. So does what a pull has
    unpacked and not moved in yet: no adapter reads it there, and the next pull fetches it again."""
    report = RawReport(source)
    adapter = sources.get(source)
    mine = TakenOfSource(taken, source)
    for group in adapter.parts(raw):
        _cut_group(adapter, raw, group, mine, report)
    for folder in (raw.root, *raw.companions.values()):
        left = unpacked_folders(folder)
        drop_unpacked(left)
        report.removed += [path.relative_to(folder).as_posix() for path in left]
        for path in pictures(folder):
            if file_sha256(path) in taken.screens:
                path.unlink()
                report.removed.append(path.relative_to(folder).as_posix())
    return report


def pictures(folder: Path) -> Iterator[Path]:
    """All pictures of a raw folder, in order."""
    yield from (path for path in sorted(folder.rglob("*")) if path.suffix.lower() in PICTURES and path.is_file())


def remaining(source: str, raw: Raw, taken: TakenDown) -> list[str]:
    """Files of a raw folder that still hold a record or picture that was taken down, and folders that nobody can tell
    of."""
    adapter, mine = sources.get(source), TakenOfSource(taken, source)
    found = {one.file for group in adapter.parts(raw) for one in _records(adapter, raw, group) if mine.native(_id(one))}
    for folder in (raw.root, *raw.companions.values()):
        # Members of a broken pull belong to no adapter yet, so nobody can tell what they hold.
        found |= {path.relative_to(folder).as_posix() for path in unpacked_folders(folder)}
        shown = (path for path in pictures(folder) if file_sha256(path) in taken.screens)
        found |= {path.relative_to(folder).as_posix() for path in shown}
    return sorted(found)


@dataclass(frozen=True, slots=True)
class _ReadRecord:
    """A record as the adapter read it."""

    file: str
    locator: str
    native_id: str
    content: str


@dataclass(frozen=True)
class _Instead(Raw):
    """A raw folder in which another file stands for one of its own."""

    file: str = ""
    new: Path = Path()

    def _resolve(self, relative: str, companion: str | None) -> tuple[str, str]:
        root, path = super()._resolve(relative, companion)
        own = super()._resolve(self.file, None)[1]
        return root, str(self.new) if companion is None and path == own else path


def _records(adapter: Adapter, raw: Raw, group: tuple[str, ...]) -> Iterator[_ReadRecord]:
    for one in adapter.records(raw, group):
        if isinstance(one, Broken):
            # A broken record has no content; its reason stands for it, so that the proof notices if it
            # changes.
            yield _ReadRecord(one.file, one.locator, "", digest([one.reason, one.items]))
        else:
            content = one.content_digest()
            yield _ReadRecord(one.file, one.locator, content if one.native_id is None else one.native_id, content)


def locate(source: str, raw: Raw, taken: TakenDown) -> list[list[str]]:
    """[file, locator] of records that were taken down, as the native files have them."""
    adapter, mine = sources.get(source), TakenOfSource(taken, source)
    found = (one for group in adapter.parts(raw) for one in _records(adapter, raw, group))
    return [[one.file, one.locator] for one in found if mine.native(_id(one))]


def digests_at(source: str, raw: Raw, places: Iterable[list[str]]) -> set[str]:
    """Contents' digests of the records without a native id that stand at these places."""
    adapter, wanted = sources.get(source), {tuple(place) for place in places}
    found = (one for group in adapter.parts(raw) for one in _records(adapter, raw, group))
    return {one.content for one in found if (one.file, one.locator) in wanted and one.native_id == one.content}


def _id(one: _ReadRecord) -> str:
    return one.native_id


def _cut_group(adapter: Adapter, raw: Raw, group: tuple[str, ...], mine: TakenOfSource, report: RawReport) -> None:
    """File by file, until none is there or none can be cut: an episode may go on in another file, and the rest of it is
    a record of its own once the first file is cut."""
    done: set[str] = set()
    while True:
        there = tuple(file for file in group if file not in report.removed)
        before = list(_records(adapter, raw, there)) if there else []
        files = sorted({one.file for one in before if mine.native(_id(one))} - done)
        if not files:
            break
        done.add(files[0])
        _cut(_FileGroup(adapter, raw, there, mine, _others(before, mine)), files[0], before, report)


def _others(found: Iterable[_ReadRecord], mine: TakenOfSource) -> Counter[tuple[str, str]]:
    return Counter((one.native_id, one.content) for one in found if not mine.native(_id(one)))


@dataclass(frozen=True)
class _FileGroup:
    """Files that are read together, and what has to be read from them whatever is cut."""

    adapter: Adapter
    raw: Raw
    files: tuple[str, ...]
    mine: TakenOfSource
    others: Counter[tuple[str, str]]

    def proved(self, raw: Raw, files: tuple[str, ...], file: str) -> bool:
        """Whether exactly the other records are read, and of `file` none that was taken down."""
        try:
            found = list(_records(self.adapter, raw, files)) if files else []
        except (ValueError, OSError, KeyError):
            return False
        held = any(one.file == file and self.mine.native(_id(one)) for one in found)
        # The others must all be read as before, each as often: that is the proof that nothing else was cut.
        return not held and _others(found, self.mine) == self.others


def _cut(group: _FileGroup, file: str, before: Sequence[_ReadRecord], report: RawReport) -> None:
    """Remove a file whole if no other record needs it, else try each way to cut it. The old file stays until the new
    one is proved."""
    raw, path = group.raw, group.raw.path(file)
    here = [one for one in before if one.file == file]
    gone = [one for one in here if group.mine.native(_id(one))]
    # All that the file holds goes: then the file goes, if the others are read without it.
    if len(gone) == len(here) and group.proved(raw, tuple(one for one in group.files if one != file), file):
        path.unlink()
        report.removed.append(file)
        return
    # Hidden and beside the old file, so that replacing it is one rename on one disk.
    handle, aside = tempfile.mkstemp(dir=path.parent, prefix=".put-", suffix=path.name[-80:])
    os.close(handle)
    new = Path(aside)

    def tried() -> Iterator[Cut]:
        others = [one.locator for one in here if one not in gone]
        # From the surest way to the dearest; each is proved before it counts.
        yield from ways([(one.native_id, one.locator) for one in gone], others)
        pieces = _alone(group.adapter, raw, file, new, {one.native_id for one in gone})
        yield lambda number, data: number in pieces

    try:
        for cut in tried():
            instead = _Instead(raw.root, raw.companions, file, new)
            if _without(path, new, cut) and group.proved(instead, group.files, file):
                # As readable as the file that it replaces.
                shutil.copymode(path, new)
                os.replace(new, path)
                report.changed.append(file)
                return
        report.left.append(file)
    finally:
        new.unlink(missing_ok=True)


def _alone(adapter: Adapter, raw: Raw, file: str, new: Path, gone: set[str]) -> set[int]:
    """Pieces of a file that give a record of `gone` when they stand alone in it."""
    path, numbers = raw.path(file), list[int]()

    def count(number: int, data: bytes) -> bool:
        numbers.append(number)
        return False

    _without(path, new, count)

    def ids_in(some: Collection[int]) -> set[str]:
        chosen = set(some)
        if len(chosen) == len(numbers):
            return gone
        if not _without(path, new, lambda number, data: number not in chosen):
            return set()
        try:
            return {one.native_id for one in _records(adapter, _Instead(raw.root, raw.companions, file, new), (file,))}
        except (ValueError, OSError, KeyError):
            # Several pieces that can't be read together may still hold it; a single one can't.
            return gone if len(chosen) > 1 else set()

    return search(sorted(set(numbers)), ids_in, gone)


def _without(path: Path, target: Path, cut: Cut) -> bool:
    """Write a file without what is cut; False if nothing was, or the format can't be cut."""
    name = path.name.removesuffix(".gz")
    suffix = Path(name).suffix
    try:
        if suffix == ".parquet":
            return _parquet(path, target, cut)
        if suffix == ".json":
            return _text(path, target, lambda data: _json(data, cut))
        if suffix in (".jsonl", ".ndjson"):
            return _text(path, target, lambda data: _lines(data, cut))
        if suffix in (".csv", ".tsv"):
            return _text(path, target, lambda data: _csv(data, cut))
        return _tfrecord(path, target, cut)
    except (ValueError, EOFError, OSError, zlib.error, pa.ArrowException, csv.Error):
        return False


def _text(path: Path, target: Path, edit: Callable[[bytes], bytes | None]) -> bool:
    packed = path.name.endswith(".gz")
    data = path.read_bytes()
    edited = edit(unpacked_gzip(data) if packed else data)
    if edited is None:
        return False
    # No time in the header: equal content gives equal bytes.
    target.write_bytes(gzip.compress(edited, mtime=0) if packed else edited)
    return True


def _lines(data: bytes, cut: Cut) -> bytes | None:
    lines = data.splitlines(keepends=True)
    return _kept(lines, cut)


def _kept(pieces: Iterable[bytes], cut: Cut, first: int = 0) -> bytes | None:
    listed = list(pieces)
    # A heading is no record, and stays.
    left = [piece for number, piece in enumerate(listed) if number < first or not cut(number - first, piece)]
    return b"".join(left) if len(left) < len(listed) else None


def _csv(data: bytes, cut: Cut) -> bytes | None:
    """Rows as bytes: one may have line breaks within quotes, or bytes that are no text. The header stays."""
    lines = data.decode("utf-8", "surrogateescape").splitlines(keepends=True)
    reader = csv.reader(iter(lines))
    pieces, last = [], 0
    for _ in reader:
        # A row may hold line breaks, so its lines are those that the reader took for it.
        pieces.append("".join(lines[last : reader.line_num]).encode("utf-8", "surrogateescape"))
        last = reader.line_num
    return _kept(pieces, cut, first=1)


def _json(data: bytes, cut: Cut) -> bytes | None:
    """Elements of a list, of a lone list within an object, entries of an object or of the objects in it."""
    try:
        value = json.loads(data)
    except ValueError:
        return _broken_list(data, cut)
    inner = value
    if isinstance(value, dict):
        lists = [one for one in value.values() if isinstance(one, list)]
        inner = lists[0] if len(lists) == 1 else value
    within = [one for one in value.values() if isinstance(one, dict)] if isinstance(value, dict) else []
    if not any([_cut_entries(inner, cut), *(_cut_entries(one, cut) for one in within)]):
        return None
    # As it was written: on lines of its own or in one.
    indent = 1 if b"\n" in data.strip() else None
    return json.dumps(value, ensure_ascii=False, indent=indent).encode()


def _cut_entries(inner: Any, cut: Cut) -> bool:
    entries = list(enumerate(inner)) if isinstance(inner, list) else [(k, [k, v]) for k, v in inner.items()]
    gone = {key for number, (key, one) in enumerate(entries) if cut(number, json.dumps(one).encode())}
    if isinstance(inner, list):
        inner[:] = [one for place, one in enumerate(inner) if place not in gone]
    else:
        for key in gone:
            del inner[key]
    return bool(gone)


def _broken_list(data: bytes, cut: Cut) -> bytes | None:
    """A list that ends too early: its whole elements are pieces, what comes after them stays as it is. Raises
    `ValueError` for anything else."""
    text, decoder = data.decode("utf-8"), json.JSONDecoder()
    start = re.match(r"\s*\[\s*", text)
    if start is None:
        raise ValueError("expected JSON")
    pieces, end = [], start.end()
    while True:
        try:
            _, after = decoder.raw_decode(text, end)
        except ValueError:
            break
        comma = re.compile(r"\s*,\s*").match(text, after)
        if comma is None:
            # A comma behind it shows that the element was whole.
            break
        pieces.append(text[end : comma.end()].encode())
        end = comma.end()
    left = _kept(pieces, cut)
    return None if left is None else text[: start.end()].encode() + left + text[end:].encode()


def _tfrecord(path: Path, target: Path, cut: Cut) -> bool:
    """Frames as they are, damaged ones too: only what is cut is left out."""
    data = path.read_bytes()
    packed = data[:2] == b"\x1f\x8b"
    plain = unpacked_gzip(data) if packed else data
    left, end = [], 0
    for one in tfrecord.scan_stream(io.BytesIO(plain)):
        # 16 bytes of length and checksums around each record.
        end = len(plain) if one.size is None else one.offset + 16 + one.size
        if one.data is None or not cut(one.index, one.data):
            left.append(plain[one.offset : end])
    remaining = b"".join(left)
    target.write_bytes(gzip.compress(remaining, mtime=0) if packed else remaining)
    return len(remaining) < end


def _parquet(path: Path, target: Path, cut: Cut) -> bool:
    """Row by row: pictures are left out of what is looked at."""
    file = pq.ParquetFile(path)
    number, gone = 0, 0
    with pq.ParquetWriter(target, file.schema_arrow, compression="zstd") as writer:
        for batch in file.iter_batches(1024):
            stays = []
            # Pictures by their size only, as ids don't stand in them.
            for row in _plain(batch):
                goes = cut(number, row)
                stays.append(not goes)
                number, gone = number + 1, gone + goes
            writer.write_batch(batch.filter(pa.array(stays, pa.bool_())))
    return gone > 0


def _plain(batch: pa.RecordBatch) -> Iterator[bytes]:
    def as_text(value: object) -> object:
        return f"{len(value)} bytes" if isinstance(value, bytes) else str(value)

    for row in batch.to_pylist():
        yield json.dumps(row, default=as_text, ensure_ascii=False).encode()
