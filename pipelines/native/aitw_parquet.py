"""AITW as a parquet re-pack: a row a step, columns with the features' names, single values bare or in lists of one.

Rows of an episode stand together. What columns can hold goes to the batch by Arrow compute alone; the rows of any other
episode become plain dicts and are grouped as Examples are.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.mapping.adapter import Broken, Raw, Record, RecordBatch
from pipelines.mapping.column_json import plain, undecoded
from pipelines.mapping.columns import any_of, codes_of, parents, run_starts, same_in
from pipelines.native.aitw_native import (
    BATCH_BYTES,
    BATCH_ROWS,
    INTEGERS,
    KNOWN,
    MAY_LACK,
    NATIVE,
    PIXELS,
    POINTS,
    POSITIONS,
    TEXTS,
    WORDS,
    batch,
    gathered,
    group,
    narrowed,
)
from pipelines.native.record_readers import python_rows

LARGE_GROUP = 4_096
"""Rows of a row group from which on reading it by itself is no loss."""
_REPEATING = ("episode_id", "goal_info", "current_activity", "device_type", "results/type_action", *WORDS)
"""Read as dictionaries: the words of a screen's elements are most of the texts of a file, and few."""


def read_parquet(raw: Raw, file: str) -> Iterator[RecordBatch | Record | Broken]:
    """Episodes of a file, a piece of it at a time. The next piece is read before one is passed on: where an episode
    goes on in it, its first rows wait for their rest; where none does, nothing needs to be copied."""
    first = 0
    pieces = _tables(raw, file)
    rows: pa.Table | Broken | None = next(pieces, None)
    while rows is not None:
        if isinstance(rows, Broken):
            yield rows
            return
        # One ahead, so that an episode that goes on is seen.
        after = next(pieces, None)
        bounds, names = _runs(rows)
        if isinstance(after, pa.Table) and _goes_on(names, after):
            last = int(bounds[-2])
            if last:
                yield from _episodes(file, rows.slice(0, last), bounds[:-1], names[:-1], first)
            rows, first = _joined(rows.slice(last), after), first + last
            # Without yielding: the piece may end in the same episode again.
            continue
        if len(rows):
            yield from _episodes(file, rows, bounds, names, first)
        first += len(rows)
        rows = after


def _goes_on(names: pa.Array, after: pa.Table) -> bool:
    """Whether the last episode has further rows in the next piece."""
    ahead = _runs(after.slice(0, 1))[1]
    return bool(len(names) and len(ahead) and names[-1].is_valid and names[-1].as_py() == ahead[0].as_py())


def _joined(held: pa.Table, rows: pa.Table) -> pa.Table:
    """Two pieces as one, each column contiguous."""
    # Other types in a later piece: by way of Python, as that is rare.
    if held.schema != rows.schema:
        held = pa.Table.from_pylist(held.to_pylist(), rows.schema)
    return pa.concat_tables([held, rows]).unify_dictionaries().combine_chunks()


def _tables(raw: Raw, file: str) -> Iterator[pa.Table | Broken]:
    """The file in pieces; a `Broken` where it can't be read, or isn't AITW at all."""
    done = 0
    try:
        metadata = pq.read_metadata(raw.path(file))
    except (pa.ArrowException, OSError) as error:
        yield _damage(file, 0, error, 0)  # the footer is gone: how many rows there were can't be known
        return
    # Refused as a whole, with its rows counted.
    if "episode_id" not in (names := metadata.schema.to_arrow_schema().names):
        detail = f"expected AITW's features, found columns {names}"[:300]
        yield Broken(file, "file", "unknown_schema", detail, metadata.num_rows)
        return
    try:
        for piece in _pieces(raw, file, metadata):
            done += piece.num_rows
            yield piece
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        yield _damage(file, done, error, metadata.num_rows - done)


def _pieces(raw: Raw, file: str, metadata: Any) -> Iterator[pa.Table]:
    """Batches of rows. Arrow reads a list of texts as a dictionary within one row group only, and not if its writer
    changed the encoding on the way: then (and with small row groups) the rest is read as plain texts."""
    size, done = _piece_rows(metadata), 0
    if metadata.num_rows >= LARGE_GROUP * metadata.num_row_groups:
        with _opened(raw, file, metadata, _few(metadata)) as source:
            try:
                for group in range(metadata.num_row_groups):
                    for piece in source.iter_batches(batch_size=size, row_groups=[group], use_threads=False):
                        done += piece.num_rows
                        yield pa.Table.from_batches([piece])
                return
            except pa.ArrowNotImplementedError:
                pass
    with _opened(raw, file, metadata, []) as source:
        for piece in source.iter_batches(batch_size=size):
            # What was read as dictionaries already is passed over.
            known = min(done, piece.num_rows)
            done -= known
            if known < piece.num_rows:
                yield pa.Table.from_batches([piece.slice(known)])


