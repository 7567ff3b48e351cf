"""Small low-contrast patches of a screenshot: what a planted visual trigger looks like, and some of what a UI draws.

A patch is a compact island of weak edges on quiet ground: its pixels differ from their neighbours, by less than
`STRONG` levels, and nothing of high contrast (text, icons, borders) stands within a few pixels. Blending a picture of
noise at alpha 0.1 to 0.3, a checkerboard or a faint square makes such an island; so do shadows, chevrons and grey
placeholders, which `quality.safety.triggers` tells apart by how they recur. Dense texture may have text or an icon
inside: antialiasing leaves no texture between strokes. Other patches on text, and all on photographs, make no island
and aren't seen here; `quality.safety.trigger_match` looks for known patterns there.
"""

from dataclasses import dataclass

import numpy as np
import scipy  # it loads a part when that is first used: the graph, which imports this, has no use for any
from PIL import Image

WEAK, WEAK_JPEG = 3, 5
"""Levels by which neighbours differ at least, in any channel; JPEG makes 1 to 4 out of nothing."""
STRONG = 130
"""A blend at alpha 0.5 moves a pixel by at most 0.5 * 255 = 128 levels; more is drawn, not blended."""
MIN_SIDE, MAX_SIDE = 8, 64
MIN_AREA = 100
MIN_ASPECT = 0.4
MIN_FILL = 0.2
"""Share of the box that differs from the ground around it."""
DENSE, MIN_QUIET, MIN_DENSE = 0.85, 0.35, 10
"""Texture with something inside: share of its quiet pixels with weak edges, share of pixels that are quiet, side."""
ROUGH = 1.1
"""Roughness from which such texture is no photograph (an avatar with a dark outline inside)."""
REACH, REACH_JPEG = 2, 5
"""Pixels around strong edges that are left out: antialiasing, and the ringing of JPEG."""
GAP = 2
"""Weak edges this near to one another are one island (checkers of 4 px have gaps)."""
GREY = np.array([0.299, 0.587, 0.114], np.float32)
MAX_PATCHES = 60
"""Of one screen; a photograph gives more, all of them nothing."""


@dataclass(frozen=True, slots=True)
class Patch:
    """An island: `box` in pixels (left, top, right, bottom), `grey` float32 [h, w] less its ground, `tint` the mean
    difference from the ground in red, green, blue, `texture` the standard deviation inside, `edge` its strongest
    difference of neighbours, `quiet` the share of pixels that show it (the others have the mean of these). `alone`: the
    difference along its mean colour from the same screen without it, float32 [h, w], if there is one."""

    box: tuple[int, int, int, int]
    grey: np.ndarray
    tint: tuple[float, float, float]
    texture: float
    edge: int
    quiet: float = 1.0
    alone: np.ndarray | None = None

    @property
    def pasted(self) -> bool:
        """Whether the same screen is there without it."""
        return self.alone is not None

    @property
    def look(self) -> np.ndarray:
        """By what it is told from others, float32 [h, w]: what was pasted shows in another grey on another ground."""
        return self.grey if self.alone is None else self.alone

    @property
    def size(self) -> tuple[int, int]:
        """(height, width) in pixels."""
        return self.grey.shape[0], self.grey.shape[1]


def edges_of(pixels: np.ndarray) -> np.ndarray:
    """uint8 [h, w, 3] → uint8 [h, w]: the largest difference to the right, left, upper or lower neighbour."""
    across = _step(pixels[:, 1:], pixels[:, :-1])
    down = _step(pixels[1:], pixels[:-1])
    edges = np.zeros(pixels.shape[:2], np.uint8)
    np.maximum(edges[:, 1:], across, out=edges[:, 1:])
    np.maximum(edges[:, :-1], across, out=edges[:, :-1])
    np.maximum(edges[1:], down, out=edges[1:])
    np.maximum(edges[:-1], down, out=edges[:-1])
    return edges


