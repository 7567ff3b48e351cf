"""Natural errors: policies that really act in a world, fail there, and claim success all the same.

Three kinds of policies: a scripted one that follows a sound trace and errs (clicks a neighbour, forgets a field, types
another task's text, stops early, clicks twice, scrolls past); an explorer that clicks what the goal's words resemble;
and any `Policy` given from outside, such as a trained checkpoint. Screens are those that the errors lead to. The
world's state alone says whether a run failed; runs that reach the goal are left out, for they hold detours.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random

from generators.policies.exploring import content_words
from generators.policies.policy import PastTurn, Policy, PolicyView
from generators.proving.judge_bench.recorders.thoughts import thought
from generators.proving.judge_bench.trace import Move, Trace, reached
from generators.tasks.world_interface import Observation, World, WorldError
from generators.worlds.hit_test import under
from schemas.action_types import CallUser, Click, DoubleClick, Finished, Hover, LongPress, Scroll, Type, Wait
from schemas.actions import format
from schemas.coordinates import contains

SCRIPTED = ("neighbour", "forgot_field", "other_slot", "stopped_early", "clicked_twice", "scrolled_past")
KINDS = (*SCRIPTED, "explorer")
SLIP = 0.08
"""Chance of one more error at each step after the first."""
TRIES, TRIES_A_TURN = 8, 3
"""Turns of a kind for each failure wanted, and runs tried in a turn: many errors do no harm."""
WAITS = 3
"""A run that only had to wait so many actions longer hasn't failed."""
PATHS = {"down": ((500, 700), (500, 300)), "up": ((500, 300), (500, 700))}
MOST_EXPLORED = 6
NEAREST = 3
"""A neighbour is one of so many nearest elements."""


def fail(world: World, traces: Sequence[Trace], seed: int, count: int, policy: Policy | None = None) -> Iterator[Trace]:
    """Up to `count` failed runs of the tasks of sound traces, each kind in turn, with `failure` set to its kind.

    `failure` is "several" where a run of the scripted policy holds errors of several kinds.
    With a `policy` its runs alone are made, one for each task, and its name is their kind. Every trace ends with
    Finished and holds the end state, which doesn't fulfil `evaluator`.
    """
    rng, built = Random(f"failing/{seed}"), 0
    seen: set[str] = set()
    # More turns than wanted: many errors do no harm.
    for number in range(len(traces) if policy else count * TRIES):
        if built >= count or not traces:
            return
        if policy:
            tries = iter([follow(world, traces[number], policy, seed + number)])
        else:
            tries = _tries(world, traces, KINDS[number % len(KINDS)], rng)
        for run in tries:
            # Only failures count, by the world's state.
            failed = run.failed(f"{seed}-{number}")
            text = (
                repr((failed.uid.partition("~")[0], [format(move.action) for move in failed.moves])) if failed else ""
            )
            # The same moves on the same task would be counted twice.
            if failed is not None and text not in seen:
                seen.add(text)
                built += 1
                yield failed
                break


def _tries(world: World, traces: Sequence[Trace], kind: str, rng: Random) -> "Iterator[Run]":
    """Some runs with an error of this kind, each of another task where there are others."""
    options = [trace for trace in traces if kind == "explorer" or _chances(trace, kind)]
    for trace in rng.sample(options, min(TRIES_A_TURN, len(options))):
        yield explore(world, trace, rng) if kind == "explorer" else _slip(world, trace, kind, traces, rng)


class Run:
    """Moves done in a world, with the screen before each. `errors`: what went wrong, as far as the policy knows."""

    def __init__(self, world: World, trace: Trace, *errors: str) -> None:
        self.world = world
        self.trace = trace
        self.errors = list(errors)
        self.moves: list[Move] = []
        self.shots: list[Observation] = []
        world.reset(trace.start)
        self.now = world.observe()

    def do(self, move: Move) -> bool:
        """Act; False where the world has no such action (then nothing is noted)."""
        try:
            self.world.act(move.action)
        except WorldError:
            return False
        self.moves.append(move)
        self.shots.append(self.now)
        self.now = self.world.observe()
        return True

    def failed(self, tag: str) -> Trace | None:
        """The run as a trace that claims success; None if it did succeed, would by waiting, or did nothing at all."""
        end = self.world.state()
        # A success after an error is no failure of the run.
        if not self.moves or reached(end, self.trace.evaluator, self.moves) or self._only_late():
            return None
        kind = self.errors[0] if len(set(self.errors)) == 1 else "several"
        moves = (*self.moves, replace(self.trace.moves[-1], action=Finished(), odd=""))
        return replace(
            self.trace,
            uid=f"{self.trace.uid}~{kind}-{tag}",
            moves=moves,
            shots=(*self.shots, self.now),
            end_state=end,
            near_misses=(),
            odd="",
            failure=kind,
        )

    def _only_late(self) -> bool:
        """Whether the goal is reached by itself a moment later: stopping then is no failure."""
        try:
            for _ in range(WAITS):
                self.world.act(Wait())
                if reached(self.world.state(), self.trace.evaluator, self.moves):
                    return True
        except WorldError:
            pass
        return False


