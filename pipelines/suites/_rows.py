"""What the suites share: rows of JSON lists, JSON lines, result documents and parquet → items, with their pictures."""

import json
import math
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from pipelines.mapping.adapter import Broken, Raw, Record, RecordError
from pipelines.mapping.items import is_text, picture_bytes
from pipelines.native.record_readers import holds_json_lines, json_lines, json_list, last_may_end, parquet_rows
from pipelines.store.images import ImageError, image_size
from pipelines.suites import BadRow, SuiteItem
from schemas.coordinates import OffScreen, screen_box

Row = Mapping[str, Any]
Convention = Literal["xyxy", "xywh", "fraction"]
Box = tuple[float, float, float, float]
MAX_MEMBER_BYTES = 200 * 2**20
_SIZES = ("img_size", "image_size", "resolution")
"""Fields that may hold a picture's width and height."""
_ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".bmp")


@dataclass
class RawPictures:
    """Pictures of a raw folder, loose or in its zip files, found by the end of their path."""

    raw: Raw
    _zips: dict[str, zipfile.ZipFile] = field(default_factory=dict)

    @cached_property
    def _by_name(self) -> dict[str, list[tuple[str, str | None]]]:
        """Base name → (path, the zip file that holds it, if any)."""
        found: dict[str, list[tuple[str, str | None]]] = {}
        for name in self.raw.files("**/*"):
            if name.lower().endswith(_ENDINGS):
                found.setdefault(PurePosixPath(name).name, []).append((name, None))
            elif name.lower().endswith(".zip") and (archive := self._open(name)) is not None:
                for member in archive.namelist():
                    if member.lower().endswith(_ENDINGS):
                        found.setdefault(PurePosixPath(member).name, []).append((member, name))
        return found

    def _open(self, name: str) -> zipfile.ZipFile | None:
        if name not in self._zips:
            try:
                self._zips[name] = zipfile.ZipFile(self.raw.path(name))
            except (zipfile.BadZipFile, OSError):
                return None
        return self._zips[name]

    def find(self, named: str) -> tuple[str, bytes | None, str | None]:
        """(name, bytes, what is wrong): the file whose path shares most of its end with `named`.

        Several files that share equally much are told apart by nothing: `picture_ambiguous`.
        """
        parts = PurePosixPath(named.replace("\\", "/")).parts
        choices = self._by_name.get(parts[-1], []) if parts else []
        if not choices:
            return named, None, "picture_missing"
        shared = [_common_end(PurePosixPath(path).parts, parts) for path, _ in choices]
        best = [choice for choice, count in zip(choices, shared, strict=True) if count == max(shared)]
        if len(best) > 1:
            return named, None, "picture_ambiguous"
        path, archive = best[0]
        data = self._read(path, archive)
        return path, data, None if data is not None else "picture_unreadable"

    def _read(self, path: str, archive: str | None) -> bytes | None:
        try:
            if archive is None:
                return self.raw.read(path)
            opened = self._zips[archive]
            if opened.getinfo(path).file_size > MAX_MEMBER_BYTES:
                return None
            return opened.read(path)
        except (OSError, RecordError, zipfile.BadZipFile, RuntimeError, ValueError):
            return None


def _common_end(left: Sequence[str], right: Sequence[str]) -> int:
    count = 0
    for a, b in zip(reversed(left), reversed(right), strict=False):
        if a != b:
            break
        count += 1
    return count


