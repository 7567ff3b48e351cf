"""Rows of the perception curriculum as an endless source: screens are made when they are needed, never stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from generators.proving.kit_pages.app_pages import VERSION as APP_VERSION
from generators.proving.kit_pages.app_pages import draw_app_pages
from generators.proving.kit_pages.drawing import HELD_OUT, draw_kit_pages, read_material
from generators.proving.kit_pages.drawing import VERSION as KIT_VERSION
from generators.proving.kit_pages.questions import KitWindows, of_lesson
from generators.proving.perception.labels import VERSION as LABEL_VERSION
from generators.proving.perception.layouts import VERSION as LAYOUT_VERSION
from generators.proving.perception.layouts import draw_layouts, read_layout
from generators.proving.perception.questions import APPS, KIT_LESSONS, LAYOUTS, LESSONS, WORLDS, layout_row, pasted_row
from generators.proving.perception.screens import PastedScreen
from generators.proving.perception.sheets import VERSION, SheetElement, draw_sheets, read_sheet, style_of
from schemas.ids import digest
from trainer.proving.nano_base.world_pages import VERSION as PAGE_VERSION
from trainer.proving.nano_base.world_pages import draw_pages, read_screens

if TYPE_CHECKING:
    from trainer.modeling.batches import PixelPicture


def as_picture(screen: PastedScreen, key: str) -> PixelPicture:
    """A pasted screen as the processor's resized picture: its sizes are those that nothing has to be scaled to."""
    import numpy as np

    from trainer.modeling.batches import PixelPicture

    return PixelPicture(key, np.ascontiguousarray(screen.pixels.transpose(2, 0, 1)))


@dataclass(frozen=True)
class Drawings:
    """Names of drawn sheets, layouts, pages of worlds, pages in real fonts (`kits`; those of held-out families and
    styles begin with `HELD_OUT`) and screens of our own apps, in the folders of these names in `folder`."""

    folder: Path
    sheets: tuple[str, ...]
    layouts: tuple[str, ...] = ()
    pages: tuple[str, ...] = ()
    kits: tuple[str, ...] = ()
    apps: tuple[str, ...] = ()

    @classmethod
    def of_split(
        cls, folder: Path, split: str, sheets: int, layouts: int, pages: int, kits: int = 0, apps: int = 0
    ) -> Drawings:
        """So many of each, by number; nothing is drawn yet. Any split but "train" has as many pages again of families
        and styles that are held out."""
        # Names by number: more pages later keep those that were drawn.
        counts = (sheets, layouts, pages, kits, apps)
        some = [tuple(f"{split}-{number:03d}" for number in range(n)) for n in counts]
        if split != "train":
            some[3] += tuple(f"{HELD_OUT}-{number:03d}" for number in range(kits))
        return cls(folder, *some)

    def draw(self, lessons: Iterable[str], progress: bool = False) -> None:
        """Draw in Chromium what these lessons need and isn't there yet."""
        from tqdm import tqdm

        lessons = set(lessons)
        wanted: list[tuple[str, tuple[str, ...], Callable[..., None]]] = [("sheets", self.sheets, draw_sheets)]
        wanted += [("layouts", self.layouts, draw_layouts)] if LAYOUTS in lessons else []
        wanted += [("pages", self.pages, draw_pages)] if WORLDS in lessons else []
        wanted += [("kits", self.kits, draw_kit_pages)] if set(KIT_LESSONS) & set(lessons) else []
        wanted += [("apps", self.apps, draw_app_pages)] if APPS in lessons else []
        for what, names, draw in wanted:
            with tqdm(total=len(names), desc=what, unit="page", disable=not progress) as bar:
                draw(self.folder / what, names, lambda count, bar=bar: bar.update())


def kits_identity(drawings: Drawings) -> list[Any]:
    """What decides the pages in real fonts: their names, and what they are drawn with."""
    return [KIT_VERSION, drawings.kits, asdict(read_material(drawings.folder / "kits"))]


