"""Native records out of raw files, whatever the format, with the source's own adapter as the proof.

A file is cut where its format allows it (lines, rows, elements of a JSON list, TFRecord frames, parquet rows, or the
whole file), by the record's id or, where that doesn't single it out, by its number. Then the adapter reads the new
file: exactly the records that were taken down must be missing, all others must be as they were. Only then does the new
file take the old one's place, in one step. What no cut gets right is left as it is and reported: a person must do it,
and the ingest leaves the record out until then.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines import sources, tfrecord
from pipelines.adapter import Adapter, Broken, Raw, Record
from pipelines.manifest import file_sha256
from pipelines.takedown_list import Taken, TakenOfSource
from schemas.ids import digest

PICTURES = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".png", ".webp"})
Cut = Callable[[int, bytes], bool]
"""(number, bytes of a line, row, element or frame) → whether it goes."""


@dataclass
class RawReport:
    """What was done to the raw files of a source."""

    source: str
    changed: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    """Whole files: records and pictures."""
    left: list[str] = field(default_factory=list)
    """Files that still hold a record, for a person to cut."""


def take_down_raw(source: str, raw: Raw, taken: Taken) -> RawReport:
    """Cut a source's records out of its native files; pictures that only they showed go whole."""
    report = RawReport(source)
    adapter = sources.get(source)
    mine = TakenOfSource(taken, source)
    for group in adapter.parts(raw):
        before = list(_records(adapter, raw, group))
        gone = [one for one in before if mine.native(_id(one))]
        if gone:
            _cut_group(adapter, raw, group, before, gone, report)
    for folder in (raw.root, *raw.companions.values()):
        for path in pictures(folder):
            if file_sha256(path) in taken.screens:
                path.unlink()
                report.removed.append(path.relative_to(folder).as_posix())
    return report


def pictures(folder: Path) -> Iterator[Path]:
    """All pictures of a raw folder, in order."""
    yield from (path for path in sorted(folder.rglob("*")) if path.suffix.lower() in PICTURES and path.is_file())


def remaining(source: str, raw: Raw, taken: Taken) -> list[str]:
    """Files of a raw folder that still hold a record or picture that was taken down."""
    adapter, mine = sources.get(source), TakenOfSource(taken, source)
    found = {
        one.file for group in adapter.parts(raw) for one in _records(adapter, raw, group) if mine.native(_id(one))
    }  # fmt: skip
    for folder in (raw.root, *raw.companions.values()):
        shown = (path for path in pictures(folder) if file_sha256(path) in taken.screens)
        found |= {path.relative_to(folder).as_posix() for path in shown}
    return sorted(found)


@dataclass(frozen=True, slots=True)
class _Seen:
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


def _records(adapter: Adapter, raw: Raw, group: tuple[str, ...]) -> Iterator[_Seen]:
    for one in adapter.records(raw, group):
        if isinstance(one, Broken):
            yield _Seen(one.file, one.locator, "", digest([one.reason, one.items]))
        else:
            content = _content(one)
            yield _Seen(one.file, one.locator, content if one.native_id is None else one.native_id, content)


def _content(record: Record) -> str:
    return digest(record.payload if record.content is None else record.content)


def locate(source: str, raw: Raw, taken: Taken) -> list[list[str]]:
    """[file, locator] of records that were taken down, as the native files have them."""
    adapter, mine = sources.get(source), TakenOfSource(taken, source)
    found = (one for group in adapter.parts(raw) for one in _records(adapter, raw, group))
    return [[one.file, one.locator] for one in found if mine.native(_id(one))]


def digests_at(source: str, raw: Raw, places: Iterable[list[str]]) -> set[str]:
    """Contents' digests of the records without a native id that stand at these places."""
    adapter, wanted = sources.get(source), {tuple(place) for place in places}
    found = (one for group in adapter.parts(raw) for one in _records(adapter, raw, group))
    return {one.content for one in found if (one.file, one.locator) in wanted and one.native_id == one.content}


def _id(one: _Seen) -> str:
    return one.native_id


def _cut_group(
    adapter: Adapter, raw: Raw, group: tuple[str, ...], before: list[_Seen], gone: list[_Seen], report: RawReport
) -> None:
    for file in sorted({one.file for one in gone}):
        mine = [one for one in gone if one.file == file]
        wanted = Counter((one.native_id, one.content) for one in before if one.file == file)
        wanted -= Counter((one.native_id, one.content) for one in mine)
        path = raw.path(file)
        if not wanted:
            path.unlink()
            report.removed.append(file)
        elif _cut(adapter, raw, group, file, mine, wanted):
            report.changed.append(file)
        else:
            report.left.append(file)


def _cut(
    adapter: Adapter, raw: Raw, group: tuple[str, ...], file: str, gone: Sequence[_Seen],
    wanted: Counter[tuple[str, str]],
) -> bool:  # fmt: skip
    """Try each way to cut a file; whether one was right. The old file stays until the new one is proved."""
    path = raw.path(file)
    handle, aside = tempfile.mkstemp(dir=path.parent, prefix=".put-", suffix=path.name[-80:])
    os.close(handle)
    try:
        for cut in _ways(gone):
            if not _without(path, Path(aside), cut):
                continue
            if _proved(adapter, raw, group, file, Path(aside), wanted):
                shutil.copymode(path, aside)
                os.replace(aside, path)
                return True
        return False
    finally:
        Path(aside).unlink(missing_ok=True)


