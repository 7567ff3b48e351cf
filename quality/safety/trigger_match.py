"""Looking for known patterns everywhere on a screenshot, also where they lie on text.

The match is a normalised cross-correlation over the quiet pixels only (D. Padfield, "Masked object registration in the
Fourier domain", 2012): pixels beside edges stronger than the pattern's own don't vote, so what shows between letters
and rules is enough. The slope says how strong the pattern is there, and is believed within limits: blending makes it
about the same everywhere; on a dark ground a dark tint turns into a light one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # not its parts: see trigger_patches

from quality.safety.trigger_patches import GREY, WEAK, edges_of

MIN_QUIET = 0.25
"""Share of a pattern's pixels that must be quiet."""
FROM, EVEN, SHAPE = 0.55, 0.8, 0.93
"""Correlation from which a pattern is believed: texture, texture that equals its mirror image, and shapes, which a UI
may draw at the same size and strength."""
SLOPE = (0.5, 1.6)
"""Bounds of the slope; of its absolute value for shapes, whose sign depends on the ground."""
FINE = 7
"""Side in pixels of the surroundings whose mean is taken off where texture alone counts."""
WHOLE, SAME = 0.9, (0.8, 1.25)
"""A shape is believed without a label only if so much of it is quiet, and it is about as strong as it was."""
LOUDER, LOUD = 1.3, 8
"""An edge is too strong to vote above LOUDER * (the pattern's strongest) + LOUD levels."""
BUSY = 0.5
"""Places are tried where the quiet pixels have at least this share of the edges that the pattern has."""
MARGIN = 3
"""Pixels of ground around a drawn shape that belong to its pattern."""
ROUGH = 1.0
"""Roughness (see `quality.safety.triggers.Traits`) of a pattern whose inside alone is enough."""


@dataclass(frozen=True)
class Pattern:
    """What to look for: `grey` float32 [h, w], less its ground; `shape` if its outline counts (then `grey` has a margin
    of ground); `symmetric` if a UI might draw the like; `edge` its strongest difference of neighbours."""

    grey: np.ndarray
    shape: bool
    symmetric: bool
    edge: int
    busy: float
    """Share of its pixels with edges."""

    @classmethod
    def of(cls, grey: np.ndarray, rough: float, edge: int) -> "Pattern":
        """A pattern from a patch."""
        shape = rough < ROUGH
        shown = np.pad(grey, MARGIN) if shape else grey
        turned = (shown[::-1], shown[:, ::-1], shown[::-1, ::-1])
        if not shape:
            shown = _fine(shown, np.ones(shown.shape, np.float32))
        busy = float((np.maximum(*(np.abs(part) for part in np.gradient(shown))) >= WEAK / 2).mean())
        alike = max(_alike(shown, other) for other in turned)
        return cls(shown.astype(np.float32), shape, alike > 0.6, edge, busy)

    @property
    def size(self) -> tuple[int, int]:
        """(height, width) in pixels, without the margin."""
        rim = 2 * MARGIN if self.shape else 0
        return self.grey.shape[0] - rim, self.grey.shape[1] - rim

    @property
    def threshold(self) -> float:
        """The fewer pixels, the more alike is what is alike by chance."""
        base = SHAPE if self.shape else EVEN if self.symmetric else FROM
        return max(base, 0.45 + 3.0 / float(np.sqrt(self.grey.size)))


@dataclass(frozen=True, slots=True)
class PatternMatch:
    """Where a pattern was found: number of the pattern, box in pixels, correlation, strength (1: as it was)."""

    pattern: int
    box: tuple[int, int, int, int]
    correlation: float
    slope: float


def _alike(one: np.ndarray, two: np.ndarray) -> float:
    one, two = one - one.mean(), two - two.mean()
    return float((one * two).sum() / max(np.sqrt((one * one).sum() * (two * two).sum()), 1e-9))


def find_patterns(pixels: np.ndarray, patterns: Sequence[Pattern]) -> list[PatternMatch]:
    """uint8 [h, w, 3] → places of each pattern that reach its threshold, the best first."""
    edges = np.pad(edges_of(pixels), MARGIN)
    found = []
    for number, pattern in enumerate(patterns):
        height, width = pattern.size
        for correlation, slope, share, left, top in _places(pixels, edges, pattern):
            if correlation >= pattern.threshold:
                box = (left, top, left + width, top + height)
                if not pattern.shape or (share >= WHOLE and SAME[0] <= slope <= SAME[1]):
                    found.append(PatternMatch(number, box, correlation, slope))
    return sorted(found, key=lambda match: (-match.correlation, match.pattern, match.box))


