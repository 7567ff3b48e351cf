"""Carrying out a plan on a real desktop, by what is on its screen: the proof of a task."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from time import monotonic, sleep
from typing import TYPE_CHECKING, Protocol

from generators.tasks.world_interface import ScreenElement, WorldError
from generators.worlds.desktop.desktop_task import DesktopTask, Intent, failed_checks
from schemas.actions import Action, CallUser, Click, DoubleClick, Drag, Hotkey, Launch, Point, PressEnter, Type, Wait

if TYPE_CHECKING:
    from generators.worlds.desktop.desktop_world import DesktopWorld

PATIENCE_S = 3.0
"""How long an element, or the end state, may take to come: programs draw and save in their own time."""
NEAR_S = 0.5
"""How long a near miss has to come true by mistake: as long as programs take to save."""

POINTED: dict[str, Callable[[Point], Action]] = {"click": Click, "double": DoubleClick}
"""What is done at the centre of an element."""


class PointedWorld(Protocol):
    """A desktop whose elements can be aimed at."""

    def elements(self) -> tuple[ScreenElement, ...]:
        """What is on the screen."""
        ...

    def act(self, action: Action) -> None:
        """See `World.act`."""
        ...


def find(elements: Sequence[ScreenElement], role: str, name: str) -> ScreenElement:
    """The one element of a role and a name that can be clicked. Raises `WorldError` where there is none, or more."""
    named = [element for element in elements if (element.role, element.name) == (role, name)]
    # Some programs list an element twice, as a label and as a control.
    found = [element for element in named if element.clickable] or named
    # Exactly one: a plan that takes the first of two proves nothing.
    if len(found) != 1:
        raise WorldError(f"desktop plan: expected one {role} named {name!r}, found {len(found)}")
    return found[0]


def action_of(intent: Intent, elements: Sequence[ScreenElement] = ()) -> Action:
    """An intent as an action on the screen. Raises `WorldError` where its element isn't there, or isn't alone."""
    kind, *rest = intent
    if kind in POINTED:
        return POINTED[kind](find(elements, *rest).centre)
    if kind == "drag":
        return Drag(find(elements, *rest[:2]).centre, find(elements, *rest[2:]).centre)
    if kind == "wait":
        return Wait()
    if kind == "key":
        return Hotkey(tuple(rest))
    if kind == "type":
        return Type(rest[0])
    if kind == "enter":
        return PressEnter()
    if kind == "launch":
        return Launch(rest[0])
    if kind == "answer":
        return CallUser(rest[0])
    known = f"{', '.join(POINTED)}, drag, wait, key, type, enter, launch, answer"
    raise WorldError(f"desktop plan: unknown intent {kind!r}; known are {known}")


class IntentPerformer:
    """Carries intents out one after the other. A run of clicks on toggle buttons (a calculator's keys), which move
    nothing, is aimed by one look."""

    def __init__(self, world: PointedWorld) -> None:
        self._world = world
        self._seen: tuple[ScreenElement, ...] = ()

    def do(self, intent: Intent) -> Action:
        """The action. Raises `WorldError` where its element doesn't come."""
        aims = intent[0] in (*POINTED, "drag")
        end = monotonic() + PATIENCE_S
        while True:
            # One look serves a run of keys of a calculator.
            if aims and not self._seen:
                self._seen = self._world.elements()
            try:
                action = action_of(intent, self._seen)
                break
            except WorldError:
                if not aims or monotonic() > end:
                    raise
                # Look again: programs draw in their own time.
                self._seen = ()
                sleep(0.1)
        if intent[:2] != ("click", "toggle button"):
            # Anything else may change the screen, so the look is void.
            self._seen = ()
        self._world.act(action)
        return action


def perform(task: DesktopTask, world: DesktopWorld) -> list[Action]:
    """Reset, then the whole plan on the real screen; gives the actions."""
    world.reset(task.start)
    performer = IntentPerformer(world)
    return [performer.do(intent) for intent in task.plan]


def failed(task: DesktopTask, world: DesktopWorld) -> list[str]:
    """The checks that don't hold on the world as it stands."""
    return failed_checks(task.evaluator(), world.state(), world.answer)


def settled(task: DesktopTask, world: DesktopWorld, patience_s: float) -> list[str]:
    """The checks that don't hold, when they do or the patience is at its end: programs save in their own time."""
    end = monotonic() + patience_s
    # Asked until it holds: saving takes as long as it takes.
    while (wrong := failed(task, world)) and monotonic() < end:
        sleep(0.1)
    return wrong


def prove(task: DesktopTask, world: DesktopWorld, patience_s: float = PATIENCE_S) -> list[Action]:
    """Carry a task out for real: its goal must not hold at the reset, nor before the plan's last step, and hold after
    it. Gives the actions. Raises `WorldError` with what is wrong."""
    world.reset(task.start)
    if not failed(task, world):
        raise WorldError(f"task {task.name}: its goal holds at the reset")
    performer = IntentPerformer(world)
    done = [performer.do(intent) for intent in task.plan[:-1]]
    # Otherwise the last step would be superfluous, and "expected steps" wrong.
    if done and not failed(task, world):
        raise WorldError(f"task {task.name}: its goal holds before the last step of the plan")
    done.append(performer.do(task.plan[-1]))
    if wrong := settled(task, world, patience_s):
        raise WorldError(f"task {task.name}: the plan doesn't reach the goal: {'; '.join(wrong)[:300]}")
    return done


def refute(task: DesktopTask, world: DesktopWorld, settle_s: float = NEAR_S) -> list[Action]:
    """Carry a task's near miss out for real: the goal must not hold after it. Gives the actions. Raises `WorldError`
    where it holds, and where the near miss can't be done, which would prove nothing."""
    world.reset(task.start)
    performer = IntentPerformer(world)
    done = [performer.do(intent) for intent in near_miss_of(task)]
    if not settled(task, world, settle_s):
        raise WorldError(f"task {task.name}: its goal holds after a near miss")
    return done


def near_miss_of(task: DesktopTask) -> tuple[Intent, ...]:
    """What a task brings as its near miss, or else its plan with one slip: in the last text or answer that says
    something, or in the last figure keyed in. Raises `ValueError` for a plan without any, whose family must bring one.
    """
    if slipped := task.near_miss or next(slips_of(task.plan), ()):
        return slipped
    raise ValueError(f"task {task.name}: nothing in its plan can be mistaken; give it a near miss of its own")


def slips_of(plan: Sequence[Intent]) -> Iterator[tuple[Intent, ...]]:
    """A plan with one slip, for each of its texts, answers and keyed figures in which one can be made."""
    # From the end: a slip in the last text is nearest to what was asked.
    for at in reversed(range(len(plan))):
        if slip := _slip(plan[at]):
            yield (*plan[:at], slip, *plan[at + 1 :])


def _slip(intent: Intent) -> Intent | None:
    """Another figure, or another letter at the end; None where there is neither."""
    if intent[0] in ("type", "answer"):
        said = intent[1].rstrip("\n")
        ending = intent[1][len(said) :]
        # One less, or another last letter: what a careless person would do.
        wrong = str(int(said) - 1) if said.isdecimal() else f"{said[:-1]}{'x' if said[-1:] != 'x' else 'y'}"
        return (intent[0], wrong + ending)
    if intent[:2] == ("click", "toggle button") and intent[2].isdecimal():
        # The next digit, nine to zero.
        return (*intent[:2], str((int(intent[2]) + 1) % 10))
    return None
