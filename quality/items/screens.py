"""Screens as a judge sees them: pictures and elements, fetched on use and kept for a while."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from itertools import compress
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa
from PIL import Image

from pipelines.store.files import StoreError
from pipelines.store.small_greys import Grey, SmallGreys, pack, reduced
from quality.items.pixels import Shift, changed_box, changed_share, grey_image, measure_shift

T = TypeVar("T")
Box = tuple[float, float, float, float]
CACHED_GREYS = 256
CACHED_FULL = 16
CACHED_PAIRS = 4096
CACHED_ELEMENTS = 512


class ScreenSource(Protocol):
    """Whatever gives a picture's encoded bytes: a `Store`, or a folder of pictures."""

    def screen_bytes(self, sha256: str) -> bytes: ...


@runtime_checkable
class _KeepsGreys(Protocol):
    """A `ScreenSource` that keeps small grey pictures, too, as a `Store` does."""

    small_greys: SmallGreys


class ScreenFolder:
    """The `screens/` folder of a `vesper unify` output as a `ScreenSource`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # By name, once: a listing at each picture would read the folder again.
        self._paths = {path.stem: path for path in sorted(folder.rglob("*")) if path.is_file()}

    def path(self, sha256: str) -> Path:
        """File of a picture. Raises `StoreError` if the folder has none."""
        if sha256 not in self._paths:
            raise StoreError(f"screen {sha256[:64]} is not in {self.folder}")
        return self._paths[sha256]

    def screen_bytes(self, sha256: str) -> bytes:
        return self.path(sha256).read_bytes()


class Element(NamedTuple):
    """An element of a screen; `box` in 0..1000. A tuple, which is made twice as fast."""

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
        # Boxes drawn the wrong way round have no area, and hold nothing.
        left, top, right, bottom = self.box
        return (right - left) * (bottom - top) if right > left and bottom > top else 0.0

    def holds(self, point: Sequence[float], margin: float = 0.0) -> bool:
        """Whether a point lies in the box, borders included, widened by `margin` units."""
        left, top, right, bottom = self.box
        return left - margin <= point[0] <= right + margin and top - margin <= point[1] <= bottom + margin


class Screen:
    """A picture: elements, encoded bytes and grey versions, each fetched once and on use."""

    def __init__(self, sha256: str, bank: ScreenBank) -> None:
        self.sha256 = sha256
        self._bank = bank

    @property
    def elements(self) -> list[Element]:
        """Elements that the source knows here; empty if it knows none."""
        return self._bank.known_elements(self.sha256)

    @property
    def grey(self) -> Grey:
        """Small grey picture (see `quality.items.pixels`); kept in a bounded cache."""
        return self._bank.grey(self.sha256)

    def grey_full(self) -> Grey:
        """Grey picture at full size; the last few are kept."""
        return self._bank.grey_full(self.sha256)

    def changed_share(self, after: Screen, skip_top: float) -> float:
        """Share of pixels in which another screen differs (`quality.items.pixels.changed_share`), measured once."""
        return self._bank.pairs.share(self, after, skip_top)

    def changed_box(self, after: Screen, skip_top: float) -> Box | None:
        """Where another screen differs (`quality.items.pixels.changed_box`), measured once."""
        return self._bank.pairs.box(self, after, skip_top)

    def shift_to(self, after: Screen, skip_top: float) -> Shift | None:
        """How the view moved from this screen to another (`quality.items.pixels.measure_shift`), measured once."""
        return self._bank.pairs.shift(self, after, skip_top)

    def data(self) -> bytes:
        """Encoded bytes as stored."""
        return self._bank.source.screen_bytes(self.sha256)


class MeasuredPairs:
    """What was measured between two screens, for the last few thousand pairs; neither order nor which of the same
    pictures it was makes a difference to what changed."""

    def __init__(self) -> None:
        self._shares: dict[tuple[str, str, float], float] = {}
        self._boxes: dict[tuple[str, str, float], Box | None] = {}
        self._shifts: dict[tuple[str, str, float], Shift | None] = {}

    def share(self, one: Screen, two: Screen, skip_top: float) -> float:
        # What changed between two screens is the same in either order.
        key = (min(one.sha256, two.sha256), max(one.sha256, two.sha256), skip_top)
        if (found := self._shares.get(key)) is None:
            found = _put(self._shares, key, changed_share(one.grey, two.grey, skip_top))
        return found

    def box(self, one: Screen, two: Screen, skip_top: float) -> Box | None:
        if not self.share(one, two, skip_top):
            return None
        key = (min(one.sha256, two.sha256), max(one.sha256, two.sha256), skip_top)
        if key not in self._boxes:
            _put(self._boxes, key, changed_box(one.grey, two.grey, skip_top))
        return self._boxes[key]

    def shift(self, before: Screen, after: Screen, skip_top: float) -> Shift | None:
        # A shift has a direction, so the order counts.
        key = (before.sha256, after.sha256, skip_top)
        if key not in self._shifts:
            _put(self._shifts, key, measure_shift(before.grey, after.grey, skip_top))
        return self._shifts[key]


def _put(measured: dict[tuple[str, str, float], T], key: tuple[str, str, float], value: T) -> T:
    """Keep a value; a full cache is emptied first, for screens are compared with their neighbours only."""
    if len(measured) >= CACHED_PAIRS:
        measured.clear()
    measured[key] = value
    return value


class ScreenBank:
    """All screens of a part: rows of the `screens` table by hash, and a bounded cache of small grey pictures."""

    def __init__(self, screens: pa.Table, source: ScreenSource) -> None:
        self.source = source
        self._small_greys = source.small_greys if isinstance(source, _KeepsGreys) else None
        self._screens = screens.combine_chunks()
        # All elements as columns, of which a screen has a run: nothing is built before it is asked for.
        listed = screens.column("elements").combine_chunks()
        self._bounds, columns = listed.offsets.to_numpy(), listed.values
        self._words = [columns.field(name) for name in ("role", "text", "name")]
        boxes = columns.field("box")
        self._boxed = boxes.is_valid().to_numpy(zero_copy_only=False)
        self._boxes = boxes.flatten().to_numpy(zero_copy_only=False).reshape(-1, 4)
        self._boxes_before = np.append(0, self._boxed.cumsum())
        self._rows = {sha: row for row, sha in enumerate(screens.column("screenshot_sha256").to_pylist())}
        self._made: WeakValueDictionary[str, Screen] = WeakValueDictionary()  # a screen holds its bank
        self._greys: OrderedDict[str, Grey] = OrderedDict()
        self._full: OrderedDict[str, Image.Image] = OrderedDict()
        self._elements: OrderedDict[str, list[Element]] = OrderedDict()
        self.pairs = MeasuredPairs()

    def screen(self, sha256: str | None) -> Screen | None:
        """The screen of a hash; None for None (`image_missing`)."""
        if sha256 is None:
            return None
        if (found := self._made.get(sha256)) is None:
            found = self._made[sha256] = Screen(sha256, self)
        return found

    def size(self, sha256: str) -> tuple[int, int] | None:
        """(width, height) in px; None for a screen that has no row."""
        row = self._rows.get(sha256)
        if row is None:
            return None
        return self._screens.column("width_px")[row].as_py(), self._screens.column("height_px")[row].as_py()

    def known_elements(self, sha256: str) -> list[Element]:
        """The same as `elements`, of the last few hundred screens looked at without making them anew."""
        if sha256 not in self._elements:
            _keep(self._elements, CACHED_ELEMENTS, sha256, self.elements(sha256))
        return self._elements[sha256]

    def elements(self, sha256: str) -> list[Element]:
        row = self._rows.get(sha256)
        if row is None:
            return []
        run = slice(*self._bounds[row : row + 2])
        boxes = self._boxes[slice(*self._boxes_before[[run.start, run.stop]])]
        # By way of numpy, which makes the texts of a column several times as fast as `to_pylist`.
        words = (column[run].to_numpy(zero_copy_only=False).tolist() for column in self._words)
        # An element without a box can't be pointed at.
        there = self._boxed[run].tolist()
        columns = ([text or "" for text in compress(column, there)] for column in words)
        return list(map(Element, map(tuple, boxes.tolist()), *columns))

    def grey(self, sha256: str) -> Grey:
        if sha256 not in self._greys:
            known = self._small_greys.get(sha256) if self._small_greys is not None else None
            if known is not None:
                _keep(self._greys, CACHED_GREYS, sha256, known)
            else:
                self._decode(sha256)
                # For the next stage, which then reads this and needn't decode.
                if self._small_greys is not None:
                    self._small_greys.put(sha256, pack(self._greys[sha256]))
        self._greys.move_to_end(sha256)
        return self._greys[sha256]

    def grey_full(self, sha256: str) -> Grey:
        if sha256 not in self._full:
            self._decode(sha256)
        self._full.move_to_end(sha256)
        return np.asarray(self._full[sha256])

    def _decode(self, sha256: str) -> None:
        """Put a picture's both versions into the caches: decoding costs most, and who asks for one often needs the
        other, too."""
        image = grey_image(self.source.screen_bytes(sha256))
        _keep(self._full, CACHED_FULL, sha256, image)
        _keep(self._greys, CACHED_GREYS, sha256, reduced(image))


def _keep(retained: OrderedDict[str, T], most: int, key: str, value: T) -> None:
    """Put a value into a cache of at most `most`, from which the one used longest ago goes."""
    retained[key] = value
    if len(retained) > most:
        retained.popitem(last=False)


class BankView(ScreenBank):
    """Another bank's screens with other elements; pictures and measurements are shared."""

    def __init__(self, bank: ScreenBank) -> None:
        # Shares pictures, hashes and measurements of the other bank, and nothing that depends on elements.
        self.__dict__.update(bank.__dict__)
        self._made = WeakValueDictionary()
        self._elements = OrderedDict()
        self._bank = bank