@dataclass(frozen=True)
class Form:
    """How a suite's rows are read: the names of its fields, and what its boxes mean."""

    convention: Callable[[Row], Convention]
    wordings: tuple[tuple[str, tuple[str, ...], str | None], ...] = (("", ("instruction", "prompt_to_evaluate"), "en"),)
    """(suffix of the id, fields of which the first is taken, language)."""
    picture: tuple[str, ...] = ("img_filename", "image_path", "img_path", "file_name", "img_url", "image")
    identity: tuple[str, ...] = ("id", "index")
    app: tuple[str, ...] = ("application", "app_name")
    box_of: Callable[[Row, tuple[int, int] | None], tuple[Box | None, tuple[tuple[float, float], ...]]] | None = None
    """Replaces field `bbox` and `convention` where a suite has more than boxes. Raises `ValueError` on a bad one."""
    picture_names: Callable[[Row, str], str] | None = None
    """(row, picture) → a longer name, where a file's folder stands in another field."""
    patterns: tuple[str, ...] = ("**/*.json", "**/*.jsonl", "**/*.parquet")
    beside: tuple[str, ...] = ()
    """Patterns of files that lie beside the rows: what of them is no row isn't told."""

    def items(self, raw: Raw) -> Iterator[SuiteItem | BadRow]:
        """Rows of the suite's files; further wordings of a row are items of their own."""
        for found in items(raw, self, self.patterns):
            if not (isinstance(found, BadRow) and any(fnmatchcase(found.file, name) for name in self.beside)):
                yield found

    def target(self, row: Row, size: tuple[int, int] | None) -> tuple[Box | None, tuple[tuple[float, float], ...]]:
        """(box, polygon) of what a row asks for, in 0..1000; `size` of its picture in pixels. Raises `ValueError` for a
        bad one."""
        if self.box_of is not None:
            try:
                return self.box_of(row, size)
            except TypeError as error:
                raise ValueError(f"no box: {error}") from error
        found = row.get("bbox")
        return (None if found is None else thousandths(found, self.convention(row), size)), ()


def items(raw: Raw, form: Form, patterns: Sequence[str]) -> Iterator[SuiteItem | BadRow]:
    """All rows of the files that match `patterns`, as items."""
    pictures = RawPictures(raw)
    for record in records(raw, patterns):
        if isinstance(record, BadRow):
            yield record
        elif not isinstance(record.payload, Mapping):
            yield BadRow(record.file, record.locator, "bad_value", f"expected an object, found {record.payload!r:.80}")
        else:
            yield from _items(record, record.payload, form, pictures)


def records(raw: Raw, patterns: Sequence[str]) -> Iterator[Record | BadRow]:
    """Rows of JSON lists, JSON lines and parquet, and of result documents (`{"details": [...]}`); a stream. A file of
    which no row can be read ends with that, as one that was cut (`BadRow.ends`; of sources `counts.FileLook` says so).
    """
    names = sorted({name for pattern in patterns for name in raw.files(pattern)})
    if not names:
        yield BadRow("", "folder", "no_files", f"expected files that match {', '.join(patterns)}")
    for name in names:
        read, broken = False, None
        for found in last_may_end(_records(raw, name)):
            if isinstance(found, Record):
                read = True
                yield found
                continue
            # Held back by one: only at the end is it known whether anything of the file could be read.
            if broken is not None:
                yield broken
            broken = BadRow(found.file, found.locator, found.reason, found.detail, found.ends)
        if broken is not None:
            yield broken if read else replace(broken, ends=True)


def _records(raw: Raw, name: str) -> Iterator[Record | Broken]:
    if name.endswith((".jsonl", ".jsonl.gz")):
        yield from json_lines(raw, name)
    elif name.endswith(".parquet"):
        yield from parquet_rows(raw, name)
    elif _opens_with(raw.path(name), b"{") and not holds_json_lines(raw, name):
        yield from _document(raw, name)
    else:
        yield from json_list(raw, name)


def _opens_with(path: Path, mark: bytes) -> bool:
    with path.open("rb") as stream:
        return stream.read(64).removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == mark


def _document(raw: Raw, name: str) -> Iterator[Record | Broken]:
    try:
        whole = json.loads(raw.read(name))
    except (ValueError, RecursionError) as error:
        yield Broken(name, "document", "bad_json", str(error)[:200], 0, ends=True)
        return
    listed = whole.get("details") if isinstance(whole, dict) else None
    for index, row in enumerate(listed if isinstance(listed, list) else [whole]):
        yield Record(name, f"row {index}", row)


