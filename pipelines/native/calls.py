"""Calls of the function vocabularies that chat datasets teach: `click(x=0.4, y=0.2)`, `mobile.swipe(from_coord=…)`.

The text is parsed by `ast` (see `pipelines.native.pyautogui.parse_script`) and never run. Coordinates are fractions
0..1 of the screenshot, x first. What a scroll word means differs between sources, so the caller says it (`Vocabulary`).

| call | unified |
|---|---|
| click, double_click (doubleClick), long_press, move_mouse (moveTo, hover) | Click, DoubleClick, LongPress, Hover |
| drag(from_coord, to_coord) | Drag |
| swipe(from_coord, to_coord) | Scroll(start, end), direction from the points, which are the finger's |
| scroll(direction, amount), scroll(page), hscroll(page) | Scroll(direction) |
| type(text), write(message) | Type |
| press(keys), hotkey(keys) | PressEnter, Hotkey |
| open_app, open_url | Launch |
| navigate_back, back; navigate_home, home; recent | PressBack, PressHome, PressRecent |
| wait | Wait (lossy: how long) |
| final_answer, answer, response, terminate | Finished |
| call_user | CallUser |
| right_click (click by button), select_option(x, y, value) | `no_counterpart`; under v2 RightClick, SelectOption |
| go_forward, key_down, … | `no_counterpart` |
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pipelines.mapping.builders import MappedAction
from pipelines.mapping.card import Loss
from pipelines.mapping.items import ItemError, bad_values, is_text, whole_number
from pipelines.mapping.points import fraction_point
from pipelines.native.pyautogui import PyAutoGuiCall, parse_script
from schemas import action_types
from schemas.action_types import scroll_direction, speaks

MODULES = frozenset({"", "pyautogui", "mobile", "browser", "computer"})
OTHER = "other calls"
ALIASES = {
    "doubleClick": "double_click",
    "rightClick": "right_click",
    "moveTo": "move_mouse",
    "hover": "move_mouse",
    "write": "type",
    "back": "navigate_back",
    "home": "navigate_home",
    "go_backward": "navigate_back",
    "answer": "final_answer",
    "response": "final_answer",
    "terminate": "final_answer",
    "sleep": "wait",
    "longPress": "long_press",
}
POINTED: Mapping[str, Callable[[action_types.Point], action_types.Action]] = {
    "click": action_types.Click,
    "double_click": action_types.DoubleClick,
    "long_press": action_types.LongPress,
    "move_mouse": action_types.Hover,
    "right_click": action_types.RightClick,
}
NONE = frozenset({"middleClick", "go_forward", "keyDown", "keyUp", "dragTo", "tripleClick"})
IN_V2: Mapping[str, type] = {"right_click": action_types.RightClick, "select_option": action_types.SelectOption}
"""Calls that have a counterpart where the space has these."""
ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(POINTED, ("x", "y", "clicks", "interval", "button", "duration")),
    **dict.fromkeys(("drag", "swipe"), ("from_coord", "to_coord", "duration")),
    "select_option": ("x", "y", "value"),
    "scroll": ("direction", "amount", "page", "clicks", "x", "y"),
    "hscroll": ("page", "clicks", "x", "y"),
    "type": ("text", "message", "interval"),
    "press": ("keys", "key", "presses", "interval"),
    "hotkey": ("keys", "interval"),
    "open_app": ("app_name", "app", "name"),
    "open_url": ("url", "name"),
    "final_answer": ("text", "answer", "status", "info"),
    "call_user": ("text", "message"),
    "wait": ("seconds", "duration"),
}
"""Arguments by name that a call may have; another one isn't passed over but refused, by its name."""
PLACES: Mapping[str, int] = {**dict.fromkeys(("drag", "swipe", "scroll", *POINTED), 2), "select_option": 3}
"""Arguments without a name that a call may have, where that isn't one."""
MODIFIERS = frozenset(
    {
        "ctrl",
        "ctrlleft",
        "ctrlright",
        "control",
        "alt",
        "altleft",
        "altright",
        "shift",
        "shiftleft",
        "shiftright",
        "win",
        "winleft",
        "winright",
        "super",
        "meta",
        "cmd",
        "command",
        "option",
        "fn",
    }
)
LOSSES = (
    Loss("click", "Click", "kept"),
    Loss("double_click", "DoubleClick", "kept"),
    Loss("long_press", "LongPress", "kept"),
    Loss("move_mouse", "Hover", "kept"),
    Loss("drag", "Drag", "kept"),
    Loss("swipe", "Scroll", "kept", "the points are the finger's"),
    Loss("scroll", "Scroll", "lossy", "how far isn't kept"),
    Loss("hscroll", "Scroll", "lossy", "how far isn't kept"),
    Loss("type", "Type", "kept", "an empty text is quarantined"),
    Loss("press", "PressEnter, Hotkey", "kept", "a list that begins with a modifier is one Hotkey"),
    Loss("hotkey", "Hotkey", "kept", "over three keys have no counterpart"),
    Loss("open_app", "Launch", "kept"),
    Loss("open_url", "Launch", "kept"),
    Loss("navigate_back", "PressBack", "kept"),
    Loss("navigate_home", "PressHome", "kept"),
    Loss("recent", "PressRecent", "kept"),
    Loss("wait", "Wait", "lossy", "how long isn't kept"),
    Loss("final_answer", "Finished", "kept", "lossy for a failure: why isn't said"),
    Loss("call_user", "CallUser", "kept"),
    Loss("right_click", "RightClick", "kept", "v2; in v1.5 one of the other calls"),
    Loss("select_option", "SelectOption", "kept", "v2; in v1.5 one of the other calls"),
    Loss("several calls", "several actions", "kept", "one native step; lossy if one of its calls is"),
    Loss(OTHER, "-", "dropped", "no_counterpart, or unknown_action:<name> for a call never seen"),
)
"""Rows for the loss table of a source that writes such calls."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What a source means. `flip_vertical`: its scroll("up") shows what lies below, since it was converted with the
    sign turned round; `page_positive`: the direction of `scroll(page=+…)`. `space`: which actions there are."""

    flip_vertical: bool = False
    page_positive: str = "up"
    space: action_types.ActionSpace = action_types.ACTION_SPACE


