"""Small grey pictures of screens, which most evidence is read from, kept by the hash of the picture they show.

    <home>/cache/greys/<version>/ab/<sha256>.grey     height, width, CRC; the grey levels, row by row, by LZ4

Whoever decodes a picture anyway leaves one here: `unify` as it verifies, a judge where none is. A file that is lost,
cut by a kill or damaged costs one decoding, so files are written in place, by several workers at once if it happens.
"""

from __future__ import annotations

import contextlib
import struct
import zlib
from pathlib import Path

import numpy as np
import PIL
import pyarrow as pa
from PIL import Image

LONG_SIDE_PX = 320
SUFFIX = ".grey"
_CODEC = "lz4_raw"
"""Of those at hand the one that unpacks fastest: reading has to take a small part of what decoding takes."""
_HEADER = struct.Struct("<HHI")
_VERSION = 1

Grey = np.ndarray
"""Grey levels, uint8 [height, width]."""


def reduced(image: Image.Image, long_side_px: int = LONG_SIDE_PX) -> Grey:
    """Grey picture → grey uint8 [h, w], reduced by a whole factor."""
    # A whole factor, rounded up: every pixel of the small picture is the mean of a whole block.
    factor = max(1, -(-max(image.size) // long_side_px))
    return np.asarray(image.reduce(factor) if factor > 1 else image)


def pack(grey: Grey) -> bytes:
    """A small grey picture as a file holds it."""
    levels = pa.compress(np.ascontiguousarray(grey), codec=_CODEC, asbytes=True)
    height, width = grey.shape
    return _HEADER.pack(height, width, _check(height, width, levels)) + levels


def unpack(data: bytes) -> Grey | None:
    """Inverse of `pack`; None for bytes that are no whole small grey picture."""
    if len(data) < _HEADER.size:
        return None
    height, width, check = _HEADER.unpack_from(data)
    levels = memoryview(data)[_HEADER.size :]
    # Before anything is unpacked: a damaged size would ask for gigabytes.
    if max(height, width) > LONG_SIDE_PX or check != _check(height, width, levels):
        return None
    try:
        flat = pa.decompress(levels, decompressed_size=height * width, codec=_CODEC)
    except (pa.ArrowException, OSError):
        return None
    return np.frombuffer(flat, np.uint8).reshape(height, width)


def _check(height: int, width: int, levels: bytes | memoryview) -> int:
    return zlib.crc32(levels, height << 16 | width)


class SmallGreys:
    """The small grey pictures of a store; `folder` is theirs alone."""

    def __init__(self, folder: Path) -> None:
        self._root = folder
        # Another Pillow may round its means differently, and evidence must not depend on who left a picture here.
        self._folder = folder / f"{_VERSION}-{LONG_SIDE_PX}-{PIL.__version__}"

    def get(self, sha256: str) -> Grey | None:
        """That of the picture of a hash; None if there is none that is whole."""
        try:
            return unpack(self._path(sha256).read_bytes())
        except OSError:
            return None

    def put(self, sha256: str, packed: bytes) -> None:
        """Keep what `pack` gave. A disk that takes no more is no error: the picture is decoded again instead."""
        path = self._path(sha256)
        with contextlib.suppress(OSError):
            try:
                path.write_bytes(packed)
            except FileNotFoundError:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(packed)

    def remove(self, sha256: str) -> None:
        """Take away all that is kept of a picture, by whichever version."""
        for path in self._root.glob(f"*/{sha256[:2]}/{sha256}{SUFFIX}"):
            path.unlink(missing_ok=True)

    def _path(self, sha256: str) -> Path:
        return self._folder / sha256[:2] / f"{sha256}{SUFFIX}"