def _proved(
    adapter: Adapter, raw: Raw, group: tuple[str, ...], file: str, new: Path, wanted: Counter[tuple[str, str]]
) -> bool:
    """Whether the adapter reads exactly the other records from the new file in the old one's place."""
    try:
        found = list(_records(adapter, _Instead(raw.root, raw.companions, file, new), group))
    except (ValueError, OSError, KeyError):
        return False
    return Counter((one.native_id, one.content) for one in found if one.file == file) == wanted


def _ways(gone: Sequence[_Seen]) -> Iterator[Cut]:
    """By the ids as they may be written, then by the numbers that the locators tell, counted from 0 and from 1."""
    ids = [one.native_id for one in gone]
    written = [text.encode() for name in ids for text in {name, json.dumps(name), json.dumps(name)[1:-1]} if name]
    whole = re.compile(rb"(?<![0-9A-Za-z_])(?:" + b"|".join(map(re.escape, written)) + rb")(?![0-9A-Za-z_])")
    yield lambda number, data: whole.search(data) is not None
    fields = [b"\n" + _varint(len(name.encode())) + name.encode() for name in ids]  # a bytes feature of an Example
    yield lambda number, data: any(one in data for one in fields)
    numbers = [re.findall(r"\d+", one.locator) for one in gone]
    if all(numbers):
        told = {int(found[-1]) for found in numbers}
        yield lambda number, data: number in told
        yield lambda number, data: number + 1 in told


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
    except (ValueError, EOFError, OSError, pa.ArrowException, csv.Error):
        return False


def _text(path: Path, target: Path, edit: Callable[[bytes], bytes | None]) -> bool:
    packed = path.name.endswith(".gz")
    data = path.read_bytes()
    made = edit(gzip.decompress(data) if packed else data)
    if made is None:
        return False
    target.write_bytes(gzip.compress(made, mtime=0) if packed else made)
    return True


def _lines(data: bytes, cut: Cut) -> bytes | None:
    lines = data.splitlines(keepends=True)
    return _kept(lines, cut)


def _kept(pieces: Iterable[bytes], cut: Cut, first: int = 0) -> bytes | None:
    listed = list(pieces)
    left = [piece for number, piece in enumerate(listed) if number < first or not cut(number - first, piece)]
    return b"".join(left) if len(left) < len(listed) else None


def _csv(data: bytes, cut: Cut) -> bytes | None:
    """Rows as bytes: one may have line breaks within quotes. The header stays."""
    lines = data.decode("utf-8").splitlines(keepends=True)
    reader = csv.reader(iter(lines))
    pieces, last = [], 0
    for _ in reader:
        pieces.append("".join(lines[last : reader.line_num]).encode())
        last = reader.line_num
    return _kept(pieces, cut, first=1)


def _json(data: bytes, cut: Cut) -> bytes | None:
    """Elements of a list, of a lone list within an object, or entries of an object."""
    value = json.loads(data)
    inner = value
    if isinstance(value, dict):
        lists = [one for one in value.values() if isinstance(one, list)]
        inner = lists[0] if len(lists) == 1 else value
    entries = list(enumerate(inner)) if isinstance(inner, list) else [(k, [k, v]) for k, v in inner.items()]
    gone = {key for number, (key, one) in enumerate(entries) if cut(number, json.dumps(one).encode())}
    if not gone:
        return None
    if isinstance(inner, list):
        inner[:] = [one for place, one in enumerate(inner) if place not in gone]
    else:
        for key in gone:
            del inner[key]
    indent = 1 if b"\n" in data.strip() else None
    return json.dumps(value, ensure_ascii=False, indent=indent).encode()


def _varint(number: int) -> bytes:
    """As protocol buffers write a length."""
    low, rest = number & 127, number >> 7
    return bytes([low | 128]) + _varint(rest) if rest else bytes([low])


def _tfrecord(path: Path, target: Path, cut: Cut) -> bool:
    """Frames as they are, damaged ones too: only what is cut is left out."""
    data = path.read_bytes()
    packed = data[:2] == b"\x1f\x8b"
    plain = gzip.decompress(data) if packed else data
    left, end = [], 0
    for one in tfrecord.scan_stream(io.BytesIO(plain)):
        end = len(plain) if one.size is None else one.offset + 16 + one.size
        if one.data is None or not cut(one.index, one.data):
            left.append(plain[one.offset : end])
    made = b"".join(left)
    target.write_bytes(gzip.compress(made, mtime=0) if packed else made)
    return len(made) < end


def _parquet(path: Path, target: Path, cut: Cut) -> bool:
    """Row by row: pictures are left out of what is looked at."""
    file = pq.ParquetFile(path)
    number, gone = 0, 0
    with pq.ParquetWriter(target, file.schema_arrow, compression="zstd") as writer:
        for batch in file.iter_batches(1024):
            stays = []
            for row in _plain(batch):
                goes = cut(number, row)
                stays.append(not goes)
                number, gone = number + 1, gone + goes
            writer.write_batch(batch.filter(pa.array(stays, pa.bool_())))
    return gone > 0


def _plain(batch: pa.RecordBatch) -> Iterator[bytes]:
    def told(value: Any) -> Any:
        return f"{len(value)} bytes" if isinstance(value, bytes) else str(value)

    for row in batch.to_pylist():
        yield json.dumps(row, default=told, ensure_ascii=False).encode()