# --- the scripted policy ----------------------------------------------------------------------------------------------
def _chances(trace: Trace, kind: str) -> list[int]:
    """Positions of a trace's moves at which this error can be made."""
    moves = trace.moves
    body = range(len(moves) - 1)
    if kind == "stopped_early":
        # Not before the first move, which would be a run without any.
        return list(body)[1:]
    if kind in ("forgot_field", "other_slot"):
        return [at for at in body if isinstance(moves[at].action, Type)]
    clicks = [at for at in body if isinstance(moves[at].action, Click) and moves[at].key]
    return [at for at in clicks if kind != "clicked_twice" or _matters_twice(trace, at)]


def _matters_twice(trace: Trace, at: int) -> bool:
    """Whether something lies under the point after the click that a second one would press."""
    element = under(trace.shots[at + 1].elements, trace.moves[at].action.box)  # type: ignore[union-attr]
    return element is not None and element.role not in ("textbox", "radio", "tab", "combobox")


def _slip(world: World, trace: Trace, kind: str, traces: Sequence[Trace], rng: Random) -> Run:
    """Follow the trace, err in this way at one step, and perhaps in others after it; then go on as if all were well."""
    run, lost = Run(world, trace, kind), 0
    wrong = rng.choice(_chances(trace, kind))
    left_out = _forgotten(trace, wrong) if kind == "forgot_field" else ()
    for at, planned in enumerate(trace.moves[:-1]):
        error = kind if at == wrong else ""
        if at > wrong and rng.random() < SLIP:
            error = next((other for other in rng.sample(SCRIPTED, len(SCRIPTED)) if at in _chances(trace, other)), "")
            run.errors += [error] if error else []
        # Lost for three moves: nobody goes on from there.
        if error == "stopped_early" or lost > 2:
            break
        if at in left_out or error == "forgot_field":
            continue
        move = _grounded(planned, run.now)
        if move is None:  # what should come next isn't there: it clicks where it would have been
            lost += 1
            move = replace(planned, key="", box=None)
        for step in _erring(move, error, run.now, trace, at, traces, rng):
            run.do(replace(step, odd=""))
    # It goes on as if all were well: later errors come on top.
    return run


def _forgotten(trace: Trace, wrong: int) -> tuple[int, ...]:
    """The typing that is forgotten, with the click into its field where the plan has one."""
    before = trace.moves[wrong - 1] if wrong else None
    clicked = before is not None and isinstance(before.action, Click) and before.key == trace.moves[wrong].key
    return (wrong - 1, wrong) if clicked else (wrong,)


def _grounded(move: Move, shot: Observation) -> Move | None:
    """The move on the element where it lies now; None if it isn't on the screen. Without an element: as it is."""
    if not move.key or not isinstance(move.action, Click) or move.box is None:
        return move
    element = shot.element(move.key)
    if element is None:
        return None
    was, now = move.box, element.box
    point = [_moved(move.action.box[axis], (was[axis], was[axis + 2]), (now[axis], now[axis + 2])) for axis in (0, 1)]
    return replace(move, action=Click((point[0], point[1])), box=element.box)


def _moved(value: float, was: tuple[float, float], now: tuple[float, float]) -> int:
    """The same share of the way across another stretch."""
    share = (value - was[0]) / (was[1] - was[0]) if was[1] > was[0] else 0.5
    # At the same share of the element, so that it looks meant.
    return min(max(int(now[0] + share * (now[1] - now[0])), 0), 1000)


def _erring(
    move: Move, error: str, shot: Observation, trace: Trace, at: int, traces: Sequence[Trace], rng: Random
) -> list[Move]:
    """What is done in the place of a move."""
    if error == "neighbour":
        return [_neighbour(move, shot, trace.goal, rng)]
    if error == "other_slot" and isinstance(move.action, Type):
        return [_other_text(move, trace.moves, at, traces, rng)]
    if error == "clicked_twice":
        return [
            move,
            replace(move, instruction=f"{move.instruction} again" if rng.random() < 0.3 else move.instruction),
        ]
    if error == "scrolled_past":
        way = rng.choice(("down", "down", "up"))
        away = Move(_scroll(way, trace), f"Scroll {way} to see more")
        return [away, away, replace(move, key="", box=None)]
    return [move]


