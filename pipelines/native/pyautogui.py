"""Reads scripts of `pyautogui.` and `computer.` calls, as data: parsed by `ast`, never run.

`parse_script` splits a script into calls with literal arguments. `gestures` turns calls into actions, one gesture
(a call, or a `moveTo` with what it leads to) at a time; a call that has no counterpart says so in its gesture.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipelines.mapping.card import Loss
from pipelines.mapping.items import ItemError, whole_number
from schemas.action_types import speaks
from schemas.actions import (
    ACTION_SPACE,
    Action,
    ActionSpace,
    Click,
    DoubleClick,
    Drag,
    Finished,
    Hover,
    Point,
    PressEnter,
    RightClick,
    Scroll,
    Type,
    Wait,
    pressed,
)
from schemas.coordinates import OffScreen, point_to_unit

MAX_CHARS = 200_000
"""Longer scripts are refused: the longest real ones have a few thousand characters."""
_MAX_DEPTH = 4

_SIGNATURES: dict[str, tuple[str, ...]] = {
    "click": ("x", "y", "clicks", "interval", "button", "duration", "tween"),
    "rightClick": ("x", "y", "interval", "duration", "tween"),
    "middleClick": ("x", "y", "interval", "duration", "tween"),
    "doubleClick": ("x", "y", "interval", "button", "duration", "tween"),
    "tripleClick": ("x", "y", "interval", "button", "duration", "tween"),
    "moveTo": ("x", "y", "duration", "tween"),
    "dragTo": ("x", "y", "duration", "tween", "button", "mouseDownUp"),
    "scroll": ("clicks", "x", "y"),
    "hscroll": ("clicks", "x", "y"),
    "write": ("message", "interval"),
    "typewrite": ("message", "interval"),
    "press": ("keys", "presses", "interval"),
    "hotkey": ("keys", "interval"),
    "sleep": ("seconds",),
    "wait": ("seconds",),
    "terminate": ("status",),
}
_HELD = frozenset({"keyDown", "keyUp", "mouseDown", "mouseUp", "moveRel", "move", "dragRel", "drag"})
_MODULES = frozenset({"pyautogui", "computer", "time"})
_POINTED = frozenset({"click", "rightClick", "middleClick", "doubleClick", "tripleClick"})
_KEY = re.compile(
    r"(?:[^\s\x00-\x1f\x7f]| |f(?:[1-9]|1\d|2[0-4])|num\d|(?:shift|ctrl|alt|win|option)(?:left|right)?|accept|add|apps|"
    r"backspace|browser\w+|capslock|caps|clear|cmd|command|meta|super|control|decimal|del|delete|divide|down|end|enter|"
    r"esc|escape|execute|fn|help|home|insert|left|menu|multiply|numlock|page_?down|page_?up|pause|pgdn|pgup|"
    r"playpause|print|printscreen|prntscrn|prtsc|prtscr|return|right|scrolllock|select|separator|space|subtract|tab|up|"
    r"volume\w+)"
)

CALL_LOSSES = (
    Loss("click", "Click", "kept", "button='right' and clicks=2, 3 are counted as the call they stand for"),
    Loss("doubleClick", "DoubleClick", "kept"),
    Loss("tripleClick", "Click, Click, Click", "lossy", "the space has no triple click; three rows on one screen"),
    Loss("rightClick", "-", "dropped", "no_counterpart: the space has no right click; v2: RightClick"),
    Loss("middleClick", "-", "dropped", "no_counterpart: the space has no middle click"),
    Loss("moveTo", "Hover", "kept", "a moveTo that leads to a call without a point is part of that call's gesture"),
    Loss(
        "dragTo", "Drag", "kept", "from the moveTo before it (or the last pointer); right or middle drags are dropped"
    ),
    Loss("scroll", "Scroll(direction)", "lossy", "n > 0 up, n < 0 down; amount and pointer stay in native_action"),
    Loss("hscroll", "Scroll(direction)", "lossy", "n > 0 right, n < 0 left; amount and pointer stay in native_action"),
    Loss("write", "Type", "kept", "a line break in the text is a PressEnter between the parts"),
    Loss("press", "PressEnter, Hotkey", "kept", "each key for itself, `presses` times; enter and return → PressEnter"),
    Loss("hotkey", "Hotkey", "kept", "more than 3 keys: no_counterpart, never cut short"),
    Loss("wait", "Wait", "lossy", "the number of seconds stays in native_action"),
    Loss("held keys and buttons", "-", "dropped", "no_counterpart: keyDown, keyUp, mouseDown, mouseUp, relative moves"),
    Loss("other calls", "-", "dropped", "unknown_action:<name>, or a line that is no call at all (bad_value)"),
)
"""The loss table of the calls, shared by the sources that use them."""


OTHER = "other calls"
"""The word of a call that can't be read, or is none of those known."""


