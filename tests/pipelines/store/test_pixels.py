"""The fast reader of plain PNG files gives the pixels, and the errors, that `open_image` gives."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, PngImagePlugin

from pipelines.store import pixels
from pipelines.store.images import ImageError, encode_png, open_image
from pipelines.store.pixels import rgb_pixels


def picture(width: int = 37, height: int = 23, channels: int = 3, seed: int = 0) -> np.ndarray:
    """Noise with a flat part, so that an encoder uses several filters."""
    found = np.random.default_rng(seed).integers(0, 256, (height, width, channels), dtype=np.uint8)
    found[: height // 2] = 200
    return found


def encoded(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def with_chunk(data: bytes, name: bytes, body: bytes) -> bytes:
    """A PNG with one more chunk behind its header."""
    return data[:33] + chunk(name, body) + data[33:]


RGB = Image.fromarray(picture())
EXIF = Image.Exif()
EXIF[0x0112] = 6
XMP = PngImagePlugin.PngInfo()
XMP.add_itxt("XML:com.adobe.xmp", '<x tiff:Orientation="8"/>')
KINDS = {
    "plain": encoded(RGB),
    "ours": encode_png(picture(seed=1)),
    "gamma": with_chunk(encoded(RGB), b"gAMA", struct.pack(">I", 20_000)),
    "one pixel": encoded(RGB.crop((0, 0, 1, 1))),
    "alpha": encoded(Image.fromarray(picture(channels=4))),
    "palette": encoded(RGB.quantize(16)),
    "grey": encoded(RGB.convert("L")),
    "sixteen bits": encoded(Image.fromarray(np.arange(600, dtype=np.uint16).reshape(20, 30) * 100)),
    "one colour clear": with_chunk(encoded(RGB), b"tRNS", struct.pack(">HHH", 200, 200, 200)),
    "turned by EXIF": encoded(RGB, exif=EXIF.tobytes()),
    "turned by XMP": encoded(RGB, pnginfo=XMP),
    "animated": encoded(RGB, save_all=True, append_images=[RGB.rotate(180)]),
    "jpeg": encoded(RGB, "JPEG"),
    "webp": encoded(RGB, "WEBP", lossless=True),
}


@pytest.mark.parametrize("kind", KINDS)
def test_pixels_are_those_of_open_image(kind: str) -> None:
    assert np.array_equal(rgb_pixels(KINDS[kind]), np.asarray(open_image(KINDS[kind])))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 70), st.integers(1, 70), st.integers(0, 2**32 - 1), st.integers(0, 9))
def test_sizes_and_compression_make_no_difference(width: int, height: int, seed: int, level: int) -> None:
    data = encoded(Image.fromarray(picture(width, height, seed=seed)), compress_level=level)
    assert np.array_equal(rgb_pixels(data), np.asarray(open_image(data)))


@pytest.mark.parametrize("kind", ["plain", "ours", "gamma"])
def test_plain_pictures_go_the_fast_way(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("kornia_rs")
    expected = np.asarray(open_image(KINDS[kind]))
    monkeypatch.setattr(pixels, "open_image", lambda data: pytest.fail("went through Pillow"))
    assert np.array_equal(rgb_pixels(KINDS[kind]), expected)


def test_pillow_reads_where_the_fast_reader_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pixels, "_png_reader", lambda: None)
    assert np.array_equal(rgb_pixels(KINDS["plain"]), picture())


@pytest.mark.parametrize("name", ["empty", "cut", "cut in the header", "no pixels", "wrong size", "too large"])
def test_damaged_pictures_end_as_they_do_in_pillow(name: str) -> None:
    """Refused by the same word; one that Pillow shows in part (its header says more rows than there are) is shown."""
    whole = KINDS["plain"]
    huge = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    larger = struct.pack(">IIBBBBB", 37, 900, 8, 2, 0, 0, 0)
    data = {
        "empty": b"",
        "cut": whole[: len(whole) // 2],
        "cut in the header": whole[:20],
        "no pixels": whole[:33] + chunk(b"IEND", b""),
        "wrong size": whole[:8] + chunk(b"IHDR", larger) + whole[33:],
        "too large": whole[:8] + chunk(b"IHDR", huge) + whole[33:],
    }[name]
    assert outcome(rgb_pixels, data) == outcome(lambda data: np.asarray(open_image(data)), data)


def outcome(read: Callable[[bytes], np.ndarray], data: bytes) -> str | bytes:
    """The pixels, or the word of the error."""
    try:
        return read(data).tobytes()
    except ImageError as error:
        return error.reason
