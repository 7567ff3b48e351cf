"""Pixel evidence on small grey pictures: did the frame change, how far did it move, is a spot blank.

Pictures are grey uint8 [height, width], reduced by a whole factor (`pipelines.store.small_greys`).
Points and boxes are in the 0..1000 frame. Nothing here knows what a picture means: an animation, a blinking caret or
a clock looks like an effect, and a page of equal rows can't decide how far it scrolled (`measure_shift` then says
None).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # it loads a part when that is first used: the graph, which imports this, has no use for any
from PIL import Image

from pipelines.store.pixels import rgb_pixels
from pipelines.store.small_greys import Grey, reduced

PIXEL_DIFFERENCE = 12
"""Grey levels by which a pixel must differ to count as changed (JPEG noise stays below)."""
MIN_CHANGED_PX = 3
STATUS_BAR = 0.04
"""Share of a phone's height whose clock and icons change by themselves."""
MIN_CORRELATION = 0.8
"""Normalised cross-correlation of the overlap from which a shift is believed."""
MOST_CORRELATION = 1.001
"""No correlation is higher, however it was rounded."""
MIN_OVERLAP = 0.25


def grey_image(data: bytes) -> Image.Image:
    """Encoded picture → grey picture (mode L) at full size. Raises `ImageError`."""
    pixels = rgb_pixels(data)
    canvas = _canvas(pixels.shape[1], pixels.shape[0])
    canvas.frombytes(np.ascontiguousarray(pixels))
    return canvas.convert("L")


_own = threading.local()


def _canvas(width_px: int, height_px: int) -> Image.Image:
    """An RGB picture to be painted over whole, the last one of this thread if it has the size: to clear a new one
    takes as long as to make it grey."""
    canvas: Image.Image | None = getattr(_own, "canvas", None)
    if canvas is None or canvas.size != (width_px, height_px):
        canvas = _own.canvas = Image.new("RGB", (width_px, height_px))
    return canvas


def grey_small(data: bytes) -> Grey:
    """Encoded picture → grey uint8 [h, w], reduced by a whole factor. Raises `ImageError`."""
    return reduced(grey_image(data))


def changed_share(before: Grey, after: Grey, skip_top: float = 0.0) -> float:
    """Share of pixels that changed, 0..1; pictures of different shape are wholly changed."""
    if before.shape != after.shape:
        return 1.0
    one, two = (grey[int(len(grey) * skip_top) :] for grey in (before, after))
    count = int(np.count_nonzero(_differs(one, two)))
    # A pixel or two is a caret or noise.
    return count / one.size if count >= MIN_CHANGED_PX else 0.0


def _differs(one: Grey, two: Grey) -> np.ndarray:
    # On unsigned bytes: the larger minus the smaller never wraps around.
    return np.maximum(one, two) - np.minimum(one, two) > PIXEL_DIFFERENCE


def changed_box(before: Grey, after: Grey, skip_top: float = 0.0) -> tuple[float, float, float, float] | None:
    """Bounding box of what changed, in 0..1000; None if nothing did or the shapes differ."""
    if before.shape != after.shape:
        return None
    mask = _differs(before, after)
    # The phone's status bar changes by itself.
    mask[: int(len(mask) * skip_top)] = False
    if np.count_nonzero(mask) < MIN_CHANGED_PX:
        return None
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    height, width = mask.shape
    return (
        columns[0] * 1000 / width,
        rows[0] * 1000 / height,
        # Up to the far side of the last changed pixel.
        (columns[-1] + 1) * 1000 / width,
        (rows[-1] + 1) * 1000 / height,
    )


def spread_in(grey: Grey, box: tuple[float, float, float, float]) -> float:
    """Standard deviation of grey levels inside a box (0..1000): about 0 on blank ground."""
    height, width = grey.shape
    left, right = int(box[0] * width / 1000), int(np.ceil(box[2] * width / 1000))
    # Rounded outwards, so that a thin box has a pixel.
    top, bottom = int(box[1] * height / 1000), int(np.ceil(box[3] * height / 1000))
    patch = grey[max(top, 0) : max(bottom, top + 1), max(left, 0) : max(right, left + 1)]
    return float(patch.std()) if patch.size else 0.0


