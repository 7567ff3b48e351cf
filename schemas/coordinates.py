"""The one coordinate frame: 0..1000 on both axes, x right, y down, origin top left, whatever the picture's size."""

import math
from collections.abc import Sequence

import numpy as np

UNITS = 1000
"""Width and height of the frame in units."""
OVERHANG = 20.0
"""Units by which a stated target may hang over a border of the screen (2 %): a window's shadow, a rounded picture. That
part is cut off; more is another frame, or wrong. (A view of a tree may reach any way beyond: `box_to_unit`. A point has
no part inside: moved to the border it would be a click that nobody made, so `to_unit` takes rounding alone.)"""


class OffScreen(ValueError):
    """A native coordinate lies more than one unit outside its frame."""


def to_unit(x_px: float, size_px: float) -> int:
    """floor(x · 1000 / size + ½): pixels (or any native unit, with its size) → 0..1000.

    At most one unit outside is clamped (rounding of the source); beyond, `OffScreen`. A size that is
    not positive or a coordinate that is not finite raises `ValueError`.
    """
    if not size_px > 0 or not math.isfinite(size_px):
        raise ValueError(f"frame size must be positive, found {size_px!r}")
    scaled = x_px * 1000.0 / size_px
    # As a comparison of the form "not inside", so that nan fails it.
    if not -1.0 <= scaled <= 1001.0:  # also catches nan
        raise OffScreen(f"coordinate {x_px!r} lies outside 0..{size_px!r}")
    return min(max(math.floor(scaled + 0.5), 0), UNITS)


def to_unit_array(values: np.ndarray, size: np.ndarray | float) -> np.ndarray:
    """The same for numpy arrays of float64, of any shape: int16, -1 where a coordinate is off-screen or not finite.

    The arithmetic is in the same order, so the integers are equal; the caller quarantines those of -1.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        # The same order of operations as `to_unit`: another could round the other way in the last bit.
        scaled = values * 1000.0 / size
        # Nan and infinity are outside in either comparison.
        inside = (scaled >= -1.0) & (scaled <= 1001.0)
        units = np.clip(np.floor(np.where(inside, scaled, 0.0) + 0.5), 0.0, float(UNITS))
    return np.where(inside, units, -1.0).astype(np.int16)


def point_to_unit(point_px: tuple[float, float], size_px: tuple[float, float]) -> tuple[int, int]:
    """(x, y) in a frame of (width, height) → (x, y) in 0..1000. Raises `OffScreen` (see `to_unit`)."""
    return to_unit(point_px[0], size_px[0]), to_unit(point_px[1], size_px[1])


def box_to_unit(box_px: tuple[float, float, float, float], size_px: tuple[float, float]) -> list[float]:
    """left, top, right, bottom in a frame of (width, height) → the same as floats in 0..1000.

    The part outside the frame is cut off; a box wholly outside, or one whose sides are swapped, raises `OffScreen`.
    """
    left, top, right, bottom = box_px
    width, height = size_px
    if not (width > 0 and height > 0):
        raise ValueError(f"frame size must be positive, found {size_px!r}")
    scaled = [left * 1000.0 / width, top * 1000.0 / height, right * 1000.0 / width, bottom * 1000.0 / height]
    # Before comparing sides: comparisons with nan are false and would let it through.
    if not all(math.isfinite(value) for value in scaled):
        raise OffScreen(f"box {box_px!r} holds a value that is not finite")
    if scaled[0] > scaled[2] or scaled[1] > scaled[3]:
        raise OffScreen(f"box {box_px!r}: expected left <= right and top <= bottom")
    # Wholly outside; a box that touches the border by a line is inside.
    if scaled[2] < 0 or scaled[3] < 0 or scaled[0] > UNITS or scaled[1] > UNITS:
        raise OffScreen(f"box {box_px!r} lies outside the frame {size_px!r}")
    return [min(max(value, 0.0), float(UNITS)) for value in scaled]


class ScreenBox(tuple[float, float, float, float]):
    """left, top, right, bottom of a target in 0..1000; `cut` says whether a part that hung over was cut off."""

    cut: bool

    def __new__(cls, sides: Sequence[float], cut: bool) -> "ScreenBox":
        """The sides, and whether they were cut."""
        made = super().__new__(cls, sides)
        made.cut = cut
        return made


def screen_box(box_px: tuple[float, float, float, float], size_px: tuple[float, float]) -> ScreenBox:
    """The box of a target that sources and suites state, in a frame of (width, height), → 0..1000. What hangs over by
    at most `OVERHANG` is cut off; raises `OffScreen` beyond, where nothing is left of it, and else as `box_to_unit`
    does."""
    sides = box_to_unit(box_px, size_px)
    stated = [px * 1000.0 / size for px, size in zip(box_px, (*size_px, *size_px), strict=True)]
    if max(abs(one - other) for one, other in zip(sides, stated, strict=True)) > OVERHANG:
        share = OVERHANG / UNITS
        raise OffScreen(f"box {box_px!r} hangs over the frame {size_px!r} by more than {share:.0%}")
    # A box with an area that is cut down to a line isn't on the screen.
    if (sides[0] == sides[2] and box_px[0] < box_px[2]) or (sides[1] == sides[3] and box_px[1] < box_px[3]):
        raise OffScreen(f"box {box_px!r} only touches the frame {size_px!r}")
    return ScreenBox(sides, sides != stated)


def contains(box: Sequence[float], point: Sequence[float]) -> bool:
    """Whether a point lies in a box, borders included (both in the same frame)."""
    return box[0] <= point[0] <= box[2] and box[1] <= point[1] <= box[3]


def centre(box: Sequence[float]) -> tuple[float, float]:
    """Centre of left, top, right, bottom in the box's own frame, not rounded."""
    return (box[0] + box[2]) / 2, (box[1] + box[3]) / 2


def rounded_centre(box: Sequence[float]) -> tuple[int, int]:
    """`centre` in whole numbers, halves up, in the box's own frame (sides not negative)."""
    # Halves up, and not to even as `round` does: sources round so.
    x, y = centre(box)
    return int(x + 0.5), int(y + 0.5)


def centre_in_units(box: Sequence[float]) -> tuple[int, int]:
    """Centre of a box of 0..1000 as a point that an action can have: `rounded_centre` within the frame, clamped up to
    one unit outside of it. Raises `OffScreen` beyond."""
    return point_to_unit(centre(box), (UNITS, UNITS))


def iou(one: Sequence[float], other: Sequence[float]) -> float:
    """Intersection over union of two boxes of one frame, 0..1; 0 where they share no area."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    if width <= 0 or height <= 0:
        return 0.0
    shared = width * height
    union = (one[2] - one[0]) * (one[3] - one[1]) + (other[2] - other[0]) * (other[3] - other[1]) - shared
    return shared / union if union > 0 else 0.0
