"""Canonical JSON of whole Arrow columns: the vectorised twin of `schemas.ids.canonical_json`.

Each function turns values into JSON texts, a text per row; `object_of` joins them. What Arrow writes otherwise than
Python (a float such as 1e-05, a string that needs escapes) is found by its mark and written by Python, row by row:
the common case costs nanoseconds, the rare one is right.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.ids import canonical_json

TEXT = pa.string()
FEW = 2_048
"""Texts of a dictionary, up to which it is worth to write them before it is known which are used."""
LARGEST = (1 << 31) - 1
"""Bytes that an array of texts can hold."""


def plain(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """One contiguous array without a dictionary."""
    array = undecoded(column)
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def join(*parts: pa.Array | str) -> pa.Array:
    """Concatenate text columns and literals row by row; a null in any gives null.

    A column with a dictionary costs next to nothing more for its neighbours: literals, and other columns of few texts,
    are joined to it in the dictionary, once a text instead of once a row. If all is one such column, so is the result.
    """
    return JoinedText.of(*parts).whole()


@dataclass(frozen=True)
class JoinedText:
    """A text column in the making: what is to be joined row by row. Some of its rows, or all in another order, cost no
    more than to make them: the texts themselves, which are long, are not moved again."""

    parts: tuple[pa.Array | str, ...]
    """At least one is a column."""

    @classmethod
    def of(cls, *parts: pa.Array | str) -> "JoinedText":
        """Neighbours of few texts become one."""
        folded: list[pa.Array | str] = []
        for part in parts:
            folded.append(part)
            # As long as neighbours fold: three columns of few texts may become one.
            while len(folded) > 1 and (both := _folded(folded[-2], folded[-1])) is not None:
                folded[-2:] = [both]
        return cls(tuple(folded))

    def whole(self) -> pa.Array:
        """All rows; with a dictionary if all is one column that has one."""
        if len(self.parts) == 1 and not isinstance(self.parts[0], str):
            return self.parts[0]
        if (found := _woven(self.parts)) is not None:
            return found
        return _joined(*(part if isinstance(part, str) else plain(part) for part in self.parts))

    def take(self, rows: pa.Array) -> pa.Array:
        """Some rows, in this order."""
        # Nulls among the row numbers give null rows, which weaving can't.
        if len(self.parts) > 1 and not rows.null_count and (found := _woven(self.parts, np.asarray(rows))) is not None:
            return found
        return JoinedText(tuple(part if isinstance(part, str) else part.take(rows) for part in self.parts)).whole()

    def to_pylist(self) -> list[str | None]:
        """All rows as Python's texts."""
        return self.whole().to_pylist()


def _joined(*parts: pa.Array | str) -> pa.Array:
    return pc.binary_join_element_wise(*parts, "", null_handling="emit_null")


def _woven(parts: Sequence[pa.Array | str], rows: np.ndarray | None = None) -> pa.Array | None:
    """What `_joined` gives, of some rows, in one pass: the pieces of each row are taken one after another out of all
    texts, so that their bytes lie joined, and only where rows end is left to say. None if a piece is null, or if there
    may be too many bytes for one array."""
    columns = [part for part in parts if not isinstance(part, str)]
    # One null text makes its row null, and weaving has no way to say so.
    if any(_texts(column).type != TEXT or column.null_count or _texts(column).null_count for column in columns):
        return None
    count = len(columns[0]) if rows is None else len(rows)
    # One number a piece, row after row: `take` then lays the bytes of a row side by side.
    places = np.empty((count, len(parts)), np.int32)
    texts, first, longest = [], 0, 0
    for number, part in enumerate(parts):
        if isinstance(part, str):
            places[:, number] = first
            texts.append(pa.array([part], TEXT))
        else:
            coded = pa.types.is_dictionary(part.type)
            inner = np.asarray(part.indices) if coded else np.arange(len(part))
            np.add(inner if rows is None else inner[rows], first, out=places[:, number])
            texts.append(_texts(part))
        first += len(texts[-1])
        # The longest text of each column: an upper bound of a row, without adding up all rows.
        longest += pc.max(pc.binary_length(texts[-1])).as_py() or 0
    if longest * count > LARGEST:  # `take` would not notice
        return None
    pieces = pa.concat_arrays(texts).take(pa.array(places.ravel()))
    # Where every len(parts)-th piece ends, a row ends; the bytes are used as `take` has left them.
    ends = np.frombuffer(pieces.buffers()[1], np.int32, places.size + 1, pieces.offset * 4)[:: len(parts)]
    return pa.StringArray.from_buffers(count, pa.py_buffer(np.ascontiguousarray(ends)), pieces.buffers()[2])