def spread_around(grey: Grey, point: tuple[float, float], radius: float = 15.0) -> float:
    """Standard deviation of grey levels in the square of ±radius (0..1000) around a point."""
    x, y = point
    return spread_in(grey, (max(x - radius, 0), max(y - radius, 0), min(x + radius, 1000), min(y + radius, 1000)))


def cut_sides(grey: Grey, box: tuple[float, float, float, float], share: float) -> int:
    """How many sides of a box (0..1000) cut through something drawn: along the line just outside the side, more than
    `share` of the neighbouring pixels differ by over 20 grey levels. 0 for a box that frames its content; photographs
    behind or beside a box look cut too."""
    height, width = grey.shape
    left, right = int(box[0] * width / 1000), int(np.ceil(box[2] * width / 1000))
    top, bottom = int(box[1] * height / 1000), int(np.ceil(box[3] * height / 1000))
    # The lines just outside of each side: what is cut continues there.
    lines = (
        grey[max(top - 1, 0), left:right],
        grey[min(bottom, height - 1), left:right],
        grey[top:bottom, max(left - 1, 0)],
        grey[top:bottom, min(right, width - 1)],
    )
    return sum(
        # Short lines say nothing; differences beyond 20 levels are edges of something drawn.
        len(line) > 3 and int((np.abs(np.diff(line.astype(np.int16))) > 20).sum()) > share * len(line)
        for line in lines
    )


@dataclass(frozen=True, slots=True)
class Shift:
    """How the content moved: `direction` as `Scroll` names it (`down` = shows what lies below), `amount` in 0..1000,
    `correlation` of the overlap at that shift."""

    direction: str
    amount: float
    correlation: float


