"""What published models write → our actions and points: tool calls in JSON, calls behind `Action:`, words, brackets.

A reply is read in its profile's form or not at all: what is cut, holds no call, names an action without a counterpart
here or points outside the picture is unreadable and says why. Reading takes time linear in the text.
"""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from generators.policies.profiles.code_replies import read_code
from generators.policies.profiles.profile import Profile, ProfilePrompt, ReplyForm
from schemas import action_types
from schemas.actions import MAX_REPLY, ModelReply, parse_reply
from schemas.coordinates import UNITS, to_unit
from schemas.reply_arguments import numbers_in, quoted_text

Size = tuple[int, int]
Frame = tuple[float, float]
"""What x and y count to."""
Place = tuple[float, float]
"""A point in 0..1000 of the picture, or `REFUSED`."""

_NUMBER = r"-?\d{1,6}(?:\.\d{1,9})?"
_BRACKET = re.compile(rf"[\[(]\s{{0,4}}({_NUMBER}(?:\s{{0,4}},\s{{0,4}}{_NUMBER}){{1,3}})\s{{0,4}}[\])]")
_BETWEEN = re.compile(r"\s{0,4},?\s{0,4}")
_NEXT_CALL = re.compile(r"(?<=\))[ \t]{0,8}\n\s{0,8}(?=[a-z_]{1,24}\()")
_CALL = re.compile(r"\s*([a-z_]{1,24})\((.*)\)\s*", re.DOTALL)
_ARGUMENT = re.compile(r"\b([a-z_]{1,20})\s?=\s?(?:'([^']*)'|\"([^\"]*)\")")
_ESCAPED = re.compile(r"\\(['\"\\nt])")
_POINTS_OF = {"coordinate": ("start_box", "start_point", "point"), "coordinate2": ("end_box", "end_point")}
_TEXTED = frozenset({"type", "finished", "call_user"})
_WORD = re.compile(r"\s*([A-Z_]{3,20})[ \t]*(?:<point>([^<]{1,60})</point>|\[(.*)\])?\s*", re.DOTALL)
_ACTIONS = re.compile(r"\bactions?\s{0,4}:", re.IGNORECASE)
_NAME_OF_WORD = {"complete": "finished", "enter": "press_enter"}

_POINTED: Mapping[str, Callable[[action_types.Point], action_types.Action]] = {
    **dict.fromkeys(("click", "left_click", "tap", "left_single"), action_types.Click),
    **dict.fromkeys(("double_click", "left_double", "triple_click"), action_types.DoubleClick),
    **dict.fromkeys(("mouse_move", "hover"), action_types.Hover),
    "long_press": action_types.LongPress,
}
_PATHS: Mapping[str, Callable[[action_types.Point, action_types.Point], action_types.Action]] = {
    "swipe": action_types.Scroll,
    **dict.fromkeys(("drag", "left_click_drag"), action_types.Drag),
}
_BUTTONS: Mapping[str, action_types.Action] = {
    "back": action_types.PressBack(),
    "home": action_types.PressHome(),
    "menu": action_types.PressRecent(),
    "enter": action_types.PressEnter(),
}


@dataclass(frozen=True, slots=True)
class CalledAction:
    """What a reply calls, by tool calls' names of arguments, and what it says around that."""

    name: str
    arguments: Mapping[str, object]
    thought: str = ""
    conclusion: str = ""


def read_action(
    text: str,
    profile: Profile,
    prompt: ProfilePrompt,
    size: Size,
    space: action_types.ActionSpace = action_types.ACTION_SPACE,
) -> ModelReply:
    """A reply to a navigation prompt as an action of `space`; `size` is that of the picture that was sent. Never raises
    on text: `error` says why there is no action."""
    return read_form(text, profile.reply, _frame(profile, prompt, size), space, prompt.several == "last")


