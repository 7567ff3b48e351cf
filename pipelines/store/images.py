"""Screenshots: verified by decoding, stored by content, raw pixels written through one deterministic encoder.

A stored picture looks the same to whoever opens it. Bytes that mean one thing to a browser and another to a plain
decoder (turned by an EXIF tag, transparent, 16 bits of grey, animated) are stored as the PNG of what a person sees.
"""

import hashlib
import io
import re
import struct
import zlib
from dataclasses import dataclass, field

import numpy as np
from PIL import ExifTags, Image, ImageFile, ImageOps

from pipelines.store.small_greys import pack, reduced

MAX_PIXELS = 40_000_000
"""Largest picture decoded (an 8K screen has 33 million); more is taken for a decompression bomb."""
MAX_SIDE_PX = 40_000
EXTENSIONS = {"PNG": "png", "JPEG": "jpg", "MPO": "jpg", "WEBP": "webp", "GIF": "gif", "BMP": "bmp"}
"""What Pillow calls a picture → the ending of its file. Of a JPEG with more pictures behind it (MPO, as phones write),
every reader takes the first."""
ENDINGS = tuple(dict.fromkeys(EXTENSIONS.values()))
"""Of the files of pictures, the commonest first. `known_pictures` writes their places down."""
_OPENED = [kind for kind in EXTENSIONS if kind != "MPO"]  # Pillow finds MPO while it opens a JPEG
_PAPER = (255, 255, 255, 255)
"""What shows through transparent pixels: the white of a browser's page."""
_SIDEWAYS = frozenset({5, 6, 7, 8})
"""EXIF orientations that swap width and height."""
_FOREIGN = re.compile(
    rb"(?P<AVIF>....ftypavi[fs])|(?P<HEIC>....ftyp(?:he|mif|msf))|(?P<TIFF>II\*\0|MM\0\*)|(?P<PDF>%PDF)"
    rb"|(?P<JPEG_2000>....jP  )|(?P<SVG>\s*(?:<\?xml[^>]*>\s*)?<svg)|(?P<web_page>\s*<(?:!doctype html|html))"
    rb"|(?P<git_lfs_pointer>version https://git-lfs)",
    re.DOTALL | re.IGNORECASE,
)
"""What stands where a picture was expected, by its first bytes."""


