"""Rows of the perception curriculum as an endless source: screens are made when they are needed, never stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from generators.perception.labels import VERSION as LABEL_VERSION
from generators.perception.layouts import VERSION as LAYOUT_VERSION
from generators.perception.layouts import read_layout
from generators.perception.questions import LAYOUTS, LESSONS, layout_row, pasted_row
from generators.perception.screens import PastedScreen
from generators.perception.sheets import VERSION, read_sheet, style_of
from schemas.ids import digest

if TYPE_CHECKING:
    from trainer.batches import Picture


def as_picture(screen: PastedScreen, key: str) -> Picture:
    """A pasted screen as the processor's resized picture: its sizes are those that nothing has to be scaled to."""
    import numpy as np

    from trainer.batches import Picture

    return Picture(key, np.ascontiguousarray(screen.pixels.transpose(2, 0, 1)))


@dataclass(frozen=True)
class Drawings:
    """Names of drawn sheets and layouts, in the folders of these names in `folder`."""

    folder: Path
    sheets: tuple[str, ...]
    layouts: tuple[str, ...] = ()

    @classmethod
    def of_split(cls, folder: Path, split: str, sheets: int, layouts: int) -> Drawings:
        """So many of each, by number; nothing is drawn yet."""
        return cls(folder, *(tuple(f"{split}-{number:03d}" for number in range(n)) for n in (sheets, layouts)))

    def draw(self, lessons: Iterable[str], progress: bool = False) -> None:
        """Draw in Chromium what these lessons need and isn't there yet."""
        from tqdm import tqdm

        from generators.perception.layouts import draw_layouts
        from generators.perception.sheets import draw_sheets

        wanted = [("sheets", self.sheets, draw_sheets)]
        wanted += [("layouts", self.layouts, draw_layouts)] if LAYOUTS in lessons else []
        for what, names, draw in wanted:
            with tqdm(total=len(names), desc=what, unit="page", disable=not progress) as bar:
                draw(self.folder / what, names, lambda count, bar=bar: bar.update())  # type: ignore[misc]


class PerceptionSource:
    """`RowSource` of questions, the lessons drawn by weight; row i is a pure function of (seed, i).

    Rows hold a ready `Picture`. Raises `ValueError` for unknown lessons, and without what they need.
    """

    pictures_come_again = False
    """Every screen is a new one: nothing is gained by keeping what the tower made of it."""

    def __init__(self, drawings: Drawings, lessons: Mapping[str, float], seed: str = "0") -> None:
        if not drawings.sheets or not lessons or (LAYOUTS in lessons and not drawings.layouts):
            raise ValueError(f"perception: expected sheets, layouts and lessons, found {len(drawings.sheets)}, "
                             f"{len(drawings.layouts)} and {len(lessons)}")  # fmt: skip
        if unknown := sorted(set(lessons) - set(LESSONS)):
            raise ValueError(f"perception: expected lessons of {', '.join(LESSONS)}, found {unknown}")
        self._drawings, self._lessons, self._seed = drawings, dict(lessons), seed
        self._white = [name for name in drawings.sheets if style_of(name).ground == "#ffffff"] or drawings.sheets
        self._sheet = lru_cache(maxsize=160)(lambda name: read_sheet(drawings.folder / "sheets", name))
        self._layout = lru_cache(maxsize=400)(lambda name: read_layout(drawings.folder / "layouts", name))

    def rows(self, start: int) -> Iterator[dict[str, Any] | None]:
        """See `trainer.midtrain.RowSource`."""
        place = start
        while True:
            yield self.row(place)
            place += 1

    def row(self, place: int) -> dict[str, Any]:
        """The row at a position, with its picture ready for the model."""
        made, screen = self.question(place)
        return {**made, "images": [as_picture(screen, made["sample_id"])]}

    def question(self, place: int) -> tuple[dict[str, Any], PastedScreen]:
        """The row at a position but for its picture, and the screen that it asks about."""
        seed = f"perception-{self._seed}-{place}"
        rng = Random(f"lesson/{seed}")
        [name] = rng.choices(list(self._lessons), list(self._lessons.values()))
        if name != LAYOUTS:
            names = self._white if LESSONS[name].plain else self._drawings.sheets
            return pasted_row(seed, self._sheet(rng.choice(names)), LESSONS[name])
        layout = self._layout(rng.choice(self._drawings.layouts))
        others = self._sheet(self._drawings.sheets[0]).elements
        return layout_row(seed, layout, others, LESSONS[name]), layout[0]

    def digest(self) -> str:
        """See `trainer.midtrain.RowSource`."""
        lessons = [asdict(LESSONS[name]) | {"weight": weight} for name, weight in self._lessons.items()]
        return digest(
            [VERSION, LAYOUT_VERSION, LABEL_VERSION, self._seed, self._drawings.sheets, self._drawings.layouts, lessons]
        )
