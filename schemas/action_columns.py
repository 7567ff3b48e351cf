"""The vectorised twin of `schemas.actions`: canonical action text ↔ Arrow columns, without Python rows.

`parse_columns(format_columns(arguments)) == arguments`, and both agree with the scalar `format` and `parse`.
"""

import functools

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.action_types import BARE, DIRECTIONS, POINTED, SPACES, TEXTED, WIDEST, ActionSpace
from schemas.actions import ESCAPES
from schemas.coordinates import UNITS

ARGUMENTS = pa.schema(
    [
        ("action_type", pa.string()),
        ("x1", pa.int16()),  # box, or start
        ("y1", pa.int16()),
        ("x2", pa.int16()),  # end
        ("y2", pa.int16()),
        ("direction", pa.string()),
        ("content", pa.string()),  # content, option, app or url
        ("is_url", pa.bool_()),
        ("keys", pa.list_(pa.string())),
    ]
)
"""One row per action; a column that an action doesn't have is null. A null `action_type` stays null throughout."""

_NAMES = {
    "pointed": [kind.__name__ for kind in POINTED],
    "texted": [kind.__name__ for kind in TEXTED],
    "bare": [kind.__name__ for kind in BARE],
}


def _join(*parts: pa.Array | str) -> pa.Array:
    """Concatenate columns and literals; null in any part gives null."""
    return pc.binary_join_element_wise(*parts, "", null_handling="emit_null")


def _is_in(column: pa.Array, names: list[str]) -> pa.Array:
    return pc.is_in(column, value_set=pa.array(names, pa.string()))


def _quote(column: pa.Array) -> pa.Array:
    # In the order of `ESCAPES`: the backslash first, or it would escape the escapes.
    for raw, escaped in ESCAPES:
        column = pc.replace_substring(column, raw, escaped)
    return _join("'", column, "'")


def _unescape(column: pa.Array) -> pa.Array:
    """Undo the escapes: cut at every escaped backslash first, so that the rest can be replaced independently."""
    pieces = pc.split_pattern(column, "\\\\")
    values = pieces.flatten()
    # Without the backslash, by which the text was cut.
    for raw, escaped in ESCAPES[1:]:
        values = pc.replace_substring(values, escaped, raw)
    # A null row has no pieces; offsets need a number all the same.
    lengths = pc.fill_null(pc.list_value_length(pieces), 0)
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths).cast(pa.int32())])
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, values), "\\")
    # The join turned nulls into empty texts.
    return pc.if_else(pc.is_valid(column), joined, None)


def _point(x: pa.Array, y: pa.Array) -> pa.Array:
    return _join("(", pc.cast(x, pa.string()), ",", pc.cast(y, pa.string()), ")")


@functools.cache
def _unit_texts(before: str, after: str) -> pa.Array:
    """Units 0..1000 with what stands around them. Made when asked for: the first `pa.array` loads pandas."""
    return _join(before, pa.array([str(unit) for unit in range(UNITS + 1)]), after)


def _unit_point(before: str, x: pa.Array, y: pa.Array, after: str) -> tuple[pa.Array, pa.Array]:
    """Pieces of `<before>(x,y)<after>`, of units that are known to lie in 0..1000: looked up with all that is the same
    in each row, which is many times faster than writing numbers."""
    return _unit_texts(f"{before}(", ",").take(x), _unit_texts("", f"){after}").take(y)


def action_text(
    name: str, *, point: tuple[pa.Array, pa.Array] | None = None, content: pa.Array | None = None
) -> pa.Array:
    """Canonical text of rows of one action: a pointed one with its points (x, y) in 0..1000, a texted one with its
    content, or one without arguments (its column of empty contents only says how many rows there are)."""
    if point is not None:
        return _join(*_unit_point(f"{name}(box=", *point, ")"))
    assert content is not None
    if name in _NAMES["texted"]:
        return _join(f"{name}(content=", _quote(content), ")")
    return pa.repeat(pa.scalar(f"{name}()"), len(content))


def scroll_text(x1: pa.Array, y1: pa.Array, x2: pa.Array, y2: pa.Array, *, direction: pa.Array) -> pa.Array:
    """Canonical text of rows of `Scroll` between two points in 0..1000; null where the direction is null."""
    start = _unit_point("Scroll(start=", x1, y1, "")
    return _join(*start, *_unit_point(", end=", x2, y2, ", direction='"), direction, "')")


def _quoted_keys(keys: pa.Array) -> pa.Array:
    joined = pc.binary_join(pa.ListArray.from_arrays(keys.offsets, _quote(keys.values)), ",")
    return pc.if_else(pc.is_valid(keys), _join("[", joined, "]"), None)


