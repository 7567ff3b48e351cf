"""A stored picture looks the same to every reader: to a plain decoder, to `datasets`, to a browser and to us."""

from __future__ import annotations

import io
from collections.abc import Iterator
from random import Random
from typing import Any

import datasets
import numpy as np
import pytest
from PIL import ExifTags, Image

from pipelines.mapping.adapter import RecordScreen
from pipelines.store import Store
from pipelines.store.images import ImageError, image_size, open_image, plain_image, read_image
from pipelines.store.known_pictures import using

SIZE = (48, 32)
RED = (220, 20, 30)


def _page() -> Image.Image:
    """White, with a red mark in its upper left corner."""
    page = Image.new("RGB", SIZE, (255, 255, 255))
    page.paste(RED, (2, 2, 14, 10))
    return page


def _encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def _turned(kind: str, orientation: int) -> bytes:
    """A page stored such that its tag turns it upright again."""
    back = {
        1: None,
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }[orientation]
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = orientation
    stored = _page() if back is None else _page().transpose(back)
    return _encoded(stored, kind, exif=exif, quality=100) if kind != "PNG" else _encoded(stored, kind, exif=exif)


def _kinds() -> Iterator[tuple[str, bytes]]:
    page = _page()
    for kind in ("JPEG", "PNG", "WEBP"):
        for orientation in range(1, 9):
            yield f"{kind} {orientation}", _turned(kind, orientation)
    see_through = page.convert("RGBA")
    see_through.putalpha(Image.fromarray(np.where(np.asarray(page)[:, :, 1] < 99, 255, 0).astype(np.uint8)))
    black_under = Image.composite(see_through, Image.new("RGBA", SIZE, (0, 0, 0, 0)), see_through.getchannel("A"))
    yield "PNG transparent", _encoded(black_under, "PNG")
    yield "WEBP transparent", _encoded(black_under, "WEBP", lossless=True)
    yield "PNG opaque alpha", _encoded(page.convert("RGBA"), "PNG")
    yield "PNG palette", _encoded(page.quantize(16), "PNG")
    yield "PNG palette transparent", _encoded(black_under.quantize(16), "PNG")
    yield "GIF", _encoded(page.quantize(16), "GIF")
    blank = Image.new("RGB", SIZE, (9, 9, 9))
    yield "GIF animated", _encoded(page, "GIF", save_all=True, append_images=[blank])
    yield "WEBP animated", _encoded(page, "WEBP", save_all=True, append_images=[blank], lossless=True)
    yield "MPO", _encoded(page, "MPO", save_all=True, append_images=[blank], quality=100)
    yield "BMP", _encoded(page, "BMP")
    yield "JPEG CMYK", _encoded(page.convert("CMYK"), "JPEG", quality=100)


KINDS = dict(_kinds())


@pytest.mark.parametrize("name", KINDS)
def test_every_reader_sees_the_page_upright_on_white(name: str) -> None:
    data = KINDS[name]
    stored, info = plain_image(data)
    ours = np.asarray(open_image(data)).astype(int)
    assert abs(ours - np.asarray(_page())).mean() <= 6, "the page itself, but for what a codec loses"
    assert image_size(data) == image_size(stored) == (info.width_px, info.height_px) == SIZE
    bare = Image.open(io.BytesIO(stored)).convert("RGB")
    theirs = datasets.Image().decode_example({"path": None, "bytes": stored}).convert("RGB")
    assert (np.asarray(bare) == np.asarray(theirs)).all() and (np.asarray(bare) == ours).all()
    assert read_image(stored) == info and plain_image(stored) == (stored, info)


def test_bytes_that_every_reader_reads_alike_are_stored_as_they_are() -> None:
    changed = {name for name, data in KINDS.items() if plain_image(data)[0] != data}
    turned = {f"{kind} {n}" for kind in ("JPEG", "PNG", "WEBP") for n in range(2, 9)}
    see_through = {"PNG transparent", "WEBP transparent", "PNG palette transparent"}
    assert changed == turned | see_through | {"GIF animated", "WEBP animated"}


@pytest.mark.parametrize("top", [255, 4095, 65_535])
def test_sixteen_bits_of_grey_keep_their_order(top: int) -> None:
    levels = np.linspace(0, 65_535, 64).astype(np.uint16).reshape(8, 8).clip(0, top)
    stored, info = plain_image(_encoded(Image.fromarray(levels), "PNG"))
    grey = np.asarray(Image.open(io.BytesIO(stored)))[:, :, 0]
    assert (grey == levels >> 8).all() and info.ext == "png"


def test_a_turned_picture_is_decoded_once_and_found_again_in_the_store(tmp_path: Any, monkeypatch: Any) -> None:
    store = Store(tmp_path)
    data = _turned("JPEG", 6)
    with using(store.known_pictures()):
        first = RecordScreen.load(data)
        assert first.data is not None and (first.width_px, first.height_px) == SIZE
        store.put_screen(first.data, first.info)
    monkeypatch.setattr("pipelines.mapping.adapter.plain_image", None)
    with using(store.known_pictures()):
        again = RecordScreen.load(data)
    assert again.info == first.info and again.data is None and store.screen_bytes(str(again.sha256)) == first.data


def test_damaged_bytes_are_an_image_error_and_nothing_else() -> None:
    rng = Random(5)
    for name, data in KINDS.items():
        for _ in range(12):
            bad = bytearray(data[: rng.randrange(1, len(data) + 1)])
            for _ in range(rng.randrange(1, 6)):
                bad[rng.randrange(len(bad))] = rng.randrange(256)
            for read in (plain_image, open_image, image_size):
                try:
                    read(bytes(bad))
                except ImageError as error:
                    assert error.reason in {"image_unreadable", "image_truncated", "image_bomb"}, name


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("TIFF", _encoded(_page(), "TIFF")),
        ("AVIF", b"\0\0\0\x20ftypavif\0\0\0\0"),
        ("HEIC", b"\0\0\0\x18ftypheic\0\0\0\0"),
        ("SVG", b"<?xml version='1.0'?>\n<svg xmlns='http://www.w3.org/2000/svg'/>"),
        ("web_page", b"\n<!DOCTYPE html><title>404</title>"),
        ("git_lfs_pointer", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"),
        (None, b"\0\1\2\3"),
    ],
)
def test_what_stands_in_place_of_a_picture_is_named(kind: str | None, data: bytes) -> None:
    with pytest.raises(ImageError) as caught:
        open_image(data)
    assert caught.value.reason == (f"image_unreadable:{kind}" if kind else "image_unreadable")
