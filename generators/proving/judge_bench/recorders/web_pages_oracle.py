"""The scripted hand on web pages: it reads the DOM, does one thing after another and notes screen and move before each.

A skill does one thing that the page offers and says it as a clause of the goal, with the checks that prove it and with
the same thing done to other entities (for near misses).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from generators.proving.judge_bench.recorders.web_pages_words import CLEAR, CLICK, DONE, ENTER, HOVER, SCROLL, TYPE
from generators.proving.judge_bench.trace import Move
from generators.tasks.world_interface import Observation, WorldError
from generators.worlds.static_pages.static_pages_world import WebWorld
from generators.worlds.web_reader import ObservedElement
from schemas.action_types import Click, Finished, Hotkey, Hover, PressEnter, Scroll, Type
from schemas.actions import Action

Checks = tuple[tuple[str, Any], ...]
MOST_STROKES = 5
FIELDS = frozenset(("textbox", "searchbox", "spinbutton"))
TEXT_TYPES = frozenset(("text", "email", "search", "number", "password", "tel", "url", "textarea"))
TICKED = frozenset(("checkbox", "radio", "switch"))


@dataclass(frozen=True)
class Clause:
    """One thing done. `others`: (slots, checks) of the same thing with one entity changed."""

    templates: tuple[str, ...]
    slots: dict[str, str]
    checks: Checks
    others: tuple[tuple[dict[str, str], Checks], ...] = ()

    def say(self, template: int, slots: dict[str, str] | None = None) -> str:
        return self.templates[template % len(self.templates)].format(**(slots or self.slots))


@dataclass
class WebPageOracle:
    """What was done so far: `moves[k]` on `shots[k]`."""

    world: WebWorld
    rng: Random
    moves: list[Move] = field(default_factory=list)
    shots: list[Observation] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    """What each move is about, in words, for its thought."""

    def do(self, action: Action, phrases: Sequence[str], seen: ObservedElement | None = None, **slots: str) -> None:
        """Note the screen and the move, then act."""
        # Before the action: the trace pairs a move with the screen that it was decided on.
        shot = self.world.observe()
        place = shot.element(seen.key) if seen else None
        if seen and place is None:
            raise WorldError(f"{self.world.name}: {seen.key} isn't where it was seen")
        words = self.rng.choice(list(phrases)).format(name=seen.label if seen else "", **slots)
        self.shots.append(shot)
        self.moves.append(Move(action, words, seen.key if seen else "", place.box if place else None))
        self.names.append(seen.label if seen else "")
        self.world.act(action)

    def reveal(self, key: str) -> ObservedElement:
        """Scroll until the element shows well. Raises `WorldError` if it doesn't."""
        for _ in range(MOST_STROKES):
            found = next((seen for seen in self.world.see() if seen.key == key and seen.share > 0.7), None)
            if found:
                return found
            where = self.world.page.evaluate("key => vesperWhere(key)", key)
            if where is None or (where["top"] >= 0 and where["bottom"] <= where["height"]):
                break  # it is there, but something covers it
            direction = "down" if where["bottom"] > where["height"] else "up"
            self.do(Scroll(direction=direction), SCROLL, direction=direction)
        raise WorldError(f"{self.world.name}: {key} didn't come into view")

    def point(self, seen: ObservedElement) -> tuple[int, int]:
        """A point well inside the element, in 0..1000, that hits it."""
        left, top, right, bottom = seen.box
        across, down = self.rng.uniform(0.35, 0.65), self.rng.uniform(0.4, 0.6)
        x, y = left + (right - left) * across, top + (bottom - top) * down
        width, height = self.world.size_px
        # Rounded to the frame's grid, which is coarser than pixels on
        # wide screens: so it is hit-tested once more.
        point = int(x * 1000 / width + 0.5), int(y * 1000 / height + 0.5)
        if not self.world.hits(seen.key, point):
            place = self.world.element(seen)
            point = place.centre if place else point
        return point

    def click(self, key: str, kind: str = "") -> ObservedElement:
        """Click the element, which must be the only one of its name on the screen."""
        seen = self.reveal(key)
        if not alone(seen, self.world.see()):
            raise WorldError(f"{self.world.name}: {seen.label!r} is the name of several elements on the screen")
        self.do(Click(self.point(seen)), CLICK[kind], seen)
        return seen

    def type(self, key: str, text: str) -> None:
        """Replace what stands in a field."""
        seen = self.click(key, "field")
        if seen.raw["value"]:
            # A click only puts the cursor into the field; typing would add to the old text.
            self.do(Hotkey(("ctrl", "a")), CLEAR)
        # Seen anew: the click may have scrolled the page or opened something.
        self.do(Type(text), TYPE, self.reveal(key), text=text)

    def hover(self, key: str) -> None:
        seen = self.reveal(key)
        self.do(Hover(self.point(seen)), HOVER, seen)

    def enter(self) -> None:
        self.do(PressEnter(), ENTER)

    def finish(self) -> None:
        self.do(Finished(), DONE)


# --- what a page offers -----------------------------------------------------------------------------------------------
def sayable(name: str) -> bool:
    """Whether a name can stand in a goal."""
    return 2 <= len(name) <= 40 and any(letter.isalpha() for letter in name) and not set('"{}\n') & set(name)


def alone(seen: ObservedElement, among: Iterable[ObservedElement]) -> bool:
    """Whether no other control has the element's name."""
    name = seen.label.casefold()
    return not any(
        other.key != seen.key and other.clickable and name in (other.label.casefold(), other.name.casefold())
        for other in among
    )


def shows_name(seen: ObservedElement) -> bool:
    """Whether a person can read the element's name on the screen."""
    if seen.role in FIELDS:
        return bool(seen.raw["caption"]) or (not seen.raw["value"] and seen.text == seen.name)
    return seen.role in TICKED or seen.name == seen.text


def named(offers: list[ObservedElement], wanted: Callable[[ObservedElement], bool]) -> list[ObservedElement]:
    """Controls of the kind whose visible name is theirs alone."""
    found = [seen for seen in offers if seen.clickable and wanted(seen)]
    return [seen for seen in found if sayable(seen.label) and shows_name(seen) and alone(seen, offers)]