def read_form(
    text: str,
    form: ReplyForm,
    frame: Frame,
    space: action_types.ActionSpace = action_types.ACTION_SPACE,
    last: bool = False,
) -> ModelReply:
    """A reply in a form as an action of `space`; `last`: of several calls that one counts, else the first. Never raises
    on text: `error` says why there is no action."""
    if form == "tags":
        return parse_reply(text, space)
    try:
        if form == "pyautogui":
            return read_code(text, frame, space, last)
        called = _called(text, form, last)
        return ModelReply(called.thought, _action(called, frame, space), called.conclusion)
    # RecursionError: JSON that is nested ten thousand levels deep.
    except (ValueError, RecursionError) as error:
        return ModelReply(error=f"reply: {error}"[:300])


def read_place(text: str, profile: Profile, size: Size) -> Place | None:
    """The point of a reply to a grounding prompt, a box's centre, or `REFUSED`; None where it can't be read."""
    prompt = profile.grounding
    frame = _frame(profile, prompt, size)
    try:
        if profile.reply == "tags":
            return _bracketed(_thought(text)[1], prompt, frame)
        if profile.reply == "pyautogui":
            return _code_place(text, frame)
        try:
            called = _called(text, profile.reply, prompt.several == "last")
        except ValueError:
            # No call: some models answer a grounding question by a bracket alone.
            return _bracketed(_thought(text)[1], prompt, frame)
        if called.name == "terminate" and called.arguments.get("status") == "failure":
            return action_types.REFUSED
        if called.name not in _POINTED:
            raise ValueError(f"expected a click, found {called.name!r:.40}")
        return _place(called.arguments.get("coordinate"), frame)
    except (ValueError, RecursionError):
        return None


def _code_place(text: str, frame: Frame) -> Place:
    action = read_code(text, frame, action_types.ACTION_SPACE).action
    if isinstance(action, action_types.Finished) and action.content == "failure":
        return action_types.REFUSED
    if not isinstance(action, action_types.Click | action_types.DoubleClick | action_types.Hover):
        raise ValueError(f"expected a click, found {action!r:.40}")
    return float(action.box[0]), float(action.box[1])


def _frame(profile: Profile, prompt: ProfilePrompt, size: Size) -> Frame:
    return size if profile.frame == "pixels" else (prompt.units, prompt.units)


# --- the form of a reply
def _called(text: str, form: ReplyForm, last: bool) -> CalledAction:
    # Before anything is matched: reading is linear, and endless text is endless all the same.
    if len(text) > MAX_REPLY:
        raise ValueError(f"expected at most {MAX_REPLY} characters, found {len(text)}")
    thought, said = _thought(text)
    # Of several calls the profile says which one its harness carries out.
    return {"tool_call": _of_tool_call, "words": _of_word}.get(form, _of_call)(thought, said, last)


def _thought(text: str) -> tuple[str, str]:
    """(what stands in the thinking tags, what follows them). Raises `ValueError` for a thought that doesn't end."""
    for tag in ("think", "thinking"):
        # From the last closing tag: a thought may quote an earlier one.
        head, closed, said = text.rpartition(f"</{tag}>")
        if closed:
            return head.partition(f"<{tag}>")[2].strip() or head.strip(), said
        if f"<{tag}>" in text:
            raise ValueError("the thought doesn't end: the reply was cut")
    return "", text


def _of_tool_call(thought: str, said: str, last: bool) -> CalledAction:
    """`<tool_call>{"name": …, "arguments": {…}}</tool_call>`, also without its tags."""
    head, *calls = said.split("<tool_call>")
    if calls:
        body = calls[-1 if last else 0]
    else:
        head, opened, rest = said.partition('{"name"')
        body = opened + rest
    # The JSON's end is where it ends; what follows it is the next tag or noise.
    call, _ = json.JSONDecoder().raw_decode(body.strip())
    arguments = call.get("arguments") if isinstance(call, dict) else None
    # Some models write the arguments as text that is JSON itself.
    if isinstance(arguments, str):
        arguments = json.loads(arguments)
    if not isinstance(arguments, dict) or not isinstance(arguments.get("action"), str):
        raise ValueError(f"expected a tool call with an action, found {body[:80]!r}")
    conclusion = said.partition("<conclusion>")[2].partition("</conclusion>")[0]
    thought = thought or head.partition("Thought:")[2].partition("Action:")[0]
    conclusion = conclusion or head.partition("Action:")[2].strip().strip('"')
    return CalledAction(arguments["action"], arguments, thought.strip(), conclusion.strip())