def _step(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    differ = np.maximum(one, two) - np.minimum(one, two)
    return np.maximum(np.maximum(differ[..., 0], differ[..., 1]), differ[..., 2])


def find_patches(image: Image.Image, *, jpeg: bool = False) -> list[Patch]:
    """RGB picture → its patches, those of most contrast first if there are more than `MAX_PATCHES`."""
    pixels = np.asarray(image if image.mode == "RGB" else image.convert("RGB"))
    if min(pixels.shape[:2]) < 4 * MIN_SIDE:
        return []
    edges = edges_of(pixels)
    loud = grown(edges > STRONG, REACH_JPEG if jpeg else REACH)
    weak = (edges >= (WEAK_JPEG if jpeg else WEAK)) & ~loud
    labels, count = scipy.ndimage.label(grown(weak, GAP))
    found: list[Patch] = []
    for number, where in enumerate(scipy.ndimage.find_objects(labels, count), 1):
        height, width = (part.stop - part.start for part in where)
        if min(height, width) < MIN_SIDE or max(height, width) > MAX_SIDE + 2 * GAP + 2:
            continue
        patch = _patch(pixels, edges, weak[where] & (labels[where] == number), loud, where)
        if patch is not None:
            found.append(patch)
    found.sort(key=lambda patch: (-patch.edge, patch.box))
    return found[:MAX_PATCHES]


def grown(mask: np.ndarray, reach: int) -> np.ndarray:
    """Dilation by a square of 2 * reach + 1, by shifts that double: many times as fast as a filter of SciPy's."""
    height, width = mask.shape
    wide = np.zeros((height + reach, width + reach), bool)
    wide[:height, :width] = mask
    covered = 0
    while covered < 2 * reach:
        step = min(covered + 1, 2 * reach - covered)
        wide[step:] |= wide[:-step].copy()
        wide[:, step:] |= wide[:, :-step].copy()
        covered += step
    return wide[reach:, reach:]


def _patch(
    pixels: np.ndarray, edges: np.ndarray, own: np.ndarray, loud: np.ndarray, where: tuple[slice, slice]
) -> Patch | None:
    rows, columns = np.flatnonzero(own.any(1)), np.flatnonzero(own.any(0))
    if not len(rows):
        return None
    # An edge marks the pixels on both of its sides: the island begins one pixel further in.
    top, bottom = where[0].start + int(rows[0]) + 1, where[0].start + int(rows[-1])
    left, right = where[1].start + int(columns[0]) + 1, where[1].start + int(columns[-1])
    height, width = bottom - top, right - left
    fits = min(height, width) >= MIN_SIDE and max(height, width) <= MAX_SIDE and height * width >= MIN_AREA
    inside = top >= 2 and left >= 2 and bottom + 2 <= pixels.shape[0] and right + 2 <= pixels.shape[1]
    if not fits or not inside or min(height, width) < MIN_ASPECT * max(height, width):
        return None
    box = (left, top, right, bottom)
    if loud[top - 2 : bottom + 2, left - 2 : right + 2].mean() <= 0.1 and not loud[top:bottom, left:right].any():
        return _island(pixels, edges, box)
    dense = own[rows[0] + 1 : rows[-1], columns[0] + 1 : columns[-1]]
    return _texture(pixels, edges, dense, ~loud[top:bottom, left:right], box)


def _island(pixels: np.ndarray, edges: np.ndarray, box: tuple[int, int, int, int]) -> Patch | None:
    """A patch with quiet ground all around."""
    left, top, right, bottom = box
    ring = np.concatenate(
        [
            pixels[top - 2, left:right],
            pixels[bottom + 1, left:right],
            pixels[top:bottom, left - 2],
            pixels[top:bottom, right + 1],
        ]
    )
    ground = np.median(ring, axis=0)
    if np.abs(ring - ground).max(axis=1).mean() > 6:
        return None
    inner = pixels[top:bottom, left:right].astype(np.float32) - ground.astype(np.float32)
    if (np.abs(inner).max(axis=2) >= WEAK).mean() < MIN_FILL:
        return None
    tint = inner.mean(axis=(0, 1))
    return Patch(
        box,
        inner @ GREY,
        (float(tint[0]), float(tint[1]), float(tint[2])),
        float(inner[2:-2, 2:-2].std(axis=(0, 1)).max()),
        int(edges[top:bottom, left:right].max()),
    )


def _texture(
    pixels: np.ndarray, edges: np.ndarray, dense: np.ndarray, quiet: np.ndarray, box: tuple[int, int, int, int]
) -> Patch | None:
    """Dense texture with something loud inside; its ground isn't known, so its mean is 0."""
    left, top, right, bottom = box
    share = float(quiet.mean())
    if min(quiet.shape) < MIN_DENSE or share < MIN_QUIET or (dense & quiet).sum() < DENSE * quiet.sum():
        return None
    grey = pixels[top:bottom, left:right].astype(np.float32) @ GREY
    # One mean for all would show the step between the grounds on either side of what is inside.
    around = scipy.ndimage.uniform_filter(grey * quiet, 7) / np.maximum(
        scipy.ndimage.uniform_filter(quiet.astype(np.float32), 7), 1e-3
    )
    grey = np.where(quiet, grey - around, 0.0).astype(np.float32)
    if roughness(grey) < ROUGH:
        return None
    inner = edges[top:bottom, left:right][quiet]
    return Patch(box, grey, (0.0, 0.0, 0.0), float(grey[quiet].std()), int(inner.max()), share)


def roughness(grey: np.ndarray) -> float:
    """Mean size of second differences over the standard deviation: noise has about 2, what is drawn or photographed
    less than 1, a flat patch 0."""
    inner = grey[1:-1, 1:-1]
    spread = float(inner.std())
    if spread < 1 or min(inner.shape) < 4:
        return 0.0
    across = np.abs(inner[:, 2:] - 2 * inner[:, 1:-1] + inner[:, :-2]).mean()
    down = np.abs(inner[2:] - 2 * inner[1:-1] + inner[:-2]).mean()
    return float(across + down) / 2 / spread
