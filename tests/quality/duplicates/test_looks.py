"""What counts as one screen: copies do, other pages of one template don't, and a plain screen never does."""

from __future__ import annotations

import io

import pytest
from PIL import Image
from suitemaker import encode, page

from pipelines.store import Store
from pipelines.store.images import phash
from quality.duplicates.looks import LookBook, PictureLook, look, one_screen


def copy(image: Image.Image, form: str = "JPEG", scale: float = 1.0, **options: object) -> Image.Image:
    resized = image.resize((round(image.width * scale), round(image.height * scale)), Image.Resampling.BICUBIC)
    return Image.open(io.BytesIO(encode(resized, form, **options))).convert("RGB")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "scale", "options"),
    [
        ("JPEG", 1, {"quality": 90}),
        ("JPEG", 1, {"quality": 40}),
        ("WEBP", 1, {"quality": 60}),
        ("PNG", 0.5, {}),
        ("JPEG", 0.67, {"quality": 75}),
        ("PNG", 1.5, {}),
    ],
)
def test_a_copy_is_the_same_screen(form: str, scale: float, options: dict) -> None:
    for seed in range(6):
        original = page(seed)
        other = copy(original, form, scale, **options)
        assert (phash(original) ^ phash(other)).bit_count() <= 6
        assert one_screen(look(original), look(other)) and one_screen(look(other), look(original))


def test_other_pages_and_other_content_are_not() -> None:
    base = page(1)
    assert not any(one_screen(look(base), look(page(seed))) for seed in range(2, 12))
    assert not one_screen(look(base), look(page(1, note="a line of text more")))
    assert not one_screen(look(base), look(base.resize((540, 700))))
    recoloured = Image.merge("RGB", base.split()[::-1])
    assert not one_screen(look(base), look(recoloured))


def test_plain_screens_are_never_copies() -> None:
    white, grey = Image.new("RGB", (540, 960), "white"), Image.new("RGB", (540, 960), (250, 250, 250))
    assert look(white).is_plain
    assert not one_screen(look(white), look(grey)) and not one_screen(look(white), look(white))
    assert not look(page(3)).is_plain


def test_looks_are_kept_and_no_picture_is_decoded_twice(store: Store) -> None:
    shas = [store.put_screen(encode(page(seed))).sha256 for seed in range(3)]
    first = LookBook(store.home / "cache" / "looks", store.screen_bytes)
    made = first.get([*shas, shas[0]])
    again = LookBook(store.home / "cache" / "looks", store.screen_bytes)
    kept = again.get(shas)
    assert (first.decoded, again.decoded) == (3, 0)
    assert all(kept[sha].to_bytes() == made[sha].to_bytes() == look(page(n)).to_bytes() for n, sha in enumerate(shas))
    assert (kept[shas[0]].width_px, kept[shas[0]].height_px) == (540, 960)
    assert PictureLook.from_bytes(made[shas[1]].to_bytes(), 540, 960).cells.shape == (64, 64)
