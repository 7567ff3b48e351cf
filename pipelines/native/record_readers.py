"""Reads native files of the common kinds as a stream of records; what can't be read is a `Broken` with its reason.

One function per kind of file: `json_list` (an array), `json_document` (one value a file), `json_lines`, `csv_rows`,
`parquet_rows`. All take the raw folder and a relative name, and hold a piece of the file at most. `of_id` gives a
record's native id from its payload (None: the source has none); `count` says how many native items at least
stood in a text that can't be read. `runs` joins rows of one episode.
"""

import csv
import itertools
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.decompression import BombError, open_plain
from pipelines.mapping.adapter import Broken, Raw, Record
from pipelines.mapping.items import id_text, whole_number
from pipelines.mapping.raw_files import Piece
from pipelines.native import json_array

ItemCount = Callable[[str], int]
IdOf = Callable[[Any], str | None]
BOM = "\ufeff"
"""The byte order mark that some editors and exports put before UTF-8."""
_BOM_UTF8 = BOM.encode()
FIRST_LINE_BYTES = 64 << 20
SHOWN_CHARS = 2000
_INSTEAD = {
    "version https://git-lfs": "a pointer of git-lfs stands in place of the file: fetch it by `git lfs pull`",
    "<!doctype": "a web page stands in place of the file: download it again, logged in if its host asks for that",
    "<html": "a web page stands in place of the file: download it again, logged in if its host asks for that",
    "\0": "zeros stand in place of the file: its download or copy didn't end",
    "\\xff\\xfe": "the file is in UTF-16: save it as UTF-8",
    "\\xfe\\xff": "the file is in UTF-16: save it as UTF-8",
}
_ARRAY_HEAD = re.compile(r"\[\s*(?:\{|$)")
BATCH_ROWS = 32
"""Rows of parquet at a time: with a 4K picture in each that is some 300 MB."""
# Python's own limit, 128 KiB, is less than a page's tree in a cell
csv.field_size_limit(64 << 20)


def text_of(data: bytes) -> str:
    """The bytes of a text file, or of its beginning, as text without a byte order mark. Never fails on bytes that are
    no text: what reads it then says what is wrong."""
    return data.decode("utf-8", "backslashreplace").removeprefix(BOM)


def count_of(word: str) -> ItemCount:
    """Counts a word that stands once in each native item, such as `'"action"'`."""
    return lambda text: text.count(word)


def one_item(text: str) -> int:
    """Where a record is an item."""
    return 1 if text.strip() else 0


def no_id(payload: object) -> str | None:
    """Where the source has no ids: the record is named by its content."""
    del payload
    return None


def field_id(*names: str) -> IdOf:
    """The id is the first of these fields that holds a text or a number."""

    def of(payload: object) -> str | None:
        found = [payload.get(name) for name in names] if isinstance(payload, Mapping) else []
        known = (value for value in found if isinstance(value, str) or whole_number(value) is not None)
        return next((text for value in known if (text := id_text(value))), None)

    return of


def json_list(
    raw: Raw, file: str, *, of_id: IdOf = no_id, count: ItemCount = one_item, unit: str = "row"
) -> Iterator[Record | Broken]:
    """Elements of a JSON array, one at a time; the stream ends where the file is damaged. JSON lines, or one object,
    under the same ending are read as what they are. `unit` is what an element is called where it was found."""
    # Some publishers write lines under the ending of documents.
    if holds_json_lines(raw, file):
        yield from json_lines(raw, file, of_id=of_id, count=count)
    elif _first_line(raw.path(file))[0].startswith("{"):
        yield from json_document(raw, file, of_id=of_id, count=count)
    else:
        yield from _array_elements(raw, file, of_id, count, unit)


def _array_elements(raw: Raw, file: str, of_id: IdOf, count: ItemCount, unit: str) -> Iterator[Record | Broken]:
    for index, value in json_array.elements(raw.path(file)):
        if isinstance(value, json_array.ArrayDamage):
            shown = {"text": value.rest[:SHOWN_CHARS]}
            yield Broken(file, f"{unit} {index}", value.reason, value.detail, count(value.rest), shown, ends=True)
            # Nothing after the damage can be found in an array.
            return
        yield _record(file, f"{unit} {index}", value, of_id)