def _items(record: Record, row: Row, form: Form, pictures: RawPictures) -> Iterator[SuiteItem | BadRow]:
    texts = [(suffix, found, language) for suffix, keys, language in form.wordings if (found := first(row, keys))]
    if not texts:
        detail = f"no instruction among the fields {sorted(map(str, row))}"
        yield BadRow(record.file, record.locator, "unknown_schema", detail[:300])
        return
    name, data, wrong = _picture(row, form, pictures)
    notes = [wrong] if wrong else []
    size = _size(row, data)
    box: Box | None = None
    points: tuple[tuple[float, float], ...] = ()
    try:
        box, points = form.target(row, size)
    except ValueError:
        notes.append("bad_box")
    identity = f"{PurePosixPath(record.file).stem}/{_identity(row, form, record.locator)}"
    app = first(row, form.app)
    for suffix, text, language in texts:
        if not is_text(text):
            yield BadRow(record.file, record.locator, "bad_value", "the instruction holds lone surrogates")
            continue
        yield SuiteItem(f"{identity}{suffix}", text, language, box, points, name, data, app, notes=tuple(notes))


def first(row: Row, keys: Sequence[str]) -> str | None:
    """The first of some fields that holds a text."""
    for key in keys:
        value = row.get(key)
        if isinstance(value, str) and value.strip():
            return value.strip()
    return None


def _identity(row: Row, form: Form, locator: str) -> str:
    found = next((row[key] for key in form.identity if isinstance(row.get(key), str | int)), None)
    return locator.replace(" ", "-") if found is None or found == "" else str(found)


def _picture(row: Row, form: Form, pictures: RawPictures) -> tuple[str | None, bytes | None, str | None]:
    """(name, bytes, what is wrong): the bytes in a parquet row, or the file that the row names."""
    name = first(row, form.picture)
    for key in ("image", "img"):
        if isinstance(cell := row.get(key), Mapping | bytes):
            data = picture_bytes(cell)
            path = cell.get("path") if isinstance(cell, Mapping) else None
            name = name or (path if isinstance(path, str) else None)
            if data is not None:
                return name, data, None
    if name is None:
        return None, None, "picture_missing"
    return pictures.find(form.picture_names(row, name) if form.picture_names else name)


def _size(row: Row, data: bytes | None) -> tuple[int, int] | None:
    """Width and height in pixels, as the row says, else by the picture's header."""
    for key in _SIZES:
        value = row.get(key)
        if not isinstance(value, list | tuple) or len(value) != 2:
            continue
        if all(isinstance(v, int | float) and v > 0 for v in value):
            return int(value[0]), int(value[1])
    if data is None:
        return None
    try:
        return image_size(data)
    except ImageError:
        return None


def thousandths(values: object, convention: Convention, size: tuple[int, int] | None) -> Box | None:
    """Four native numbers → left, top, right, bottom in 0..1000, corners in order; what hangs over the picture by a
    little is cut off, as in sources (`schemas.coordinates.screen_box`).

    None if pixels have no frame. Raises `ValueError` on anything but four finite numbers, or a box off the picture.
    """
    if not isinstance(values, list | tuple) or len(values) != 4:
        raise ValueError(f"expected four numbers, found {values!r:.80}")
    if any(isinstance(v, bool) or not isinstance(v, int | float) or not math.isfinite(v) for v in values):
        raise ValueError(f"expected four numbers, found {values!r:.80}")
    a, b, c, d = (float(v) for v in values)
    if convention == "xywh":
        c, d = a + c, b + d
    if convention == "fraction":
        size = (1, 1)
    if size is None:
        return None
    try:
        return screen_box((min(a, c), min(b, d), max(a, c), max(b, d)), size)
    except OffScreen as error:
        raise ValueError(f"the box {values!r:.80} lies off the picture: {error}") from error