def measure_shift(before: Grey, after: Grey, skip_top: float = 0.0) -> Shift | None:
    """The vertical or horizontal shift that turns `before` into `after`; None if none explains the change.

    Looks only inside the bounding box of what changed, so fixed bars don't vote for "no shift"; candidates come from
    the cross-correlation along each axis (FFT), the best by the normalised correlation of the overlapping parts.
    None also where a shift in the opposite direction explains the change about as well (repeating content).
    """
    if before.shape != after.shape:
        return None
    mask = _differs(before, after)
    mask[: int(len(mask) * skip_top)] = False
    # A caret or a badge is no scroll.
    if np.count_nonzero(mask) < max(MIN_CHANGED_PX, 0.002 * mask.size):
        return None
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    # Only where something changed: fixed bars would vote for no shift at all.
    window = np.s_[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    one, two = before[window].astype(np.float32), after[window].astype(np.float32)
    upright = _Overlaps(one, two)
    still = upright.correlation(0)
    # Hardly anything moved: no shift could fit clearly better than none.
    if still + 0.1 > MOST_CORRELATION:
        return None
    found: list[Shift] = []
    for axis, words in ((0, ("down", "up")), (1, ("right", "left"))):
        a, b = (one, two) if axis == 0 else (np.ascontiguousarray(one.T), np.ascontiguousarray(two.T))
        # Too small a window to decide by.
        if len(a) < 12 or a.shape[1] < 4:
            continue
        size, overlaps = before.shape[axis], _Overlaps(a, b) if axis else upright
        for shift in _candidates(a, b):
            correlation = overlaps.correlation(shift)
            found.append(Shift(words[0] if shift > 0 else words[1], abs(shift) * 1000 / size, correlation))
    found.sort(key=lambda shift: -shift.correlation)
    if not found or found[0].correlation < max(MIN_CORRELATION, still + 0.1):
        return None
    # Rows that repeat fit in either direction about as well.
    rival = next((shift for shift in found if shift.direction != found[0].direction), None)
    if rival is not None and rival.correlation > found[0].correlation - 0.05:
        return None
    return found[0]


def _candidates(a: np.ndarray, b: np.ndarray, count: int = 4) -> list[int]:
    """Shifts d with b[y] ≈ a[y + d]: the strongest peaks on either side of 0, overlap at least `MIN_OVERLAP`.

    The transforms are in float32, which holds the sums well enough to rank the peaks, and as long as the largest shift
    needs, so that nothing wraps around into it.
    """
    size = len(a)
    # At least a quarter of the view has to remain for a comparison.
    limit = int(size * (1 - MIN_OVERLAP))
    width = scipy.fft.next_fast_len(size + limit, real=True)
    # Correlation as a product of spectra, added over the columns.
    of_a, of_b = (scipy.fft.rfft(_edges(x, width), axis=0) for x in (a, b))
    spectrum = np.vecdot(of_b, of_a)
    scores = scipy.fft.irfft(spectrum, width)
    picked: list[int] = []
    for shifts in (np.arange(2, limit + 1), -np.arange(2, limit + 1)):
        values = scores[shifts]
        for _ in range(count):
            if not len(values) or values.max() <= 0:
                break
            best = int(values.argmax())
            picked.append(int(shifts[best]))
            # The same peak isn't picked twice.
            values[max(best - 2, 0) : best + 3] = -np.inf
    return picked


def _edges(x: np.ndarray, height: int) -> np.ndarray:
    """What changes from row to row, which decides, not the levels; zeros below, up to a height."""
    edges = np.zeros((height, x.shape[1]), np.float32)
    np.subtract(x[1:], x[:-1], out=edges[1 : len(x)])
    return edges


class _Overlaps:
    """Normalised cross-correlation of the overlaps of two pictures [h, w] of one shape, at any vertical shift.

    Levels are taken from a common mean, so that the sums that are subtracted from each other stay small; the sums over
    any run of rows come from running sums over all.
    """

    def __init__(self, a: np.ndarray, b: np.ndarray) -> None:
        mean = a.mean()
        self._a, self._b = a - mean, b - mean
        self._sums = [_running(x) for x in (self._a, self._b)]

    def correlation(self, shift: int) -> float:
        """Of a[y + shift] with b[y], -1..1; 0 for a flat overlap: that agrees with everything, proves nothing."""
        height, width = self._a.shape
        rows = height - abs(shift)
        # Of a[y + shift] and b[y], the rows that both have.
        starts = (max(shift, 0), max(-shift, 0))
        one, two = (x[start : start + rows].ravel() for x, start in zip((self._a, self._b), starts, strict=True))
        size = rows * width
        (sum_a, square_a), (sum_b, square_b) = (
            sums[:, start + rows] - sums[:, start] for sums, start in zip(self._sums, starts, strict=True)
        )
        spread = max(square_a - sum_a * sum_a / size, 0.0) * max(square_b - sum_b * sum_b / size, 0.0)
        scale = float(np.sqrt(spread))
        # Below 4 levels of spread an overlap is flat, and agrees with anything.
        return (float(np.dot(one, two)) - float(sum_a * sum_b) / size) / scale if scale > 4.0 * size else 0.0


def _running(x: np.ndarray) -> np.ndarray:
    """[2, h + 1]: sums of the levels, and of their squares, over the rows before each."""
    sums = np.zeros((2, len(x) + 1))
    np.cumsum(x.sum(axis=1), dtype=np.float64, out=sums[0, 1:])
    np.cumsum(np.vecdot(x, x), dtype=np.float64, out=sums[1, 1:])
    return sums


MOVE_STEP = 4
MOVE_LIMIT = 80
MIN_MOVE = 8
MIN_BOXES = 5
MOVE_GAIN = 1.5
MOVE_AGREE = 0.8
MOVE_CUT, MOVE_BLANK, MOVE_MISPLACED = 0.05, 3.0, 0.3


def boxes_moved(
    load: Callable[[], Grey], boxes: Sequence[tuple[float, float, float, float]]
) -> tuple[float, float] | None:
    """By how much (x, y in 0..1000) all boxes of a picture lie beside what is drawn; None if they don't.

    A box fits where there are edges inside it and none around it: its fit at a shift is the mean edge strength within
    the moved box less that of a thin ring around it. The boxes are moved together over ±80 units; a shift of at least 8
    is believed if the fit there is half as large again as where the boxes are and four of five boxes agree each, and if
    at least three in ten of the boxes cut through something drawn or lie on blank ground where they are: rows much
    wider than what stands in them fit as well a little beside.
    `load` gives the grey picture and is called only if there are enough boxes to tell.
    """
    # Hairlines and whole panels have no place to fit.
    usable = [box for box in boxes if 6 <= box[2] - box[0] <= 500 and 6 <= box[3] - box[1] <= 300]
    if len(usable) < MIN_BOXES:
        return None
    grey = load()
    fits = _fits(_edge_sums(grey), np.asarray(usable, np.float64))
    together = fits.mean(axis=0)
    steps = np.arange(-MOVE_LIMIT, MOVE_LIMIT + 1, MOVE_STEP)
    # The middle of the grid of shifts is no shift.
    here = len(steps) // 2
    best = np.unravel_index(int(together.argmax()), together.shape)
    dy, dx = float(steps[best[0]]), float(steps[best[1]])
    if max(abs(dx), abs(dy)) < MIN_MOVE or together[best] < MOVE_GAIN * max(together[here, here], 0.0) + 1.0:
        return None
    misplaced = [cut_sides(grey, box, MOVE_CUT) > 0 or spread_in(grey, box) < MOVE_BLANK for box in usable]
    # Boxes that frame something where they are aren't moved, however well they would fit elsewhere.
    if sum(misplaced) < MOVE_MISPLACED * len(usable):
        return None
    # All boxes have to agree, not just a few strong ones.
    agree = float((fits[:, best[0], best[1]] > fits[:, here, here]).mean())
    # The boxes lie the other way from where they would fit.
    return (-dx, -dy) if agree >= MOVE_AGREE else None


def _edge_sums(grey: Grey) -> np.ndarray:
    """Integral image [501, 501] of edge strength on a grid of 2 units."""
    image = Image.fromarray(grey).resize((1000, 1000), Image.Resampling.BILINEAR)
    plane = np.asarray(image, np.int16)
    edges = np.zeros((1000, 1000), np.float32)
    edges[:, 1:] += np.abs(np.diff(plane, axis=1))
    edges[1:, :] += np.abs(np.diff(plane, axis=0))
    # Strong edges are capped, so that one border doesn't outweigh a word.
    sums = np.minimum(edges, 60).reshape(500, 2, 500, 2).mean(axis=(1, 3), dtype=np.float64)
    padded = np.zeros((501, 501))
    padded[1:, 1:] = sums.cumsum(0).cumsum(1)
    return padded


def _fits(sums: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """[boxes, dy, dx] fit of each box at each shift."""
    steps = np.arange(-MOVE_LIMIT, MOVE_LIMIT + 1, MOVE_STEP)
    dy, dx = (axis.ravel() for axis in np.meshgrid(steps, steps, indexing="ij"))
    ring = 6.0

    def mean(grow: float) -> tuple[np.ndarray, np.ndarray]:
        left, top, right, bottom = (
            np.clip(np.rint((boxes[:, [side]] + shift[None, :] + sign * grow) / 2), 0, 500).astype(np.int64)
            for side, shift, sign in ((0, dx, -1), (1, dy, -1), (2, dx, 1), (3, dy, 1))
        )
        # Four look-ups in the integral image are the sum over any box.
        total = sums[bottom, right] - sums[top, right] - sums[bottom, left] + sums[top, left]
        return total, (right - left) * (bottom - top)

    inner, inner_area = mean(1.0)
    outer, outer_area = mean(1.0 + ring)
    within = inner / np.maximum(inner_area, 1)
    # The ring around the box, without what lies in it.
    around = (outer - inner) / np.maximum(outer_area - inner_area, 1)
    return (within - around).reshape(len(boxes), len(steps), len(steps))
