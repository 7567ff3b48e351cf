"""Screens as a judge sees them: pictures and elements, fetched on use and kept for a while."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from pipelines.store.files import StoreError
from quality.items.pixels import Grey, Shift, grey_full, grey_small, measure_shift

Box = tuple[float, float, float, float]
CACHED_GREYS = 256
CACHED_FULL = 16
CACHED_SHIFTS = 4096


class ScreenSource(Protocol):
    """Whatever gives a picture's encoded bytes: a `Store`, or a folder of pictures."""

    def screen_bytes(self, sha256: str) -> bytes: ...


class ScreenFolder:
    """The `screens/` folder of a `vesper unify` output as a `ScreenSource`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._paths = {path.stem: path for path in sorted(folder.rglob("*")) if path.is_file()}

    def path(self, sha256: str) -> Path:
        """File of a picture. Raises `StoreError` if the folder has none."""
        if sha256 not in self._paths:
            raise StoreError(f"screen {sha256[:64]} is not in {self.folder}")
        return self._paths[sha256]

    def screen_bytes(self, sha256: str) -> bytes:
        return self.path(sha256).read_bytes()


@dataclass(frozen=True, slots=True)
class Element:
    """An element of a screen; `box` in 0..1000."""

    box: Box
    role: str
    text: str
    name: str

    @property
    def label(self) -> str:
        """What people call it: its accessible name, else what is drawn on it."""
        return self.name or self.text

    @property
    def area(self) -> float:
        return max(self.box[2] - self.box[0], 0.0) * max(self.box[3] - self.box[1], 0.0)

    def holds(self, point: Sequence[float], margin: float = 0.0) -> bool:
        """Whether a point lies in the box, borders included, widened by `margin` units."""
        left, top, right, bottom = self.box
        return left - margin <= point[0] <= right + margin and top - margin <= point[1] <= bottom + margin


class Screen:
    """A picture: elements, encoded bytes and grey versions, each fetched once and on use."""

    def __init__(self, sha256: str, bank: ScreenBank) -> None:
        self.sha256 = sha256
        self._bank = bank

    @cached_property
    def elements(self) -> list[Element]:
        """Elements that the source knows here; empty if it knows none."""
        return self._bank.elements(self.sha256)

    @property
    def grey(self) -> Grey:
        """Small grey picture (see `quality.items.pixels`); kept in a bounded cache."""
        return self._bank.grey(self.sha256)

    def grey_full(self) -> Grey:
        """Grey picture at full size; the last few are kept."""
        return self._bank.grey_full(self.sha256)

    def shift_to(self, after: Screen, skip_top: float) -> Shift | None:
        """How the view moved from this screen to another (`quality.items.pixels.measure_shift`), measured once."""
        return self._bank.shift(self, after, skip_top)

    def data(self) -> bytes:
        """Encoded bytes as stored."""
        return self._bank.source.screen_bytes(self.sha256)


class ScreenBank:
    """All screens of a part: rows of the `screens` table by hash, and a bounded cache of small grey pictures."""

    def __init__(self, screens: pa.Table, source: ScreenSource) -> None:
        self.source = source
        self._screens = screens.combine_chunks()
        self._rows = {sha: row for row, sha in enumerate(screens.column("screenshot_sha256").to_pylist())}
        self._made: dict[str, Screen] = {}
        self._greys: OrderedDict[str, Grey] = OrderedDict()
        self._full: OrderedDict[str, Grey] = OrderedDict()
        self._shifts: dict[tuple[str, str, float], Shift | None] = {}

    def screen(self, sha256: str | None) -> Screen | None:
        """The screen of a hash; None for None (`image_missing`)."""
        if sha256 is None:
            return None
        if sha256 not in self._made:
            self._made[sha256] = Screen(sha256, self)
        return self._made[sha256]

    def shift(self, before: Screen, after: Screen, skip_top: float) -> Shift | None:
        key = (before.sha256, after.sha256, skip_top)
        if key not in self._shifts:
            if len(self._shifts) > CACHED_SHIFTS:
                self._shifts.clear()
            self._shifts[key] = measure_shift(before.grey, after.grey, skip_top)
        return self._shifts[key]

    def size(self, sha256: str) -> tuple[int, int] | None:
        """(width, height) in px; None for a screen that has no row."""
        row = self._rows.get(sha256)
        if row is None:
            return None
        return self._screens.column("width_px")[row].as_py(), self._screens.column("height_px")[row].as_py()

    def elements(self, sha256: str) -> list[Element]:
        row = self._rows.get(sha256)
        if row is None:
            return []
        listed = self._screens.column("elements")[row].as_py() or []
        return [
            Element(tuple(plain["box"]), plain["role"] or "", plain["text"] or "", plain["name"] or "")
            for plain in listed
            if plain["box"] is not None
        ]

    def grey(self, sha256: str) -> Grey:
        return self._kept(self._greys, CACHED_GREYS, sha256, grey_small)

    def grey_full(self, sha256: str) -> Grey:
        return self._kept(self._full, CACHED_FULL, sha256, grey_full)

    def _kept(self, retained: OrderedDict[str, Grey], most: int, sha256: str, make: Callable[[bytes], Grey]) -> Grey:
        if sha256 in retained:
            retained.move_to_end(sha256)
            return retained[sha256]
        grey = retained[sha256] = make(self.source.screen_bytes(sha256))
        if len(retained) > most:
            retained.popitem(last=False)
        return grey


class BankView(ScreenBank):
    """Another bank's screens with other elements; pictures and measurements are shared."""

    def __init__(self, bank: ScreenBank) -> None:
        self.__dict__.update(bank.__dict__)
        self._made = {}
        self._bank = bank
