"""Small grey pictures: the same wherever they were made, read instead of the picture, and gone with it."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from pipelines.store import Store
from pipelines.store.images import encode_png, plain_image
from pipelines.store.small_greys import SUFFIX, pack, unpack
from quality.items.pixels import grey_small
from quality.items.screens import ScreenBank
from schemas.tables import Screens


def noise(width: int = 700, height: int = 90, channels: int = 3) -> np.ndarray:
    return np.random.default_rng(width).integers(0, 256, (height, width, channels), dtype=np.uint8)


def encoded(image: Image.Image, kind: str, **options: object) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


TURNED = Image.Exif()
TURNED[0x0112] = 6
RGB = Image.fromarray(noise())
KINDS = {
    "ours": encode_png(noise()),
    "small": encode_png(noise(40, 30)),
    "jpeg": encoded(RGB, "JPEG"),
    "turned": encoded(RGB, "PNG", exif=TURNED.tobytes()),
    "see-through": encoded(Image.fromarray(noise(channels=4)), "PNG"),
    "palette": encoded(RGB.quantize(16), "PNG"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_left_by_verifying_is_what_decoding_gives(store: Store, kind: str) -> None:
    stored, info = plain_image(KINDS[kind])
    store.put_screen(stored, info)
    found = store.small_greys.get(info.sha256)
    assert found is not None and np.array_equal(found, grey_small(store.screen_bytes(info.sha256)))


@given(st.integers(1, 320), st.integers(1, 40), st.integers(0, 400), st.integers(1, 255))
def test_whole_bytes_come_back_and_damaged_ones_are_none(width: int, height: int, place: int, flip: int) -> None:
    grey = noise(width, height, 1)[:, :, 0]
    packed = pack(grey)
    found = unpack(packed)
    assert found is not None and np.array_equal(found, grey)
    place %= len(packed)
    assert unpack(packed[:place]) is None
    assert unpack(packed[:place] + bytes([packed[place] ^ flip]) + packed[place + 1 :]) is None


def test_a_judge_decodes_only_what_nobody_did_and_leaves_it_to_the_next(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    sha = store.put_screen(KINDS["ours"]).sha256
    expected = grey_small(KINDS["ours"])
    read: list[str] = []
    whole = Store.screen_bytes
    monkeypatch.setattr(Store, "screen_bytes", lambda self, name: read.append(name) or whole(self, name))

    def seen() -> np.ndarray:
        screen = ScreenBank(Screens.schema.empty_table(), store).screen(sha)
        assert screen is not None
        return screen.grey

    assert np.array_equal(seen(), expected) and read == []
    [kept] = (store.home / "cache" / "greys").rglob(f"*{SUFFIX}")
    kept.write_bytes(kept.read_bytes()[:-1])
    assert np.array_equal(seen(), expected) and read == [sha]
    assert np.array_equal(seen(), expected) and read == [sha]
    store.small_greys.remove(sha)
    assert not kept.exists() and np.array_equal(seen(), expected) and read == [sha, sha]