def _of_call(thought: str, said: str, last: bool) -> CalledAction:
    """`Thought: …`, `Action: click(start_box='(1,2)')`."""
    head, *parts = said.split("Action:")
    # Several calls on lines of their own, as one model writes them.
    calls = [call for part in parts for call in _NEXT_CALL.split(part)]
    found = _CALL.fullmatch(calls[-1 if last else 0]) if calls else None
    if found is None:
        raise ValueError(f"expected Action: with one call, found {said[-80:]!r}")
    name, written = found[1], found[2].strip()
    arguments: dict[str, object] = {}
    # Text arguments may hold quotes and brackets, so they are read whole.
    if name in _TEXTED:
        arguments["text"] = _ESCAPED.sub(_unescaped, quoted_text(written)[1]) if written else ""
    else:
        given = {key: one or two for key, one, two in _ARGUMENT.findall(written)}
        for key, names in _POINTS_OF.items():
            if value := next((given[one] for one in names if one in given), ""):
                # A point is "(1,2)", "<point>1 2</point>" or the like: its numbers count.
                arguments[key] = numbers_in(value)
        arguments |= {"text": given.get("app_name", ""), "direction": given.get("direction", "").lower()}
        arguments["keys"] = given.get("key", "").split()
    return CalledAction(name, arguments, thought or head.partition("Thought:")[2].strip())


def _of_word(thought: str, said: str, last: bool) -> CalledAction:
    """OS-Atlas: `thoughts: …`, `actions:`, and on a line of its own `CLICK <point>[[1,2]]</point>` or `TYPE [text]`."""
    head, *parts = _ACTIONS.split(said)
    # A typed text may hold line breaks, so one call is read whole; of several the first line or the last counts.
    written = parts[-1].strip() if parts else ""
    found = _WORD.fullmatch(written) or _WORD.fullmatch((written.splitlines() or [""])[-1 if last else 0])
    if found is None:
        raise ValueError(f"expected actions: with a word in capitals, found {said[-80:]!r}")
    name, text = found[1].lower(), (found[3] or "").strip()
    arguments: dict[str, object] = {"text": text, "direction": text.lower().removeprefix("direction ")}
    if found[2]:
        arguments["coordinate"] = numbers_in(found[2])
    thought = thought or head.partition(":")[2].strip()
    return CalledAction(_NAME_OF_WORD.get(name, name), arguments, thought)


def _unescaped(found: re.Match[str]) -> str:
    return {"n": "\n", "t": "\t"}.get(found[1], found[1])


# --- what it means
def _action(called: CalledAction, frame: Frame, space: action_types.ActionSpace) -> action_types.Action:
    """Raises `ValueError` for what has no counterpart, or lacks what it needs."""
    name, given = called.name, called.arguments
    text = given.get("text", "")
    if not isinstance(text, str):
        raise ValueError(f"{name}: expected text, found {text!r:.40}")
    if name in _POINTED:
        return _POINTED[name](_unit(given.get("coordinate"), frame))
    if name in ("right_click", "right_single") and action_types.speaks(space, action_types.RightClick):
        return action_types.RightClick(_unit(given.get("coordinate"), frame))
    if name in _PATHS:
        return _PATHS[name](_unit(given.get("coordinate"), frame), _unit(given.get("coordinate2"), frame))
    if name in ("scroll", "hscroll"):
        return action_types.Scroll(direction=_direction(name, given))
    if name == "type":
        # Some models press Enter by an argument of typing.
        ends = given.get("enter") in (1, True, "1") and not text.endswith("\n")
        return action_types.Type(text + "\n" * ends)
    if name in ("key", "hotkey"):
        return action_types.pressed(_keys(given.get("keys") or text.split()))
    if name in ("open", "open_app"):
        return action_types.Launch(app=text)
    if name in ("answer", "call_user", "interact"):
        return action_types.CallUser(text)
    if name in ("terminate", "finished"):
        return action_types.Finished(text or ("failure" if given.get("status") == "failure" else ""))
    if name == "wait":
        return action_types.Wait()
    # "press_back" and the system button "back" are one action.
    button = str(given.get("button", "")) if name == "system_button" else name.removeprefix("press_")
    if (name == "system_button" or name.startswith("press_")) and button.lower() in _BUTTONS:
        return _BUTTONS[button.lower()]
    raise ValueError(f"{name[:40]!r} has no counterpart among the actions")


