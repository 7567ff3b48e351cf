"""What all wrappers share: everything goes to the world inside, and chance depends on seed, start and step alone."""

from collections.abc import Mapping
from random import Random
from typing import Any

from generators.tasks.world_interface import Observation, ScreenElement, World
from schemas.actions import Action
from schemas.ids import digest


class Wrapper:
    """The identity. A wrapper overrides what it declares."""

    def __init__(self, world: World, seed: int = 0) -> None:
        self.world = world
        self.name, self.platform, self.size_px = world.name, world.platform, world.size_px
        self.seed = seed
        self.step = 0
        """Actions since the reset."""
        self._start = ""

    @property
    def answer(self) -> str:
        """Text of the last CallUser, in worlds that keep it."""
        return str(getattr(self.world, "answer", ""))

    def chance(self, *what: object) -> Random:
        """Randomness of a decision: the same for the same seed, start and words, however often one looks."""
        # Seeded by words and not drawn in sequence, so that asking twice or in another order changes nothing.
        return Random(f"{type(self).__name__}/{self.seed}/{self._start}/{what!r}")

    def reset(self, start: Mapping[str, object]) -> None:
        self._begin(start)
        self.world.reset(start)

    # By digest: a start is JSON data, and equal starts must draw alike in every process.
    def _begin(self, start: Mapping[str, object]) -> None:
        self._start, self.step = digest(dict(start)), 0

    def observe(self) -> Observation:
        seen = self.world.observe()
        # A device may turn or resize between looks.
        self.size_px = self.world.size_px
        return seen

    def act(self, action: Action) -> None:
        self.step += 1
        self.world.act(action)

    def state(self) -> dict[str, Any]:
        return self.world.state()


def innermost(world: World) -> World:
    """The world itself, without its wrappers."""
    while isinstance(world, Wrapper):
        world = world.world
    return world


def elements_of(world: World) -> tuple[ScreenElement, ...]:
    """The elements on the screen, without a picture where the world can do without."""
    look = getattr(world, "elements", None)
    return tuple(look()) if callable(look) else world.observe().elements


def rate(value: float, name: str) -> float:
    """A share in 0..1. Raises `ValueError` with the option's name."""
    # bool first: True is an int, and "rate: true" in a configuration is a mistake.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError(f"{name}: expected a share in 0..1, found {value!r:.60}")
    return float(value)
