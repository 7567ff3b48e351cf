"""AITZ's native form: a JSON file an episode, a list of steps → episodes as columns, or alone.

An episode all of whose steps are as the source's page says goes into a `RecordBatch`, any other is a `Record` of its
own.
"""

import dataclasses
import json
import operator
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.mapping import column_json
from pipelines.mapping.adapter import Broken, Raw, Record, RecordBatch
from pipelines.mapping.column_json import plain
from pipelines.mapping.columns import any_of, codes_of, constant, record_digests, same_in
from pipelines.native import gesture_columns, native_json

KNOWN = frozenset(
    {
        "episode_id",
        "episode_length",
        "step_id",
        "instruction",
        "ui_positions",
        "ui_text",
        "ui_types",
        "result_action_type",
        "result_action_text",
        "result_touch_yx",
        "result_lift_yx",
        "image_path",
        "image_full_path",
        "coat_screen_desc",
        "coat_action_think",
        "coat_action_desc",
        "coat_action_result",
    }
)
IN_NATIVE = (
    "step_id",
    "result_action_type",
    "result_action_text",
    "result_touch_yx",
    "result_lift_yx",
    "coat_screen_desc",
    "image_path",
)
PATHS = ("image_path", "image_full_path")
"""Where a copy of an episode lies says nothing about what it is."""
INTEGERS = ("step_id", "episode_length", "result_action_type")
STRINGS = tuple(sorted(KNOWN - {*INTEGERS}))
COLUMNS = pa.schema([(name, pa.int64()) for name in INTEGERS] + [(name, pa.string()) for name in STRINGS])
_VALUES = operator.itemgetter(*COLUMNS.names)
_NUMBER = r"[ \t\n\r]*-?(0|[1-9][0-9]{0,8})(\.[0-9]+)?([eE](-[0-9]{1,3}|[+]?[0-9]{1,2}))?[ \t\n\r]*"
_PAIR = rf"\[{_NUMBER},{_NUMBER}\]"
_UNSAFE = r"^/|(^|/)\.\.(/|$)|\x00"
BATCH_ROWS = 4_096
PICTURE_ROWS = 256
"""Rows of a batch, without and with pictures: those of a batch are held until they are stored."""


def read(raw: Raw, files: tuple[str, ...]) -> Iterator[RecordBatch | Record | Broken]:
    """The episodes of some files, in order; those without pictures in larger batches."""
    waiting: list[Record] = []
    rows = 0
    for record in _records(raw, files):
        if isinstance(record, Broken):
            yield record
            continue
        waiting.append(record)
        before, rows = rows, rows + len(record.payload)
        # Looking into folders costs time, so only now and then.
        some_more = before // PICTURE_ROWS < rows // PICTURE_ROWS
        if rows >= BATCH_ROWS or (some_more and _has_pictures(raw, record)):
            yield from _sorted_out(waiting)
            waiting, rows = [], 0
    yield from _sorted_out(waiting)


def _records(raw: Raw, files: tuple[str, ...]) -> Iterator[Record | Broken]:
    """The files' lists of steps. A file that is no such list counts 0 items: how many it held can't be known."""
    for file in files:
        data = raw.read(file)
        try:
            steps = native_json.parse(data)
        except (ValueError, RecursionError) as error:
            yield Broken(file, "file", "bad_json", str(error), native={"bytes": len(data)})
            continue
        if not isinstance(steps, list) or set(map(type, steps)) != {dict}:
            detail = f"expected a list of steps (objects), found {type(steps).__name__}"
            yield Broken(file, "file", "bad_value", detail, native=steps)
            continue
        yield Record(file, "file", steps)