def _plain(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """One contiguous array that starts at offset 0 (list offsets are used directly)."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return pa.concat_arrays([array]) if array.offset == 0 else array.take(pa.array(range(len(array))))


def format_columns(arguments: pa.Table) -> pa.Array:
    """Table with the schema `ARGUMENTS` → canonical text per row.

    Raises `ValueError` naming the first row whose arguments are missing or out of range for its type.
    """
    # Slices have offsets of their own; list offsets are used directly below.
    column = {name: _plain(arguments.column(name)) for name in ARGUMENTS.names}
    kind = column["action_type"]
    start, end = _point(column["x1"], column["y1"]), _point(column["x2"], column["y2"])
    quoted = _quote(column["content"])
    path = _join("start=", start, ", end=", end)
    word = _join("direction='", column["direction"], "'")
    both = _join(path, ", ", word)
    # In this order: both, the path alone, the direction alone; nulls pass through the joins.
    scroll = pc.coalesce(both, path, word)
    launch = _join(pc.if_else(column["is_url"], "url=", "app="), quoted)
    body = pc.case_when(
        pc.make_struct(
            _is_in(kind, _NAMES["pointed"]),
            pc.equal(kind, "SelectOption"),
            pc.equal(kind, "Drag"),
            pc.equal(kind, "Scroll"),
            _is_in(kind, _NAMES["texted"]),
            pc.equal(kind, "Launch"),
            pc.equal(kind, "Hotkey"),
            _is_in(kind, _NAMES["bare"]),
        ),
        _join("box=", start),
        _join("box=", start, ", option=", quoted),
        path,
        scroll,
        _join("content=", quoted),
        launch,
        _join("keys=", _quoted_keys(column["keys"])),
        # Actions without arguments: an empty text and not null, which would mean a missing argument.
        pa.array([""] * len(kind), pa.string()),
    )
    text = _join(kind, "(", body, ")")
    # Any null that is left is an argument that this kind needs.
    _refuse(pc.and_(pc.is_valid(kind), pc.is_null(text)), kind, "arguments are missing for this action")
    for name in ("x1", "y1", "x2", "y2"):
        bad = pc.or_(pc.less(column[name], 0), pc.greater(column[name], 1000))
        _refuse(pc.fill_null(bad, False), kind, f"{name} lies outside 0..1000")
    _refuse_scrolls(column)
    keys = column["keys"]
    count = pc.list_value_length(keys)
    _refuse(pc.fill_null(pc.or_(pc.less(count, 1), pc.greater(count, 3)), False), kind, "expected 1 to 3 keys")
    _refuse(_holds_empty(keys), kind, "empty key name")
    named = pc.and_(_is_in(kind, ["Launch", "SelectOption"]), pc.equal(column["content"], ""))
    _refuse(pc.fill_null(named, False), kind, "empty target")
    return text


def _refuse(bad: pa.Array, kind: pa.Array, why: str) -> None:
    if pc.any(bad).as_py():
        row = pc.index(bad, True).as_py()
        raise ValueError(f"row {row}: {kind[row].as_py()}: {why}")


def content_direction(
    x1: pa.Array,
    y1: pa.Array,
    x2: pa.Array,
    y2: pa.Array,
    width_px: pa.Array | None = None,
    height_px: pa.Array | None = None,
) -> pa.Array:
    """`schemas.actions.scroll_direction` on columns; null where points are missing or equal. Where a size is null or
    not given, the screen is taken for square."""
    dx, dy = _way(x1, x2), _way(y1, y2)
    across, along = pc.abs(dx), pc.abs(dy)
    if width_px is not None and height_px is not None:
        known = pc.and_(pc.is_valid(width_px), pc.is_valid(height_px))
        # Units are parts of the screen's sides, so distances are weighed by the sides.
        across = pc.multiply(across, pc.if_else(known, width_px, 1).cast(pa.int64()))
        along = pc.multiply(along, pc.if_else(known, height_px, 1).cast(pa.int64()))
    # Vertical on a tie, as in the scalar form.
    vertical = pc.greater_equal(along, across)
    word = pc.if_else(vertical, pc.if_else(pc.less(dy, 0), "down", "up"), pc.if_else(pc.less(dx, 0), "right", "left"))
    return pc.if_else(pc.and_(pc.equal(dx, 0), pc.equal(dy, 0)), None, word)


def _way(start: pa.Array, end: pa.Array) -> pa.Array:
    return pc.subtract(pc.cast(end, pa.int64()), pc.cast(start, pa.int64()))


def _holds_empty(keys: pa.Array) -> pa.Array:
    rows = pc.filter(pc.list_parent_indices(keys), pc.fill_null(pc.equal(pc.list_flatten(keys), ""), False))
    return pc.is_in(pa.array(range(len(keys)), pa.int64()), value_set=rows.cast(pa.int64()))


def _refuse_scrolls(column: dict[str, pa.Array]) -> None:
    kind, word = column["action_type"], column["direction"]
    scroll = pc.fill_null(pc.equal(kind, "Scroll"), False)
    unknown = pc.and_(pc.is_valid(word), pc.invert(_is_in(word, list(DIRECTIONS))))
    _refuse(pc.and_(scroll, unknown), kind, "unknown direction")
    follows = content_direction(column["x1"], column["y1"], column["x2"], column["y2"])
    # A path must go some way in its direction; which axis is longer isn't known without the screen's size.
    goes = pc.if_else(
        _is_in(word, ["up", "down"]),
        pc.xor(pc.equal(word, "up"), pc.less(_way(column["y1"], column["y2"]), 0)),
        pc.xor(pc.equal(word, "left"), pc.less(_way(column["x1"], column["x2"]), 0)),
    )
    still = pc.if_else(
        _is_in(word, ["up", "down"]), pc.equal(column["y1"], column["y2"]), pc.equal(column["x1"], column["x2"])
    )
    against = pc.or_(pc.invert(goes), still)
    _refuse(pc.and_(scroll, pc.fill_null(against, False)), kind, "direction contradicts its points")
    still = pc.and_(pc.is_valid(column["x1"]), pc.is_null(follows))
    _refuse(pc.and_(scroll, still), kind, "equal points have no direction")


_HEAD = r"^(?P<kind>[A-Za-z]+)\((?P<body>(?s:.*))\)$"
_POINTS = r"^(?:box|start)=\((?P<x1>\d{1,4}),(?P<y1>\d{1,4})\)(?:, end=\((?P<x2>\d{1,4}),(?P<y2>\d{1,4})\))?"
_TEXT = r"^(?:box=\(\d{1,4},\d{1,4}\), )?(?P<name>content|app|url|option)='(?P<content>(?s:.*))'$"


_KEY = r"'(?P<k{}>(?:[^'\\]|\\.)+)'"
_KEYS = rf"^keys=\[{_KEY.format(1)}(?:,{_KEY.format(2)})?(?:,{_KEY.format(3)})?\]$"


def _parse_keys(body: pa.Array) -> pa.Array:
    """`keys=['ctrl','c']` → list of names; null where the text is null or doesn't match."""
    found = pc.extract_regex(body, _KEYS)
    names = [_unescape(pc.struct_field(found, f"k{place}")) for place in (1, 2, 3)]
    # Three columns of first, second and third keys become one, row after row.
    row_major = pa.concat_arrays(names).take(pa.array(np.arange(3 * len(body)).reshape(3, -1).T.ravel()))
    filled = pc.fill_null(pc.not_equal(row_major, ""), False)  # a group that took no part is empty
    counts = filled.to_numpy(zero_copy_only=False).reshape(-1, 3).sum(axis=1)
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]), pa.int32())
    listed = pa.ListArray.from_arrays(offsets, row_major.filter(filled))
    return pc.if_else(pc.is_valid(found), listed, None)


