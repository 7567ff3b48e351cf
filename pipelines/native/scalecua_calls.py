"""The calls of ScaleCUA: those of `pyautogui` and `calls` of this folder, read as this source means them.

Coordinates are fractions 0..1, x first. What differs: `click(clicks=2)` and `moveTo` with `dragTo` are taken as
pyautogui does; keyDown ... keyUp and "ctrl+s" are hotkeys; the direction of `scroll(clicks)` comes from the words of
the operation, since prompts and data disagree on the sign; a swipe's direction is the finger's; `terminate` has info.
"""

import re
from collections.abc import Iterator
from dataclasses import replace

from pipelines.mapping.builders import MappedAction
from pipelines.mapping.card import Loss
from pipelines.mapping.items import ItemError, is_number
from pipelines.native import calls, pyautogui
from pipelines.native.pyautogui import PyAutoGuiCall
from schemas.action_types import ACTION_SPACE, OPPOSITE, ActionSpace
from schemas.actions import Finished, Point, Scroll, scroll_direction
from schemas.coordinates import OffScreen, point_to_unit

OTHER = "other calls"
_SEVERAL = "several calls"
_SCROLLS = re.compile(r"\bscroll\w*\b[^.\n]{0,40}?\b(up|down)(?:ward)?s?\b", re.IGNORECASE)
_BY_PYAUTOGUI = frozenset(
    {
        "click",
        "doubleClick",
        "tripleClick",
        "rightClick",
        "middleClick",
        "moveTo",
        "dragTo",
        "write",
        "typewrite",
        "press",
        "hotkey",
        "wait",
        "sleep",
        "keyDown",
        "keyUp",
        "mouseDown",
        "mouseUp",
    }
)
_OWN = (
    Loss("scroll", "Scroll(direction)", "lossy", "how far isn't kept; without words for it: ambiguous_direction"),
    Loss("swipe", "Scroll", "kept", "by direction: lossy, how far isn't kept"),
    Loss("terminate", "Finished", "kept", "failure is lossy: episode_outcome says it"),
)
_FROM_CALLS = (
    "long_press",
    "open_app",
    "open_url",
    "navigate_back",
    "navigate_home",
    "recent",
    "final_answer",
    "call_user",
    "select_option",
    _SEVERAL,
)
LOSSES: tuple[Loss, ...] = tuple(
    {
        loss.native: loss
        for loss in (*(row for row in calls.LOSSES if row.native in _FROM_CALLS), *pyautogui.CALL_LOSSES, *_OWN)
    }.values()
)
"""Rows for the loss table of the source."""


def read_step(action: str, operation: str, space: ActionSpace = ACTION_SPACE) -> MappedAction | ItemError:
    """The text of a step's calls, and its description in words → its actions in a space, or why there are
    none: a step is taken whole or not at all. Never raises on text."""
    try:
        parts = list(_parts(_joined(pyautogui.parse_script(action)), operation, space))
    except ItemError as error:
        return error
    except (ValueError, OverflowError) as error:
        return ItemError("bad_value", str(error), OTHER)
    if not parts:
        return ItemError("missing_field", "<action> holds no call", OTHER)
    if len(parts) == 1:
        return parts[0]
    return MappedAction(
        tuple(action for part in parts for action in part.actions),
        _SEVERAL,
        any(part.lossy for part in parts),
        tuple(dict.fromkeys(rule for part in parts for rule in part.rules)),
        # The first that says so: what follows an end isn't carried out.
        outcome=next((part.outcome for part in parts if part.outcome), None),
    )


def _bare(call: PyAutoGuiCall) -> str:
    module, _, name = call.name.rpartition(".")
    return name if call.error is None and module in calls.MODULES else ""


def _joined(listed: list[PyAutoGuiCall]) -> list[PyAutoGuiCall]:
    """The calls, keyDown ... keyUp made one hotkey, and chords ("ctrl+s", key) hotkeys."""
    found: list[PyAutoGuiCall] = []
    place = 0
    while place < len(listed):
        taken, keys = _held(listed[place:])
        if taken:
            text = "\n".join(call.text for call in listed[place : place + taken])
            found.append(PyAutoGuiCall(text, "hotkey", (keys,)))
        else:
            found.append(_chord(listed[place]))
        place += taken or 1
    return found


def _held(listed: list[PyAutoGuiCall]) -> tuple[int, list[str]]:
    """(number of calls that press keys down and release all of them again, the keys); (0, []) if there are none."""
    keys: list[str] = []
    down: set[str] = set()
    for number, call in enumerate(listed, 1):
        name, key = (
            _bare(call),
            call.args[0] if len(call.args) == 1 else call.kwargs.get("key", call.kwargs.get("keys")),
        )
        # Anything else between down and up isn't a chord.
        if name not in ("keyDown", "keyUp", "press") or not isinstance(key, str) or not (down or name == "keyDown"):
            break
        if name == "keyUp":
            down.discard(key)
        else:
            keys.append(key)
            down |= {key} if name == "keyDown" else set()
        # All keys are up again.
        if not down:
            return number, keys
    return 0, []


