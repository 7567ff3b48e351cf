"""Defect operators: each makes a damaged copy of a sound trace and confirms that it is really damaged.

An operator returns None where it doesn't apply, or where the label couldn't be confirmed (by performing the moves
again, by the elements under the point, or by pixels): such a copy isn't made. Magnitudes are fixed here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from generators.proving.judge_bench.recorders.thoughts import thought
from generators.proving.judge_bench.trace import Move, Trace, arrive, perform, reached
from generators.tasks.world_interface import Box, Observation, ScreenElement, World, WorldError
from quality.items.pixels import changed_share, grey_small
from schemas.action_types import OPPOSITE, Click, Finished, PressBack, Scroll, Type, Wait
from schemas.actions import Action, format

SMALL_SHIFT, LARGE_SHIFT = (0.5, 1.25), (1.25, 2.0)
"""A shifted box moves by so many sizes of the element."""
LOOKS_ALIKE = 0.02
"""Share of pixels that may differ for two last screens to be called alike."""
WAITS = 3
TYPOS = ("{}s", "{} 2", "my {}", "{}x")


@dataclass(frozen=True)
class DamagedTrace:
    """A damaged trace. `step` is the labelled step's position, None where the whole episode is labelled."""

    trace: Trace
    step: int | None
    confirmed_by: str
    original: dict[str, Any]
    magnitude: float | None = None


@dataclass(frozen=True)
class Tools:
    """What operators may use: the open world, other sound traces, and randomness."""

    world: World
    others: Sequence[Trace]
    rng: Random


Make = Callable[[Trace, Tools], DamagedTrace | None]


@dataclass(frozen=True)
class Operator:
    """`defect` as in `quality.items.truth`; `held_out` operators are never trained on."""

    defect: str
    make: Make
    held_out: str = ""
    """"" (seen), "operator", or "magnitude"."""


# --- helpers ----------------------------------------------------------------------------------------------------------
def was(move: Move, shot: Observation) -> dict[str, object]:
    """What a step was before it was damaged."""
    return {"action": format(move.action), "box": move.box, "key": move.key, "screenshot": shot.sha256}


def _with_move(trace: Trace, at: int, move: Move, tag: str) -> Trace:
    moves = list(trace.moves)
    moves[at] = move
    return trace.with_moves(f"{trace.uid}~{tag}", moves, trace.shots)


def _pick(trace: Trace, rng: Random, good: Callable[[int], bool]) -> int | None:
    options = [at for at in range(len(trace.moves)) if good(at)]
    return rng.choice(options) if options else None


def _pointed(trace: Trace, at: int) -> bool:
    move = trace.moves[at]
    return isinstance(move.action, Click) and bool(move.key) and move.box is not None


def end_of(world: World, trace: Trace, moves: Sequence[Move]) -> dict[str, object] | None:
    """The state after performing moves from a trace's start; None if the world couldn't perform them."""
    try:
        return arrive(world, trace, moves)
    except WorldError:
        return None


def unreached(world: World, trace: Trace, moves: Sequence[Move]) -> bool:
    """Whether performing these moves doesn't reach the goal, not even when waited for (what loads, a late effect)."""
    end = end_of(world, trace, moves)
    # Moves that the world refuses reach nothing.
    if end is None:
        return True
    for _ in range(WAITS):
        if reached(end, trace.evaluator, moves):
            return False
        # What loads late isn't a failure.
        try:
            world.act(Wait())
        except WorldError:
            break
        end = world.state()
    return not reached(end, trace.evaluator, moves)


def differ(one: Observation, two: Observation) -> float:
    """Share of the picture that differs, 0..1."""
    if one.png == two.png:
        return 0.0
    return float(changed_share(grey_small(one.png), grey_small(two.png), 0.0))


def inside(box: Box, point: Sequence[float]) -> bool:
    return box[0] <= point[0] <= box[2] and box[1] <= point[1] <= box[3]


def other_elements(trace: Trace, at: int) -> list[ScreenElement]:
    """Clickable elements of a step's screen that are neither its target nor around it, the nearest first."""
    move = trace.moves[at]
    point = move.action.box  # type: ignore[union-attr]
    target = trace.shots[at].element(move.key)
    found = []
    for element in trace.shots[at].elements:
        # Elements of the same name could be meant as well.
        same = element.key == move.key or (target is not None and element.name == target.name)
        if element.clickable and element.key and not same and not inside(element.box, point):
            found.append(element)
    return sorted(found, key=lambda element: _gap(element.centre, point))