class ImageError(ValueError):
    """Bytes that are no usable picture; `reason` is the word that is counted."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason


def picture_names(sha256: str) -> list[str]:
    """The names in a store of which a picture of that hash has one. They are asked for one after the other: a listing
    of the folder would take longer with every picture."""
    return [f"screens/{sha256[:2]}/{sha256}.{ending}" for ending in ENDINGS]


@dataclass(frozen=True, slots=True)
class ImageInfo:
    """What is known of a verified picture. `sha256` is of the encoded bytes; `ext` has no dot."""

    sha256: str
    ext: str
    width_px: int
    height_px: int
    phash: int
    grey: bytes | None = field(default=None, compare=False, repr=False)
    """The small grey picture (`small_greys.pack`), where the picture was decoded just now."""


def open_image(data: bytes) -> Image.Image:
    """Decode a picture fully to RGB as a person sees it (turned upright, on white where it is transparent), with the
    size checked before a pixel is decoded.

    Raises `ImageError`: `image_empty`, `image_unreadable` (not a picture, or of a kind not accepted; behind a colon
    the kind where it is known, `image_unreadable:AVIF`),
    `image_bomb` (more than `MAX_PIXELS`), `image_truncated`.
    """
    return _decode(data).image


def image_size(data: bytes) -> tuple[int, int]:
    """(width, height) in pixels of the picture that `open_image` gives, by its header; no pixel is decoded, but of a
    PNG with an orientation. Raises `ImageError`: `image_empty`, `image_unreadable`, `image_bomb` (see `open_image`)."""
    image = _opened(data)
    width, height = image.size
    if image.format == "PNG" and b"eXIf" not in data:  # Pillow would decode it to look behind the pixels
        return width, height
    try:
        sideways = image.getexif().get(ExifTags.Base.Orientation) in _SIDEWAYS
    except Exception as error:  # as in `_decode`
        raise ImageError("image_truncated", f"{type(error).__name__}: {error}") from error
    return (height, width) if sideways else (width, height)


@dataclass(frozen=True, slots=True)
class _Decoded:
    image: Image.Image
    ext: str
    plain: bool
    """Whether a decoder that knows nothing of orientation, alpha and depth gives the same pixels."""


def _opened(data: bytes) -> Image.Image:
    if not data:
        raise ImageError("image_empty")
    try:
        image = Image.open(io.BytesIO(data), formats=_OPENED)
    except Image.DecompressionBombError as error:
        raise ImageError("image_bomb", str(error)) from error
    except Exception as error:  # as in `_decode`
        kind = _FOREIGN.match(data[:400])
        # the kind belongs to the word, which is all that a row and a report of thousands of pictures show
        word = f"image_unreadable:{kind.lastgroup}" if kind else "image_unreadable"
        raise ImageError(word, f"{len(data)} bytes starting {data[:8]!r}") from error
    # By the header, before a pixel: a picture of a few kilobytes may unpack to gigabytes.
    _check_size(*image.size)
    return image


def _decode(data: bytes) -> _Decoded:
    opened = _opened(data)
    ext = EXTENSIONS[str(opened.format)]
    try:
        # Decoded whole: a cut file has a perfectly good header.
        opened.load()
        # Of a JPEG with more pictures behind it (MPO) every reader shows the first.
        animated = opened.format != "MPO" and getattr(opened, "is_animated", False)
        # Cameras and phones store the sensor's rows, and say by a tag how to turn them. Nearly all screenshots say
        # nothing, and a copy of each would take a tenth of `unify`.
        turned = opened.getexif().get(ExifTags.Base.Orientation, 1) != 1
        image = ImageOps.exif_transpose(opened) if turned else opened
        deep = image.mode.startswith("I")
        if deep:  # 16 bits of grey: `convert` would cut all above 255 to white
            image = Image.fromarray((np.asarray(image).clip(0, 0xFFFF) >> 8).astype(np.uint8))
        see_through = image.has_transparency_data
        if see_through:
            image = image.convert("RGBA")
            # An alpha channel that is opaque everywhere changes nothing.
            see_through = image.getchannel("A").getextrema() != (255, 255)
        if see_through:
            image = Image.alpha_composite(Image.new("RGBA", image.size, _PAPER), image)
        return _Decoded(_in_mode(image, "RGB"), ext, not (animated or turned or deep or see_through))
    except MemoryError:
        # A machine without memory says nothing about the picture.
        raise
    except Exception as error:  # decoders raise anything on foreign bytes: struct.error, KeyError, OverflowError, …
        raise ImageError("image_truncated", f"{type(error).__name__}: {error}") from error


def _in_mode(image: Image.Image, mode: str) -> Image.Image:
    # `convert` copies what has the mode already.
    return image if image.mode == mode else image.convert(mode)


def _check_size(width: int, height: int) -> None:
    if width * height > MAX_PIXELS or max(width, height) > MAX_SIDE_PX:
        raise ImageError("image_bomb", f"{width}x{height} px; at most {MAX_PIXELS} pixels are accepted")


def read_image(data: bytes) -> ImageInfo:
    """Verify a picture by decoding it whole. Raises `ImageError` (see `open_image`)."""
    return _info(data, _decode(data))


def plain_image(data: bytes) -> tuple[bytes, ImageInfo]:
    """The bytes of a picture as it is to be stored, and what is known of them: `data` itself if every decoder gives
    the same pixels, else the PNG of what a person sees. Raises `ImageError` (see `open_image`)."""
    decoded = _decode(data)
    return (data, _info(data, decoded)) if decoded.plain else read_pixels(np.asarray(decoded.image))


def _info(data: bytes, decoded: _Decoded) -> ImageInfo:
    return _of_image(data, decoded.ext, decoded.image)


def _of_image(data: bytes, ext: str, image: Image.Image) -> ImageInfo:
    # Made grey once, for both that need it.
    grey = _in_mode(image, "L")
    name = hashlib.sha256(data).hexdigest()
    return ImageInfo(name, ext, image.width, image.height, phash(grey), pack(reduced(grey)))


def read_pixels(pixels: np.ndarray) -> tuple[bytes, ImageInfo]:
    """uint8 pixels [height, width, 3] → (their PNG, what is known of it). Raises `ImageError("image_bomb")`, and
    `ValueError` as `encode_png` does."""
    height, width = pixels.shape[:2]
    _check_size(width, height)
    data = encode_png(pixels)
    return data, _of_image(data, "png", Image.fromarray(pixels))


def phash(image: Image.Image) -> int:
    """64-bit perceptual hash: signs of the 8×8 lowest DCT-II frequencies of the 32×32 grey picture against
    their median (the mean term left out), row by row, highest bit first."""
    grey = np.asarray(_in_mode(image, "L").resize((32, 32), Image.Resampling.BILINEAR), dtype=np.float64)
    low = (_DCT @ grey @ _DCT.T).ravel()
    # The mean term tells of brightness alone, and has no say in the median.
    bits = low > np.median(low[1:])
    return int("".join("1" if bit else "0" for bit in bits), 2)


def _dct_rows(count: int, size: int) -> np.ndarray:
    k, n = np.arange(count)[:, None], np.arange(size)[None, :]
    return np.asarray(np.cos(np.pi * k * (2 * n + 1) / (2 * size)))


_DCT = _dct_rows(8, 32)


def encode_png(pixels: np.ndarray) -> bytes:
    """uint8 pixels [height, width, 3] → PNG bytes, the same on every machine and Pillow version.

    Written here because a library's PNG bytes change with its version, and screens are named by their hash:
    every row is stored with the `up` filter and zlib level 6. Raises `ValueError` on another shape or type.
    """
    # An empty side is no picture in PNG.
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3 or 0 in pixels.shape:
        raise ValueError(f"encode_png: expected uint8 [height, width, 3], found {pixels.dtype} {pixels.shape}")
    height, width, _ = pixels.shape
    rows = np.ascontiguousarray(pixels).reshape(height, width * 3)
    filtered = np.empty((height, width * 3 + 1), np.uint8)
    # Filter 2 (up): screens repeat from row to row, so differences to the row above are mostly zero.
    filtered[:, 0] = 2
    # The row above the first counts as zeros.
    filtered[0, 1:] = rows[0]
    filtered[1:, 1:] = rows[1:] - rows[:-1]  # wraps modulo 256, as the filter is defined
    # 8 bits a channel, colour type 2 (RGB), and the only compression, filter method and no interlacing.
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(filtered.tobytes(), 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body)) for name, body in chunks
    )


# Pillow's switch is one for all of the process: another library that sets it would let cut pictures pass.
ImageFile.LOAD_TRUNCATED_IMAGES = False