@dataclass(frozen=True)
class PyAutoGuiCall:
    """One call: `name` is dotted as written; `error` says why the text is no call that can be read."""

    text: str
    name: str = ""
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    error: ItemError | None = None

    @property
    def function(self) -> str:
        """Name without its module, or "" if the module is none of pyautogui, computer, time."""
        module, _, function = self.name.rpartition(".")
        return function if module in _MODULES else ""


@dataclass(frozen=True)
class PyAutoGuiGesture:
    """What the user did at once: the calls, and either actions or the error that says why there are none."""

    word: str
    calls: tuple[PyAutoGuiCall, ...]
    actions: tuple[Action, ...] = ()
    lossy: bool = False
    rules: tuple[str, ...] = ()
    error: ItemError | None = None


def parse_script(text: str) -> list[PyAutoGuiCall]:
    """A script → its calls in order, joined by line breaks or semicolons; blanks don't matter.

    A line that is no call with literal arguments comes back as a `PyAutoGuiCall` with `error`; nothing is left out but
    blank lines and comments. Raises `ItemError("bad_value")` for a script longer than `MAX_CHARS`.
    """
    if len(text) > MAX_CHARS:
        raise ItemError("bad_value", f"script of {len(text)} characters; at most {MAX_CHARS} are read", OTHER)
    lines = text.replace("\r\n", "\n").split("\n")
    for variant in (text, "\n".join(line.lstrip() for line in lines)):  # as it is, then without its indents
        whole = _statements(variant)
        if whole is not None:
            return whole
    found: list[PyAutoGuiCall] = []
    for line in (line.strip() for line in lines):
        if not line or line.startswith("#"):
            continue
        calls = _statements(line)
        found += (
            calls
            if calls is not None
            else [PyAutoGuiCall(line, error=ItemError("bad_value", f"no call: {line[:80]!r}", OTHER))]
        )
    return found


def _statements(text: str) -> list[PyAutoGuiCall] | None:
    """Calls of a text that is Python; None if it isn't."""
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return [_call(statement, ast.get_source_segment(text, statement) or "") for statement in body]


def _call(statement: ast.stmt, text: str) -> PyAutoGuiCall:
    node = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(node, ast.Call):
        return PyAutoGuiCall(text, error=ItemError("bad_value", f"expected a call, found {text[:80]!r}", OTHER))
    target = node.func
    if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
        name = f"{target.value.id}.{target.attr}"
    else:
        name = target.id if isinstance(target, ast.Name) else ast.unparse(target)[:60]
    try:
        args = tuple(_literal(argument) for argument in node.args)
        kwargs = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                raise ValueError("** arguments")
            kwargs[keyword.arg] = _literal(keyword.value)
    except ValueError as error:
        return PyAutoGuiCall(
            text, name, error=ItemError("bad_value", f"{name}: expected literal arguments, found {error}", OTHER)
        )
    return PyAutoGuiCall(text, name, args, kwargs)


