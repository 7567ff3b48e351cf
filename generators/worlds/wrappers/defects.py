"""Faults of a user interface, injected into a running world.

Declared faults, each with a rate of its own:
    dead_control   an element does nothing, for the whole episode (rate: share of the elements)
    neighbour_hit  a click lands on the nearest other element (rate: share of the clicks)
    lost_key       typing loses one letter (rate: share of the Type actions)
    stale_screen   the first look after an action shows the screen before it (rate: share of the actions)
    dialog         a notice covers the screen after an action until it is closed (phone only; share of the actions)
What was injected stands in `log`. `state` is the world's own.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from generators.tasks.world_interface import Observation, World
from generators.worlds.hit_test import under
from generators.worlds.wrappers.wrapper import Wrapper, elements_of, innermost, rate
from schemas.action_types import Click, DoubleClick, LongPress, Type
from schemas.actions import Action

NOTICES = (
    ("Software update", "Version 2.4.1 is ready to install. Your phone restarts once.", "Later"),
    ("Battery health", "Charging was paused to protect the battery.", "OK"),
    ("How do you like your phone?", "Tell us in the store what you think of it.", "Not now"),
    ("Storage", "Less than 10 % of the storage is free.", "Dismiss"),
)
"""(title, text, button) of dialogs that nobody opened."""
TOUCHED = Click | DoubleClick | LongPress


@dataclass(frozen=True)
class Rates:
    """How frequent each fault is, 0..1."""

    dead_control: float = 0.0
    neighbour_hit: float = 0.0
    lost_key: float = 0.0
    stale_screen: float = 0.0
    dialog: float = 0.0

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            rate(value, f"defects: {name}")


@dataclass(frozen=True)
class Injected:
    """A fault that happened at an action (counted from 1) and what it did, in words."""

    step: int
    fault: str
    what: str


def injected(world: World) -> list[Injected] | None:
    """What has happened in this episode; None for a world that isn't `Defective` under any of its wrappers."""
    while isinstance(world, Wrapper):
        if isinstance(world, Defective):
            return world.log
        world = world.world
    return None


class Defective(Wrapper):
    """See the module. Raises `ValueError` for dialogs in a world that has none to show."""

    def __init__(self, world: World, rates: Rates, seed: int = 0) -> None:
        super().__init__(world, seed)
        # Only the phone keeps its dialogs in the snapshot, where one can be put without acting.
        if rates.dialog and innermost(world).name != "phone":
            found = innermost(world).name
            raise ValueError(f"defects: dialog: only the phone shows one, found {found!r}; leave the rate at 0")
        self.rates = rates
        self.log: list[Injected] = []
        self._before: Observation | None = None

    def reset(self, start: Mapping[str, object]) -> None:
        self.log, self._before = [], None
        super().reset(start)

    def observe(self) -> Observation:
        # Once: the look after that shows the present, as a screen that was slow to redraw does.
        if self._before is not None:
            stale, self._before = self._before, None
            return stale
        return super().observe()

    def act(self, action: Action) -> None:
        # The number that the step will have: chance is asked before the action is carried out.
        step = self.step + 1
        stale = self._happens("stale_screen", step)
        # Looked at before anything is done; afterwards the old screen can't be had.
        before = self.world.observe() if stale else None
        done = self._damaged(action, step)
        if done is None:
            # A dead control costs a step, or later draws would come at
            # other numbers than in a world without it.
            self.step = step
        else:
            super().act(done)
        self._before = before
        if stale:
            self._note("stale_screen", "the next look shows the screen before this action")
        if self._happens("dialog", step):
            self._interrupt(step)

    def _happens(self, fault: str, *what: object) -> bool:
        share = getattr(self.rates, fault)
        # No draw at rate 0: the wrapper is then exactly the identity.
        return bool(share) and self.chance(fault, *what).random() < share

    def _note(self, fault: str, what: str) -> None:
        self.log.append(Injected(self.step, fault, what))

    def _damaged(self, action: Action, step: int) -> Action | None:
        """What is really done; None for nothing."""
        if isinstance(action, Type) and action.content and self._happens("lost_key", step):
            # One letter, anywhere; typing a single letter that is lost does nothing at all.
            at = self.chance("letter", step).randrange(len(action.content))
            self.log.append(Injected(step, "lost_key", f"letter {at + 1} of {len(action.content)}"))
            left = action.content[:at] + action.content[at + 1 :]
            return Type(left) if left else None
        if isinstance(action, TOUCHED) and (self.rates.dead_control or self.rates.neighbour_hit):
            return self._aimed(action, step)
        return action

    def _aimed(self, action: TOUCHED, step: int) -> Action | None:
        elements = [element for element in elements_of(innermost(self.world)) if element.clickable and element.key]
        target = under(elements, action.box)
        # Drawn by the element's key and not by the step: a control that is dead stays dead for the episode.
        if target is not None and self._happens("dead_control", target.key):
            self.log.append(Injected(step, "dead_control", target.key))
            return None
        if self._happens("neighbour_hit", step):
            others = [element for element in elements if target is None or element.key != target.key]
            x, y = action.box
            # Nearest by centres, as a finger that slips would hit.
            near = min(others, key=lambda p: (p.centre[0] - x) ** 2 + (p.centre[1] - y) ** 2, default=None)
            if near is not None:
                self.log.append(Injected(step, "neighbour_hit", near.key))
                return replace(action, box=near.centre)
        return action

    def _interrupt(self, step: int) -> None:
        """Put a notice on the phone, which is otherwise as it was, unless a dialog is open already."""
        phone: Any = innermost(self.world)
        state, answer = phone.state(), phone.answer
        # A second dialog over the first would hide it for good.
        if state["ui"]["dialog"]:
            return
        title, text, button = self.chance("notice", step).choice(NOTICES)
        # Shaped like the phone's own dialogs: nothing distinguishes it but that nobody asked for it.
        notice = {"kind": "confirm", "title": title, "text": text, "yes": button, "alert": True, "y": 0, "args": {}}
        state["ui"] |= {"dialog": notice, "focus": ""}
        # Resetting forgets the last answer, which the task's rule may need.
        phone.reset({"snapshot": state})
        phone.answer = answer
        self._note("dialog", title)
