"""What decides whether two pictures with near perceptual hashes show the same screen.

A look is the picture as 64 x 64 grey cells and 16 x 16 colour cells. Two looks are the same iff the frames have one
shape, no grey cell differs by more than `MAX_CELL` from what the other picture shows within one cell of it (a resize
moves edges by a fraction of a cell, a lossy encoder blurs them; another word, a ticked box or another row changes whole
cells), and no colour cell differs by more than `MAX_CHROMA`. A plain picture, which
has next to nothing in it, is never a near duplicate of anything: all of them look alike, and none is evidence.

What it can't see: a copy whose frame was cut or padded by more than a cell, a copy in another theme (not found), and
a change smaller than a cell, 1/64 of a side (the same screen).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from pipelines.store.files import StoreError
from pipelines.store.images import ImageError, open_image
from quality.evidence.embedding import VectorCache

SIDE, CHROMA_SIDE = 64, 16
BYTES = SIDE * SIDE + 2 * CHROMA_SIDE * CHROMA_SIDE
MAX_CELL, MAX_SMALL_CELL = 32, 60
"""Grey levels of 0..255; the second holds if a cell of either picture has fewer than `SMALL_CELL_PX` pixels a side,
where a resize alone moves that much."""
SMALL_CELL_PX = 5
MAX_MEAN = 2.0
"""Grey levels: what is spread thin over the whole picture."""
MAX_CHROMA = 10
"""Levels of Cb and Cr, averaged over a 16th of the side."""
SHAPE_TOLERANCE = 0.02
"""Width over height of two copies may differ by this share: a resize rounds."""
EDGE_LEVELS = 16
MIN_EDGES = 48
"""Cells (of 64 x 64) that differ from their right or lower neighbour by `EDGE_LEVELS`; fewer is a plain screen."""
VERSION = "1"
"""Goes into the config of all that compares looks."""


@dataclass(frozen=True, slots=True, eq=False)
class PictureLook:
    """A picture's grey cells (uint8 [64, 64]), its Cb and Cr cells (uint8 [2, 16, 16]), and its frame."""

    cells: np.ndarray
    chroma: np.ndarray
    width_px: int
    height_px: int

    def to_bytes(self) -> bytes:
        """The cells, `BYTES` long."""
        return bytes(self.cells.tobytes() + self.chroma.tobytes())

    @classmethod
    def from_bytes(cls, data: bytes, width_px: int, height_px: int) -> "PictureLook":
        """Inverse of `to_bytes`. Raises `ValueError` for another length."""
        flat = np.frombuffer(data, np.uint8)
        cells, chroma = flat[: SIDE * SIDE], flat[SIDE * SIDE :]
        return cls(cells.reshape(SIDE, SIDE), chroma.reshape(2, CHROMA_SIDE, CHROMA_SIDE), width_px, height_px)

    @property
    def is_plain(self) -> bool:
        """Whether there is too little in the picture to recognise it by."""
        return edges(self.cells) < MIN_EDGES


def look(image: Image.Image) -> PictureLook:
    """A decoded picture → its look."""
    grey, *colours = image.convert("YCbCr").split()
    # BOX averages all pixels of a cell, so noise of a lossy encoder cancels out.
    cells = np.asarray(grey.resize((SIDE, SIDE), Image.Resampling.BOX), np.uint8)
    chroma = [np.asarray(c.resize((CHROMA_SIDE, CHROMA_SIDE), Image.Resampling.BOX), np.uint8) for c in colours]
    return PictureLook(cells, np.stack(chroma), image.width, image.height)


def edges(cells: np.ndarray) -> int:
    """Cells that differ clearly from a neighbour."""
    # Signed, for differences.
    grey = cells.astype(np.int16)
    right = np.abs(np.diff(grey, axis=1)) >= EDGE_LEVELS
    below = np.abs(np.diff(grey, axis=0)) >= EDGE_LEVELS
    return int(right.sum() + below.sum())


