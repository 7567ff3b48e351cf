"""Windows of a screen: which parts are looked at, and how points and boxes go from one frame into the other.

A window is a rectangle of the screen in its pixels, shown at a scale of its own. Points and boxes of a window are in
0..1000 of the window, those of the screen in 0..1000 of the screen; `ScreenWindow` maps one to the other, by pixels.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from schemas.action_types import AT_A_POINT, Action, Drag, Point, Scroll
from schemas.coordinates import UNITS, to_unit
from trainer.settings.reading import Reading

Size = tuple[int, int]
"""Width and height in pixels."""


@dataclass(frozen=True, slots=True)
class ScreenWindow:
    """A part of a screen: its sides in pixels of the screen, the screen's size, and the size at which it is shown."""

    left: int
    top: int
    right: int
    bottom: int
    screen: Size
    shown: Size

    @property
    def size(self) -> Size:
        """Width and height in pixels of the screen."""
        return self.right - self.left, self.bottom - self.top

    def to_screen(self, point: Sequence[float]) -> Point:
        """A point of the window, both in 0..1000, in the frame of the screen."""
        (wide, high), (screen_wide, screen_high) = self.size, self.screen
        return (
            to_unit(self.left + point[0] * wide / UNITS, screen_wide),
            to_unit(self.top + point[1] * high / UNITS, screen_high),
        )

    def to_window(self, point: Sequence[float]) -> Point | None:
        """A point of the screen in the frame of the window; None where it lies outside."""
        x, y = point[0] * self.screen[0] / UNITS, point[1] * self.screen[1] / UNITS
        if not (self.left <= x <= self.right and self.top <= y <= self.bottom):
            return None
        return to_unit(x - self.left, self.size[0]), to_unit(y - self.top, self.size[1])

    def box_in_window(self, box: Sequence[float]) -> tuple[list[float], float] | None:
        """The visible part of a box of the screen in the frame of the window, and its share of the box's area; None
        where nothing of it is seen."""
        # pixels: left, top, right, bottom
        sides = [box[place] * self.screen[place % 2] / UNITS for place in range(4)]  # in pixels
        seen = [
            max(sides[0], self.left),
            max(sides[1], self.top),
            min(sides[2], self.right),
            min(sides[3], self.bottom),
        ]
        if seen[0] > seen[2] or seen[1] > seen[3]:
            return None
        area = (sides[2] - sides[0]) * (sides[3] - sides[1])
        # a box without area that is seen is seen whole
        share = (seen[2] - seen[0]) * (seen[3] - seen[1]) / area if area > 0 else 1.0
        from_corner = (self.left, self.top) * 2
        return [(seen[i] - from_corner[i]) * UNITS / self.size[i % 2] for i in range(4)], share

    def action_in_window(self, action: Action) -> Action | None:
        """An action on the screen as one on the window; None where a point of it lies outside."""
        return _moved(action, self.to_window)

    def action_on_screen(self, action: Action) -> Action:
        """An action on the window as one on the screen."""
        moved = _moved(action, self.to_screen)
        assert moved is not None  # every point of a window lies on the screen
        return moved

    def cut(self, pixels: np.ndarray) -> np.ndarray:
        """The window of a screen's pixels, uint8 [height, width, 3], at the size at which it is shown."""
        from PIL import Image

        part = pixels[self.top : self.bottom, self.left : self.right]
        if self.shown != self.size:
            # bicubic, as the image processor resizes
            part = np.asarray(Image.fromarray(part).resize(self.shown, Image.Resampling.BICUBIC))
        return np.ascontiguousarray(part)


def points_of(action: Action) -> list[Point]:
    """The points of an action, none for one without."""
    if isinstance(action, AT_A_POINT):
        return [action.box]
    if isinstance(action, Drag):
        return [action.start, action.end]
    if isinstance(action, Scroll) and action.start is not None and action.end is not None:
        return [action.start, action.end]
    return []


def _moved(action: Action, move: Callable[[Point], Point | None]) -> Action | None:
    moved = [point for one in points_of(action) if (point := move(one)) is not None]
    if len(moved) < len(points_of(action)):
        return None
    if isinstance(action, AT_A_POINT):
        return replace(action, box=moved[0])
    if moved and isinstance(action, Drag | Scroll):
        return replace(action, start=moved[0], end=moved[1])
    return action


def whole(size: Size) -> ScreenWindow:
    """The screen as one window."""
    return ScreenWindow(0, 0, *size, size, size)


def windows(size: Size, reading: Reading) -> list[ScreenWindow]:
    """Overlapping windows that cover a screen, row by row: at scale 1, or at the largest at which `most` are enough."""
    scale = _scale(size, reading)
    # the screen at that scale; windows are laid over it in its own pixels
    scaled = [max(1, round(side * scale)) for side in size]
    across, down = (_places(scaled[i], reading.window[i], reading.overlap) for i in (0, 1))

    def own(px: int, axis: int) -> int:  # of the screen itself
        return round(px * size[axis] / scaled[axis])

    return [
        ScreenWindow(own(left, 0), own(top, 1), own(right, 0), own(bottom, 1), size, (right - left, bottom - top))
        for top, bottom in down
        for left, right in across
    ]


def around(point: Sequence[float], size: Size, zoom: float) -> ScreenWindow:
    """The part of a screen around a point (0..1000 of it), `zoom` times smaller than the screen and shown enlarged to
    its size; at a border it is moved inside."""
    sides = []
    for axis in (0, 1):
        part = max(1, round(size[axis] / zoom))
        start = round(point[axis] * size[axis] / UNITS - part / 2)
        # moved inside, so that the part keeps its size
        start = min(max(0, start), size[axis] - part)
        sides.append((start, start + part))
    (left, right), (top, bottom) = sides
    return ScreenWindow(left, top, right, bottom, size, size)


def _scale(size: Size, reading: Reading) -> float:
    """The largest scale, at most 1, at which a screen takes no more than `most` windows."""
    scale = 1.0
    # in steps of 2 %: the count changes by whole windows
    while math.prod(_count(round(size[i] * scale), reading.window[i], reading.overlap) for i in (0, 1)) > reading.most:
        scale *= 0.98
    return scale


def _count(side: float, window: int, overlap: int) -> int:
    """Windows along one side."""
    return 1 if side <= window else math.ceil((side - overlap) / (window - overlap))


def _places(side: int, window: int, overlap: int) -> list[tuple[int, int]]:
    """Start and end of each window along a side, evenly spread."""
    count = _count(side, window, overlap)
    if count == 1:
        return [(0, min(side, window))]
    # the first begins at 0, the last ends at the side, all others evenly between
    starts = [round(place * (side - window) / (count - 1)) for place in range(count)]
    return [(start, start + window) for start in starts]