def _gap(one: Sequence[float], two: Sequence[float]) -> float:
    return float((one[0] - two[0]) ** 2 + (one[1] - two[1]) ** 2)


# --- defects of one step ----------------------------------------------------------------------------------------------
def off_by_one(offset: int) -> Make:
    """The screenshot of the step before or after stands in the place of the step's own."""

    def make(trace: Trace, tools: Tools) -> DamagedTrace | None:
        def good(at: int) -> bool:
            if not (_pointed(trace, at) and 0 <= at + offset < len(trace.shots)):
                return False
            other, move = trace.shots[at + offset], trace.moves[at]
            element = other.element(move.key)
            moved = element is None or not inside(element.box, move.action.box)  # type: ignore[union-attr]
            # Where the point would do on the other picture, the step isn't wrong.
            return moved and differ(trace.shots[at], other) > 0  # where the point would do as well, it is no defect

        at = _pick(trace, tools.rng, good)
        if at is None:
            return None
        shots = list(trace.shots)
        shots[at] = trace.shots[at + offset]
        damaged = trace.with_moves(f"{trace.uid}~off{offset:+d}", trace.moves, shots)
        return DamagedTrace(damaged, at, "hit_test", was(trace.moves[at], trace.shots[at]), float(offset))

    return make


def shifted_box(least: float, most: float) -> Make:
    """Point and target box lie off the element by `least` to `most` of its sizes."""

    def make(trace: Trace, tools: Tools) -> DamagedTrace | None:
        at = _pick(trace, tools.rng, lambda at: _pointed(trace, at))
        if at is None:
            return None
        move = trace.moves[at]
        assert isinstance(move.action, Click) and move.box is not None
        moved = shift(move.box, move.action.box, tools.rng, least, most)
        if moved is None:
            return None
        box, point, size = moved
        new = replace(move, action=Click(point), box=box)
        damaged = _with_move(trace, at, new, "shift")
        return DamagedTrace(damaged, at, "hit_test", was(move, trace.shots[at]), size)

    return make


def shift(
    box: Box, point: Sequence[int], rng: Random, least: float, most: float
) -> tuple[Box, tuple[int, int], float] | None:
    """Box and point moved along an axis by `least` to `most` sizes of the box: (box, point, sizes), on the screen and
    off the element; None where no side has room."""
    size = rng.uniform(least, most)
    wide, high = box[2] - box[0], box[3] - box[1]
    options = [(0.0, size * high), (0.0, -size * high), (size * wide, 0.0), (-size * wide, 0.0)]
    rng.shuffle(options)
    for dx, dy in options:
        to = (round(point[0] + dx), round(point[1] + dy))
        # Off the element and on the screen, or it is another defect or none.
        if 0 <= to[0] <= 1000 and 0 <= to[1] <= 1000 and not inside(box, to):
            left, top, right, bottom = (
                min(max(side + by, 0.0), 1000.0) for side, by in zip(box, (dx, dy, dx, dy), strict=True)
            )
            return (left, top, right, bottom), to, size
    return None


def flipped_scroll(trace: Trace, tools: Tools) -> DamagedTrace | None:
    """A scroll says the other way than the view moved."""
    at = _pick(
        trace,
        tools.rng,
        lambda at: (
            isinstance(trace.moves[at].action, Scroll)
            and at + 1 < len(trace.shots)
            # Only the view moved: the truth says that nothing else happened.
            and trace.shots[at].state == trace.shots[at + 1].state
        ),
    )
    if at is None or differ(trace.shots[at], trace.shots[at + 1]) == 0:
        return None
    move = trace.moves[at]
    action = move.action
    assert isinstance(action, Scroll)
    flipped = Scroll(action.end, action.start, OPPOSITE.get(action.direction, ""))
    words = move.instruction.replace(action.direction, OPPOSITE[action.direction]) if action.direction else ""
    new = replace(move, action=flipped, instruction=words, thought="")
    try:
        shots, _ = perform(tools.world, trace, [*trace.moves[:at], new, trace.moves[at]])
    except WorldError:
        return None
    # The other way must show something else, or nobody could tell.
    if shots[at + 1].png == trace.shots[at + 1].png:
        return None
    return DamagedTrace(_with_move(trace, at, new, "flip"), at, "replay", was(move, trace.shots[at]))