def _texts(column: pa.Array) -> pa.Array:
    return column.dictionary if pa.types.is_dictionary(column.type) else column


def _repeats(column: pa.Array) -> bool:
    """Whether a column has a dictionary that is worth more than its rows."""
    if not pa.types.is_dictionary(column.type):
        return False
    # A dictionary that is nearly as long as its column saves nothing, and would be written whole.
    return len(column.dictionary) <= max(FEW, len(column) // 4)


def _folded(left: pa.Array | str, right: pa.Array | str) -> pa.Array | str | None:
    """Two neighbours as one, or None if that is no gain."""
    if not all(isinstance(part, str) or _repeats(part) for part in (left, right)):
        return None
    if isinstance(left, str):
        if isinstance(right, str):
            return left + right
        return pa.DictionaryArray.from_arrays(right.indices, _joined(left, right.dictionary))
    if isinstance(right, str):
        return pa.DictionaryArray.from_arrays(left.indices, _joined(left.dictionary, right))
    sizes = len(left.dictionary), len(right.dictionary)
    # All pairs of two dictionaries: worth it while there are few, or one has a single text.
    if min(sizes) > 1 and sizes[0] * sizes[1] > FEW:
        return None
    # Pair number = left * len(right) + right.
    first, second = (pa.array(numbers) for numbers in np.divmod(np.arange(sizes[0] * sizes[1]), max(sizes[1], 1)))
    values = _joined(left.dictionary.take(first), right.dictionary.take(second))
    scaled = pc.multiply(left.indices.cast(pa.int32()), pa.scalar(sizes[1], pa.int32()))
    return pa.DictionaryArray.from_arrays(pc.add(scaled, right.indices.cast(pa.int32())), values)


def undecoded(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """One contiguous array; a dictionary stays. A column of one piece is not copied, as `combine_chunks` would: so it
    may be a slice of a longer one."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):  # no chunk at all, or too large for one
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    return array


def integers(column: pa.Array) -> pa.Array:
    """Integers → JSON numbers; null stays null. Those that lie close together get a dictionary."""
    if len(column) > FEW:
        ends = pc.min_max(column)
        low, high = ends["min"].as_py(), ends["max"].as_py()
        # Step numbers and pixels lie close together: writing each number once beats writing it at each row.
        if low is not None and high - low < FEW:
            indices = pc.subtract(column.cast(pa.int64()), low).cast(pa.int32())
            return pa.DictionaryArray.from_arrays(indices, pa.array([str(n) for n in range(low, high + 1)], TEXT))
    return pc.cast(column, TEXT)


def floats(column: pa.Array) -> pa.Array:
    """float64 → JSON numbers by Python's `repr` (non-finite ones as its quoted word); null stays null.

    Arrow writes the same shortest digits, but 1 for 1.0, and other exponents: whole numbers get their `.0`, and what
    lies outside 1e-4..1e9 is written by Python.
    """
    text = pc.cast(column, TEXT)
    numbers = column.to_numpy(zero_copy_only=False)
    # NaN and infinity compare as false, which sends them to Python, as wanted.
    with np.errstate(invalid="ignore"):
        size = np.abs(numbers)
        below = size < 1e9
        whole = below & (np.trunc(numbers) == numbers)
        rare = ~(whole | (below & (size >= 1e-4)))
    # Python writes 3.0 where Arrow writes 3.
    if whole.any():
        text = pc.if_else(pa.array(whole), join(text, ".0"), text)
    if column.null_count:
        rare &= ~np.asarray(pc.is_null(column))
    return patched(text, rare, [canonical_json(float(value)) for value in numbers[rare]])


def strings(column: pa.Array) -> pa.Array:
    """Texts → JSON strings; null stays null. Those of a dictionary are written once each."""
    if pa.types.is_dictionary(column.type):
        return pa.DictionaryArray.from_arrays(column.indices, strings(column.dictionary))
    column = plain(column)
    return patched(join('"', column, '"'), *_escaped(column))


def _escaped(column: pa.Array) -> tuple[np.ndarray, list[str]]:
    """(mask of rows that need escapes, their JSON strings)."""
    mask = np.zeros(len(column), bool)
    offsets, data = text_buffers(column)
    # control characters, quote, backslash; JSON leaves 0x7f and all above as they are
    hits = np.flatnonzero((data < 0x20) | (data == 0x22) | (data == 0x5C))
    if not hits.size:
        return mask, []
    # From the place of a byte to its row, by binary search in the offsets.
    mask[np.searchsorted(offsets, hits + offsets[0], "right") - 1] = True
    if column.null_count:  # bytes of a null slot are nobody's
        mask &= ~np.asarray(pc.is_null(column))
    return mask, [canonical_json(value) for value in column.filter(pa.array(mask)).to_pylist()]


def patched(text: pa.Array, mask: np.ndarray, replacements: Sequence[str]) -> pa.Array:
    """`text` with the rows of a mask replaced, in order."""
    if not len(replacements):
        return text
    return pc.replace_with_mask(text, pa.array(mask), pa.array(replacements, TEXT))


def text_buffers(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Offsets (len + 1) and the bytes between the first and the last of them, without a copy."""
    wide = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    kind = np.dtype(np.int64 if wide else np.int32)
    _, offsets_buffer, data_buffer = column.buffers()
    if offsets_buffer is None or not len(column):
        return np.zeros(1, kind), np.zeros(0, np.uint8)
    offsets = np.frombuffer(offsets_buffer, kind, len(column) + 1, column.offset * kind.itemsize)
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.zeros(0, np.uint8)
    return offsets, data[offsets[0] : offsets[-1]]


def pairs(*columns: np.ndarray) -> list[pa.Array]:
    """Columns [n, 2] of float64 → JSON lists of two. A pair that stands for nothing, (-1, -1), is written once for all
    rows, and one that stands in the column before as well (touch and lift of a tap) once for both."""
    built: list[pa.Array] = []
    texts: list[pa.Array] = []
    place = np.zeros(0, np.int64)
    written = 1
    for number, values in enumerate(columns):
        # 0 is the text (-1, -1); -1 marks what is yet to be written.
        found = np.where((values[:, 0] == -1.0) & (values[:, 1] == -1.0), 0, -1)
        if number:  # bit by bit: 0.0 is not -0.0
            bits, before = (np.ascontiguousarray(side).view(np.int64) for side in (values, columns[number - 1]))
            same = (bits[:, 0] == before[:, 0]) & (bits[:, 1] == before[:, 1])
            # A tap lifts where it touched: the text of the column before serves for both.
            found = np.where(same, place, found)
        some = np.flatnonzero(found < 0)
        found[some] = np.arange(written, written + len(some))
        first, second = (floats(pa.array(np.ascontiguousarray(values[some, side]))) for side in (0, 1))
        texts.append(join("[", first, ",", second, "]"))
        place, written = found, written + len(some)
        built.append(
            pa.DictionaryArray.from_arrays(
                pa.array(place.astype(np.int32)), pa.concat_arrays([pa.array(["[-1.0,-1.0]"], TEXT), *texts])
            )
        )
    return built


def object_of(fields: Mapping[str, pa.Array | str]) -> JoinedText:
    """{name: column of JSON texts, or one text for all rows} → JSON objects with sorted keys, still to be joined; a
    null in any column gives null. At least one value must be a column."""
    parts: list[pa.Array | str] = []
    lead = "{"
    # Sorted keys, as canonical JSON has them, and fixed text joined to the literal before the next value.
    for name in sorted(fields):
        lead += f"{canonical_json(name)}:"
        value = fields[name]
        if isinstance(value, str):
            lead += value
        else:
            parts += [lead, value]
            lead = ""
        lead += ","
    return JoinedText.of(*parts, lead.removesuffix(",") + "}")


def optional(name: str, values: pa.Array) -> pa.Array:
    """`,"name":value` where there is a value (JSON text), nothing where it is null: a piece of an object."""
    text = join(f",{canonical_json(name)}:", values)
    if not pa.types.is_dictionary(text.type):
        return pc.fill_null(text, "")
    found = pc.fill_null(text.dictionary, "")
    if not text.indices.null_count:
        return pa.DictionaryArray.from_arrays(text.indices, found)
    # A null gets a number of its own, that of an empty text at the end of the dictionary.
    indices = pc.fill_null(text.indices.cast(pa.int32()), len(found))
    return pa.DictionaryArray.from_arrays(indices, pa.concat_arrays([found, pa.array([""], found.type)]))
