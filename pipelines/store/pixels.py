"""Pixels of pictures that lie in a store, several times as fast as Pillow gives them.

Nearly all screenshots are plain PNG files: 8 bits a channel, RGB, not interlaced, nothing that turns or blends them.
Those are decoded by the PNG reader of kornia-rs, which gives the same pixels, since the format leaves no choice (a
test compares them). All others, and what that reader refuses, go through `open_image`, which has the last word. It also
stays the one that verifies pictures when they are put into a store.
"""

import struct
from functools import cache
from types import ModuleType

import numpy as np

from pipelines.store.images import MAX_PIXELS, MAX_SIDE_PX, open_image

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_PLAIN_HEADER = bytes((8, 2, 0, 0, 0))
"""Of IHDR behind the size: bits a channel, RGB, and of compression, filters and interlacing the usual."""
_HARMLESS = frozenset((b"IHDR", b"IDAT", b"IEND", b"pHYs", b"sRGB", b"gAMA", b"cHRM", b"sBIT", b"tIME", b"iCCP"))
"""Chunks of a PNG that change no pixel here: `open_image` heeds neither gamma nor colour profiles."""


def rgb_pixels(data: bytes) -> np.ndarray:
    """Encoded picture → uint8 [height, width, 3], the pixels of `open_image`. Raises `ImageError` as that does."""
    size = _plain_png_size(data)
    reader = _png_reader() if size is not None else None
    if size is not None and reader is not None:
        try:
            pixels: np.ndarray = reader.decode_image_png_u8(data, (size[1], size[0]), "rgb")
            return pixels
        except Exception:  # whatever it stumbles over, Pillow says what it is
            pass
    return np.asarray(open_image(data))


def _plain_png_size(data: bytes) -> tuple[int, int] | None:
    """(width, height) of a PNG that every decoder shows alike; None for any other picture, whole or damaged."""
    if data[:8] != _SIGNATURE or data[12:16] != b"IHDR" or data[24:29] != _PLAIN_HEADER:
        return None
    place, end = 8, len(data)
    while place + 8 <= end:
        # Length, kind, data and CRC: each chunk takes 12 bytes more than its length says.
        (length,) = struct.unpack_from(">I", data, place)
        if data[place + 4 : place + 8] not in _HARMLESS:
            return None
        place += length + 12
    # Something behind the end, or a last chunk that is cut: Pillow decides what that is.
    if place != end:
        return None
    width, height = struct.unpack_from(">II", data, 16)
    # The limits of `open_image`, before a byte is unpacked.
    fits = 0 < width * height <= MAX_PIXELS and max(width, height) <= MAX_SIDE_PX
    return (width, height) if fits else None


@cache
def _png_reader() -> ModuleType | None:
    """The reader; None on a machine that has none."""
    try:
        import kornia_rs.io
    except ImportError:
        return None
    return kornia_rs.io  # type: ignore[no-any-return]