def read_calls(text: str, vocabulary: Vocabulary) -> MappedAction:
    """Text of one or more calls → actions, in order. Raises `ItemError` (reason, detail, word) for the first that can't
    be mapped: a native step is taken whole or not at all."""
    calls = parse_script(text.strip())
    if not calls:
        raise ItemError("missing_field", "expected a call, found none", OTHER)
    mapped = [_one(call, vocabulary) for call in calls]
    if len(mapped) == 1:
        return mapped[0]
    actions = tuple(action for one in mapped for action in one.actions)
    rules = tuple(dict.fromkeys(rule for one in mapped for rule in one.rules))
    return MappedAction(actions, "several calls", any(one.lossy for one in mapped), rules)


def _one(call: PyAutoGuiCall, vocabulary: Vocabulary) -> MappedAction:
    if call.error is not None:
        raise ItemError(call.error.reason, call.error.detail, OTHER)
    module, _, name = call.name.rpartition(".")
    name = ALIASES.get(name, name)
    if module not in MODULES:
        raise ItemError(f"unknown_action:{call.name[:60]}", f"module {module!r}", OTHER)
    if name in NONE or (name in IN_V2 and not speaks(vocabulary.space, IN_V2[name])):
        raise ItemError("no_counterpart", f"the action space has no {call.name}", OTHER)
    if name in POINTED or name in _READERS:
        _check_arguments(call, name)
    if name in POINTED:
        name = _meant(call, name, vocabulary.space)
        return MappedAction((POINTED[name](_xy(call, name)),), name, False, ())
    reader = _READERS.get(name)
    if reader is None:
        known = sorted(name for name in _READERS if speaks(vocabulary.space, IN_V2.get(name, action_types.Click)))
        raise ItemError(f"unknown_action:{call.name[:60]}", f"known are {', '.join(known)}", OTHER)
    with bad_values(name):
        return reader(call, name, vocabulary)


