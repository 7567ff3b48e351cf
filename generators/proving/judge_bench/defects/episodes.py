"""Defects of whole traces (`steps` has those on one): steps missing or out of order, wrong ends, wrong goals."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from generators.proving.judge_bench.defects.steps import (
    LOOKS_ALIKE,
    DamagedTrace,
    Make,
    Operator,
    Tools,
    differ,
    unreached,
)
from generators.proving.judge_bench.trace import Move, Trace, arrive, perform, reached
from generators.tasks.world_interface import Observation, WorldError
from schemas.action_types import Click
from schemas.actions import format
from schemas.coordinates import contains

BLANKS = tuple((x, y) for y in (880, 620, 400, 240, 130) for x in (960, 40, 500, 700, 250))
"""Points tried for a click that does nothing."""


def _provenance(trace: Trace) -> dict[str, Any]:
    return {"goal": trace.goal, "actions": [format(move.action) for move in trace.moves]}


def skipped_step(count: int) -> Make:
    """`count` recorded steps are missing from the middle; the other screens stay as they were."""

    def make(trace: Trace, tools: Tools) -> DamagedTrace | None:
        last = len(trace.moves) - 1
        # Without its first steps a trace only starts later: nothing is wrong with that.
        options = [at for at in range(1, last - count + 1) if differ(trace.shots[at], trace.shots[at + count]) > 0]
        tools.rng.shuffle(options)
        for at in options:
            moves = [*trace.moves[:at], *trace.moves[at + count :]]
            # Performed again: skipping a step that the goal doesn't need is no defect.
            if len(moves) > 1 and unreached(tools.world, trace, moves):
                shots = [*trace.shots[:at], *trace.shots[at + count :]]
                damaged = trace.with_moves(f"{trace.uid}~skip{count}", moves, shots)
                return DamagedTrace(damaged, None, "replay", {**_provenance(trace), "at": at}, float(count))
        return None

    return make


def shuffled_steps(reverse: bool) -> Make:
    """Three or more steps stand in another order, each with its own screen."""

    def make(trace: Trace, tools: Tools) -> DamagedTrace | None:
        body = list(range(len(trace.moves) - 1))
        if len(body) < 3 or len({trace.shots[at].png for at in body}) < 3:
            return None
        order = body[::-1] if reverse else tools.rng.sample(body, len(body))
        # Fewer than three out of place could be a recording's own order.
        if sum(a != b for a, b in zip(order, body, strict=True)) < 3:
            return None
        after = {(trace.shots[a].png, trace.shots[a + 1].png) for a in body}
        strange = sum(
            (trace.shots[a].png, trace.shots[b].png) not in after for a, b in zip(order, order[1:], strict=False)
        )
        if not strange:  # the screens follow one another as before: nobody could tell
            return None
        order.append(len(body))
        damaged = trace.with_moves(
            f"{trace.uid}~shuffle", [trace.moves[at] for at in order], [trace.shots[at] for at in order]
        )
        return DamagedTrace(damaged, None, "pixels", {**_provenance(trace), "order": order}, float(strange))

    return make


def _idle(trace: Trace, at: int, action: Click, tools: Tools) -> bool:
    """Whether an action changes nothing on the screen of step `at`, neither the picture nor the state."""
    try:
        tools.world.reset(trace.start)
        for move in trace.moves[:at]:
            tools.world.act(move.action)
        before = tools.world.observe()
        tools.world.act(action)
        after = tools.world.observe()
    except WorldError:
        return False
    # Neither the pixels nor the truth: a click that only stores something isn't idle.
    return before.png == after.png and before.state == after.state


def noop_loop(blank: bool) -> Make:
    """Two to four clicks that do nothing, on blank ground or where the step before had clicked."""

    def make(trace: Trace, tools: Tools) -> DamagedTrace | None:
        at = tools.rng.randrange(1, len(trace.moves))
        before = trace.moves[at - 1]
        if blank:
            # No blank point: the screen is full of controls.
            action = next((Click(point) for point in BLANKS if not _held(trace.shots[at], point)), None)
            words = "Click here"
        else:
            action, words = before.action if isinstance(before.action, Click) else None, before.instruction
        if action is None or not _idle(trace, at, action, tools):
            return None
        times = tools.rng.randint(2, 4)
        idle = [Move(action, words, "" if blank else before.key, None if blank else before.box)] * times
        moves = [*trace.moves[:at], *idle, *trace.moves[at:]]
        shots = [*trace.shots[:at], *[trace.shots[at]] * times, *trace.shots[at:]]
        damaged = trace.with_moves(f"{trace.uid}~noop", moves, shots)
        return DamagedTrace(damaged, None, "replay", {**_provenance(trace), "at": at, "times": times}, float(times))

    return make


def _held(shot: Observation, point: Sequence[int]) -> bool:
    return any(element.clickable and contains(element.box, point) for element in shot.elements)


def premature_finish(late: bool) -> Make:
    """The trace stops before the goal is reached and says that it is finished; `late` = one action before the end."""

    def make(trace: Trace, tools: Tools) -> DamagedTrace | None:
        body = len(trace.moves) - 1
        if body < (2 if late else 3):
            return None
        # One action short, or at least two.
        keep = body - 1 if late else tools.rng.randint(1, body - 2)
        if not unreached(tools.world, trace, trace.moves[:keep]):
            return None
        moves = [*trace.moves[:keep], trace.moves[-1]]
        damaged = trace.with_moves(f"{trace.uid}~early", moves, trace.shots[: keep + 1])
        return DamagedTrace(damaged, None, "replay", {**_provenance(trace), "kept": keep}, float(body - keep))

    return make


def finish_without_goal(trace: Trace, tools: Tools) -> DamagedTrace | None:
    """A required step wasn't made, truly performed so, and the last screen looks like the right one."""
    body = list(range(len(trace.moves) - 1))
    tools.rng.shuffle(body)
    for at in body:
        moves = [*trace.moves[:at], *trace.moves[at + 1 :]]
        if len(moves) < 2:
            continue
        try:
            end = arrive(tools.world, trace, moves)
            # First a cheap look at the end; only then all screens are recorded.
            if reached(end, trace.evaluator, moves) or differ(tools.world.observe(), trace.shots[-1]) > LOOKS_ALIKE:
                continue
            shots, end = perform(tools.world, trace, moves)
        except WorldError:
            continue
        if not reached(end, trace.evaluator, moves) and (apart := differ(shots[-1], trace.shots[-1])) <= LOOKS_ALIKE:
            damaged = replace(trace.with_moves(f"{trace.uid}~without", moves, shots), end_state=end)
            return DamagedTrace(damaged, None, "replay", {**_provenance(trace), "at": at}, apart)
    return None