def _opened(raw: Raw, file: str, metadata: object, few: list[str]) -> pq.ParquetFile:
    """Without pre_buffer: that would keep all of the file's bytes until its end."""
    return pq.ParquetFile(raw.path(file), metadata=metadata, read_dictionary=few, pre_buffer=False)


def _damage(file: str, row: int, error: Exception, items: int) -> Broken:
    message = (str(error).splitlines() or [type(error).__name__])[0]
    return Broken(file, f"row {row}", "truncated_record", f"parquet: {message[:200]}", items, ends=True)


def _few(metadata: Any) -> list[str]:
    """Paths of the text columns to read as dictionaries, as this file names them."""
    columns = [metadata.schema.column(number) for number in range(metadata.num_columns)]
    return [
        column.path
        for column in columns
        if column.path.partition(".")[0] in _REPEATING and column.logical_type.type == "STRING"
    ]


def _piece_rows(metadata: Any) -> int:
    """So many rows that a piece with its pixels stays small."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    width = max((group.total_byte_size / max(group.num_rows, 1) for group in groups), default=1.0)
    return max(1, min(BATCH_ROWS, int(BATCH_BYTES / max(width, 1.0))))


def _runs(rows: pa.Table) -> tuple[np.ndarray, pa.Array]:
    """(bounds of the episodes, the name of each); a row whose name is no single text is a run of its own, its name
    null. Few names are looked at where they have a dictionary: only where its number changes may the name."""
    column = undecoded(rows["episode_id"])
    odd = np.zeros(len(column), bool)
    found = _bare(column, odd, may_be_null=False)
    if not _is_text(found.type):
        return np.arange(len(column) + 1), pa.nulls(len(column), pa.string())
    # A name can only change where its number in the dictionary does.
    heads = np.arange(len(column))
    if pa.types.is_dictionary(found.type) and not odd.any():
        heads = run_starts(found.indices)[:-1]
        found = found.take(pa.array(heads))
    names = plain(found).cast(pa.string())
    if odd.any():
        names = pc.if_else(pa.array(odd), None, names)
    bounds = run_starts(names)
    return np.append(heads, len(column))[bounds], names.take(pa.array(bounds[:-1]))


def _episodes(
    file: str, rows: pa.Table, bounds: np.ndarray, ids: pa.Array, first: int
) -> Iterator[RecordBatch | Record | Broken]:
    """Whole episodes → a batch of the regular ones, then the others; `first` is the number of the first row."""
    native, odd = _native(rows)
    # No column can hold it: all by row.
    if native is None or ids.null_count:
        yield from gathered(file, group(file, "row", _dicts(rows, np.arange(len(rows)), first)))
        return
    irregular = any_of(odd, bounds) | ~_in_order(native, bounds)
    regular = np.flatnonzero(~irregular)
    if regular.size:
        # Where all are regular, nothing is copied.
        sound = ~irregular[parents(bounds)]
        table = native if sound.all() else native.filter(pa.array(sound))
        starts = np.concatenate([[0], np.cumsum(np.diff(bounds)[regular])])
        places = pa.array(bounds[:-1][regular])
        locators = pc.binary_join_element_wise("row ", pc.cast(pc.add(places, first), pa.string()), "")
        yield batch(file, table, starts, ids if len(regular) == len(ids) else ids.take(pa.array(regular)), locators)
    if irregular.any():
        others = np.flatnonzero(irregular[parents(bounds)])
        yield from gathered(file, group(file, "row", _dicts(rows, others, first)))


def _in_order(native: pa.Table, bounds: np.ndarray) -> np.ndarray:
    """Per episode: complete, in order, with one goal that isn't blank (see `is_regular`)."""
    sizes = np.diff(bounds)
    number = np.asarray(native["step_id"])
    ok = (number == np.arange(len(number)) - np.repeat(bounds[:-1], sizes)) & (
        np.asarray(native["episode_length"]) == np.repeat(sizes, sizes)
    )
    goals, values = codes_of(undecoded(native["goal_info"]))
    said = np.array([bool(value.strip()) for value in values.to_pylist()], bool)
    # A goal is one per episode, so the first row's number stands for it.
    return ~any_of(~ok, bounds) & same_in(goals, bounds) & said[goals[bounds[:-1]]]


