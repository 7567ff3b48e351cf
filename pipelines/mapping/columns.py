"""What adapters by column share: rows of records, step rows without Python rows, digests of records.

A batch holds whole records: row `r` of the table belongs to record `parents(starts)[r]`. The step rows made here obey
the same conventions as those of `pipelines.mapping.builders`, byte for byte.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from pipelines.mapping.column_json import TEXT, JoinedText, integers, join, optional, plain, strings, text_buffers
from schemas.tables import BOX, Steps


def parents(starts: np.ndarray) -> np.ndarray:
    """[0, 3, 5] → [0, 0, 0, 1, 1]: the record of each row."""
    return np.repeat(np.arange(len(starts) - 1), np.diff(starts))


def run_starts(values: pa.Array) -> np.ndarray:
    """Bounds of the runs of equal texts: [a, a, b] → [0, 2, 3]. A null is a value of its own."""
    if not len(values):
        return np.zeros(1, np.int64)
    # Shifted by one row against itself.
    changed = pc.not_equal(values[1:], values[:-1])
    # A comparison with null is null; read as a change, so that a null is a run of its own.
    changed = np.asarray(pc.fill_null(changed, True))
    return np.concatenate([[0], np.flatnonzero(changed) + 1, [len(values)]]).astype(np.int64)


def any_of(flags: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Per record: whether any of its rows is flagged. Records have at least one row."""
    # `reduceat` takes an empty range for its first element, which is why records need a row.
    return np.logical_or.reduceat(flags, starts[:-1]) if len(starts) > 1 else np.zeros(0, bool)


def same_in(codes: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Per record: whether all rows have one value."""
    if len(starts) < 2:
        return np.zeros(0, bool)
    return np.minimum.reduceat(codes, starts[:-1]) == np.maximum.reduceat(codes, starts[:-1])


def codes_of(column: pa.Array) -> tuple[np.ndarray, pa.Array]:
    """Texts → (number of each row's value, the values); a null gets -1."""
    encoded = column if pa.types.is_dictionary(column.type) else pc.dictionary_encode(column)
    return np.asarray(pc.fill_null(encoded.indices, -1)), encoded.dictionary


def coded(values: Sequence[str | None] | pa.Array, codes: np.ndarray) -> pa.DictionaryArray:
    """The same with a dictionary: for texts that others will be joined to."""
    texts = values if isinstance(values, pa.Array) else pa.array(values, TEXT)
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), plain(texts))


def taken(values: Sequence[str | None], codes: np.ndarray) -> pa.Array:
    """A few texts, picked by number for each row."""
    return pa.array(values, TEXT).take(pa.array(codes))


def picked(column: pa.Array | JoinedText, rows: np.ndarray) -> pa.Array:
    """Some rows, in this order; a column of nulls needs no look at them."""
    if isinstance(column, pa.Array) and column.null_count == len(column):
        return pa.nulls(len(rows), column.type)
    return column.take(pa.array(rows))


def by_name(names: pa.Array, owner: np.ndarray) -> np.ndarray | None:
    """The order of rows by the name of their record (`owner`, ascending; names differ); None if they stand so."""
    order = np.asarray(pc.sort_indices(names)).astype(np.int64)
    # In order already, which is the usual case: nothing has to be moved.
    if (order[1:] > order[:-1]).all():
        return None
    sizes = np.bincount(owner, minlength=len(names))
    # For each record in its new place: where its rows stood, minus where they come to stand, plus counting
    # up.
    begins = (np.cumsum(sizes) - sizes)[order]
    sizes = sizes[order]
    return np.repeat(begins - (np.cumsum(sizes) - sizes), sizes) + np.arange(len(owner))


def constant(value: str | None, rows: int) -> pa.Array:
    """One text for all rows."""
    return pa.nulls(rows, TEXT) if value is None else pa.repeat(pa.scalar(value, TEXT), rows)