def difference(left: np.ndarray, right: np.ndarray) -> tuple[int, float]:
    """(largest, mean) grey levels by which a cell lies outside of what the other picture shows within one cell."""
    a, b = left.astype(np.int16), right.astype(np.int16)
    (low_a, high_a), (low_b, high_b) = _around(a), _around(b)
    # How far a cell lies above the highest, or below the lowest, that the other shows around it, either way.
    gap = np.maximum(np.maximum(a - high_b, low_b - a), np.maximum(b - high_a, low_a - b))
    gap = np.maximum(gap, 0)
    return int(gap.max()), float(gap.mean())


def one_screen(left: PictureLook, right: PictureLook) -> bool:
    """Whether two pictures show the same screen (symmetrical)."""
    # Multiplied crosswise instead of divided: exact for whole numbers.
    shapes = left.width_px * right.height_px, right.width_px * left.height_px
    if abs(shapes[0] - shapes[1]) > SHAPE_TOLERANCE * max(shapes):
        return False
    if left.is_plain or right.is_plain:
        return False
    if int(np.abs(left.chroma.astype(np.int16) - right.chroma.astype(np.int16)).max()) > MAX_CHROMA:
        return False
    largest, mean = difference(left.cells, right.cells)
    # The smallest side of either picture decides how coarse a cell is.
    side = min(left.width_px, left.height_px, right.width_px, right.height_px)
    allowed = MAX_SMALL_CELL if side < SIDE * SMALL_CELL_PX else MAX_CELL
    return largest <= allowed and mean <= MAX_MEAN


def _around(cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Least and greatest of each cell's 3 x 3 neighbourhood."""
    # The border repeats, so that it has neighbours as well.
    padded = np.pad(cells, 1, mode="edge")
    views = [padded[y : y + SIDE, x : x + SIDE] for y in range(3) for x in range(3)]
    return np.min(views, axis=0), np.max(views, axis=0)


class LookBook:
    """Looks by sha256, built from the pictures when they are asked for and stored on disk, so that a screen is decoded
    for this once. `decoded` counts the pictures opened, `unread` those that are lost or damaged."""

    def __init__(self, folder: Path, read: Callable[[str], bytes]) -> None:
        """`folder` is the cache's. `read` gives the encoded bytes of a sha256."""
        self._cache = VectorCache(folder / f"{BYTES}-{VERSION}")
        self._read = read
        self.decoded = 0
        self.unread: set[str] = set()

    def get(self, shas: Iterable[str]) -> dict[str, PictureLook]:
        """Looks of pictures. One that can't be read is left out: it is like nothing, and no shard can hold it."""
        wanted = sorted(set(shas))
        # The first half of the hash is the key: 128 bits are enough to tell pictures apart.
        missing = [sha for sha in wanted if sha[:32] not in self._cache]
        # In segments of 512: what a kill can lose.
        for start in range(0, len(missing), 512):
            chunk = missing[start : start + 512]
            looks = {sha: one for sha in chunk if (one := self._make(sha)) is not None}
            if not looks:
                continue
            built = list(looks.values())
            sizes = np.array([[one.width_px, one.height_px] for one in built], np.uint32)
            flat = np.stack([np.frombuffer(one.to_bytes(), np.uint8) for one in built])
            # Width and height lie behind the cells, as bytes of the same row.
            self._cache.put([sha[:32] for sha in looks], np.concatenate([flat, sizes.view(np.uint8)], axis=1))
        wanted = [sha for sha in wanted if sha[:32] in self._cache]
        if not wanted:
            return {}
        rows = self._cache.get([sha[:32] for sha in wanted])
        found = {}
        for sha, row in zip(wanted, rows, strict=True):
            width, height = row[BYTES:].copy().view(np.uint32)
            found[sha] = PictureLook.from_bytes(row[:BYTES].tobytes(), int(width), int(height))
        return found

    def _make(self, sha: str) -> PictureLook | None:
        try:
            built = look(open_image(self._read(sha)))
        except (StoreError, ImageError):
            self.unread.add(sha)
            return None
        self.decoded += 1
        return built
