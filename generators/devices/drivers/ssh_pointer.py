"""Actions of the pointer as words for xdotool: fixed words and numbers only."""

from generators.devices.drivers.frames import to_px
from generators.tasks.world_interface import UnsupportedAction
from schemas import actions

WHEEL = {"up": 4, "down": 5, "left": 6, "right": 7}
"""Buttons of the wheel."""
# of half a screen
WHEEL_STEPS = 5
ARRIVED_S = 0.05
"""Between a move and a press: the tooltip of what the pointer was on hides when it sees the move, and would take the
press otherwise."""


def pointer_words(action: actions.Action, size_px: tuple[int, int], press_s: float, drag_s: float) -> list[str]:
    """`xdotool`'s arguments for an action, whose points are 0..1000 of a screen of `size_px`; a long press and a drag
    take `press_s` and `drag_s`. Raises `UnsupportedAction` for one that isn't done with the pointer."""
    if isinstance(action, actions.Click):
        return [*_pressed_at(action.box, size_px), "click", "1"]
    if isinstance(action, actions.RightClick):
        return [*_pressed_at(action.box, size_px), "click", "3"]
    if isinstance(action, actions.DoubleClick):
        # 60 ms apart: below GTK's limit for a double click, and above what X takes for one event
        return [*_pressed_at(action.box, size_px), "click", "--repeat", "2", "--delay", "60", "1"]
    if isinstance(action, actions.LongPress):
        return [*_pressed_at(action.box, size_px), "mousedown", "1", "sleep", f"{press_s:g}", "mouseup", "1"]
    if isinstance(action, actions.Hover):
        return _at(action.box, size_px)
    if isinstance(action, actions.Drag):
        return _drag(to_px(action.start, size_px), to_px(action.end, size_px), drag_s)
    if isinstance(action, actions.Scroll):
        direction, steps = _wheel(action)
        return [
            *_at(action.start or (500, 500), size_px),
            "click",
            "--repeat",
            str(steps),
            "--delay",
            "20",
            str(WHEEL[direction]),
        ]
    raise UnsupportedAction(f"{type(action).__name__}: a desktop has no such action")


def _at(point: actions.Point, size_px: tuple[int, int]) -> list[str]:
    x, y = to_px(point, size_px)
    return ["mousemove", str(int(x)), str(int(y))]


def _pressed_at(point: actions.Point, size_px: tuple[int, int]) -> list[str]:
    return [*_at(point, size_px), "sleep", f"{ARRIVED_S:g}"]


def _drag(start_px: tuple[float, float], end_px: tuple[float, float], drag_s: float) -> list[str]:
    """Ten moves on the way, as programs begin a drag only when the pointer has moved."""
    (x1, y1), (x2, y2) = start_px, end_px
    words = ["mousemove", str(int(x1)), str(int(y1)), "sleep", f"{ARRIVED_S:g}", "mousedown", "1"]
    for i in range(1, 11):
        x, y = x1 + (x2 - x1) * i / 10, y1 + (y2 - y1) * i / 10
        words += ["sleep", f"{drag_s / 10:.3f}", "mousemove", str(int(x)), str(int(y))]
    return [*words, "mouseup", "1"]


def _wheel(action: actions.Scroll) -> tuple[str, int]:
    """Direction, and steps of the wheel: a path over half the screen is `WHEEL_STEPS`."""
    if action.start is None or action.end is None:
        return action.direction, WHEEL_STEPS
    length = max(abs(action.end[0] - action.start[0]), abs(action.end[1] - action.start[1]))
    return actions.scroll_direction(action.start, action.end), max(1, round(length * WHEEL_STEPS / 500))
