"""Carrying out a plan over element keys on a phone, by touches and system keys alone: the proof of a task."""

from collections.abc import Callable, Sequence

from generators.tasks.world_interface import ScreenElement, WorldError
from generators.worlds.phone.phone_task import Intent, PhoneTask, evaluate
from generators.worlds.phone.phone_world import PhoneWorld
from schemas.action_types import CallUser, Click, Drag, LongPress, PressBack, PressEnter, PressHome, Scroll, Type
from schemas.actions import Action
from schemas.coordinates import box_to_unit, point_to_unit

STROKES = 12
SEEN = 0.6
"""Share of an element that must show before it is touched."""

Watch = Callable[[Action, ScreenElement | None], None]
"""Called before every action, with the element it is meant for."""


def find(world: PhoneWorld, key: str, do: Callable[[Action, ScreenElement | None], None]) -> ScreenElement:
    """The element, scrolled into view by paths no longer than its part of the screen. Raises `WorldError`."""
    # A dozen strokes reach the end of the longest list.
    for _ in range(STROKES):
        where = world.call("where", key)
        if where is None:
            raise WorldError(f"phone: no element {key!r} on this screen")
        left, high, right, low = where["shown"]
        box = where["box"]
        # Touched only where most of it shows, in both directions.
        if where["hit"] and low - high >= SEEN * (box[3] - box[1]) and right - left >= SEEN * (box[2] - box[0]):
            shown = box_to_unit((left, high, right, low), world.size_px)
            return ScreenElement(tuple(shown), where["role"], where["text"], where["name"], key)  # type: ignore[arg-type]
        top, bottom = where["view"][1], where["view"][3]
        if not where["scrolls"]:
            break
        # At most two fifths of the view at a stroke: a longer path would leave the part that scrolls.
        middle, reach = (top + bottom) / 2, (bottom - top) * 0.4
        delta = max(-reach, min(reach, (where["box"][1] + where["box"][3]) / 2 - middle))
        ends = [point_to_unit((world.size_px[0] / 2, y), world.size_px) for y in (middle + delta, middle - delta)]
        # Nothing left to scroll, yet it doesn't show.
        if ends[0] == ends[1]:
            break
        do(Scroll(ends[0], ends[1]), None)
    raise WorldError(f"phone: the element {key!r} can't be brought into view")


def perform(world: PhoneWorld, plan: Sequence[Intent], watch: Watch | None = None) -> int:
    """Every intent, on the screen as it stands; the actions it took, scrolling included. Raises `WorldError`."""
    count = 0

    # Every action passes here, so that it is counted and watched.
    def do(action: Action, element: ScreenElement | None = None) -> None:
        nonlocal count
        if watch is not None:
            watch(action, element)
        world.act(action)
        count += 1

    simple: dict[str, Callable[[], Action]] = {"home": PressHome, "back": PressBack, "enter": PressEnter}
    texts: dict[str, Callable[[str], Action]] = {"type": Type, "answer": CallUser}
    for verb, *args in plan:
        if verb in simple:
            do(simple[verb]())
        elif verb in texts:
            do(texts[verb](args[0]))
        else:
            element = find(world, args[0], do)
            do(_touch(world, verb, element, args), element)
    return count


def _touch(world: PhoneWorld, verb: str, element: ScreenElement, args: Sequence[object]) -> Action:
    if verb == "tap":
        return Click(element.centre)
    if verb == "hold":
        return LongPress(element.centre)
    # Begin in the middle of the track, wherever the knob is: the page takes the end of the path.
    if verb == "slide":
        left, right = world.call("where", args[0])["track"]
        end = point_to_unit((left + (right - left) * args[1] / 100, 0), world.size_px)[0]
        start = point_to_unit(((left + right) / 2, 0), world.size_px)[0]
        if abs(start - end) < 40:  # a path too short to be one
            start = max(0, end - 200)
        y = element.centre[1]
        return Drag((start, y), (end, y))
    raise WorldError(f"phone: a plan has no verb {verb!r}")


def prove(world: PhoneWorld, task: PhoneTask) -> int:
    """Reset, perform, check; the actions taken. Raises `WorldError` unless the goal is untrue before and true after."""
    world.reset(task.start)
    evaluator = task.evaluator()
    # A goal that holds already proves nothing.
    if evaluate(evaluator, world.state(), world.answer):
        raise WorldError(f"phone: {task.family}: the goal holds at the reset: {task.goal}")
    count = perform(world, task.plan)
    if not evaluate(evaluator, world.state(), world.answer):
        raise WorldError(f"phone: {task.family}: the plan doesn't reach the goal: {task.goal}")
    return count
