"""Screens of the worlds in nano's style, as material of its perception curriculum.

Pasted screens and layouts teach to see; these are what a trained model will look at. Oracles go through episodes
of seeds that no split of the staircase has, and every screen on their way is kept with its elements. Families whose
pages the grounding test holds back aren't among them.

A page is an episode: a PNG for each of its screens, and last a JSON file with what stands on them: places and letters.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any, cast

from generators.proving.perception.page_letters import LETTERS_JS
from generators.proving.perception.screens import Pasted, PastedScreen
from generators.proving.perception.sheets import SheetElement
from generators.tasks.world_interface import Observation, ScreenElement, World
from generators.worlds.nano_text import ADVANCE_PX, TEXT_PX
from pipelines.whole_files import whole_file
from schemas.coordinates import contains
from trainer.proving.staircase.choice import OpenWorlds
from trainer.proving.staircase.performing import perform
from trainer.proving.staircase.tasks import MOST_MISSED, WORLDS, Family, candidates, episodes

PixelBox = tuple[int, int, int, int]
Letter = tuple[str, float, float]
"""A character with its centre in pixels; "" where nobody knows what is written."""
VERSION = 3
"""Raise it when the same page gets other screens or elements."""
SEEDS = {"train": "seen", "test": "unseen"}
"""Episode seeds by the split of a page."""
ERROR_RATE = 0.3
"""Slips show pages that a faultless policy never sees."""
KINDS = {
    "link": "link",
    "textbox": "field",
    "combobox": "field",
    "checkbox": "checkbox",
    "switch": "checkbox",
    "radio": "radio",
    "tab": "tab",
    "button": "button",
}
"""Kind of a perception element by the role of a world's; any other is a text."""
UNWRITTEN = {
    "button": "icon",
    "link": "icon",
    "icon": "icon",
    "textbox": "field",
    "combobox": "field",
    "checkbox": "checkbox",
    "switch": "checkbox",
    "radio": "radio",
}
"""The same of what doesn't show its name itself: a sign, or a control with its label beside it."""
LINE_PX = 8.0
"""Letters whose middles differ by less stand on one line, mostly: lines are 18 px apart at least."""
LONGEST = 32
"""Characters of a name: more don't fit a line."""
SYSTEM = "sys:"
"""Keys of what belongs to the phone, not to a page."""


def page_families() -> list[Family]:
    """The families whose screens are shown; the worlds take turns."""
    # In turn, so that few pages show all worlds, however many families one has.
    by_world = [[family for family in candidates((world,)) if not family.held_out] for world in WORLDS]
    return [some[turn] for turn in range(max(map(len, by_world))) for some in by_world if turn < len(some)]


def draw_pages(folder: Path, names: Sequence[str], on_done: Callable[[int], Any] = lambda count: None) -> None:
    """Draw the pages that don't lie in the folder yet. A name is "<split>-<number>"; by its number a page has its
    family and its seed. An episode that can't be gone through leaves a page without screens."""
    folder.mkdir(parents=True, exist_ok=True)
    missing = [name for name in names if not (folder / f"{name}.json").exists()]
    families = page_families() if missing else []
    with OpenWorlds() as opened:
        # Worlds stay open from page to page: opening a browser takes longer than an episode.
        for count, name in enumerate(missing, 1):
            split, _, number = name.rpartition("-")
            # The number alone decides family and turn, so pages may be drawn in any order and in parts.
            turn, place = divmod(int(number), len(families))
            family = families[place]
            _draw(folder, name, family, SEEDS[split], turn, opened)
            on_done(count)


def _draw(folder: Path, name: str, family: Family, seeds: str, turn: int, opened: OpenWorlds) -> None:
    reader = _NotingWorld(opened(family.world))
    world = cast(World, reader)
    try:
        _, contract = next(episodes(family, seeds, world, turn * MOST_MISSED))
    except ValueError:  # the family has no episode here
        moments = None
    else:
        moments = perform(world, contract, Random(f"page/{name}"), ERROR_RATE)
    # A screen that came twice is one page: the last of its sha256, which are equal anyway.
    shots = list({moment.shot.sha256: moment.shot for moment in moments or ()}.values())
    screens = [{"places": [asdict(p) for p in shot.elements], "letters": reader.letters[shot.sha256]} for shot in shots]
    for number, shot in enumerate(shots):
        with whole_file(folder / f"{name}-{number}.png") as part:
            part.write_bytes(shot.png)
    with whole_file(folder / f"{name}.json") as part:
        part.write_text(json.dumps({"family": family.name, "screens": screens}), encoding="utf-8")


class _NotingWorld:
    """A world whose letters are noted whenever it is observed; else it is that world."""

    def __init__(self, world: Any) -> None:
        self._world = world
        self.letters: dict[str, list[list[Any]]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._world, name)

    def observe(self) -> Observation:
        shot: Observation = self._world.observe()
        if shot.sha256 not in self.letters:
            found = self._world.page.evaluate(LETTERS_JS)
            self.letters[shot.sha256] = [[letter, round(x, 1), round(y, 1)] for letter, x, y in found]
        return shot