def wrong_element(near: bool) -> Make:
    """Another element is clicked than the one the step is about; the screens stay those of the right one."""

    def make(trace: Trace, tools: Tools) -> DamagedTrace | None:
        at = _pick(trace, tools.rng, lambda at: _pointed(trace, at) and len(other_elements(trace, at)) > 1)
        if at is None or at + 1 >= len(trace.shots):
            return None
        options = other_elements(trace, at)
        half = max(1, len(options) // 3)
        element = tools.rng.choice(options[:half] if near else options[half:] or options)
        move = trace.moves[at]
        new = replace(move, action=Click(element.centre), box=element.box)
        try:
            tools.world.reset(trace.start)
            for one in (*trace.moves[:at], new):
                tools.world.act(one.action)
            after = tools.world.observe()
        except WorldError:
            return None
        # Both state and pixels: some wrong clicks lead to the same place.
        if after.state == trace.shots[at + 1].state and differ(after, trace.shots[at + 1]) == 0:
            return None
        return DamagedTrace(_with_move(trace, at, new, "other"), at, "replay", was(move, trace.shots[at]))

    return make


def wrong_text(typo: bool) -> Make:
    """Another text is typed than the screens show: of another task, or the right one slightly changed."""

    def make(trace: Trace, tools: Tools) -> DamagedTrace | None:
        at = _pick(trace, tools.rng, lambda at: isinstance(trace.moves[at].action, Type))
        if at is None:
            return None
        move = trace.moves[at]
        typed = move.action.content  # type: ignore[union-attr]
        words = [tools.rng.choice(TYPOS).format(typed)] if typo else _texts(tools.others)
        options = [word for word in words if word.strip().lower() != typed.strip().lower()]
        if not options:
            return None
        new = replace(move, action=Type(tools.rng.choice(options)))
        moves = list(trace.moves)
        moves[at] = new
        # A text that reaches the goal is right, however it is written.
        if not unreached(tools.world, trace, moves):
            return None
        return DamagedTrace(_with_move(trace, at, new, "text"), at, "replay", was(move, trace.shots[at]))

    return make


def _texts(traces: Sequence[Trace]) -> list[str]:
    found = (move.action.content for trace in traces for move in trace.moves if isinstance(move.action, Type))
    return sorted({text for text in found if text.strip()})


def contradictory_thought(other_kind: bool) -> Make:
    """The thought announces another element, or another kind of action, than the step takes."""

    def make(trace: Trace, tools: Tools) -> DamagedTrace | None:
        at = _pick(trace, tools.rng, lambda at: bool(trace.moves[at].thought) and _pointed(trace, at))
        if at is None:
            return None
        move = trace.moves[at]
        options = [element for element in other_elements(trace, at) if element.name]
        if other_kind:
            action: Action = tools.rng.choice((PressBack(), Wait(), Scroll(direction="down"), Finished()))
            says = thought(action, trace.goal, "", tools.rng)
        elif options:
            says = thought(move.action, trace.goal, tools.rng.choice(options).name, tools.rng)
        else:
            return None
        new = replace(move, thought=says)
        return DamagedTrace(_with_move(trace, at, new, "thought"), at, "exact", {"thought": move.thought})

    return make


STEP_OPERATORS = {
    "off_by_one/next": Operator("off_by_one", off_by_one(+1)),
    "off_by_one/previous": Operator("off_by_one", off_by_one(-1), "operator"),
    "shifted_box/small": Operator("shifted_box", shifted_box(*SMALL_SHIFT)),
    "shifted_box/large": Operator("shifted_box", shifted_box(*LARGE_SHIFT), "magnitude"),
    "flipped_scroll": Operator("flipped_scroll", flipped_scroll),
    "wrong_element/near": Operator("wrong_element", wrong_element(near=True)),
    "wrong_element/far": Operator("wrong_element", wrong_element(near=False), "operator"),
    "wrong_text/other": Operator("wrong_text", wrong_text(typo=False)),
    "wrong_text/typo": Operator("wrong_text", wrong_text(typo=True), "operator"),
    "contradictory_thought/element": Operator("contradictory_thought", contradictory_thought(other_kind=False)),
    "contradictory_thought/kind": Operator("contradictory_thought", contradictory_thought(other_kind=True), "operator"),
}