def _meant(call: PyAutoGuiCall, name: str, space: action_types.ActionSpace) -> str:
    """click(clicks=2) is a double click, click(button='right') a right click, where the space has one."""
    button, clicks = call.kwargs.get("button", "left"), call.kwargs.get("clicks", 1)
    if name == "click" and clicks == 2:
        name = "double_click"
    elif clicks not in (1, 2) or isinstance(clicks, bool):
        raise ItemError("bad_value", f"{name}: clicks={clicks!r:.40}", name)
    if name == "click" and button in ("right", "secondary") and speaks(space, action_types.RightClick):
        return "right_click"
    if name == "right_click" and button in ("right", "secondary"):
        return name
    if button not in ("left", "primary"):
        raise ItemError("no_counterpart", f"{name} with button {button!r:.40}", OTHER)
    return name


def _check_arguments(call: PyAutoGuiCall, name: str) -> None:
    """Raises `ItemError` for an argument that nothing here reads: none is passed over in silence."""
    known = ARGUMENTS.get(name, ())
    if unseen := sorted(set(call.kwargs) - {*known, "_pause"}):
        raise ItemError(f"unknown_field:{unseen[0][:60]}", f"{call.name}: expected {known}", name)
    places = PLACES.get(name, 1 if known else 0)
    if name != "hotkey" and (len(call.args) > places or (call.args and set(known[:places]) & set(call.kwargs))):
        raise ItemError("bad_value", f"{call.text[:60]}: more arguments than {known[:places]}", name)
    if name in ("press", "hotkey") and call.args and call.kwargs.get("keys") is not None:
        raise ItemError("bad_value", f"{call.text[:60]}: two values for keys", name)


def _argument(call: PyAutoGuiCall, place: int, *names: str) -> Any:
    for name in names:
        if name in call.kwargs:
            return call.kwargs[name]
    return call.args[place] if place < len(call.args) else None


def _xy(call: PyAutoGuiCall, word: str) -> action_types.Point:
    return fraction_point([_argument(call, 0, "x"), _argument(call, 1, "y")], word)


def _text(value: object, word: str, *, empty: bool = False) -> str:
    if not isinstance(value, str) or not is_text(value):
        raise ItemError("missing_field", f"{word}: expected a text, found {value!r:.60}", word)
    if not value and not empty:
        raise ItemError("empty_text", f"{word}: the text is empty", word)
    return value


def _ends(call: PyAutoGuiCall, word: str) -> list[action_types.Point]:
    return [fraction_point(_argument(call, k, name), word) for k, name in enumerate(("from_coord", "to_coord"))]


def _drag(call: PyAutoGuiCall, word: str, vocabulary: Vocabulary) -> MappedAction:
    del vocabulary
    return MappedAction((action_types.Drag(*_ends(call, word)),), word, False, ())


def _swipe(call: PyAutoGuiCall, word: str, vocabulary: Vocabulary) -> MappedAction:
    del vocabulary
    start, end = _ends(call, word)
    scrolled = action_types.Scroll(start, end, scroll_direction(start, end))
    return MappedAction((scrolled,), word, False, ("direction_from_points",))


def _select(call: PyAutoGuiCall, word: str, vocabulary: Vocabulary) -> MappedAction:
    del vocabulary
    return MappedAction(
        (action_types.SelectOption(_xy(call, word), _text(_argument(call, 2, "value"), word)),), word, False, ()
    )


def _scroll(call: PyAutoGuiCall, word: str, vocabulary: Vocabulary) -> MappedAction:
    said = _argument(call, 0, "direction")
    if isinstance(said, str):
        if said not in ("up", "down", "left", "right"):
            raise ItemError("bad_value", f"{word}: direction {said!r:.40}", word)
        if vocabulary.flip_vertical and said in ("up", "down"):
            return MappedAction(
                (action_types.Scroll(direction={"up": "down", "down": "up"}[said]),), word, True, ("vertical_flipped",)
            )
        return MappedAction((action_types.Scroll(direction=said),), word, True, ())
    page = _argument(call, 0, "page", "clicks")
    if not isinstance(page, int | float) or isinstance(page, bool) or page == 0:
        raise ItemError("bad_value", f"{word}: expected a direction or an amount, found {said or page!r:.40}", word)
    other = {"up": "down", "down": "up"}[vocabulary.page_positive]
    vertical = vocabulary.page_positive if page > 0 else other
    direction = ("right" if page > 0 else "left") if word == "hscroll" else vertical
    return MappedAction((action_types.Scroll(direction=direction),), word, True, ("direction_from_sign",))


