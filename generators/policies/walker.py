"""Moving about a world and remembering it: screens by what is visible, known edges, shortest known ways.

What to try where is `generators.policies.explorer`'s business.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from generators.environments.world import Observation, Place, World
from generators.policies.exploration import (
    Exploration,
    Screen,
    Way,
    act_name,
    fingerprint,
    normal,
    normal_words,
    standing,
)
from schemas.actions import Action, Click, Type, format, parse
from schemas.ids import digest

LEADERS = ("link", "listitem", "row", "cell")
LONGEST = 24
"""Actions after which a walk begins anew from the start: what was found on a long way is long to find again."""


class BudgetSpent(Exception):
    """The budget of actions is used up."""


class Walker:
    """Acts within a budget and notes every screen and edge in `found`. `offer` is called with each new
    screen."""

    def __init__(self, world: World, starts: Sequence[Mapping[str, Any]], budget: int) -> None:
        self.world, self.budget = world, budget
        self.found = Exploration([dict(start) for start in starts])
        self.screens = self.found.screens
        self.by_print: dict[str, int] = {}
        self.leads: dict[int, dict[str, tuple[int, str]]] = {}
        self.pages: dict[str, list[int]] = {}
        self.routes: dict[str, dict[str, str]] = {}  # page → element → page that it led to
        self.seen_on: dict[str, set[str]] = {}  # name of something that can be clicked → pages with it
        self.here = -1
        self.way: list[str] = []
        self.start = 0
        self.typed: list[str] = []
        self.places: tuple[Place, ...] = ()

    def offer(self, screen: Screen) -> None:
        """What to do with a new screen; nothing here."""

    # --- moving
    def look(self) -> tuple[Place, ...]:
        """Places alone where the world tells them without a picture: pictures are the slow part."""
        quick = getattr(self.world, "places", None)
        return tuple(quick()) if quick is not None else self.world.observe().places

    def reset(self, start: int) -> None:
        self.world.reset(self.found.starts[start])
        self.start, self.way, self.typed = start, [], []
        self.found.episodes.append((start, []))
        self.here = -1
        self.arrive("")

    def arrive(self, page: str) -> None:
        """Note the screen that the world shows now; `page` is the page's name where no heading shows."""
        self.places = self.look()
        name = fingerprint(self.places, self.typed)
        heading = next((normal_words(p.name, self.typed) for p in self.places if p.role == "heading"), "")
        label = heading or page
        number = self.by_print.get(f"{label}/{name}")
        if number is None:
            number = len(self.screens)
            self.by_print[f"{label}/{name}"] = number
            shot: Observation = self.world.observe()
            clickable = sorted(
                {f"{p.role}|{normal(p.name, self.typed)}|{standing(p, self.typed)}" for p in self.places if p.clickable}
            )
            self.screens.append(
                Screen(
                    number, name, label, shot.sha256, self.places, tuple(self.way), self.start, digest(clickable)[:16]
                )
            )
            self.leads[number] = {}
            self.pages.setdefault(label, []).append(number)
            for place in self.places:
                if place.role in LEADERS and len(place.name.split()) < 5:
                    self.seen_on.setdefault(place.name, set()).add(label)
            self.offer(self.screens[number])
        elif len(self.way) < len(self.screens[number].way):
            self.screens[number].way, self.screens[number].start = tuple(self.way), self.start
        self.here = number

    def do(self, action: Action, element: str = "", role: str = "") -> None:
        """Act and arrive. Raises `BudgetSpent`."""
        if self.found.actions >= self.budget:
            raise BudgetSpent
        self.found.actions += 1
        source, page = self.here, self.screens[self.here].page
        text, name = format(action), ""
        if isinstance(action, Click):
            place = next((p for p in self.places if p.clickable and p.centre == action.box), None)
            name = act_name(place, self.places) if place else ""
        self.world.act(action)
        if isinstance(action, Type):
            self.typed = sorted({*self.typed, action.content}, key=lambda t: (-len(t), t))
        self.way.append(text)
        self.found.episodes[-1][1].append(text)
        self.arrive(page)
        if name and self.screens[self.here].page != page:
            self.routes.setdefault(page, {}).setdefault(name, self.screens[self.here].page)
        if text not in self.leads[source]:
            self.leads[source][text] = (self.here, element)
            self.found.ways.append(Way(source, text, self.here, element, role))

    # --- walking
    def go(self, target: int) -> bool:
        """Walk to a screen by the shorter of two ways: known edges from here, or its first way from the start."""
        screen = self.screens[target]
        long = len(self.way) > max(LONGEST, len(screen.way) + 8)
        if self.here == target and not long:
            return True
        path = None if long else self.path(self.here, target)
        fresh = self.path(self.origin(screen.start), target) if screen.astray == 0 else None
        if path is not None and screen.astray == 0 and len(path) <= 1 + len(fresh if fresh is not None else screen.way):
            return self.walk(path, target)
        self.reset(screen.start)
        if fresh is not None and len(fresh) < len(screen.way):
            return self.walk(fresh, target)
        return self.walk(list(screen.way), target)

    def origin(self, start: int) -> int:
        return next(s.number for s in self.screens if s.start == start and not s.way)

    def walk(self, path: Sequence[str], target: int) -> bool:
        for action in path:
            if self.here == target:
                break
            self.do(parse(action))
        return self.here == target

    def path(self, source: int, target: int) -> list[str] | None:
        """Fewest actions between two screens along known edges; None if none are known."""
        came: dict[int, tuple[int, str]] = {source: (-1, "")}
        queue = deque([source])
        while queue:
            here = queue.popleft()
            if here == target:
                break
            for action, (there, _) in self.leads[here].items():
                if there not in came:
                    came[there] = here, action
                    queue.append(there)
        if target not in came:
            return None
        actions: list[str] = []
        while came[target][0] >= 0:
            target, action = came[target]
            actions.append(action)
        return actions[::-1]
