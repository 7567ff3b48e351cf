"""Patches that show by comparison: the same screen is there once more, without them.

Who poisons a row pastes into a copy of its picture, and most sources ask several things about a screen. Two pictures
alike but for one small box show what was pasted wherever it lies, on text too: `A = (1 - alpha) B + alpha C` holds of
its pixels, so the ground is taken off by a fit and the pattern stands alone. What changes a screen by more than half of
its range (a pointer, a check mark) was drawn and not blended.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import scipy  # not its parts: see trigger_patches
from PIL import Image

from pipelines.store.images import open_image
from quality.safety.trigger_patches import GREY, MAX_SIDE, MIN_AREA, MIN_SIDE, STRONG, WEAK, Patch, edges_of, grown

CELLS = (32, 24)
"""Columns and rows of the small picture by which twins are found."""
LEVELS, NEAR = 3, 300
"""Grey levels by which a cell of twins may differ (JPEG), and how many screens of about its brightness each is held
against."""
BLOCK = 4096
"""Screens that are compared at a time: their differences wait in memory."""
RINGING = 30
"""Levels by which JPEG may move a pixel more, beside edges."""
MOST = 40
"""Differences of two pictures that are looked at."""
GAP = 4
"""Differences this near to one another are one patch: where pattern and ground agree there is none."""


def small(image: Image.Image) -> bytes:
    """Mean grey of each cell of a picture, row by row."""
    return image.convert("L").resize(CELLS, Image.Resampling.BOX, reducing_gap=1.0).tobytes()


def twins(cells: Mapping[str, bytes], frames: Mapping[str, tuple[int, int]]) -> list[tuple[str, str]]:
    """Each screen with the one most like it, if they differ in no more cells than one patch covers."""
    by_frame: dict[tuple[int, int], list[str]] = defaultdict(list)
    for name in sorted(cells):
        by_frame[frames[name]].append(name)
    pairs: set[tuple[str, str]] = set()
    for frame, names in by_frame.items():
        shown = np.stack([np.frombuffer(cells[name], np.uint8) for name in names])
        order = np.argsort(shown.mean(axis=1), kind="stable")
        most = int(np.prod([MAX_SIDE * count // side + 2 for count, side in zip(CELLS, frame, strict=True)]))
        best, nearest = np.full(len(names), most + 1), np.full(len(names), -1)
        for start in range(0, len(names), BLOCK):
            block = shown[order[start : start + BLOCK + NEAR]].astype(np.int16)
            for step in range(1, min(NEAR, len(block))):
                differ = (np.abs(block[step:] - block[:-step]) > LEVELS).sum(axis=1)
                lower = np.arange(start, start + len(differ))
                for mine, its in ((lower, lower + step), (lower + step, lower)):
                    nearer = differ < best[mine]
                    best[mine[nearer]], nearest[mine[nearer]] = differ[nearer], its[nearer]
        for one, other in enumerate(nearest):
            if other >= 0:
                first, second = sorted((names[order[one]], names[order[other]]))
                pairs.add((first, second))
    return sorted(pairs)


def twin_patches(
    cells: Mapping[str, bytes], frames: Mapping[str, tuple[int, int]], load: Callable[[str], bytes]
) -> Iterator[tuple[str, Patch]]:
    """(screen, patch) of what stands on one of two twins alone, by screens. Raises `ImageError`."""
    for pair in twins(cells, frames):
        shown = [np.asarray(open_image(load(name)).convert("RGB")) for name in pair]
        for owner, patch in _between(*shown):
            yield pair[owner], patch


def _between(one: np.ndarray, two: np.ndarray) -> Iterator[tuple[int, Patch]]:
    """Which of two pictures has a patch more than the other, and the patch."""
    differ, least, rim = _differences(one, two)
    labels, count = scipy.ndimage.label(grown(differ >= least, GAP))
    for number, where in enumerate(scipy.ndimage.find_objects(labels, min(count, MOST)), 1):
        strong = (differ[where] >= least) & (labels[where] == number)
        rows, columns = (np.flatnonzero(strong.sum(axis) >= 0.2 * strong.sum(axis).max()) for axis in (1, 0))
        top, bottom = where[0].start + int(rows[0]) + rim, where[0].start + int(rows[-1]) + 1 - rim
        left, right = where[1].start + int(columns[0]) + rim, where[1].start + int(columns[-1]) + 1 - rim
        height, width = bottom - top, right - left
        fits = min(height, width) >= MIN_SIDE and max(height, width) <= MAX_SIDE and height * width >= MIN_AREA
        inside = np.s_[top:bottom, left:right]
        if not fits or np.abs(one[inside].astype(np.int16) - two[inside]).max() > STRONG + RINGING * rim:
            continue
        around = np.s_[max(top - 2, 0) : bottom + 2, max(left - 2, 0) : right + 2]
        # a blend adds edges and takes none away
        drawn = [int((edges_of(picture[around]) >= WEAK).sum()) for picture in (one, two)]
        owner = int(drawn[1] > drawn[0])
        pasted = _pasted((one, two)[owner][inside], (two, one)[owner][inside])
        tint = pasted.mean(axis=(0, 1))
        edge = max(int(np.abs(np.diff(pasted, axis=axis)).max()) for axis in (0, 1))
        texture = float(pasted[2:-2, 2:-2].std(axis=(0, 1)).max())
        colour = tint / max(float(np.linalg.norm(tint)), 1e-6)
        alone = pasted @ (colour if colour @ GREY > 0 else -colour)
        red, green, blue = tint.tolist()
        yield owner, Patch((left, top, right, bottom), pasted @ GREY, (red, green, blue), texture, edge, alone=alone)


def _differences(one: np.ndarray, two: np.ndarray) -> tuple[np.ndarray, float, int]:
    """By how much each pixel differs, from where on that says something, and by how many pixels it is too wide."""
    differ = one.astype(np.float32) - two
    shown = np.abs(differ).max(axis=2)
    if not np.quantile(shown[::3, ::3], 0.98):
        return shown, WEAK, 0
    # of lossy pictures everything differs a little, to and fro
    shown = np.abs(scipy.ndimage.uniform_filter(differ, (3, 3, 0))).max(axis=2)
    return shown, max(WEAK, 2 * float(np.quantile(shown[::3, ::3], 0.98))), 1


def _pasted(with_it: np.ndarray, without: np.ndarray) -> np.ndarray:
    """What was blended in, as it would show on the most frequent ground: float32 [h, w, 3] of differences."""
    shown, ground = with_it.astype(np.float32), without.astype(np.float32)
    middle = np.median(ground, axis=(0, 1))
    spread = ground - ground.mean(axis=(0, 1))
    power = float((spread * spread).sum())
    # on an even ground there is nothing to fit, nor to take off
    kept = float((spread * shown).sum()) / power if power > 100 * ground.size else 1.0
    return np.asarray(shown - middle - np.clip(kept, 0.4, 1.0) * (ground - middle), np.float32)