def elements(
    places: Sequence[ScreenElement], size_px: tuple[int, int], letters: Sequence[Letter] = ()
) -> tuple[list[SheetElement], list[SheetElement]]:
    """(what can be asked for, all other texts that show), boxes in pixels of a screen of (width, height).

    A text that shows once means what a click on it would hit: the control of that name, else the smallest that it
    stands in, else the text itself. Where its `letters` stand inside of that, their box is the element's: a click there
    hits the same, and it is what is to be seen. What shows no text goes by its name, if no other has it: an icon.
    """
    by_name: dict[str, list[ScreenElement]] = {}
    for place in places:
        if place.name.strip() and not place.key.startswith(SYSTEM):
            by_name.setdefault(place.name.strip().casefold(), []).append(place)
    # Texts as a whole: a name counts as written wherever it stands on the screen.
    shown = "\n".join(place.text for place in places).casefold()
    found, other = [], []
    for name, some in by_name.items():
        meant = _meant(some, places)
        kind = _kind(meant.role, name in shown) if meant is not None else ""
        if meant is not None and kind and len(name) <= LONGEST:
            box = _pixels(meant, size_px)
            found.append(SheetElement(kind, some[0].name.strip(), "", spelled(name, box, letters) or box))
        else:
            other.append(SheetElement("text", some[0].name.strip(), "", _pixels(some[0], size_px)))
    return found, other


def written(
    places: Sequence[ScreenElement], size_px: tuple[int, int], letters: Sequence[Letter] = ()
) -> list[SheetElement]:
    """Every text with the box of its letters, or else that which it stands in; what holds another text shows none."""
    texts = [place for place in places if place.text.strip()]
    found = []
    for one in texts:
        if not any(_area(other) < _area(one) and _holds(one, other.centre) for other in texts):
            text, box = one.text.strip(), _pixels(one, size_px)
            found.append(SheetElement("text", text, "", spelled(text, box, letters) or box))
    return found


def spelled(text: str, box: PixelBox, letters: Sequence[Letter]) -> PixelBox | None:
    """The box around the letters inside a box that spell a text, line by line; None where they don't."""
    left, top, right, bottom = box
    inside = [one for one in letters if one[0] and left <= one[1] <= right and top <= one[2] <= bottom]
    # By line first, then from left to right, as one reads.
    inside.sort(key=lambda one: (round(one[2] / LINE_PX), one[1]))
    wanted = "".join(text.split()).casefold()
    at = "".join(letter for letter, _, _ in inside).casefold().find(wanted)
    if at < 0 or not wanted:
        return None
    some = inside[at : at + len(wanted)]
    across, down = [x for _, x, _ in some], [y for _, _, y in some]
    # Letters are noted by their centres; half a letter's width and a line's height lie around them.
    return (
        round(min(across) - ADVANCE_PX / 2),
        round(min(down) - TEXT_PX / 2),
        round(max(across) + ADVANCE_PX / 2),
        round(max(down) + TEXT_PX / 2),
    )


def _meant(named: Sequence[ScreenElement], places: Sequence[ScreenElement]) -> ScreenElement | None:
    """What the places of one name mean; None where that isn't certain, or there is nothing to be seen."""
    controls = [place for place in named if place.clickable]
    if controls:
        # The smallest of those of one name, which must lie within all the
        # others: else the name means two controls.
        least = min(controls, key=_area)
        return least if all(_holds(one, least.centre) for one in controls) else None
    if len(named) > 1 or not named[0].text:
        return None
    # A text within a control: a click on it hits the control.
    around = [place for place in places if place.clickable and _holds(place, named[0].centre)]
    return min(around, key=_area) if around else named[0]


def _kind(role: str, is_written: bool) -> str:
    """Kind of an element whose name can be read, or can't; "" if then nobody could know it."""
    return KINDS.get(role, "text") if is_written else UNWRITTEN.get(role, "")


def _holds(place: ScreenElement, point: tuple[int, int]) -> bool:
    return contains(list(place.box), point)


def _area(place: ScreenElement) -> float:
    left, top, right, bottom = place.box
    return (right - left) * (bottom - top)


def _pixels(place: ScreenElement, size_px: tuple[int, int]) -> PixelBox:
    wide, high = size_px[0] / 1000, size_px[1] / 1000
    left, top, right, bottom = place.box
    return round(left * wide), round(top * high), round(right * wide), round(bottom * high)


def read_screens(folder: Path, name: str) -> tuple[tuple[PastedScreen, tuple[SheetElement, ...]], ...]:
    """The screens of a drawn page that have something to be asked for, each with its other texts."""
    import numpy as np
    from PIL import Image

    plain: Mapping[str, Any] = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    found = []
    for number, shown in enumerate(plain["screens"]):
        with Image.open(folder / f"{name}-{number}.png") as opened:
            pixels = np.asarray(opened.convert("RGB"))
        places = [ScreenElement(**{**one, "box": tuple(one["box"])}) for one in shown["places"]]
        size_px = (pixels.shape[1], pixels.shape[0])
        letters = tuple((str(letter), float(x), float(y)) for letter, x, y in shown["letters"])
        asked, other = elements(places, size_px, letters)
        signs = [one for one in asked if one.kind == "icon"]
        if asked:
            texts = written(places, size_px, letters)
            screen = PastedScreen(pixels, _placed(asked), _placed([*texts, *signs]), letters)
            found.append((screen, tuple(other)))
    return tuple(found)


def _placed(drawn: Sequence[SheetElement]) -> tuple[Pasted, ...]:
    return tuple(Pasted(one, one.box) for one in drawn)
