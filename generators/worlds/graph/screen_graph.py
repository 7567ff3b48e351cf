"""A made-up app as a graph: screens, the icons on them, and where each leads (as in GUI Exploration Lab).

Everything that an agent can't see is here to be read: which screens there are, what is where, how far one is from
another. A graph is a pure function of its seed and its sizes.
"""

from collections import deque
from dataclasses import dataclass
from functools import lru_cache
from random import Random

COLOURS = {
    "red": (204, 51, 51),
    "blue": (51, 92, 204),
    "green": (46, 139, 87),
    "orange": (230, 126, 34),
    "purple": (128, 72, 168),
    # Kept small on purpose: names of two words from short lists are easy to read at this size.
    "brown": (121, 85, 61),
    "black": (40, 40, 40),
    "pink": (221, 95, 150),
}
SHAPES = ("circle", "square", "triangle", "diamond", "ring", "cross", "bar", "arch")
FIRST = ("Amber", "Birch", "Cedar", "Delta", "Ember", "Fjord", "Grove", "Harbor", "Iris", "Juniper", "Kelp", "Lunar")
SECOND = ("Atlas", "Board", "Cabin", "Desk", "Engine", "Field", "Gate", "House", "Index", "Journal")
MOST_SCREENS, MOST_ICONS = len(FIRST) * len(SECOND), 9
COLUMNS = 3


@dataclass(frozen=True)
class Icon:
    """On a screen: what it looks like, which cell it lies in and by how many pixels it is off, and where it leads."""

    shape: str
    colour: str
    cell: int
    offset: tuple[int, int]
    to: int

    @property
    def name(self) -> str:
        return f"{self.colour} {self.shape}"


@dataclass(frozen=True)
class ScreenGraph:
    """`names` and `icons` of the screens; the first screen is home."""

    names: tuple[str, ...]
    icons: tuple[tuple[Icon, ...], ...]

    def path(self, start: int, goal: int) -> list[Icon]:
        """The icons of a shortest way; every screen can be reached from every other."""
        came: dict[int, tuple[int, Icon]] = {}
        waiting = deque([start])
        while waiting and goal not in came and start != goal:
            here = waiting.popleft()
            for icon in self.icons[here]:
                # Never back to the start: its predecessor would make a circle when the way is read backwards.
                if icon.to not in came and icon.to != start:
                    came[icon.to] = here, icon
                    waiting.append(icon.to)
        found: list[Icon] = []
        while goal != start:
            goal, icon = came[goal]
            found.append(icon)
        return found[::-1]


@lru_cache(maxsize=64)
def make_graph(seed: int, screens: int, icons: int) -> ScreenGraph:
    """Raises `ValueError` for sizes that can't be drawn."""
    if not (2 <= screens <= MOST_SCREENS and 1 <= icons <= MOST_ICONS):
        raise ValueError(
            f"graph: expected 2 to {MOST_SCREENS} screens with 1 to {MOST_ICONS} icons, found {screens} and {icons}"
        )
    rng = Random(f"graph/{seed}/{screens}/{icons}")
    names = rng.sample([f"{one} {other}" for one in FIRST for other in SECOND], screens)
    # Every screen leads to the next of a ring, the rest is drawn.
    ring = rng.sample(range(screens), screens)  # so that no screen is out of reach
    after = {here: ring[(place + 1) % screens] for place, here in enumerate(ring)}
    return ScreenGraph(tuple(names), tuple(_icons(rng, here, after[here], screens, icons) for here in range(screens)))


def _icons(rng: Random, here: int, following: int, screens: int, count: int) -> tuple[Icon, ...]:
    others = [screen for screen in range(screens) if screen not in (here, following)]
    targets = [following, *rng.sample(others, min(count - 1, len(others)))]
    rng.shuffle(targets)
    # Looks differ on a screen; on different screens the same look may mean another thing.
    looks = rng.sample([(shape, colour) for shape in SHAPES for colour in COLOURS], len(targets))
    cells = rng.sample(range(MOST_ICONS), len(targets))
    return tuple(
        Icon(shape, colour, cell, (rng.randint(-8, 8), rng.randint(-6, 6)), to)
        for (shape, colour), cell, to in zip(looks, cells, targets, strict=True)
    )
