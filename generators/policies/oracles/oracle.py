"""What an oracle is: it knows the truth behind a screen and names the next right action, or why there is none.

`ScriptedAgent` asks its oracle at every turn, from where the world stands: whatever went wrong before, the advice fits.
A new kind of world gets an oracle of its own in a file `*_oracle.py`; a world with recorded paths needs none
(`plan_oracles.RecordedOracle`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from generators.tasks.task_spec import TaskSpec
from generators.tasks.world_interface import ScreenElement
from schemas.action_types import Click, Scroll
from schemas.actions import Action
from schemas.coordinates import contains

MOST_STROKES = 14
"""Scrolls in one direction in search of an element."""


@dataclass(frozen=True, slots=True)
class Advice:
    """The next right action, on the element of this role and name ("" where it is meant for none).

    `done`: the goal is reached; `action` is then None, or the CallUser that answers. No action and not done = there is
    no way, and `reason` says why. `then` = what comes after it, if this screen lets it be done at once.
    """

    action: Action | None = None
    role: str = ""
    name: str = ""
    done: bool = False
    reason: str = ""
    then: Action | None = None

    @property
    def gave_up(self) -> bool:
        return self.action is None and not self.done


class Oracle(Protocol):
    """Made for one kind of world. Deterministic. One episode at a time an object."""

    def begin(self, contract: TaskSpec) -> None:
        """Forget the last episode. Raises `ValueError` for a contract that isn't its own."""
        ...

    def next(self, elements: Sequence[ScreenElement], state: Mapping[str, object], last: Action | None) -> Advice:
        """Advice for the screen that shows `elements`, the world's truth being `state` (`World.state`).

        `last` is the action that was done last, None at the first turn: it says what has the focus, and whether the
        advice before was taken."""
        ...


def click_on(element: ScreenElement) -> Click:
    """A click at an element's centre, held within the screen."""
    x, y = element.centre
    # Centres of elements that reach over the edge may lie outside of 0..1000.
    return Click((min(max(x, 0), 1000), min(max(y, 0), 1000)))


def hits(action: Action | None, element: ScreenElement) -> bool:
    """Whether an action is a click on an element."""
    return isinstance(action, Click) and contains(element.box, action.box)


def named(
    elements: Sequence[ScreenElement], role: str, name: str, near: tuple[int, int] | None = None
) -> ScreenElement | None:
    """The element of a role and name; of several the one nearest to a point, else the first. None if there is none."""
    found = [element for element in elements if element.role == role and (element.name or element.text) == name]
    # The nearest to where it was when recorded: a list has many entries of one name.
    if near is not None:
        found.sort(key=lambda p: (p.centre[0] - near[0]) ** 2 + (p.centre[1] - near[1]) ** 2)
    return found[0] if found else None


class Search:
    """Scrolls in search of an element that doesn't show: one way until the screen stays as it is, then the other."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """The element was found, or isn't wanted any more."""
        self._aim: object = None
        self._ways: list[str] = []
        self._before: object = None
        self._strokes = 0

    def step(self, aim: object, elements: Sequence[ScreenElement], first: str = "down") -> Scroll | None:
        """The next scroll towards `aim` (anything that names it); None when both ends were seen."""
        # Another aim: its search begins anew, downwards unless told otherwise.
        if self._aim != aim:
            self.forget()
            self._aim, self._ways = aim, [first, "up" if first == "down" else "down"]
        now = [(element.box, element.role, element.text, element.name) for element in elements]
        # The screen didn't move, so this end is reached; or it moves for ever (an endless list).
        if now == self._before or self._strokes >= MOST_STROKES:
            self._ways = self._ways[1:]
            self._strokes = 0
        self._before = now
        if not self._ways:
            return None
        self._strokes += 1
        return Scroll(direction=self._ways[0])