def parse_columns(text: pa.ChunkedArray | pa.Array, space: ActionSpace = WIDEST) -> pa.Table:
    """Canonical action texts (null allowed) → table with the schema `ARGUMENTS`.

    Raises `ValueError` naming the first row that is not canonical text of a legal action of the space.
    """
    # Chunks and slices are made one array: list offsets are used directly below.
    text = _plain(text)
    head = pc.extract_regex(text, _HEAD)
    kind, body = pc.struct_field(head, "kind"), pc.struct_field(head, "body")
    known = pc.fill_null(_is_in(kind, list(SPACES[space])), False)
    # Names first: what is no action of the space gets the clearer message.
    _refuse(pc.and_(pc.is_valid(text), pc.invert(known)), text, f"not canonical text of one of the actions of {space}")
    chosen = pc.equal(kind, "SelectOption")
    texted = pc.or_(_is_in(kind, [*_NAMES["texted"], "Launch"]), chosen)
    spoken = pc.extract_regex(pc.if_else(texted, body, None), _TEXT)
    # The box of a chosen option is read here, its text above.
    points = pc.extract_regex(pc.if_else(pc.and_not(texted, chosen), None, body), _POINTS)
    word = pc.extract_regex(pc.if_else(pc.equal(kind, "Scroll"), body, None), r"direction='(?P<word>\w*)'$")
    keys = _parse_keys(pc.if_else(pc.equal(kind, "Hotkey"), body, None))

    def number(name: str) -> pa.Array:
        found = pc.struct_field(points, name)
        # A group that took no part gives an empty text.
        return pc.cast(pc.if_else(pc.equal(found, ""), None, found), pa.int16())

    direction = pc.struct_field(word, "word")
    arguments = pa.Table.from_arrays(
        [
            kind,
            number("x1"),
            number("y1"),
            number("x2"),
            number("y2"),
            direction,
            _unescape(pc.struct_field(spoken, "content")),
            pc.if_else(pc.equal(kind, "Launch"), pc.equal(pc.struct_field(spoken, "name"), "url"), None),
            keys,
        ],
        schema=ARGUMENTS,
    )
    # Writing the text again proves that it was canonical: every slip of the patterns above shows here.
    _refuse(pc.fill_null(pc.not_equal(format_columns(arguments), text), False), text, "not canonical text")
    return arguments