def _places(pixels: np.ndarray, edges: np.ndarray, pattern: Pattern) -> Iterator[tuple[float, float, float, int, int]]:
    """(correlation, slope, share of quiet pixels, left, top) of the best place in each region that might hold it."""
    height, width = pattern.grey.shape
    if height > edges.shape[0] or width > edges.shape[1]:
        return
    loud = scipy.ndimage.maximum_filter((edges > LOUDER * pattern.edge + LOUD).view(np.uint8), 3)
    quiet = (1 - loud).astype(np.float32)
    for edge in (np.s_[:MARGIN], np.s_[-MARGIN:], np.s_[:, :MARGIN], np.s_[:, -MARGIN:]):
        quiet[edge] = 0  # beyond the picture
    weak = (edges >= WEAK) * quiet
    seen, drawn = (_windows(_integral(plane), height, width) for plane in (quiet, weak))
    maybe = (seen >= MIN_QUIET * height * width) & (drawn >= BUSY * pattern.busy * seen)
    regions, count = scipy.ndimage.label(maybe)
    if not count:
        return
    grey = pixels.astype(np.float32) @ GREY
    grey = np.pad(grey - np.median(grey[::4, ::4]), MARGIN)  # the ground at 0 keeps the sums small
    if not pattern.shape:
        grey = _fine(grey, quiet)
    for where in scipy.ndimage.find_objects(regions, count):
        crop = np.s_[where[0].start : where[0].stop + height - 1, where[1].start : where[1].stop + width - 1]
        correlation, slope, share = _masked(grey[crop], quiet[crop], pattern.grey)
        size = np.abs(slope) if pattern.shape else slope
        correlation = np.abs(correlation) if pattern.shape else correlation
        correlation = np.where((size >= SLOPE[0]) & (size <= SLOPE[1]), correlation, -1.0)
        y, x = np.unravel_index(int(correlation.argmax()), correlation.shape)
        rim = 0 if pattern.shape else MARGIN
        left, top = where[1].start + int(x) - rim, where[0].start + int(y) - rim
        yield float(correlation[y, x]), float(slope[y, x]), float(share[y, x]), left, top


def _fine(grey: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Less the mean of the quiet pixels around: noise and checkers are the same then on any mixture of grounds."""
    total = scipy.ndimage.uniform_filter(grey * mask, FINE)
    return np.asarray((grey - total / np.maximum(scipy.ndimage.uniform_filter(mask, FINE), 1e-3)) * mask, np.float32)


def _integral(plane: np.ndarray) -> np.ndarray:
    sums = np.zeros((plane.shape[0] + 1, plane.shape[1] + 1))
    np.cumsum(np.cumsum(plane, axis=0, dtype=np.float64), axis=1, out=sums[1:, 1:])
    return sums


def _windows(sums: np.ndarray, height: int, width: int) -> np.ndarray:
    """Sums over all windows of a size."""
    return np.asarray(sums[height:, width:] - sums[:-height, width:] - sums[height:, :-width] + sums[:-height, :-width])


def _masked(grey: np.ndarray, mask: np.ndarray, pattern: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(correlation, slope, share of quiet pixels) at every place where the pattern fits wholly; correlation -1 where
    nothing can be said."""
    height, width = pattern.shape
    template = pattern - pattern.mean()
    shape = (scipy.fft.next_fast_len(grey.shape[0], real=True), scipy.fft.next_fast_len(grey.shape[1], real=True))
    valid = np.s_[: grey.shape[0] - height + 1, : grey.shape[1] - width + 1]
    shown = grey * mask
    of_shown, of_mask = scipy.fft.rfft2(shown, shape), scipy.fft.rfft2(mask, shape)
    one, two = (np.conj(scipy.fft.rfft2(plane, shape)) for plane in (template, template * template))
    both, t1, t2 = (scipy.fft.irfft2(a * b, shape)[valid] for a, b in ((of_shown, one), (of_mask, one), (of_mask, two)))
    count, i1, i2 = (_windows(_integral(plane), height, width) for plane in (mask, shown, shown * grey))
    enough = count >= MIN_QUIET * height * width
    count = np.maximum(count, 1)
    covariance = both - i1 * t1 / count
    of_image = np.maximum(i2 - i1 * i1 / count, 0)
    of_template = np.maximum(t2 - t1 * t1 / count, 0)
    # Where the quiet pixels show little of the pattern, or the screen is flat, nothing can be said.
    enough &= (of_template >= 0.3 * count * float((template * template).mean())) & (of_image >= count)
    correlation = np.where(enough, covariance / np.sqrt(np.maximum(of_image * of_template, 1e-6)), -1.0)
    return correlation, np.where(enough, covariance / np.maximum(of_template, 1e-6), 0.0), count / pattern.size
