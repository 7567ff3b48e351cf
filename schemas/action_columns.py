"""The vectorised twin of `schemas.actions`: arguments in Arrow columns → canonical action text, without Python rows.

For the actions that sources write by the million: pointed ones, those with a text, those without arguments, and scrolls
between two points. Texts and directions are those of the scalar `format` and `scroll_direction`.
"""

import functools

import pyarrow as pa
import pyarrow.compute as pc

from schemas.action_types import TEXTED
from schemas.actions import ESCAPES
from schemas.coordinates import UNITS

_TEXTED = frozenset(kind.__name__ for kind in TEXTED)


def _join(*parts: pa.Array | str) -> pa.Array:
    """Concatenate columns and literals; null in any part gives null."""
    return pc.binary_join_element_wise(*parts, "", null_handling="emit_null")


def _quote(column: pa.Array) -> pa.Array:
    # In the order of `ESCAPES`: the backslash first, or it would escape the escapes.
    for raw, escaped in ESCAPES:
        column = pc.replace_substring(column, raw, escaped)
    return _join("'", column, "'")


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
    if name in _TEXTED:
        return _join(f"{name}(content=", _quote(content), ")")
    return pa.repeat(pa.scalar(f"{name}()"), len(content))


def scroll_text(x1: pa.Array, y1: pa.Array, x2: pa.Array, y2: pa.Array, *, direction: pa.Array) -> pa.Array:
    """Canonical text of rows of `Scroll` between two points in 0..1000; null where the direction is null."""
    start = _unit_point("Scroll(start=", x1, y1, "")
    return _join(*start, *_unit_point(", end=", x2, y2, ", direction='"), direction, "')")


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
