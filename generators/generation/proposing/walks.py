"""Walks over a world: what was carried out and seen, without loops, up to what lasts; and where to walk (GUI-ReWalk).

A walk is a way that a run took, or a stochastic stride over its graph followed by a reasoned one: the shortest
known way to a screen that is to be reached.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from generators.policies.exploration import FIELDS, Exploration, Way, fingerprint
from generators.tasks.world_interface import ScreenElement, World
from schemas.action_types import Click, Type
from schemas.actions import Action, parse
from schemas.coordinates import contains
from schemas.ids import digest

Passing = Callable[[str], bool]
"""Whether a path of the state ("variables.error") passes by itself and so can't be what a task is about."""

MOST_STEPS = 40


@dataclass(frozen=True)
class WalkStep:
    """What was visible before and after an action; `element` is what it worked, where that could be seen; `lasting`
    whether something changed in the truth that doesn't pass by itself."""

    before: tuple[ScreenElement, ...]
    action: Action
    after: tuple[ScreenElement, ...]
    element: ScreenElement | None
    lasting: bool = True


@dataclass(frozen=True)
class Walk:
    """Actions that were carried out, with the world's state at both ends."""

    steps: tuple[WalkStep, ...]
    first_state: Mapping[str, Any]
    last_state: Mapping[str, Any]
    end: str


def record(
    world: World, start: Mapping[str, object], actions: Sequence[Action], passing: Passing | None = None
) -> Walk:
    """Carry actions out from a fresh start and note what was visible. Raises `WorldError` where that isn't possible."""
    # A world that tells its tree without a picture is asked for the tree alone, which is much faster.
    look = getattr(world, "elements", None) or (lambda: world.observe().elements)
    world.reset(start)
    first, seen, steps = world.state(), tuple(look()), []
    typed: list[str] = []
    # The field that was clicked last: what is typed goes there and is told of it.
    focus: ScreenElement | None = None
    state = first
    for action in actions:
        element = focus
        if isinstance(action, Click):
            # The first clickable in document order that contains the
            # point; deeper ones come later in the tree.
            element = next((p for p in seen if p.clickable and contains(p.box, action.box)), None)
            focus = element if element is not None and element.role in FIELDS else None
        world.act(action)
        if isinstance(action, Type):
            typed.append(action.content)
        after = tuple(look())
        now = world.state()
        # Compared with the step before and not with the start, so that each step owns its own change.
        lasting = bool(changes(state, now, passing or history_passes))
        steps.append(WalkStep(seen, action, after, element if isinstance(action, Click | Type) else None, lasting))
        seen, state = after, now
    # Texts typed on the way are masked in the fingerprint: where a walk ends doesn't depend on what it typed.
    return Walk(tuple(steps), first, world.state(), fingerprint(seen, sorted(set(typed))))


def without_loops(walk: Walk) -> list[Action]:
    """The walk's actions without stretches that lead back to a screen as it was (boxes, texts and all)."""
    kept: list[Action] = []
    seen: list[str] = [exact(walk.steps[0].before)] if walk.steps else []
    for step in walk.steps:
        now = exact(step.after)
        # Clicks and typing that change nothing visible may still matter
        # (focus), so they stay unless they lead back further.
        if now in seen and not isinstance(step.action, Click | Type) or now in seen and now != seen[-1]:
            at = seen.index(now)
            # Everything after the first time at this screen, this step too.
            del kept[at:], seen[at + 1 :]
        else:
            kept.append(step.action)
            seen.append(now)
    return kept


def until_it_lasts(walk: Walk) -> list[Action]:
    """The walk's actions up to the last one that changed something for good."""
    last = max((n for n, step in enumerate(walk.steps) if step.lasting), default=-1)
    return [step.action for step in walk.steps[: last + 1]]


def exact(elements: Sequence[ScreenElement]) -> str:
    # Boxes count here: scrolling moves them, so a scrolled page isn't the same screen.
    return digest([(list(p.box), p.role, p.name, p.text) for p in elements])


def candidates(exploration: Exploration, count: int, seed: int) -> Iterator[tuple[Mapping[str, object], list[Action]]]:
    """(start, actions) of up to `count` walks: explored ways and stochastic-then-reasoned ones, in turn."""
    rng = Random(f"reverse-tasks/{seed}")
    ways = [s for s in exploration.screens if 0 < len(s.way) <= MOST_STEPS]
    rng.shuffle(ways)
    for number in range(count):
        # In turn, so that short explorations don't use up their ways before anything is drawn.
        if number % 2 == 0 and number // 2 < len(ways):
            screen = ways[number // 2]
            yield exploration.starts[screen.start], [parse(action) for action in screen.way]
        else:
            found = rewalk(exploration, rng)
            if found is not None:
                yield found


def rewalk(exploration: Exploration, rng: Random) -> tuple[Mapping[str, object], list[Action]] | None:
    """A stochastic stride of 2 to 8 known edges, then the shortest known way to a screen where something was achieved
    (a button led there). None where the graph has no such way."""
    out: dict[int, list[Way]] = {}
    for way in exploration.ways:
        out.setdefault(way.source, []).append(way)
    origins = [screen for screen in exploration.screens if not screen.way]
    # Buttons do things; links only lead somewhere. Sorted: sets have no order to draw from.
    goals = sorted({way.target for way in exploration.ways if way.role == "button" and way.target != way.source})
    if not origins or not goals:
        return None
    origin = rng.choice(origins)
    here, actions = origin.number, list[Action]()
    # 2 to 8 random edges give variety, the shortest way after them gives an end worth naming.
    for _ in range(rng.randint(2, 8)):
        if not out.get(here):
            break
        way = rng.choice(out[here])
        actions.append(parse(way.action))
        here = way.target
    target = rng.choice(goals)
    path = _shortest(out, here, target)
    if path is None or len(actions) + len(path) > MOST_STEPS:
        return None
    return exploration.starts[origin.start], [*actions, *path]


# Breadth first over recorded edges; the first way found to a screen is a shortest one.
def _shortest(out: Mapping[int, Sequence[Way]], source: int, target: int) -> list[Action] | None:
    came: dict[int, Way | None] = {source: None}
    queue = deque([source])
    while queue and target not in came:
        for way in out.get(queue.popleft(), ()):
            if way.target not in came:
                came[way.target] = way
                queue.append(way.target)
    if target not in came:
        return None
    actions: list[Action] = []
    last = came[target]
    while last is not None:
        actions.append(parse(last.action))
        last = came[last.source]
    return actions[::-1]


# `passing` leaves out counters and messages that would make every path its own task.
def changes(before: Mapping[str, object], after: Mapping[str, object], passing: Passing) -> list[list[object]]:
    """Conditions [path, "eq", value] on what differs between two states and lasts, in order of their paths."""
    old, new = dict(_flat(before)), dict(_flat(after))
    return [[path, "eq", value] for path, value in sorted(new.items()) if old.get(path) != value and not passing(path)]


def _flat(state: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in state.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        # Lists and floats aren't compared: a condition needs a value that equality decides.
        elif isinstance(value, str | int | bool):
            yield f"{prefix}{name}", value


def history_passes(path: str) -> bool:
    """The least that passes: the history."""
    return path == "history"