def _native(rows: pa.Table) -> tuple[pa.Table | None, np.ndarray]:
    """Rows → columns of `NATIVE`, and which rows don't fit them; None if a whole column doesn't."""
    odd = np.zeros(len(rows), bool)
    names = set(rows.column_names)
    # Fields nobody knows, or some that are missing.
    if names - KNOWN or (KNOWN - names) - MAY_LACK:
        return None, odd
    columns: dict[str, pa.Array] = {}
    for name, kind in zip(NATIVE.names, NATIVE.types, strict=True):
        if name not in names:
            if pa.types.is_list(kind):
                columns[name] = pa.ListArray.from_arrays(
                    np.zeros(len(rows) + 1, np.int32), pa.array([], kind.value_type)
                )
            continue
        column = undecoded(rows[name])
        if name in INTEGERS or name in TEXTS or name == PIXELS:
            found = _bare(column, odd, may_be_null=name == PIXELS)
            fits = pa.types.is_integer if name in INTEGERS else _is_text if name in TEXTS else _is_binary
            if not fits(found.type):
                return None, odd
        else:
            found = _flat(column) if name == POSITIONS else column
            if not _is_list(found.type) or not _fits_list(found.type.value_type, kind.value_type):
                return None, odd
            # Nulls are absent features, which rows can hold and columns can't.
            odd |= np.asarray(pc.is_null(found)) | _holds_null(found)
        if name == POSITIONS:
            columns[name] = narrowed(found if found.type.value_type == pa.float32() else found.cast(kind))
        else:
            # Equal features must have equal types in every file, as digests are made of them.
            columns[name] = found if _has_dictionary(found.type) else found.cast(kind)
    table = pa.table(columns)
    odd |= _odd_shapes(table)
    return table, odd


def _bare(column: pa.Array, odd: np.ndarray, *, may_be_null: bool) -> pa.Array:
    """A single value of each row; rows with none (unless allowed) or several are marked in `odd`."""
    if _is_list(column.type):
        lengths = np.asarray(pc.fill_null(pc.list_value_length(column), 0))
        odd |= (lengths > 1) if may_be_null else (lengths != 1)
        offsets = np.asarray(column.offsets)[:-1]
        column = column.values.take(pa.array(offsets, mask=lengths < 1))
    if column.null_count and not may_be_null:
        odd |= np.asarray(pc.is_null(column))
    return column


def _flat(column: pa.Array) -> pa.Array:
    """Lists of boxes → flat lists of numbers."""
    if not _is_list(column.type) or not _is_list(column.type.value_type):
        return column
    inner = column.values
    if pa.types.is_fixed_size_list(inner.type):
        inner = inner.cast(pa.list_(inner.type.value_type))
    offsets = pa.array(np.asarray(inner.offsets)[np.asarray(column.offsets)])
    return pa.ListArray.from_arrays(offsets, inner.values, mask=pc.is_null(column))


def _odd_shapes(table: pa.Table) -> np.ndarray:
    def lengths(name: str) -> np.ndarray:
        return np.asarray(pc.fill_null(pc.list_value_length(plain(table[name])), -1))

    odd = np.zeros(table.num_rows, bool)
    for name in POINTS:
        odd |= lengths(name) != 2
    boxes = lengths(POSITIONS)
    odd |= boxes % 4 != 0
    for name in WORDS:
        odd |= lengths(name) * 4 != boxes
    for name, least in (("image/height", 1), ("image/width", 1), ("image/channels", 3)):
        odd |= np.asarray(pc.fill_null(pc.less(plain(table[name]), least), True))
    return odd | np.asarray(pc.fill_null(pc.not_equal(plain(table["image/channels"]), 3), True))


def _holds_null(lists: pa.Array) -> np.ndarray:
    """Rows whose list holds a null."""
    flat = lists.flatten()
    bad = np.zeros(len(lists), bool)
    if flat.null_count:
        bad[np.asarray(pc.list_parent_indices(lists).filter(pc.is_null(flat)))] = True
    return bad


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind))


def _is_text(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _has_dictionary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_dictionary(kind.value_type if _is_list(kind) else kind))


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _fits_list(found: pa.DataType, wanted: pa.DataType) -> bool:
    return bool(pa.types.is_floating(found)) if pa.types.is_floating(wanted) else _is_text(found)


def _dicts(rows: pa.Table, places: np.ndarray, first: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Rows as Examples are: {feature: values}; a null is an absent feature."""
    for start in range(0, len(places), 256):
        some = places[start : start + 256]
        for place, row in zip(some.tolist(), python_rows(rows.take(pa.array(some))), strict=True):
            yield first + place, {name: _values(value) for name, value in row.items() if value is not None}


def _values(value: object) -> list[Any]:
    if not isinstance(value, list):
        return [value]
    return [item for inner in value for item in inner] if value and isinstance(value[0], list) else value