def content_of(steps: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
    # The same episode under another path is still the same.
    return [{name: value for name, value in step.items() if name not in PATHS} for step in steps]


def _has_pictures(raw: Raw, record: Record) -> bool:
    return any(name.endswith(".png") for name in raw.listing(record.file.rpartition("/")[0] or "."))


def _sorted_out(records: list[Record]) -> Iterator[RecordBatch | Record]:
    """Records → a batch of the regular ones, then the others."""
    table = _columns([step for record in records for step in record.payload])
    if table is None:  # some value is of another type: find out whose
        fits = [_columns(record.payload) is not None for record in records]
        yield from (_with_content(record) for record, fit in zip(records, fits, strict=True) if not fit)
        records = [record for record, fit in zip(records, fits, strict=True) if fit]
        table = _columns([step for record in records for step in record.payload])
    if not records or table is None:
        return
    starts = np.concatenate([[0], np.cumsum([len(record.payload) for record in records])])
    regular = _are_regular(table, starts)
    batch = _batch(records, table, starts)
    if regular.all():
        yield batch
        return
    if regular.any():
        yield batch.select(np.flatnonzero(regular))
    yield from (_with_content(records[index]) for index in np.flatnonzero(~regular).tolist())


def _with_content(record: Record) -> Record:
    """A record that goes alone: its id, if its steps name one, and what it is beside its paths."""
    ids = {step["episode_id"] for step in record.payload if isinstance(step.get("episode_id"), str)}
    native_id = ids.pop() if len(ids) == 1 else None
    return dataclasses.replace(record, native_id=native_id, content=content_of(record.payload))


def _columns(steps: list[dict[str, object]]) -> pa.Table | None:
    """Steps as columns; None if one has other fields, or a value of another type."""
    if not set(map(len, steps)) <= {len(KNOWN)}:
        return None
    try:
        columns = list(zip(*map(_VALUES, steps), strict=True)) or [()] * len(KNOWN)
    except KeyError:  # as many fields, but not all of the known ones
        return None
    arrays = []
    for name, kind, values in zip(COLUMNS.names, COLUMNS.types, columns, strict=True):
        if name in INTEGERS and not set(map(type, values)) <= {int}:  # Arrow would take 1.0 as well
            return None
        try:
            array = pa.array(values, kind)
        except (TypeError, UnicodeEncodeError, OverflowError):  # no text, a lone surrogate, a number beyond 64 bits
            return None
        if array.null_count:
            return None
        arrays.append(array)
    return pa.Table.from_arrays(arrays, schema=COLUMNS)


def _are_regular(table: pa.Table, starts: np.ndarray) -> np.ndarray:
    """Which episodes columns can hold: steps complete and in order, one id and instruction, pairs of numbers, pictures
    below the folder. What the values mean is for the mapping to say."""
    sizes = np.diff(starts)
    # Numbers must count up from 0 within each episode.
    ok = np.asarray(table["step_id"]) == np.arange(len(table)) - np.repeat(starts[:-1], sizes)
    ok &= np.asarray(table["episode_length"]) == np.repeat(sizes, sizes)
    for name, pattern in (("result_touch_yx", _PAIR), ("result_lift_yx", _PAIR)):
        ok &= np.asarray(pc.match_substring_regex(plain(table[name]), f"^{pattern}$"))
    path = plain(table["image_path"])
    # A path out of the folder is for the mapping by row to refuse.
    ok &= ~np.asarray(pc.match_substring_regex(path, _UNSAFE)) & (np.asarray(pc.binary_length(path)) > 0)
    regular = ~any_of(~ok, starts)
    for name in ("episode_id", "instruction"):
        codes, values = codes_of(plain(table[name]))
        said = np.array([bool(value.strip()) for value in values.to_pylist()], bool)
        regular &= same_in(codes, starts) & said[codes[starts[:-1]]]
    return regular


def _batch(records: list[Record], table: pa.Table, starts: np.ndarray) -> RecordBatch:
    contents = record_digests([plain(table[name]) for name in COLUMNS.names if name not in PATHS], starts)
    ids = plain(table["episode_id"]).take(pa.array(starts[:-1]))
    files = pa.array([record.file for record in records], pa.string())
    return RecordBatch(files, table, starts, ids, constant("file", len(records)), contents)


def gestures(table: pa.Table) -> gesture_columns.Gestures:
    touch, lift = _encoded(plain(table["result_touch_yx"]), plain(table["result_lift_yx"]))
    points = {"result_touch_yx": touch, "result_lift_yx": lift}
    fields: dict[str, pa.Array | str] = {
        name: column_json.integers(plain(table[name]))
        if name in INTEGERS
        else column_json.strings(points.get(name, plain(table[name])))
        for name in IN_NATIVE
    }
    # Each different text is parsed once.
    pairs = _pairs(touch.dictionary)
    return gesture_columns.Gestures(
        code=np.asarray(table["result_action_type"]),
        touch=pairs[np.asarray(touch.indices)],
        lift=pairs[np.asarray(lift.indices)],
        text=plain(table["result_action_text"]),
        number=np.asarray(table["step_id"]),
        native=column_json.object_of(fields),
    )


def _encoded(*columns: pa.Array) -> list[pa.DictionaryArray]:
    """Columns of texts with one dictionary for all: most gestures end where they begin, or have no points."""
    found = pc.dictionary_encode(pa.concat_arrays(columns))
    return [found.slice(number * len(column), len(column)) for number, column in enumerate(columns)]


def _pairs(column: pa.Array) -> np.ndarray:
    """JSON texts `[y, x]` → [n, 2], in one parse: each was seen to be a list of two plain numbers."""
    return np.array(json.loads(f"[{','.join(column.to_pylist())}]"), np.float64).reshape(-1, 2)