def _keys(keys: object) -> tuple[str, ...]:
    if not isinstance(keys, list) or not keys or not all(isinstance(key, str) for key in keys):
        raise ValueError(f"expected keys, found {keys!r:.60}")
    return tuple(keys)


def _direction(name: str, given: Mapping[str, object]) -> str:
    if given.get("direction"):
        return str(given["direction"])
    pixels = given.get("pixels")
    # bool is an int in Python and no number of pixels.
    if isinstance(pixels, bool) or not isinstance(pixels, int | float) or not pixels:
        raise ValueError(f"{name}: expected a direction, or pixels other than 0, found {pixels!r:.40}")
    return ("up" if pixels > 0 else "down") if name == "scroll" else ("right" if pixels > 0 else "left")


def _bracketed(text: str, prompt: ProfilePrompt, frame: Frame) -> Place:
    """The first or last bracket of numbers; two that follow each other are the corners of a box."""
    # Text beyond the limit is never searched.
    found = [] if prompt.bracket == "none" or len(text) > MAX_REPLY else list(_BRACKET.finditer(text))
    if not found:
        raise ValueError(f"expected a point in brackets, found {text[:80]!r}")
    groups = [numbers_in(one[1]) for one in found]
    place = 0 if prompt.bracket == "first" else len(found) - 1
    # Two brackets that follow each other are the corners of a box.
    pair = (0, 1) if place == 0 else (place - 1, place)
    both = len(found) > 1 and all(len(groups[one]) == 2 for one in pair)
    if both and _BETWEEN.fullmatch(text, found[pair[0]].end(), found[pair[1]].start()):
        return _place([*groups[pair[0]], *groups[pair[1]]], frame)
    return _place(groups[place], frame)


def _numbers(value: object) -> list[float]:
    """Two numbers, or four of a box, also as [[x, y]] and [[x1, y1], [x2, y2]]."""
    flat: list[object] = []
    # One level of nesting: [[x1, y1], [x2, y2]].
    for one in value if isinstance(value, Sequence) and not isinstance(value, str) else ():
        flat += one if isinstance(one, list) else [one]
    if len(flat) not in (2, 4):
        raise ValueError(f"expected a point or a box, found {value!r:.60}")
    numbers = [float(one) for one in flat if isinstance(one, int | float) and not isinstance(one, bool)]
    # NaN and infinity are JSON for Python and no place on a screen.
    if len(numbers) != len(flat) or not all(map(math.isfinite, numbers)):
        raise ValueError(f"expected numbers, found {value!r:.60}")
    return numbers


def _native(value: object, frame: Frame) -> Place:
    """A point in the reply's own frame. Raises `ValueError` for one that lies outside, by more than rounding."""
    numbers = _numbers(value)
    x, y = numbers if len(numbers) == 2 else ((numbers[0] + numbers[2]) / 2, (numbers[1] + numbers[3]) / 2)
    # One unit of 0..1000 of slack: models round, and edges count as inside.
    slack = tuple(min(1.0, side / UNITS) for side in frame)
    if not all(-room <= at <= side + room for at, side, room in zip((x, y), frame, slack, strict=True)):
        raise ValueError(f"({x:g}, {y:g}) lies outside of {frame[0]:g} x {frame[1]:g}")
    return min(max(x, 0.0), frame[0]), min(max(y, 0.0), frame[1])


def _place(value: object, frame: Frame) -> Place:
    # Compared before scaling: the refusal is a pair of numbers of its own.
    if _numbers(value) == list(action_types.REFUSED):
        return action_types.REFUSED
    x, y = _native(value, frame)
    return x * UNITS / frame[0], y * UNITS / frame[1]


def _unit(value: object, frame: Frame) -> action_types.Point:
    x, y = _native(value, frame)
    return to_unit(x, frame[0]), to_unit(y, frame[1])
