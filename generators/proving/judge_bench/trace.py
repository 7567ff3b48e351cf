"""What the worlds of the judge bench record, and how a trace is performed again to confirm a label.

Everything is in the frame of the schema (0..1000, x right, y down), so a defect operator works on any world. `key` is
an element's identity in its world; no judge sees it.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from generators.proving.judge_bench.recorders.losses import Losses
from generators.tasks.world_interface import Box, Observation, ScreenElement, World
from generators.worlds.evaluators import holds
from schemas.actions import Action, CallUser


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

    `start` is what `World.reset` needs to perform it again (plain JSON data). `evaluator` holds on the world's state
    iff the goal is reached (`generators.worlds.evaluators`); `end_state` is the state at the last shot.
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
    shots: tuple[Observation, ...]
    start: Mapping[str, Any]
    evaluator: Mapping[str, Any]
    end_state: Mapping[str, Any]
    app: str = ""
    near_misses: tuple[str, ...] = ()
    odd: str = ""
    """The kind of hard negative the episode as a whole is ("" = an ordinary one)."""
    failure: str = ""

    def __post_init__(self) -> None:
        if len(self.moves) != len(self.shots) or not self.moves:
            raise ValueError(f"trace {self.uid}: {len(self.moves)} moves and {len(self.shots)} shots; expected as many")

    def with_moves(self, uid: str, moves: Sequence[Move], shots: Sequence[Observation]) -> "Trace":
        """A copy with other steps."""
        return replace(self, uid=uid, moves=tuple(moves), shots=tuple(shots))


@dataclass(frozen=True)
class Referred:
    """A grounding item: an expression that means exactly one element of the screen."""

    expression: str
    place: ScreenElement


@dataclass(frozen=True)
class GroundingScreen:
    """A screen with expressions for its elements (a native grounding source)."""

    uid: str
    world: str
    family: str
    platform: str
    size_px: tuple[int, int]
    shot: Observation
    items: tuple[Referred, ...]
    odd: Mapping[int, str] = field(default_factory=dict)
    """Position in `items` → kind of hard negative (a tiny icon, nested elements, two alike distinguished by place)."""


_World = TypeVar("_World", bound=World)


class TraceRecorder(Protocol[_World]):
    """A source of sound traces: one per world. Registered in `generators.proving.judge_bench.worlds.recorders`."""

    losses: Losses
    """What was seen since it was made and not handed out."""

    def open(self) -> AbstractContextManager[_World]:
        """The world, in a browser of its own."""
        ...

    def record(self, world: _World, count: int, seed: int) -> Iterator[Trace]:
        """`count` sound traces of varied families, each reached by world state; a seed that fails is skipped."""
        ...

    def grounding(self, world: _World, count: int, seed: int) -> Iterator[GroundingScreen]:
        """`count` screens with hit-tested expressions; none if the world has none."""
        ...


def reached(state: Mapping[str, object], evaluator: Mapping[str, object], moves: Sequence[Move] = ()) -> bool:
    """Whether the state after these moves, and what they told the user, fulfil a goal."""
    # The last answer counts: a user is told one thing in the end.
    answers = [move.action.content for move in moves if isinstance(move.action, CallUser)]
    return holds(evaluator, state, answers[-1] if answers else "")


def perform(
    world: World, trace: Trace, moves: Sequence[Move] | None = None
) -> tuple[list[Observation], dict[str, object]]:
    """Perform a trace (or other moves from its start) again: (the screen before each move, the state at the end)."""
    # From the start each time: the state is compared whole, so nothing of another trace may be left in it.
    world.reset(trace.start)
    shots = []
    for move in trace.moves if moves is None else moves:
        shots.append(world.observe())
        world.act(move.action)
    return shots, world.state()


def arrive(world: World, trace: Trace, moves: Sequence[Move]) -> dict[str, object]:
    """The state after performing moves from a trace's start, without pictures."""
    world.reset(trace.start)
    for move in moves:
        world.act(move.action)
    return world.state()