def _literal(node: ast.expr, depth: int = 0) -> Any:
    """Text, number, True, False, None, or a list of them. Raises `ValueError` on any other expression."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str | int | float | None):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        value = _literal(node.operand, depth + 1)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.List | ast.Tuple) and depth < _MAX_DEPTH:
        return [_literal(item, depth + 1) for item in node.elts]
    raise ValueError(type(node).__name__)


def gestures(
    calls: Sequence[PyAutoGuiCall],
    size: tuple[float, float],
    pointer: Point | None = None,
    space: ActionSpace = ACTION_SPACE,
) -> Iterator[PyAutoGuiGesture]:
    """Calls → gestures of an action space in order. `size` is the native frame (width, height): pixels, or (1.0, 1.0)
    for fractions.

    `pointer` is where the pointer stood before, in 0..1000. A `moveTo` joins the `dragTo` after it, and the scroll or
    click after it if that has no point of its own.
    """
    place = 0
    while place < len(calls):
        call = calls[place]
        following = calls[place + 1] if place + 1 < len(calls) else None
        joined = call.error is None and call.function == "moveTo" and following is not None and _leads_to(following)
        taken = tuple(calls[place : place + (2 if joined else 1)])
        gesture, pointer = _gesture(taken, size, pointer, space)
        yield gesture
        place += len(taken)


def _leads_to(call: PyAutoGuiCall) -> bool:
    if call.error is not None:
        return False
    pointless = not {"x", "y"} & set(call.kwargs)
    if call.function in ("scroll", "hscroll"):
        return pointless and len(call.args) < 2
    return call.function == "dragTo" or (call.function in _POINTED and pointless and not call.args)


def _gesture(
    calls: tuple[PyAutoGuiCall, ...], size: tuple[float, float], pointer: Point | None, space: ActionSpace
) -> tuple[PyAutoGuiGesture, Point | None]:
    last = calls[-1]
    word = OTHER
    try:
        if last.error is not None:
            raise last.error
        word, arguments = _bound(last)
        if len(calls) == 2:
            pointer = _point(_bound(calls[0])[1], size, None, word)
        actions, lossy, rules, pointer = _actions(word, arguments, size, pointer, space)
        return PyAutoGuiGesture(word, calls, tuple(actions), lossy, tuple(rules)), pointer
    except ItemError as error:
        return PyAutoGuiGesture(error.word if error.word != OTHER else word, calls, error=error), pointer


def _bound(call: PyAutoGuiCall) -> tuple[str, dict[str, Any]]:
    """The word a call is counted under, and its arguments by name."""
    name = call.function
    if name in _HELD:
        raise ItemError(
            "no_counterpart",
            f"{call.name}: the space has no held keys, buttons or relative moves",
            "held keys and buttons",
        )
    if name not in _SIGNATURES:
        raise ItemError(f"unknown_action:{(call.name or call.text)[:60]}", f"known are {', '.join(_SIGNATURES)}", OTHER)
    word = {"typewrite": "write", "sleep": "wait"}.get(name, name)
    names = _SIGNATURES[name]
    arguments = dict(call.kwargs)
    if name == "hotkey" and call.args:
        single = len(call.args) == 1 and isinstance(call.args[0], list)
        arguments["keys"] = call.args[0] if single else list(call.args)
    elif len(call.args) > len(names):
        raise ItemError("bad_value", f"{call.name}: {len(call.args)} arguments; expected {names}", word)
    else:
        for key, value in zip(names, call.args, strict=False):
            if key in arguments:
                raise ItemError("bad_value", f"{call.name}: two values for {key!r}", word)
            arguments[key] = value
    if unseen := sorted(set(arguments) - {*names, "button", "logScreenshot", "_pause"}):
        raise ItemError(f"unknown_field:{unseen[0][:60]}", f"{call.name}: expected {names}", word)
    return _meant(word, arguments), arguments


def _meant(word: str, arguments: dict[str, Any]) -> str:
    """click(button='right') is a right click, click(clicks=2) a double click."""
    button, clicks = arguments.get("button", "left"), arguments.get("clicks", 1)
    if word in ("click", "doubleClick", "tripleClick"):
        if button in ("right", "middle", "secondary"):
            return "middleClick" if button == "middle" else "rightClick"
        if button not in ("left", "primary"):
            raise ItemError("bad_value", f"{word}: button {button!r:.40}", word)
        if word == "click" and clicks != 1:
            if clicks not in (2, 3) or isinstance(clicks, bool):
                raise ItemError("bad_value", f"click: clicks={clicks!r:.40}; expected 1, 2 or 3", word)
            return "doubleClick" if clicks == 2 else "tripleClick"
    if word == "dragTo" and button not in ("left", "primary"):
        raise ItemError("no_counterpart", f"dragTo with button {button!r:.40}", word)
    return word


def _actions(
    word: str, arguments: dict[str, Any], size: tuple[float, float], pointer: Point | None, space: ActionSpace
) -> tuple[list[Action], bool, list[str], Point | None]:
    """Actions, whether something was lost, the rules used, and where the pointer then is."""
    if word == "rightClick" and speaks(space, RightClick):
        at = _point(arguments, size, pointer, word)
        return [RightClick(at)], False, [], at
    if word in ("rightClick", "middleClick"):
        raise ItemError("no_counterpart", f"the action space has no {word}", word)
    if word in ("click", "doubleClick", "tripleClick"):
        at = _point(arguments, size, pointer, word)
        actions: list[Action] = (
            [DoubleClick(at)] if word == "doubleClick" else [Click(at)] * (3 if word == "tripleClick" else 1)
        )
        return actions, word == "tripleClick", [], at
    if word == "moveTo":
        at = _point(arguments, size, None, word)
        return [Hover(at)], False, [], at
    if word == "dragTo":
        end = _point(arguments, size, None, word)
        if pointer is None:
            raise ItemError("missing_field", "dragTo: where the drag starts isn't known", word)
        return [Drag(pointer, end)], False, [], end
    if word in ("scroll", "hscroll"):
        amount = _number(arguments, "clicks", word)
        if amount == 0:
            raise ItemError("bad_value", f"{word}(0) has no direction", word)
        if "x" in arguments or "y" in arguments:
            pointer = _point(arguments, size, pointer, word)
        directions = ("up", "down") if word == "scroll" else ("right", "left")
        where = [f"pointer_at {pointer[0]},{pointer[1]}"] if pointer else []
        return [Scroll(direction=directions[amount < 0])], True, ["direction_from_sign", *where], pointer
    return *_keyboard(word, arguments), pointer


def _keyboard(word: str, arguments: dict[str, Any]) -> tuple[list[Action], bool, list[str]]:
    if word == "write":
        return _written(arguments.get("message"))
    if word == "press":
        presses = whole_number(arguments.get("presses", 1))
        if presses is None or not 1 <= presses <= 100:
            raise ItemError("bad_value", f"press: presses={arguments.get('presses')!r:.40}; expected 1 to 100", word)
        return [pressed((key,)) for key in _keys(arguments, word)] * presses, False, []
    if word == "hotkey":
        keys = _keys(arguments, word)
        if len(keys) > 3:
            raise ItemError("no_counterpart", f"a hotkey of {len(keys)} keys; the space has at most 3", word)
        return [pressed(tuple(keys))], False, []
    if word == "wait":
        return [Wait()], True, []
    status = arguments.get("status", "success")
    if status not in ("success", "failure"):
        raise ItemError("bad_value", f"terminate: status {status!r:.40}; expected success or failure", word)
    return [Finished("")], status == "failure", ["terminate_failure"] if status == "failure" else []


def _written(message: object) -> tuple[list[Action], bool, list[str]]:
    if not isinstance(message, str):
        what = "missing_field" if message is None else "bad_value"
        raise ItemError(what, f"write: expected a text, found {message!r:.60}", "write")
    if not message:
        raise ItemError("empty_text", "write: the text is empty", "write")
    actions: list[Action] = []
    try:
        for place, line in enumerate(re.split(r"\r\n|\n|\r", message)):
            actions += [PressEnter()] if place else []
            actions += [Type(line)] if line else []
    except ValueError as error:
        raise ItemError("bad_value", str(error), "write") from error
    return actions, False, ["line_break_is_enter"] if len(actions) > 1 or isinstance(actions[0], PressEnter) else []


def _keys(arguments: dict[str, Any], word: str) -> list[str]:
    keys = arguments.get("keys")
    listed = [keys] if isinstance(keys, str) else keys
    if not isinstance(listed, list) or not listed:
        raise ItemError("missing_field", f"{word}: expected keys, found {keys!r:.60}", word)
    names = [key.lower() if isinstance(key, str) and len(key) > 1 else key for key in listed]
    for key in names:
        if not isinstance(key, str) or not _KEY.fullmatch(key):
            raise ItemError("bad_value", f"{word}: {key!r:.60} is no key", word)
    return names


def _number(arguments: dict[str, Any], name: str, word: str) -> float:
    value = arguments.get(name)
    if value is None:
        raise ItemError("missing_field", f"{word}: expected {name}", word)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ItemError("bad_value", f"{word}: {name}: expected a number, found {value!r:.60}", word)
    return value


def _point(arguments: dict[str, Any], size: tuple[float, float], pointer: Point | None, word: str) -> Point:
    """x, y (or a pair in x) of the native frame → 0..1000; the pointer if the call names no point."""
    if isinstance(arguments.get("x"), list) and arguments.get("y") is None and len(arguments["x"]) == 2:
        arguments = {**arguments, "x": arguments["x"][0], "y": arguments["x"][1]}
    if arguments.get("x") is None and arguments.get("y") is None and pointer is not None:
        return pointer
    x, y = _number(arguments, "x", word), _number(arguments, "y", word)
    try:
        return point_to_unit((x, y), size)
    except (OffScreen, OverflowError) as error:
        raise ItemError("off_screen", f"{word}: {error}", word) from error
