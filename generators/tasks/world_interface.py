"""The contract of a world: reset to a snapshot, look, act, read the truth. Everything that acts on screens uses it.

Frame: 0..1000, x right, y down, origin top left, whatever the picture's size. `key` is an element's identity in its
world; a policy or judge that sees only what real sources have never sees it.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

from schemas.actions import Action
from schemas.coordinates import OffScreen, box_to_unit, rounded_centre

Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class ScreenElement:
    """A visible, hit-tested element; `box` = left, top, right, bottom in 0..1000, clipped to the screen."""

    box: Box
    role: str
    text: str
    name: str
    key: str
    clickable: bool = True

    @classmethod
    def on_screen(
        cls, box_px: Box, size_px: tuple[int, int], role: str, text: str, name: str, key: str, clickable: bool = True
    ) -> "ScreenElement | None":
        """The element of a box in pixels of the screen; None where the box lies outside it."""
        try:
            left, top, right, bottom = box_to_unit(box_px, size_px)
        except OffScreen:
            return None
        return cls((left, top, right, bottom), role, text, name, key, clickable)

    @property
    def centre(self) -> tuple[int, int]:
        return rounded_centre(self.box)

    def as_element(self) -> dict[str, object]:
        """An element of the `screens` table."""
        return {"box": list(self.box), "role": self.role, "text": self.text, "name": self.name}


@dataclass(frozen=True)
class Observation:
    """A screenshot (encoded bytes) with the elements on it. `state` = digest of the world's state behind it; `said` =
    what the world answers in words to the action before: the page's address after a GetUrl, else ""."""

    png: bytes
    elements: tuple[ScreenElement, ...]
    state: str = ""
    said: str = ""

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.png).hexdigest()

    def element(self, key: str) -> ScreenElement | None:
        """The element of a key; None if it isn't on the screen."""
        return next((element for element in self.elements if key and element.key == key), None)


class WorldError(RuntimeError):
    """The world couldn't do what was asked: the message names the action or the element."""


class UnsupportedAction(WorldError):
    """This world has no such action (a phone has no Hover); the message names both."""


@runtime_checkable
class World(Protocol):
    """An open world in which actions can be performed; deterministic by the state it is reset to."""

    name: str
    platform: str
    size_px: tuple[int, int]

    def reset(self, start: Mapping[str, object]) -> None:
        """Go to the beginning of an episode. `start` is plain JSON data, `tasks.initial_state`."""
        ...

    def observe(self) -> Observation:
        """The screen as it stands."""
        ...

    def act(self, action: Action) -> None:
        """Carry out an action at its point, whatever lies there (it may hit nothing). Finished, CallUser
        and TakeNote do nothing; what a GetUrl asks for is said by the next observation.
        Raises `UnsupportedAction` for an action this world doesn't have, `WorldError` if it can't be carried out."""
        ...

    def state(self) -> dict[str, Any]:
        """The truth behind the screen, as plain JSON data, read out of band: no policy or judge sees it."""
        ...
