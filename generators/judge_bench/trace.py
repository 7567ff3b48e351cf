"""What the worlds of the judge bench record, and how a trace is performed again to confirm a label.

Everything is in the frame of the schema (0..1000, x right, y down), so a defect operator works on any world. `key` is
an element's identity in its world; no judge sees it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

from schemas.actions import Action

Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Place:
    """A visible, hit-tested element; `box` = left, top, right, bottom in 0..1000, clipped to the screen."""

    box: Box
    role: str
    text: str
    name: str
    key: str
    clickable: bool = True

    @property
    def centre(self) -> tuple[int, int]:
        left, top, right, bottom = self.box
        return int((left + right) / 2 + 0.5), int((top + bottom) / 2 + 0.5)

    def as_element(self) -> dict[str, Any]:
        """An element of the `screens` table."""
        return {"box": list(self.box), "role": self.role, "text": self.text, "name": self.name}


@dataclass(frozen=True)
class Shot:
    """A screenshot (encoded bytes) with the elements on it. `state` = digest of the world's state behind it."""

    png: bytes
    places: tuple[Place, ...]
    state: str = ""

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.png).hexdigest()

    def place(self, key: str) -> Place | None:
        """The element of a key; None if it isn't on the screen."""
        return next((place for place in self.places if key and place.key == key), None)


@dataclass(frozen=True)
class Move:
    """An action with what it is about. `key` and `box` name the element that was meant ("" and None: no element).

    `instruction` says the step in words. `thought` is what a source with thoughts would write before it ("" = none).
    `odd` names the kind of hard negative this sound step is ("" = an ordinary one).
    """

    action: Action
    instruction: str
    key: str = ""
    box: Box | None = None
    thought: str = ""
    odd: str = ""


@dataclass(frozen=True)
class Trace:
    """A recorded episode: `shots[k]` is the screen on which `moves[k]` was done; the last move is Finished.

    `start` is what `BenchWorld.start` needs to perform it again (plain JSON data). `checks` are (dotted path, value)
    pairs on the world's state that hold iff the goal is reached; `end_state` is the state at the last shot.
    `near_misses` are goals with one entity changed of which the world confirmed that the end state doesn't reach them.
    `failure` is set on traces of policies that failed by world state (the kind of natural error).
    """

    uid: str
    world: str
    family: str
    platform: str
    size_px: tuple[int, int]
    goal: str
    moves: tuple[Move, ...]
    shots: tuple[Shot, ...]
    start: Mapping[str, Any]
    checks: tuple[tuple[str, Any], ...]
    end_state: Mapping[str, Any]
    app: str = ""
    near_misses: tuple[str, ...] = ()
    odd: str = ""
    """The kind of hard negative the episode as a whole is ("" = an ordinary one)."""
    failure: str = ""

    def __post_init__(self) -> None:
        if len(self.moves) != len(self.shots) or not self.moves:
            raise ValueError(f"trace {self.uid}: {len(self.moves)} moves and {len(self.shots)} shots; expected as many")

    def with_moves(self, uid: str, moves: Sequence[Move], shots: Sequence[Shot]) -> Trace:
        """A copy with other steps."""
        return replace(self, uid=uid, moves=tuple(moves), shots=tuple(shots))


@dataclass(frozen=True)
class Referred:
    """A grounding item: an expression that means exactly one element of the screen."""

    expression: str
    place: Place


@dataclass(frozen=True)
class GroundingScreen:
    """A screen with expressions for its elements (a native grounding source)."""

    uid: str
    world: str
    family: str
    platform: str
    size_px: tuple[int, int]
    shot: Shot
    items: tuple[Referred, ...]
    odd: Mapping[int, str] = field(default_factory=dict)
    """Position in `items` → kind of hard negative (a tiny icon, nested elements, two alike told apart by place)."""


class WorldError(RuntimeError):
    """The world couldn't do what was asked: the message names the action or the element."""


class BenchWorld(Protocol):
    """An open world in which moves can be performed; deterministic by `start`."""

    name: str
    platform: str
    size_px: tuple[int, int]

    def start(self, start: Mapping[str, Any]) -> None:
        """Reset to the beginning of an episode."""
        ...

    def shot(self) -> Shot:
        """The screen as it stands."""
        ...

    def act(self, action: Action) -> None:
        """Carry out an action at its point, as a hand would (it may hit nothing). Finished and CallUser do nothing.
        Raises `WorldError` for an action this world doesn't have."""
        ...

    def state(self) -> dict[str, Any]:
        """The truth behind the screen, as plain JSON data."""
        ...


class Recorder(Protocol):
    """A source of sound traces: one per world. Registered in `generators.judge_bench.worlds.WORLDS`."""

    def open(self) -> AbstractContextManager[BenchWorld]:
        """The world, in a browser of its own."""
        ...

    def record(self, world: BenchWorld, count: int, seed: int) -> Iterator[Trace]:
        """`count` sound traces of varied families, each reached by world state; a seed that fails is skipped."""
        ...

    def grounding(self, world: BenchWorld, count: int, seed: int) -> Iterator[GroundingScreen]:
        """`count` screens with hit-tested expressions; none if the world has none."""
        ...


def reached(state: Mapping[str, Any], checks: Sequence[tuple[str, Any]]) -> bool:
    """Whether a state holds every value a goal asks for (see `generators.environments.pages.task.holds`)."""
    from generators.environments.pages.task import holds

    return bool(checks) and holds(dict(state), tuple((path, value) for path, value in checks))


def perform(world: BenchWorld, trace: Trace, moves: Sequence[Move] | None = None) -> tuple[list[Shot], dict[str, Any]]:
    """Perform a trace (or other moves from its start) again: (the screen before each move, the state at the end)."""
    world.start(trace.start)
    shots = []
    for move in trace.moves if moves is None else moves:
        shots.append(world.shot())
        world.act(move.action)
    return shots, world.state()


def arrive(world: BenchWorld, trace: Trace, moves: Sequence[Move]) -> dict[str, Any]:
    """The state after performing moves from a trace's start, without pictures."""
    world.start(trace.start)
    for move in moves:
        world.act(move.action)
    return world.state()