def _type(call: PyAutoGuiCall, word: str, vocabulary: Vocabulary) -> MappedAction:
    del vocabulary
    return MappedAction((action_types.Type(_text(_argument(call, 0, "text", "message"), word)),), word, False, ())


def _keys(call: PyAutoGuiCall, word: str, vocabulary: Vocabulary) -> MappedAction:
    del vocabulary
    value = _argument(call, 0, "keys", "key")
    keys = [value] if isinstance(value, str) else value if isinstance(value, list) else list(call.args)
    if word == "hotkey" and len(call.args) > 1:
        keys = list(call.args)
    if not keys or not all(isinstance(key, str) and key for key in keys):
        raise ItemError("missing_field", f"{word}: expected keys, found {value!r:.60}", word)
    names = [key if len(key) == 1 else key.strip().lower() or key for key in keys]
    presses = call.kwargs.get("presses", 1)
    times = whole_number(presses)
    if times is None or not 1 <= times <= 100:
        raise ItemError("bad_value", f"{word}: presses={presses!r:.40}; expected 1 to 100", word)
    # converters write hotkey(['ctrl', 'c']) as press(keys=['ctrl', 'c']); a modifier on its own does nothing
    chord = word == "hotkey" or (len(names) > 1 and names[0] in MODIFIERS)
    rules = ("press_of_a_chord",) if chord and word == "press" else ()
    if chord and len(names) > 3:
        raise ItemError("no_counterpart", f"a hotkey of {len(names)} keys; the space has at most 3", word)
    actions: list[action_types.Action] = (
        [action_types.pressed(tuple(names))] if chord else [action_types.pressed((key,)) for key in names]
    )
    return MappedAction(tuple(actions * times), word, False, rules)


def _launch(call: PyAutoGuiCall, word: str, vocabulary: Vocabulary) -> MappedAction:
    del vocabulary
    name = _text(_argument(call, 0, "app_name", "app", "url", "name"), word)
    return MappedAction(
        (action_types.Launch(url=name) if word == "open_url" else action_types.Launch(app=name),), word, False, ()
    )


def _finish(call: PyAutoGuiCall, word: str, vocabulary: Vocabulary) -> MappedAction:
    del vocabulary
    if call.name.rpartition(".")[2] == "terminate":
        status = _argument(call, 0, "status") or "success"
        if status not in ("success", "failure"):
            raise ItemError("bad_value", f"{word}: status {status!r:.40}", word)
        failed = status == "failure"
        return MappedAction((action_types.Finished(""),), word, failed, ("terminate_failure",) if failed else ())
    said = _text(_argument(call, 0, "text", "answer"), word, empty=True) if call.args or call.kwargs else ""
    status = said.strip().lower()
    if status in ("success", "failure"):  # converters write terminate(status=…) as final_answer(…)
        rule = "success_is_no_answer" if status == "success" else "terminate_failure"
        return MappedAction((action_types.Finished(""),), word, status == "failure", (rule,))
    return MappedAction((action_types.Finished(said),), word, False, ())


def _call_user(call: PyAutoGuiCall, word: str, vocabulary: Vocabulary) -> MappedAction:
    del vocabulary
    said = _argument(call, 0, "text", "message")
    return MappedAction(
        (action_types.CallUser("" if said is None else _text(said, word, empty=True)),), word, False, ()
    )


def _bare(action: action_types.Action, lossy: bool = False) -> Callable[[PyAutoGuiCall, str, Vocabulary], MappedAction]:
    return lambda call, word, vocabulary: MappedAction((action,), word, lossy, ())


_READERS: Mapping[str, Callable[[PyAutoGuiCall, str, Vocabulary], MappedAction]] = {
    "drag": _drag,
    "swipe": _swipe,
    "select_option": _select,
    "scroll": _scroll,
    "hscroll": _scroll,
    "type": _type,
    "press": _keys,
    "hotkey": _keys,
    "open_app": _launch,
    "open_url": _launch,
    "final_answer": _finish,
    "call_user": _call_user,
    "navigate_back": _bare(action_types.PressBack()),
    "navigate_home": _bare(action_types.PressHome()),
    "recent": _bare(action_types.PressRecent()),
    "wait": _bare(action_types.Wait(), lossy=True),
}
