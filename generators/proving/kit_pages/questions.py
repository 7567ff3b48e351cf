"""Questions about windows of drawn pages, as rows of the samples table: where is it, isn't it there, what is this."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

from generators.proving.kit_pages.drawing import HELD_OUT, KitPage, read_kit_page
from generators.proving.kit_pages.naming import Naming, asked, missing
from generators.proving.kit_pages.windows import PageWindow, as_screen, cut
from generators.proving.perception.labels import image_labels
from generators.proving.perception.questions import KITS_HELD_OUT, Lesson, caption
from generators.proving.perception.screens import Pasted, PastedScreen
from pipelines.prompts import REFUSAL, grounding_text, messages, point_answer, point_text
from schemas.coordinates import box_to_unit

SIBLINGS = 12
"""Other pages that are tried for a name that is missing here, until one is in the same language."""
PHONE_WIDTH_PX = 600
"""A page that is narrower is one of a phone."""


class KitWindows:
    """Windows of drawn pages, at random: those of families that training may see, or those that are held out.

    Raises `ValueError` if there are no such pages.
    """

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        if not names:
            raise ValueError("kit pages: expected names of drawn pages, found none")
        self._names = names
        # Pages are read many times over, so their elements aren't parsed anew for each window.
        self._page: Callable[[str], KitPage] = lru_cache(maxsize=1000)(lambda name: read_kit_page(folder, name))

    def window(self, rng: Random) -> tuple[KitPage, PageWindow]:
        """A page and a window of it."""
        while True:
            page = self._page(rng.choice(self._names))
            if (window := cut(page, rng)) is not None:
                return page, window

    def screen(self, rng: Random) -> PastedScreen:
        """A window as a screen of the curriculum."""
        return as_screen(*self.window(rng))

    def question(self, seed: str, lesson: Lesson) -> tuple[dict[str, Any], PastedScreen]:
        """A row of the samples table but for its picture, and the screen that it asks about."""
        rng = Random(f"kit/{seed}")
        # Until a window offers what the lesson asks for: not every one has a name of its own to ask.
        while True:
            page, window = self.window(rng)
            found = self._asked(page, window, lesson, rng)
            if found is not None:
                break
        screen = as_screen(page, window)
        row = _row(seed, page, screen, found)
        return {**row, "lesson": lesson.name, "image_labels": _labels(seed, screen, found)}, screen

    def _asked(self, page: KitPage, window: PageWindow, lesson: Lesson, rng: Random) -> "_Asked | None":
        draw = rng.random()
        if draw < lesson.captions:
            place = rng.randrange(len(window.whole))
            return _Asked("perception", place, None, "")
        if draw < lesson.captions + lesson.refusals:
            naming = missing(window, self._sibling(page, rng), rng)
            return _Asked("grounding", None, naming, naming.said(rng)) if naming else None
        pair = asked(window, rng)
        if pair is None:
            return None
        return _Asked("grounding", window.whole.index(pair[0]), pair[1], pair[1].said(rng))

    def _sibling(self, page: KitPage, rng: Random) -> PageWindow:
        """A window of another page, in the same language if one is found soon."""
        found = self.window(rng)
        for _ in range(SIBLINGS):
            # In another language a name would be known to be missing by its letters alone.
            if found[0] is not page and found[0].language == page.language:
                break
            found = self.window(rng)
        return found[1]


@dataclass(frozen=True)
class _Asked:
    """`place`: number of the element among the window's; None: what is asked for isn't there."""

    objective: str
    place: int | None
    naming: Naming | None
    said: str


def _row(seed: str, page: KitPage, screen: PastedScreen, asked_for: _Asked) -> dict[str, Any]:
    one: Pasted | None = None if asked_for.place is None else screen.elements[asked_for.place]
    if asked_for.objective == "perception":
        assert one is not None
        text, answer = point_text(*screen.centre(one)), caption(one.drawn)
    else:
        text = grounding_text(asked_for.said)
        answer = REFUSAL if one is None else point_answer(*screen.centre(one))
    pointing = asked_for.objective == "grounding" and one is not None
    return {
        "sample_id": seed,
        "source": "perception",
        "split": "train",
        "platform": "mobile" if page.size_px[0] < PHONE_WIDTH_PX else "web",
        "objective": asked_for.objective,
        "messages": messages(asked_for.objective, text),
        "answer": answer,
        "target_boxes": [list(box_to_unit(one.box, screen.size_px))] if pointing and one is not None else [],
        "parents": [],
        "named_by": asked_for.naming.how if asked_for.naming else "",
    }


def _labels(seed: str, screen: PastedScreen, asked_for: _Asked) -> list[Any]:
    grounding = asked_for.objective == "grounding"
    one = screen.elements[asked_for.place] if grounding and asked_for.place is not None else None
    return image_labels(screen, Random(f"labels/{seed}"), grounding=grounding, asked=one)


def of_lesson(names: Iterable[str], lesson: str) -> list[str]:
    """The pages of a lesson: for the held-out lesson those of held-out families, where a split has them; for any other
    those that training may see."""
    some = list(names)
    held = [name for name in some if name.startswith(HELD_OUT)]
    return (held or some) if lesson == KITS_HELD_OUT else [name for name in some if name not in set(held)]