def json_document(
    raw: Raw, file: str, *, of_id: IdOf = no_id, count: ItemCount = one_item
) -> Iterator[Record | Broken]:
    """A file that is one JSON value: one record. JSON lines under the same ending are the array of their values."""
    text = text_of(raw.read(file))
    if holds_json_lines(raw, file):
        text = "[" + ",".join(filter(str.strip, text.split("\n"))) + "]"
    yield _json(file, "document", text, ended=False, of_id=of_id, count=count)


def json_entries(raw: Raw, file: str, count: ItemCount = one_item) -> Iterator[tuple[str, Any]]:
    """Names and values of a file that is one JSON object; a `Broken` with its locator where it is none."""
    for found in json_document(raw, file, count=count):
        if isinstance(found, Record) and not isinstance(found.payload, dict):
            detail = f"expected an object, found {type(found.payload).__name__}"
            found = Broken(file, "document", "bad_value", detail, count(text_of(raw.read(file))), found.payload)
        yield from [(found.locator, found)] if isinstance(found, Broken) else found.payload.items()


def json_lines(raw: Raw, file: str, *, of_id: IdOf = no_id, count: ItemCount = one_item) -> Iterator[Record | Broken]:
    """Lines of JSON (a name in .gz is unpacked on the way); a bad line costs that line. Blank lines are passed over. An
    array under the same ending is read as what it is."""
    piece = raw.piece(file)
    if _holds_array(raw, file):
        # its pieces are cut at lines, which mean nothing to an array: the first reads it all
        if piece is None or piece.first == 0:
            yield from _array_elements(raw, file, of_id, count, "row")
        return
    before = number = piece.before if piece else 0
    try:
        with open_plain(raw.path(file)) as lines:
            for number, line in enumerate(_lines_of(lines, piece), before + 1):
                if line.removeprefix(_BOM_UTF8).strip():
                    # A last line without its end was cut. Files put behind each other have a mark before each.
                    ended = line.endswith(b"\n")
                    yield _json(file, f"line {number}", text_of(line), ended=ended, of_id=of_id, count=count)
    except (EOFError, OSError, zlib.error) as error:
        # Of a plain file it is an error of the disk, not of its content.
        if not file.endswith(".gz"):
            raise
        yield Broken(file, f"line {number + 1}", "truncated_record", f"gzip: {error}", 0, ends=True)
    except BombError as error:
        yield Broken(file, f"line {number + 1}", "bad_value", str(error), 0, ends=True)


def _lines_of(lines: IO[bytes], piece: Piece | None) -> Iterator[bytes]:
    if piece is None:
        yield from lines
        return
    # A piece begins at a line's start; counted in bytes, as lines are of any length.
    left = piece.past - lines.seek(piece.first)
    while left > 0 and (line := lines.readline()):
        left -= len(line)
        yield line


def holds_json_lines(raw: Raw, file: str) -> bool:
    """Whether a file is JSON lines, whatever its ending says: it begins with an object that its first line ends."""
    first, more = _first_line(raw.path(file))
    # One line alone may as well be a document.
    return first.startswith("{") and more and _is_json(first)


def _holds_array(raw: Raw, file: str) -> bool:
    """Whether a file is an array of objects, whatever its ending says: one that its first line opens and doesn't close,
    or that has but this line."""
    first, more = ("", False) if file.endswith(".gz") else _first_line(raw.path(file))
    # a line of a log may begin with a bracket, too
    return _ARRAY_HEAD.match(first) is not None and not (more and _is_json(first))


def _first_line(path: Path) -> tuple[str, bool]:
    """(the first line that isn't blank, whether anything follows it)."""
    with path.open("rb") as stream:
        lines = (text_of(line).strip() for line in iter(partial(stream.readline, FIRST_LINE_BYTES), b""))
        return next(filter(None, lines), ""), bool(stream.read(64).strip())


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def csv_rows(
    raw: Raw, file: str, columns: tuple[str, ...], *, of_id: IdOf = no_id, count: ItemCount = one_item
) -> Iterator[Record | Broken]:
    """Rows of a CSV file with a header as dicts of text. A header that lacks one of `columns` breaks the file, one more
    is named; a row that can't be parsed, of another width, or not in UTF-8, breaks on its own."""
    # Bytes that are no text are kept, so that one row is rejected instead of all.
    with raw.path(file).open(encoding="utf-8-sig", errors="surrogateescape", newline="") as lines:
        yield from last_may_end(_csv_rows(file, lines, columns, of_id, count))