def step_places(mapped: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which rows of the records become steps: (their rows, their step_index, gap_at or -1).

    `mapped` flags the rows that have a step. A gap lies before a step whose predecessor in the record was rejected.
    """
    rows = np.flatnonzero(mapped)
    owner = parents(starts)[rows]
    # Steps before each row, so that the difference to a record's first row is the step's number.
    before = np.concatenate([[0], np.cumsum(mapped)])
    index = before[rows] - before[starts[owner]]
    # rows - 1 may be the row of another record; the first condition excludes that.
    after_reject = (rows > starts[owner]) & ~mapped[rows - 1]
    return rows, index, np.where(after_reject, index, -1)


def provenance(
    files: pa.Array | str,
    locators: pa.Array,
    records: pa.Array,
    native_index: pa.Array,
    *,
    gap_at: np.ndarray,
    image_missing: pa.Array,
    rules: pa.Array,
    lossy: np.ndarray,
) -> pa.Array:
    """The provenance column: as `_Builder._provenance` writes it. `files`, `locators` and `records` are JSON texts,
    `rules` JSON lists (null: none), `image_missing` plain words (null: a picture is there), `gap_at` -1 for none.
    What has a dictionary is joined fastest."""
    gaps = optional("gap_at", integers(pa.array(gap_at, mask=gap_at < 0))) if (gap_at >= 0).any() else ""
    missing = optional("image_missing", _by_value(image_missing)) if image_missing.null_count < len(rules) else ""
    flag = coded(["", ',"lossy":true'], lossy) if lossy.any() else ""
    return join(
        '{"file":',
        files,
        gaps,
        missing,
        ',"locator":',
        locators,
        flag,
        ',"native_index":',
        integers(native_index),
        ',"record":',
        records,
        optional("rules", rules),
        "}",
    )


def _by_value(words: pa.Array) -> pa.Array:
    """JSON strings of a column of few words."""
    encoded = words if pa.types.is_dictionary(words.type) else pc.dictionary_encode(words)
    return strings(encoded)


def boxes(rows: int, owners: np.ndarray, sides: np.ndarray) -> pa.Array:
    """`sides` [n, 4] of the rows `owners` → a column of boxes, null elsewhere."""
    if (owners[1:] < owners[:-1]).any():
        # A list column is written row by row, so its owners have to ascend.
        order = np.argsort(owners)
        owners, sides = owners[order], sides[order]
    valid = np.zeros(rows, bool)
    valid[owners] = True
    # A row without a box takes no values, and its offset stays that of the row before.
    offsets = np.concatenate([[0], np.cumsum(valid) * 4]).astype(np.int32)
    values = pa.array(np.ascontiguousarray(sides, np.float32).ravel())
    return pa.ListArray.from_arrays(pa.array(offsets), values, type=BOX, mask=pa.array(~valid))


def steps_table(columns: dict[str, pa.Array | str | None], rows: int) -> pa.Table:
    """Columns, or one value for all rows, → a checked `Steps` table; a column not named is null."""
    arrays = []
    for field in Steps.schema:
        value = columns.get(field.name)
        if value is None:
            arrays.append(pa.nulls(rows, field.type))
        elif isinstance(value, str):
            arrays.append(constant(value, rows))
        else:
            array = plain(value)
            arrays.append(array if array.type == field.type else array.cast(field.type))
    table = pa.Table.from_arrays(arrays, schema=Steps.schema)
    Steps.check(table)
    # Checked here once for all rows, as row-wise adapters are in `part`.
    return table


def record_digests(columns: Sequence[pa.Array], starts: np.ndarray) -> list[bytes]:
    """16 bytes for each record: a digest of its rows in all columns (numbers, texts, lists of these, bytes).

    Equal rows, equal digest, wherever they stand; two that differ share one by chance only (2**-128). It is for finding
    repeats among records of one name, so a fast hash (XXH3) serves; nothing is named by it. Whatever has a fixed width
    (numbers, lengths, texts of a dictionary by a digest of each) goes into one matrix, so a record costs few calls; the
    digests of its pieces are added, each times an odd number of its own.
    """
    whole = np.zeros((len(starts) - 1, 2), "<u8")
    for number, digests in enumerate(_pieces(columns, starts)):
        # Each piece times a number of its own: the same digest in another column must not give the same sum.
        whole += np.frombuffer(b"".join(digests), "<u8").reshape(-1, 2) * _odd(number)
    packed = whole.tobytes()
    return [packed[at : at + 16] for at in range(0, len(packed), 16)]


_LARGE = 1 << 18
"""Bytes of cells that are too many to be made at once: fewer stay in the processor's cache, and need no fresh memory
from the system, which costs more than they do."""
_PAIRS = 1 << 16
"""Pairs of texts for which one table is made."""


def _odd(number: int) -> np.uint64:
    # 2**64 over the golden ratio, the usual multiplier for spreading; its powers are odd, so none loses bits.
    return np.uint64(pow(0x9E3779B97F4A7C15, 2 * number + 1, 1 << 64))


@dataclass(frozen=True)
class _Coded:
    """Cells that stand for texts of one dictionary, or of several that belong together (a struct): the sum of a number
    for each."""

    codes: list[np.ndarray]
    tables: list[np.ndarray]
    """A number for each text, and a last one for null; then, if it is small, the sums of all pairs of two of them."""

    @classmethod
    def of(cls, columns: Sequence[pa.Array]) -> "_Coded":
        codes, tables = [], []
        for number, column in enumerate(columns):
            indices = column.indices
            if indices.null_count:
                # A null counts as one more text at the end.
                indices = indices.cast(pa.int64()).fill_null(len(column.dictionary))
            codes.append(np.asarray(indices))
            tables.append(_of_bytes(column.dictionary.cast(pa.binary()).to_pylist()) * _odd(number))
        # With few texts one look-up in a table of pairs replaces two look-ups and a sum.
        if len(codes) == 2 and len(tables[0]) * len(tables[1]) <= _PAIRS:
            tables.append((tables[0][:, None] + tables[1]).ravel())
        return cls(codes, tables)

    def __len__(self) -> int:
        return len(self.codes[0])

    def between(self, begin: int, end: int) -> np.ndarray:
        """Some rows as uint64."""
        codes = [column[begin:end].astype(np.int32, copy=False) for column in self.codes]
        if len(self.tables) > len(codes):  # a table of all pairs
            # Number of the pair in the flattened table.
            return self.tables[2].take(codes[0] * len(self.tables[1]) + codes[1])
        return functools.reduce(np.add, (table.take(code) for table, code in zip(self.tables, codes, strict=True)))


_Cells = np.ndarray | _Coded


def _pieces(columns: Sequence[pa.Array], bounds: np.ndarray) -> list[list[bytes]]:
    """All bytes of columns of equal length, digested: a list for each piece of a record, with a digest a record."""
    cells: list[_Cells] = []
    found: list[list[bytes]] = []
    for column in columns:
        kind = column.type
        if column.null_count or pa.types.is_large_binary(kind):  # a column without nulls has neighbours that have some
            # A null must not equal the value in its slot, which is anything.
            cells.append(np.asarray(pc.is_valid(column)))
        if pa.types.is_dictionary(kind):
            cells.append(_Coded.of([column]))
        elif pa.types.is_struct(kind):
            cells.append(_Coded.of([column.field(number) for number in range(kind.num_fields)]))
        elif pa.types.is_fixed_size_list(kind):
            numbers = np.asarray(column.flatten()).reshape(len(column), -1)
            cells += list(numbers.T)
        elif pa.types.is_list(kind):
            offsets = np.frombuffer(column.buffers()[1], np.int32, len(column) + 1, column.offset * 4)
            cells.append(np.diff(offsets))
            values = column.values.slice(offsets[0], offsets[-1] - offsets[0])
            # Values of lists are digested by record as well, so bounds go through the lists' own offsets.
            found += _pieces([values], (offsets - offsets[0])[bounds].astype(np.int64))
        elif pa.types.is_string(kind) or pa.types.is_large_binary(kind):
            offsets, data = text_buffers(column)
            cells.append(np.diff(offsets))
            found.append(_digests(data, (offsets - offsets[0])[bounds]))
        else:
            numbers = column.fill_null(0) if column.null_count else column
            cells.append(numbers.to_numpy(zero_copy_only=False))
    return [_matrix(cells, bounds), *found]


def _digests(data: np.ndarray, bounds: np.ndarray) -> list[bytes]:
    """Digests of the parts of contiguous bytes."""
    view, ends = data.view(np.uint8).reshape(-1).data, bounds.tolist()
    # No Python loop: three nested maps call the hash for each piece.
    return list(map(xxhash.xxh3_128_digest, map(view.__getitem__, map(slice, ends, ends[1:]))))


def _matrix(cells: list[_Cells], bounds: np.ndarray) -> list[bytes]:
    """Digests of cells as a matrix of 8 bytes each, bit by bit; of a single column as it is."""
    alone = cells[0] if len(cells) == 1 else None
    if isinstance(alone, np.ndarray):
        data = np.ascontiguousarray(alone)
        return _digests(data, bounds * data.itemsize)
    found: list[bytes] = []
    width = 8 * len(cells)
    first = 0
    while first < len(bounds) - 1:
        # As many whole records as fit, and at least one, however long it is.
        last = max(first + 1, int(np.searchsorted(bounds, bounds[first] + _LARGE // width, "right")) - 1)
        begin, end = int(bounds[first]), int(bounds[last])
        if alone is not None:
            wide = alone.between(begin, end)
        else:
            wide = np.empty((end - begin, len(cells)), np.int64)
            for number, cell in enumerate(cells):
                part = cell.between(begin, end) if isinstance(cell, _Coded) else cell[begin:end]
                wide[:, number] = _whole(part)
        found += _digests(wide, (bounds[first : last + 1] - begin) * width)
        first = last
    return found


def _whole(cell: np.ndarray) -> np.ndarray:
    if cell.dtype.kind == "f":
        # Bit by bit: -0.0 is not 0.0, and NaN equals itself.
        return np.ascontiguousarray(cell).view(np.int64 if cell.itemsize == 8 else np.int32)
    return cell.view(np.int64) if cell.dtype == np.uint64 else cell


def _of_bytes(values: list[bytes]) -> np.ndarray:
    """A number for each, and a 0 at the end for null."""
    return np.frombuffer(b"".join([*map(xxhash.xxh3_64_digest, values), bytes(8)]), np.uint64)


def _is_sorted(names: pa.Array, index: pa.Array) -> bool:
    bounds = run_starts(names)
    runs = names.take(pa.array(bounds[:-1]))
    rises = np.diff(np.asarray(index).astype(np.int64)) > 0
    # Between two runs it is the names that have to rise, not the numbers.
    rises[bounds[1:-1] - 1] = np.asarray(pc.less(runs[:-1], runs[1:]))
    return bool(rises.all())


def sorted_steps(table: pa.Table) -> pa.Table:
    """Rows by (episode_id, step_index); the source is one. A table that is in order already isn't copied."""
    names = plain(table["episode_id"])
    if len(names) < 2 or _is_sorted(names, plain(table["step_index"])):
        return table
    codes, values = codes_of(names)
    # Rank of each name in sorted order, looked up for each row instead of sorting texts.
    rank = np.empty(len(values), np.int64)
    rank[np.asarray(pc.sort_indices(values))] = np.arange(len(values))
    key = rank[codes]
    index = np.asarray(plain(table["step_index"])).astype(np.int64)
    # Name and number in one key: a single sort of whole numbers.
    whole = key * (int(index.max()) + 1) + index
    order = pa.array(np.argsort(whole, kind="stable"))
    # column by column, each in one piece: half the time of a table's take
    return pa.Table.from_arrays([plain(column).take(order) for column in table.columns], schema=table.schema)