def other_task(same_app: bool) -> Make:
    """The instruction of another task, which the trace's end doesn't reach."""

    def make(trace: Trace, tools: Tools) -> DamagedTrace | None:
        options = [
            other
            for other in tools.others
            if other.goal != trace.goal
            and (other.app == trace.app) == same_app
            and other.platform == trace.platform
            and (not same_app or other.family != trace.family)
            and not reached(trace.end_state, other.evaluator, trace.moves)
        ]
        if not options:
            return None
        # Thoughts are dropped with the goal that they quote.
        goal = tools.rng.choice(options).goal
        damaged = replace(trace, uid=f"{trace.uid}~task", goal=goal, moves=_without_thoughts(trace))
        return DamagedTrace(damaged, None, "state", _provenance(trace))

    return make


def _without_thoughts(trace: Trace) -> tuple[Move, ...]:
    """Thoughts quote the goal; they would give a changed goal away."""
    return tuple(replace(move, thought="") for move in trace.moves)


def near_miss(trace: Trace, tools: Tools) -> DamagedTrace | None:
    """The instruction with one entity changed."""
    goals = [goal for goal in trace.near_misses if goal != trace.goal]
    if not goals:
        return None
    damaged = replace(trace, uid=f"{trace.uid}~near", goal=tools.rng.choice(goals), moves=_without_thoughts(trace))
    return DamagedTrace(damaged, None, "state", _provenance(trace))


EPISODE_OPERATORS = {
    "skipped_step/one": Operator("skipped_step", skipped_step(1)),
    "skipped_step/two": Operator("skipped_step", skipped_step(2), "magnitude"),
    "shuffled_steps/any": Operator("shuffled_steps", shuffled_steps(reverse=False)),
    "shuffled_steps/reversed": Operator("shuffled_steps", shuffled_steps(reverse=True), "operator"),
    "noop_loop/again": Operator("noop_loop", noop_loop(blank=False)),
    "noop_loop/blank": Operator("noop_loop", noop_loop(blank=True), "operator"),
    "premature_finish/early": Operator("premature_finish", premature_finish(late=False)),
    "premature_finish/late": Operator("premature_finish", premature_finish(late=True), "magnitude"),
    "finish_without_goal": Operator("finish_without_goal", finish_without_goal),
    "other_task/other_app": Operator("other_task", other_task(same_app=False)),
    "other_task/same_app": Operator("other_task", other_task(same_app=True), "operator"),
    "near_miss": Operator("near_miss", near_miss),
}