def _chord(call: PyAutoGuiCall) -> PyAutoGuiCall:
    name = _bare(call)
    if name not in ("press", "hotkey", "key"):
        return call
    kwargs = dict(call.kwargs)
    value = kwargs.pop("keys", kwargs.pop("key", None))
    listed = [value] if isinstance(value, str) else value if value is not None else list(call.args)
    # A list of keys, or keys one by one.
    if isinstance(listed, list) and len(listed) == 1 and isinstance(listed[0], list):
        listed = listed[0]
    if not isinstance(listed, list) or not all(isinstance(key, str) for key in listed):
        return replace(call, name="hotkey" if name == "key" else call.name)
    # "ctrl+s" is a chord in one text; a plus alone is a key.
    split = [part.strip() for key in listed for part in (key.split("+") if len(key) > 1 else [key])]
    # Several keys in a row are pressed one after the other.
    if name == "press" and (len(split) == len(listed) or kwargs):
        return replace(
            call, args=() if value is not None else call.args, kwargs={**kwargs, "keys": value} if value else kwargs
        )
    return PyAutoGuiCall(call.text, "hotkey", (split,), {name: kwargs[name] for name in kwargs if name == "interval"})


def _parts(listed: list[PyAutoGuiCall], operation: str, space: ActionSpace) -> Iterator[MappedAction]:
    """Each gesture's actions. Raises `ItemError` for the first that has none."""
    run: list[PyAutoGuiCall] = []
    for call in listed:
        # Calls that share the pointer are read together.
        if (name := _bare(call)) in _BY_PYAUTOGUI:
            run.append(replace(call, name=f"pyautogui.{name}"))
            continue
        yield from _gestures(run, space)
        run = []
        if call.error is not None:
            raise call.error
        if name in ("scroll", "hscroll"):
            yield _scroll(call, operation)
        elif name == "swipe":
            yield _swipe(call)
        elif name == "terminate":
            yield _end(call)
        else:
            yield calls.read_calls(call.text, calls.Vocabulary(space=space))
    yield from _gestures(run, space)


def _gestures(run: list[PyAutoGuiCall], space: ActionSpace) -> Iterator[MappedAction]:
    for gesture in pyautogui.gestures(run, (1.0, 1.0), space=space):
        if gesture.error is not None:
            raise ItemError(gesture.error.reason, gesture.error.detail, gesture.word)
        yield MappedAction(gesture.actions, gesture.word, gesture.lossy, gesture.rules)


def _scroll(call: PyAutoGuiCall, operation: str) -> MappedAction:
    """The operation's words decide, since prompts and data disagree on the sign."""
    said = {word.lower() for word in _SCROLLS.findall(operation)}
    name = _bare(call)
    if name == "hscroll" or len(said) != 1:
        raise ItemError(
            "ambiguous_direction", f"{call.text[:60]}: the operation says {sorted(said) or 'nothing'}", name
        )
    return MappedAction((Scroll(direction=said.pop()),), name, True, ("direction_from_operation",))


def _swipe(call: PyAutoGuiCall) -> MappedAction:
    named = dict(zip(("from_coord", "to_coord", "direction", "amount"), call.args, strict=False)) | call.kwargs
    if named.get("to_coord") is not None:
        start, end = _point(named.get("from_coord")), _point(named["to_coord"])
        if start == end:
            raise ItemError("no_counterpart", "a swipe from a point to itself", "swipe")
        return MappedAction(
            (Scroll(start, end, scroll_direction(start, end)),), "swipe", False, ("direction_from_points",)
        )
    finger = named.get("direction", "up")  # the source's own default
    if not isinstance(finger, str) or finger.lower() not in OPPOSITE:
        raise ItemError("bad_value", f"swipe: direction {finger!r:.40}", "swipe")
    return MappedAction((Scroll(direction=OPPOSITE[finger.lower()]),), "swipe", True, ("direction_is_the_fingers",))


def _point(value: object) -> Point:
    if not isinstance(value, list) or len(value) != 2 or not all(map(is_number, value)):
        raise ItemError("missing_field", f"swipe: expected two points, found {value!r:.60}", "swipe")
    try:
        return point_to_unit((value[0], value[1]), (1.0, 1.0))
    except (OffScreen, OverflowError) as error:
        raise ItemError("off_screen", f"swipe: {error}", "swipe") from error


def _end(call: PyAutoGuiCall) -> MappedAction:
    named = dict(zip(("status", "info"), call.args, strict=False)) | call.kwargs
    status, info = named.get("status", "success"), named.get("info")
    if status not in ("success", "failure") or not isinstance(info, str | None):
        raise ItemError("bad_value", f"terminate: {status!r:.40}, {info!r:.40}", "terminate")
    failed = status == "failure"
    return MappedAction(
        (Finished(info or ""),), "terminate", failed, ("terminate_failure",) if failed else (), outcome=status
    )
