"""Carrying out a plan on a real desktop, by what is on its screen: the proof of a task."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic, sleep

from generators.tasks.world_interface import ScreenElement, WorldError
from generators.worlds.desktop.desktop_task import DesktopTask, Intent, failed_checks
from generators.worlds.desktop.desktop_world import DesktopWorld
from schemas.actions import Action, CallUser, Click, DoubleClick, Hotkey, Launch, PressEnter, Type

PATIENCE_S = 3.0
"""How long an element, or the end state, may take to come: programs draw and save in their own time."""


def find(elements: Sequence[ScreenElement], role: str, name: str) -> ScreenElement:
    """The one element of a role and a name that can be clicked. Raises `WorldError` where there is none, or more."""
    named = [element for element in elements if (element.role, element.name) == (role, name)]
    found = [element for element in named if element.clickable] or named
    if len(found) != 1:
        raise WorldError(f"desktop plan: expected one {role} named {name!r}, found {len(found)}")
    return found[0]


def action_of(intent: Intent, elements: Sequence[ScreenElement] = ()) -> Action:
    """An intent as an action on the screen. Raises `WorldError` where its element isn't there, or isn't alone."""
    kind, *rest = intent
    if kind in ("click", "double"):
        centre = find(elements, *rest).centre
        return Click(centre) if kind == "click" else DoubleClick(centre)
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
    known = "click, double, key, type, enter, launch, answer"
    raise WorldError(f"desktop plan: unknown intent {kind!r}; known are {known}")


class IntentPerformer:
    """Carries intents out one after the other. A run of clicks on toggle buttons (a calculator's keys), which move
    nothing, is aimed by one look."""

    def __init__(self, world: DesktopWorld) -> None:
        self._world = world
        self._seen: tuple[ScreenElement, ...] = ()

    def do(self, intent: Intent) -> Action:
        """The action. Raises `WorldError` where its element doesn't come."""
        aims = intent[0] in ("click", "double")
        end = monotonic() + PATIENCE_S
        while True:
            if aims and not self._seen:
                self._seen = self._world.elements()
            try:
                action = action_of(intent, self._seen)
                break
            except WorldError:
                if not aims or monotonic() > end:
                    raise
                self._seen = ()
                sleep(0.1)
        if intent[:2] != ("click", "toggle button"):
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


def prove(task: DesktopTask, world: DesktopWorld, patience_s: float = PATIENCE_S) -> list[Action]:
    """Carry a task out for real: its goal must not hold at the reset, nor before the plan's last step, and hold after
    it. Gives the actions. Raises `WorldError` with what is wrong."""
    world.reset(task.start)
    if not failed(task, world):
        raise WorldError(f"task {task.name}: its goal holds at the reset")
    performer = IntentPerformer(world)
    done = [performer.do(intent) for intent in task.plan[:-1]]
    if done and not failed(task, world):
        raise WorldError(f"task {task.name}: its goal holds before the last step of the plan")
    done.append(performer.do(task.plan[-1]))
    end = monotonic() + patience_s
    while wrong := failed(task, world):
        if monotonic() > end:
            raise WorldError(f"task {task.name}: the plan doesn't reach the goal: {'; '.join(wrong)[:300]}")
        sleep(0.1)
    return done