def _csv_rows(
    file: str, lines: Iterable[str], columns: tuple[str, ...], of_id: IdOf, count: ItemCount
) -> Iterator[Record | Broken]:
    reader = csv.reader(lines, strict=True)
    header: list[str] | None = None
    for number in itertools.count():
        begun = reader.line_num
        try:
            cells = next(reader, None)
        except csv.Error as error:
            # what follows begins a row of its own, so a bad one costs itself: and all that a stray quote swallowed
            lost = max(reader.line_num - begun, 1)
            yield Broken(file, f"line {begun + 1}", "truncated_record", f"CSV: {error}", lost)
            continue
        if header is None:
            header = cells or []
            if missing := [name for name in columns if name not in header]:
                detail = f"expected columns {columns}, missing {missing}"
                yield Broken(file, "header", "missing_field", detail, 0, header, ends=True)
                return
            for name in sorted(set(header) - set(columns)):
                yield Broken(file, "header", f"unknown_field:{name[:60]}", "the rows are mapped without it", 0, header)
        elif cells is None:
            return
        elif cells:  # an empty line is no row
            yield _csv_row(file, f"row {number}", header, cells, of_id, count)


def last_may_end(found: Iterable[Record | Broken]) -> Iterator[Record | Broken]:
    """The rows of a table of text: where the last of them is cut, its file ends too early."""
    held: Record | Broken | None = None
    for one in found:
        if held is not None:
            yield held
        held = one
    # Only the last may be cut; in the middle it is damage of another kind.
    if isinstance(held, Broken) and held.reason == "truncated_record":
        held = replace(held, ends=True)
    if held is not None:
        yield held


def parquet_rows(raw: Raw, file: str, *, of_id: IdOf = no_id) -> Iterator[Record | Broken]:
    """Rows of a parquet file as plain dicts, a few at a time (pictures are bytes). A row group that can't be read on
    costs its rows; the next one is read."""
    piece = raw.piece(file)
    number = piece.before if piece else 0
    try:
        with pq.ParquetFile(raw.path(file), pre_buffer=False) as table:  # else it keeps all bytes read
            groups = range(piece.first, piece.past) if piece else range(table.num_row_groups)
            for group in groups:
                yield from _group_rows(table, group, number, file, of_id)
                number += table.metadata.row_group(group).num_rows
    except (pa.ArrowException, OSError) as error:
        # What was read stands; the rest is counted as lost.
        yield _parquet_damage(file, number, error, _parquet_rows_left(raw, file, number))


def _group_rows(table: pq.ParquetFile, group: int, number: int, file: str, of_id: IdOf) -> Iterator[Record | Broken]:
    """Rows of a row group, the first of which is the file's row `number`."""
    past = number + table.metadata.row_group(group).num_rows
    try:
        # Few at a time, as rows hold pictures.
        for batch in table.iter_batches(batch_size=BATCH_ROWS, row_groups=[group]):
            for row in python_rows(batch):
                yield _record(file, f"row {number}", row, of_id)
                number += 1
    except (pa.ArrowException, OSError) as error:
        yield _parquet_damage(file, number, error, past - number)


def _parquet_damage(file: str, number: int, error: Exception, lost: int) -> Broken:
    first = str(error).splitlines()[0] if str(error) else type(error).__name__
    return Broken(file, f"row {number}", "truncated_record", f"parquet: {first[:200]}", lost, ends=True)


def python_rows(rows: pa.RecordBatch | pa.Table) -> Iterator[dict[str, object]]:
    """The rows of a batch as dicts. A cell that Python can't hold (text that isn't UTF-8, a year past 9999) comes as
    what the file has in its place (see `_held`): it may stand in a column that nobody reads."""
    try:
        yield from rows.to_pylist()
    except (ValueError, OverflowError):  # nothing came yet: the list is made whole
        for number in range(rows.num_rows):
            yield {name: _held(rows.column(name)[number]) for name in rows.schema.names}