def _scroll(way: str, trace: Trace) -> Scroll:
    """A scroll as the platform writes it: by a finger's path, or by its direction."""
    return Scroll(*PATHS[way], way) if trace.platform == "mobile" else Scroll(direction=way)


def _neighbour(move: Move, shot: Observation, goal: str, rng: Random) -> Move:
    """A click on one of the nearest other elements; half of the time it says that it meant that one."""
    x, y = move.action.box  # type: ignore[union-attr]
    # Off the present element, or the click would still be right.
    others = [p for p in shot.elements if p.clickable and p.key and p.key != move.key and not contains(p.box, (x, y))]
    others.sort(key=lambda p: (p.centre[0] - x) ** 2 + (p.centre[1] - y) ** 2)
    if not others:
        return move
    element = rng.choice(others[:NEAREST])
    name = element.name or element.text
    meant = rng.random() < 0.5
    says = thought(Click(element.centre), goal, name, rng) if move.thought and meant else move.thought
    words = f'Click "{name}"' if meant else move.instruction
    return Move(Click(element.centre), words, element.key, element.box, says)


def _other_text(move: Move, plan: Sequence[Move], at: int, traces: Sequence[Trace], rng: Random) -> Move:
    """Another field's text of the same plan, else another task's."""
    own = move.action.content  # type: ignore[union-attr]
    here = [m.action.content for k, m in enumerate(plan) if k != at and isinstance(m.action, Type)]
    there = sorted({m.action.content for trace in traces for m in trace.moves if isinstance(m.action, Type)})
    options = [text for text in here if text != own] if here and rng.random() < 0.5 else []
    options = options or [text for text in there if text != own]
    if not options:
        return move
    text = rng.choice(options)
    return replace(move, action=Type(text), instruction=f'Type "{text}"', thought="")


# --- the explorer -----------------------------------------------------------------------------------------------------
def explore(world: World, trace: Trace, rng: Random) -> Run:
    """Click what resembles the goal's words and hasn't been clicked yet; type the goal's quoted texts into fields."""
    run = Run(world, trace, "explorer")
    wanted, clicked = content_words(trace.goal), set[str]()
    texts = re.findall(r'"([^"]+)"', trace.goal) or [word for word in trace.goal.split() if word[:1].isupper()]
    for _ in range(rng.randint(2, MOST_EXPLORED)):
        elements = [p for p in run.now.elements if p.clickable and p.key and p.key not in clicked]
        # Up to 0.9: chance never outweighs a shared word.
        like = {p.key: len(wanted & content_words(f"{p.name} {p.text}")) + rng.random() * 0.9 for p in elements}
        if not elements or (max(like.values()) < 1 and rng.random() < 0.4):
            run.do(Move(_scroll("down", trace), "Scroll down to see more"))
            continue
        element = max(elements, key=lambda p: like[p.key])
        clicked.add(element.key)
        name = element.name or element.text
        says = thought(Click(element.centre), trace.goal, name, rng) if trace.moves[0].thought else ""
        run.do(Move(Click(element.centre), f'Click "{name}"', element.key, element.box, says))
        if element.role == "textbox" and texts:
            text = texts.pop(0)
            run.do(Move(Type(text), f'Type "{text}"', element.key, element.box))
    return run


# --- policies from outside --------------------------------------------------------------------------------------------
def follow(world: World, trace: Trace, policy: Policy, seed: int = 0) -> Run:
    """Let a policy act from the trace's start until it ends, the world has no such action, or twice the trace's actions
    and two more are done."""
    run = Run(world, trace, policy.name)
    policy.begin(trace.goal, trace.platform, seed)
    for _ in range(2 * len(trace.moves) + 2):
        past = tuple(PastTurn(move.action) for move in run.moves)
        elements = run.now.elements if policy.needs_tree else ()
        view = PolicyView(trace.goal, run.now.png, trace.size_px, trace.platform, past, elements)
        action = policy.decide(view).action
        if action is None or isinstance(action, Finished | CallUser):
            # A policy that ends by itself claims that it is done.
            break
        element = (
            under(run.now.elements, action.box) if isinstance(action, Click | LongPress | DoubleClick | Hover) else None
        )
        label = (element.name or element.text) if element else ""
        words = f'{type(action).__name__} "{label}"' if label else format(action)
        if not run.do(Move(action, words, element.key if element else "", element.box if element else None)):
            break
    return run
