"""Screens: what is fetched and measured once, and that a bank's memory doesn't grow with its part."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pyarrow as pa
import pytest

from pipelines.store.images import encode_png
from quality.items import screens
from quality.items.pixels import changed_box, changed_share, grey_small, measure_shift
from quality.items.screens import Element, ScreenBank
from schemas.tables import Screens


def page(top: int, height: int = 64) -> np.ndarray:
    """A view of a long page of noise that begins at `top`."""
    whole = np.random.default_rng(0).integers(0, 256, (400, 40), dtype=np.uint8)
    return np.repeat(whole[top : top + height, :, None], 3, axis=2)


class Pictures:
    """A `ScreenSource` that counts how often each picture is fetched."""

    def __init__(self, pictures: dict[str, bytes]) -> None:
        self.pictures = pictures
        self.fetched: list[str] = []

    def screen_bytes(self, sha256: str) -> bytes:
        self.fetched.append(sha256)
        return self.pictures[sha256]


def bank_of(pictures: dict[str, np.ndarray], elements: list[dict[str, object]] | None = None) -> ScreenBank:
    rows = [
        {
            "screenshot_sha256": name,
            "width_px": pixels.shape[1],
            "height_px": pixels.shape[0],
            "phash": 0,
            "elements": elements or [],
            "source": "test",
        }
        for name, pixels in pictures.items()
    ]
    return ScreenBank(Screens.table(rows), Pictures({name: encode_png(pixels) for name, pixels in pictures.items()}))


def screens_of(bank: ScreenBank, *names: str) -> list[screens.Screen]:
    return [screen for name in names if (screen := bank.screen(name)) is not None]


def test_a_picture_is_decoded_once_for_both_of_its_versions() -> None:
    bank = bank_of({"a": page(0, 400)})
    [screen] = screens_of(bank, "a")
    assert screen.grey.shape == (200, 20)
    assert screen.grey_full().shape == (400, 40)
    assert screen.grey.shape == (200, 20)
    assert bank.source.fetched == ["a"]


def test_a_bank_s_pictures_go_with_the_last_that_holds_it() -> None:
    bank = bank_of({"a": page(0)})
    [screen] = screens_of(bank, "a")
    assert bank.screen("a") is screen and screen.grey.size
    gone = weakref.ref(bank)
    gc.disable()  # which would find circles, now and then
    try:
        del bank, screen
        assert gone() is None
    finally:
        gc.enable()


def test_pairs_are_measured_as_their_pictures_are() -> None:
    bank = bank_of({"a": page(0), "b": page(12), "c": page(0, 32)})
    greys = {name: grey_small(bank.source.screen_bytes(name)) for name in "abc"}
    for one, two in ("ab", "ba", "aa", "ac"):
        first, second = screens_of(bank, one, two)
        for top in (0.0, 0.1):
            for _ in range(2):
                assert first.changed_share(second, top) == changed_share(greys[one], greys[two], top)
                assert first.changed_box(second, top) == changed_box(greys[one], greys[two], top)
                assert first.shift_to(second, top) == measure_shift(greys[one], greys[two], top)


def test_elements_are_those_of_the_rows_that_have_a_box() -> None:
    box = [1.0, 2.0, 3.5, 4.0]
    listed: list[list[dict[str, object]]] = [
        [{"box": box, "role": "button", "text": None, "name": "Save"}],
        [],
        [
            {"box": None, "role": "r", "text": "lost", "name": ""},
            {"box": box, "role": None, "text": "über", "name": None},
        ],
        [{"box": [0.0, 0.0, 9.0, 9.0], "role": "", "text": "last", "name": ""}],
    ]
    table = Screens.table(
        {"screenshot_sha256": str(n), "width_px": 1, "height_px": 1, "phash": 0, "elements": one, "source": "test"}
        for n, one in enumerate(listed)
    )
    expected = [
        [Element((1.0, 2.0, 3.5, 4.0), "button", "", "Save")],
        [],
        [Element((1.0, 2.0, 3.5, 4.0), "", "über", "")],
        [Element((0.0, 0.0, 9.0, 9.0), "", "last", "")],
    ]
    # a slice begins within its columns, and an empty table has none
    for begin in range(len(listed) + 1):
        bank = ScreenBank(table.slice(begin), Pictures({}))
        assert [bank.elements(str(n)) for n in range(len(listed))] == [[]] * begin + expected[begin:]


@pytest.mark.parametrize("kind", ["greys", "elements", "pairs"])
def test_caches_are_bounded(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screens, "CACHED_GREYS", 3)
    monkeypatch.setattr(screens, "CACHED_FULL", 2)
    monkeypatch.setattr(screens, "CACHED_ELEMENTS", 3)
    monkeypatch.setattr(screens, "CACHED_PAIRS", 3)
    bank = bank_of({str(n): page(n) for n in range(8)})
    for n in range(7):
        one, two = screens_of(bank, str(n), str(n + 1))
        one.changed_box(two, 0.0)
        one.shift_to(two, 0.0)
        assert one.elements == []
    held = {
        "greys": (bank._greys, bank._full),
        "elements": (bank._elements,),
        "pairs": (bank.pairs._shares, bank.pairs._boxes, bank.pairs._shifts),
    }
    assert all(0 < len(cache) <= 3 for cache in held[kind])


def test_elements_come_as_they_are_listed_without_those_that_have_no_box() -> None:
    listed: list[dict[str, object]] = [
        {"box": [1.0, 2.5, 3.0, 4.0], "role": "button", "text": None, "name": "Save"},
        {"box": None, "role": "text", "text": "nowhere", "name": None},
        {"box": [0.0, 0.0, 10.0, 20.0], "role": None, "text": "é", "name": ""},
    ]
    [screen] = screens_of(bank_of({"a": page(0)}, listed), "a")
    assert screen.elements == [
        Element((1.0, 2.5, 3.0, 4.0), "button", "", "Save"),
        Element((0.0, 0.0, 10.0, 20.0), "", "é", ""),
    ]
    assert screen.elements[1].area == 200.0


def test_a_turned_box_has_no_area() -> None:
    assert Element((5.0, 0.0, 1.0, 9.0), "", "", "").area == 0.0


def test_a_screen_without_a_list_has_no_elements() -> None:
    rows = bank_of({"a": page(0)})._screens
    place = rows.schema.get_field_index("elements")
    nothing = pa.array([None], rows.schema.field(place).type)
    bank = ScreenBank(rows.set_column(place, "elements", nothing), Pictures({}))
    [screen] = screens_of(bank, "a")
    assert screen.elements == []