def _held(cell: pa.Scalar) -> object:
    """A cell as Python has it; else its parts so, text with surrogates for its odd bytes (which no reader takes for
    text), a time as its number."""
    try:
        return cell.as_py()
    except (ValueError, OverflowError):
        if isinstance(cell, pa.StructScalar):
            return {name: _held(part) for name, part in cell.items()}
        if isinstance(cell, pa.MapScalar):
            return [[_held(part) for part in pair.values()] for pair in cell.values]
        if isinstance(cell, pa.ListScalar):
            return [_held(part) for part in cell.values]
        if isinstance(cell, pa.DictionaryScalar):
            return _held(cell.value)
        if isinstance(cell, pa.StringScalar):
            return cell.as_buffer().to_pybytes().decode("utf-8", "surrogateescape")
        # Dates and times count from their epoch in the type's unit.
        return cell.cast(pa.int32() if pa.types.is_date32(cell.type) else pa.int64()).as_py()


def _parquet_rows_left(raw: Raw, file: str, read: int) -> int:
    try:
        return max(int(pq.read_metadata(raw.path(file)).num_rows) - read, 0)
    except (pa.ArrowException, OSError):
        return 0  # the footer is gone: how many rows there were can't be known


def _json(file: str, locator: str, text: str, *, ended: bool, of_id: IdOf, count: ItemCount) -> Record | Broken:
    try:
        payload = json.loads(text)
    except (ValueError, RecursionError) as error:
        cut = not ended and isinstance(error, json.JSONDecodeError) and json_array.is_cut(error, text)
        reason = "truncated_record" if cut else "bad_json"
        said = f"{error}{_instead_of_json(text)}"
        return Broken(file, locator, reason, said, count(text), {"text": text[:SHOWN_CHARS]}, ends=cut)
    return _record(file, locator, payload, of_id)


def _instead_of_json(text: str) -> str:
    """What often lies in the place of a file of JSON, with what to do about it."""
    return next((f"; {said}" for begin, said in _INSTEAD.items() if text.lstrip().lower().startswith(begin)), "")


def _record(file: str, locator: str, payload: object, of_id: IdOf) -> Record | Broken:
    """A record, if its id can be read."""
    try:
        return Record(file, locator, payload, of_id(payload))
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        return Broken(file, locator, "bad_record", f"its id: {type(error).__name__}: {error}", 1, payload)


def _csv_row(
    file: str, locator: str, header: list[str], cells: list[str], of_id: IdOf, count: ItemCount
) -> Record | Broken:
    whole = ",".join(cells)
    shown = whole.encode("utf-8", "surrogateescape").decode("utf-8", "replace")[:SHOWN_CHARS]
    if any("\ud800" <= char <= "\udfff" for char in whole):
        return Broken(file, locator, "bad_value", "not UTF-8", count(shown), shown)
    if len(cells) != len(header):
        detail = f"{len(cells)} cells in a table of {len(header)}"
        return Broken(file, locator, "truncated_record", detail, count(whole), shown)
    row = dict(zip(header, cells, strict=True))
    return _record(file, locator, row, of_id)


def runs(
    found: Iterable[Record | Broken], key: Callable[[Any], str | None], *, named: bool = False
) -> Iterator[Record | Broken]:
    """Rows that follow each other under one key as one record, its payload the list of theirs; `named`: the key is the
    native id. A row without a key (None) is a record of its own, and a broken one ends the run before it."""
    held: list[Record] = []
    name: str | None = None
    for one in found:
        here = key(one.payload) if isinstance(one, Record) else None
        # A broken row breaks its run: what came after may have belonged to it.
        if held and here != name:
            yield _joined(held, name if named else None)
            held = []
        name = here
        if isinstance(one, Broken):
            yield one
        elif here is None:
            yield Record(one.file, one.locator, [one.payload])
        else:
            held.append(one)
    if held:
        yield _joined(held, name if named else None)


def _joined(held: Sequence[Record], native_id: str | None) -> Record:
    return Record(held[0].file, held[0].locator, [row.payload for row in held], native_id)