class PerceptionSource:
    """`RowSource` of questions, the lessons drawn by weight; row i is a pure function of (seed, i).

    Rows hold a ready `PixelPicture`. Raises `ValueError` for unknown lessons, and without what they need.
    """

    pictures_come_again = False
    """Nearly every screen is a new one: little is gained by keeping what the tower made of it."""

    def __init__(self, drawings: Drawings, lessons: Mapping[str, float], seed: str = "0") -> None:
        # Held-out pages only for the held-out lesson (see `of_lesson`).
        kits = {name: of_lesson(drawings.kits, name) for name in KIT_LESSONS if name in lessons}
        needed = {LAYOUTS: drawings.layouts, WORLDS: drawings.pages, APPS: drawings.apps, **kits}
        if not drawings.sheets or not lessons or any(not names for name, names in needed.items() if name in lessons):
            raise ValueError(
                f"perception: expected lessons and what they are drawn on, found {len(drawings.sheets)} "
                f"sheets, {len(drawings.layouts)} layouts, {len(drawings.pages)} pages, "
                f"{len(drawings.kits)} pages in real fonts, {len(drawings.apps)} screens of apps for {list(lessons)}"
            )
        if unknown := sorted(set(lessons) - set(LESSONS)):
            raise ValueError(f"perception: expected lessons of {', '.join(LESSONS)}, found {unknown}")
        self._drawings, self._lessons, self._seed = drawings, dict(lessons), seed
        # Where no sheet of the split is white, any will do rather than none.
        self._white = [name for name in drawings.sheets if style_of(name).ground == "#ffffff"] or drawings.sheets
        self._sheet = lru_cache(maxsize=160)(lambda name: read_sheet(drawings.folder / "sheets", name))
        self._layout = lru_cache(maxsize=400)(lambda name: read_layout(drawings.folder / "layouts", name))
        self._windows = {name: KitWindows(drawings.folder / "kits", some) for name, some in kits.items()}
        if APPS in lessons:
            self._windows[APPS] = KitWindows(drawings.folder / "apps", drawings.apps)
        self._page = lru_cache(maxsize=500)(lambda name: read_screens(drawings.folder / "pages", name))

    def rows(self, start: int) -> Iterator[dict[str, object] | None]:
        """See `trainer.data.row_sources.RowSource`."""
        place = start
        while True:
            yield self.row(place)
            place += 1

    def row(self, place: int) -> dict[str, object]:
        """The row at a position, with its picture ready for the model."""
        made, screen = self.question(place)
        return {**made, "images": [as_picture(screen, made["sample_id"])]}

    def question(self, place: int) -> tuple[dict[str, Any], PastedScreen]:
        """The row at a position but for its picture, and the screen that it asks about."""
        seed = f"perception-{self._seed}-{place}"
        rng = Random(f"lesson/{seed}")
        # The lesson is drawn from a source of its own, so that another
        # lesson's questions don't move with the weights.
        [name] = rng.choices(list(self._lessons), list(self._lessons.values()))
        if name in self._windows:
            return self._windows[name].question(seed, LESSONS[name])
        if name not in (LAYOUTS, WORLDS):
            names = self._white if LESSONS[name].plain else self._drawings.sheets
            return pasted_row(seed, self._sheet(rng.choice(names)), LESSONS[name])
        shown = self._layout(rng.choice(self._drawings.layouts)) if name == LAYOUTS else self.screen(rng)
        # Always the first sheet's elements: they are asked for in vain on pages of other styles too.
        others = self._sheet(self._drawings.sheets[0]).elements
        return layout_row(seed, shown, others, LESSONS[name]), shown[0]

    def screen(self, rng: Random) -> tuple[PastedScreen, tuple[SheetElement, ...]]:
        """A screen of the worlds and what else stands on it; not every page has one with something to ask for."""
        while True:
            if screens := self._page(rng.choice(self._drawings.pages)):
                return rng.choice(screens)

    def window(self, lesson: str, rng: Random) -> PastedScreen:
        """A window of a page of a lesson that asks about windows; it must be one of the source's."""
        return self._windows[lesson].screen(rng)

    def digest(self) -> str:
        """See `trainer.data.row_sources.RowSource`."""
        lessons = [asdict(LESSONS[name]) | {"weight": weight} for name, weight in self._lessons.items()]
        drawn = {
            name: some
            for name, some in (
                (LAYOUTS, [LAYOUT_VERSION, self._drawings.layouts]),
                (WORLDS, [PAGE_VERSION, self._drawings.pages]),
                (APPS, [APP_VERSION, self._drawings.apps]),
            )
            # Only what is drawn on: other drawings may change without changing these rows.
            if name in self._lessons
        }
        if set(KIT_LESSONS) & set(self._lessons):
            drawn["kits"] = kits_identity(self._drawings)
        return digest([VERSION, LABEL_VERSION, self._seed, self._drawings.sheets, drawn, lessons])
