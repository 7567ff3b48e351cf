"""The text forms of the 16 actions: canonical (`format`, `parse`), model output (`parse_reply`), training (`render`).

`parse(format(action)) == action` for every legal action over any Unicode text. `parse` reads canonical
text only; `parse_reply` is the lenient reader of what models write.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from schemas.action_types import (
    ACTION_SPACE,
    ACTION_TYPES,
    BARE,
    POINTED,
    REFUSED,
    TEXTED,
    Action,
    CallUser,
    Click,
    DoubleClick,
    Drag,
    Finished,
    Hotkey,
    Hover,
    Launch,
    LongPress,
    Point,
    PressBack,
    PressEnter,
    PressHome,
    PressRecent,
    Scroll,
    Type,
    Wait,
    pressed,
    scroll_direction,
)

__all__ = [
    "ACTION_SPACE",
    "ACTION_TYPES",
    "Action",
    "CallUser",
    "Click",
    "DoubleClick",
    "Drag",
    "Finished",
    "Hotkey",
    "Hover",
    "Launch",
    "LongPress",
    "ModelReply",
    "Point",
    "PressBack",
    "PressEnter",
    "PressHome",
    "PressRecent",
    "Scroll",
    "Type",
    "Wait",
    "format",
    "parse",
    "parse_reply",
    "render",
    "pressed",
    "scroll_direction",
]

ESCAPES = (("\\", "\\\\"), ("'", "\\'"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"))
"""Sign → how canonical text writes it, in the order in which they are replaced."""
_UNESCAPE = {"\\": "\\", "'": "'", "n": "\n", "r": "\r", "t": "\t"}

SYNTHESISED_PATHS: dict[str, tuple[Point, Point]] = {
    "down": ((500, 700), (500, 300)),
    "up": ((500, 300), (500, 700)),
    "right": ((700, 500), (300, 500)),
    "left": ((300, 500), (700, 500)),
}
"""Finger paths that `render` writes on mobile when the source gave only a direction."""


def _quote(text: str) -> str:
    for raw, escaped in ESCAPES:
        text = text.replace(raw, escaped)
    return f"'{text}'"


def _point(point: Point) -> str:
    return f"({point[0]},{point[1]})"


def format(action: Action) -> str:
    """Canonical text of an action, lossless: single quotes, the escapes ``\\\\ \\' \\n \\r \\t`` only."""
    kind = type(action).__name__
    if isinstance(action, POINTED):
        return f"{kind}(box={_point(action.box)})"
    if isinstance(action, Drag):
        return f"Drag(start={_point(action.start)}, end={_point(action.end)})"
    if isinstance(action, Scroll):
        parts = []
        if action.start is not None and action.end is not None:
            parts += [f"start={_point(action.start)}", f"end={_point(action.end)}"]
        if action.direction:
            parts.append(f"direction='{action.direction}'")
        return f"Scroll({', '.join(parts)})"
    if isinstance(action, TEXTED):
        return f"{kind}(content={_quote(action.content)})"
    if isinstance(action, Launch):
        return f"Launch(app={_quote(action.app)})" if action.app else f"Launch(url={_quote(action.url)})"
    if isinstance(action, Hotkey):
        return f"Hotkey(keys=[{','.join(_quote(key) for key in action.keys)}])"
    if isinstance(action, BARE):
        return f"{kind}()"
    raise ValueError(f"format: expected one of the 16 actions, found {action!r}")


_POINT = r"\((0|[1-9]\d{0,3}),(0|[1-9]\d{0,3})\)"
_TEXT = r"'((?:[^'\\\n\r\t]|\\[\\'nrt])*)'"
_CALL = re.compile(r"([A-Za-z]+)\((.*)\)", re.DOTALL)
_ARGUMENTS = {
    **{kind.__name__: re.compile(rf"box={_POINT}", re.ASCII) for kind in POINTED},
    "Drag": re.compile(rf"start={_POINT}, end={_POINT}", re.ASCII),
    "Scroll": re.compile(rf"(?:start={_POINT}, end={_POINT})?(?:(?:(?<=\)), )?direction='(\w*)')?", re.ASCII),
    **{kind.__name__: re.compile(rf"content={_TEXT}") for kind in TEXTED},
    "Launch": re.compile(rf"(app|url)={_TEXT}"),
    "Hotkey": re.compile(rf"keys=\[({_TEXT}(?:,{_TEXT}){{0,2}})\]"),
    **{kind.__name__: re.compile("") for kind in BARE},
}


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: _UNESCAPE[match.group(1)], text)


def parse(text: str) -> Action:
    """Canonical text → action, the inverse of `format`. Raises `ValueError` that says what is wrong."""
    call = _CALL.fullmatch(text)
    if call is None:
        raise ValueError(f"action: expected Name(arguments), found {text[:80]!r}")
    kind, arguments = call.groups()
    if kind not in ACTION_TYPES:
        raise ValueError(f"action: unknown name {kind[:40]!r}; known are {', '.join(ACTION_TYPES)}")
    match = _ARGUMENTS[kind].fullmatch(arguments)
    if match is None:
        raise ValueError(f"{kind}: arguments are not in canonical form: {arguments[:80]!r}")
    action = _build(kind, match)
    if format(action) != text:  # e.g. a blank that the pattern's alternatives let through
        raise ValueError(f"{kind}: expected {format(action)[:80]!r}, found {text[:80]!r}")
    return action


def _build(kind: str, match: re.Match[str]) -> Action:
    groups = match.groups()
    if kind == "Scroll":
        x1, y1, x2, y2, direction = groups
        start, end = (None, None) if x1 is None else ((int(x1), int(y1)), (int(x2), int(y2)))
        return Scroll(start, end, direction or "")
    if kind == "Drag":
        return Drag((int(groups[0]), int(groups[1])), (int(groups[2]), int(groups[3])))
    if kind == "Launch":
        return Launch(**{groups[0]: _unescape(groups[1])})
    if kind == "Hotkey":
        return Hotkey(tuple(_unescape(key) for key in re.findall(_TEXT, groups[0])))
    if ACTION_TYPES[kind] in TEXTED:
        return ACTION_TYPES[kind](_unescape(groups[0]))
    if ACTION_TYPES[kind] in POINTED:
        return ACTION_TYPES[kind]((int(groups[0]), int(groups[1])))
    return ACTION_TYPES[kind]()


def render(action: Action, platform: str) -> str:
    """Training text of an action on `mobile`, `web` or `desktop`.

    Scroll is written as the platform's models write it: on web and desktop the direction only; on mobile the
    two points, synthesised from the direction (`SYNTHESISED_PATHS`) if the source had none. Text stands as it is,
    unescaped, as the published model writes it: `parse_reply` reads it back. All else is `format`.
    """
    if isinstance(action, TEXTED):
        return f"{type(action).__name__}(content='{action.content}')"
    if isinstance(action, Launch):
        return f"Launch(app='{action.app}')" if action.app else f"Launch(url='{action.url}')"
    if not isinstance(action, Scroll):
        return format(action)
    if platform == "mobile":
        start, end = (action.start, action.end) if action.start and action.end else SYNTHESISED_PATHS[action.direction]
        return format(Scroll(start, end))
    direction = action.direction or scroll_direction(action.start, action.end)  # type: ignore[arg-type]
    return format(Scroll(direction=direction))


@dataclass(frozen=True, slots=True)
class ModelReply:
    """What a model wrote, read leniently.

    `point` is set for a grounding reply `[x,y]`; (-1, -1) means refusal. `confidence` is what it states behind that
    point, `[x,y] 0.8`, in 0..1 and with its decimals; None without. `error` says why there is neither action nor
    point. `tags_ok` is true iff the three tags stand in order, each once.
    """

    thought: str = ""
    action: Action | None = None
    conclusion: str = ""
    point: tuple[int, int] | None = None
    tags_ok: bool = False
    error: str | None = None
    confidence: float | None = None

    @property
    def refusal(self) -> bool:
        """Whether the reply says that the element is not on the screen."""
        return self.point == REFUSED


_TAGS = re.compile(r"\s*<think>(.*?)</think>\s*<action>(.*?)</action>\s*<conclusion>(.*?)</conclusion>\s*", re.DOTALL)
_NUMBER = r"-?\d+(?:\.\d+)?"
CONFIDENCE = r"0\.[0-9]+|1\.0+"
"""How sure a grounding reply may say to be, behind its point."""
_GROUNDING = re.compile(
    rf"[\s`]*[\[(]\s*({_NUMBER}(?:\s*,\s*{_NUMBER}){{1}}(?:(?:\s*,\s*{_NUMBER}){{2}})?)\s*[\])]"
    rf"(?:\s+({CONFIDENCE}))?[\s`.]*"
)
_LENIENT_CALL = re.compile(r"([A-Za-z]+)\s*\((.*)\)\s*[;.`]*\s*", re.DOTALL)
_LENIENT_TEXT = re.compile(r"\s*(?:(content|app|url|text)\s*=\s*)?(['\"])(.*)\2\s*,?\s*", re.DOTALL)


def _between(text: str, tag: str) -> str | None:
    match = re.search(rf"<{tag}>(.*?)(?:</{tag}>|$)", text, re.DOTALL)
    return match.group(1).strip() if match else None


def parse_reply(text: str) -> ModelReply:
    """Model output → `ModelReply`; never raises on text.

    Reads the three tags (in any order, or none), blanks anywhere between tokens, `key=` for `keys=`, points as
    tuples or lists, a box of four numbers as its centre, a confidence behind either, floats, either quote. Backslashes
    in text are literal: models don't escape. Coordinates outside 0..1000 are an error, never clamped.
    """
    tags_ok = _TAGS.fullmatch(text) is not None and text.count("<action>") == 1
    thought, conclusion = _between(text, "think") or "", _between(text, "conclusion") or ""
    body = text.strip()
    if "<action>" in body:  # up to the last closing tag: typed text may hold one
        body = body.partition("<action>")[2].rpartition("</action>")[0] or body.partition("<action>")[2]
        body = body.strip()
    grounding = _GROUNDING.fullmatch(body)
    try:
        if grounding:
            numbers = [float(number) for number in re.findall(_NUMBER, grounding.group(1))]
            point = REFUSED if numbers == [-1.0, -1.0] else _centre(numbers)
            stated = grounding.group(2)
            return ModelReply(thought, None, conclusion, point, tags_ok, None, float(stated) if stated else None)
        return ModelReply(thought, _lenient_action(body), conclusion, None, tags_ok)
    except ValueError as error:
        return ModelReply(thought, None, conclusion, None, tags_ok, str(error))


def _centre(numbers: list[float]) -> Point:
    """Two numbers are a point, four a box whose centre is meant."""
    if len(numbers) == 4:
        numbers = [(numbers[0] + numbers[2]) / 2, (numbers[1] + numbers[3]) / 2]
    if len(numbers) != 2 or not all(0 <= number <= 1000 for number in numbers):
        raise ValueError(f"reply: expected a point in 0..1000, found {numbers}")
    return int(numbers[0] + 0.5), int(numbers[1] + 0.5)


def _lenient_points(arguments: str, *names: str) -> list[Point | None]:
    points: list[Point | None] = []
    for name in names:
        match = re.search(rf"\b{name}\s*=\s*['\"]?\s*[\[(]\s*([^\])]*)[\])]", arguments)
        numbers = re.findall(_NUMBER, match.group(1)) if match else []
        points.append(_centre([float(number) for number in numbers]) if match else None)
    return points


def _lenient_action(body: str) -> Action:
    call = _LENIENT_CALL.fullmatch(body.strip().strip("`").strip())
    if call is None:
        raise ValueError(f"reply: expected an action or [x,y], found {body[:80]!r}")
    by_lower = {name.lower(): name for name in ACTION_TYPES}
    kind = by_lower.get(call.group(1).lower())
    arguments = call.group(2)
    if kind is None:
        raise ValueError(f"reply: unknown action {call.group(1)[:40]!r}")
    cls = ACTION_TYPES[kind]
    if cls in POINTED:
        [point] = _lenient_points(arguments, "box")
        if point is None:  # positional: Click(10, 20) or Click((10, 20))
            point = _centre([float(number) for number in re.findall(_NUMBER, arguments)])
        return cls(point)
    if cls is Drag:
        start, end = _lenient_points(arguments, "start", "end")
        if start is None or end is None:
            raise ValueError(f"Drag: expected start and end, found {arguments[:80]!r}")
        return Drag(start, end)
    if cls is Scroll:
        start, end = _lenient_points(arguments, "start", "end")
        word = re.search(r"direction\s*=\s*['\"]\s*(\w*)\s*['\"]", arguments)
        return Scroll(start, end, word.group(1).lower() if word else "")
    if cls is Hotkey:
        listed = re.search(r"(?:keys?\s*=\s*)?[\[(]?(.*?)[\])]?\s*$", arguments, re.DOTALL)
        keys = re.findall(r"'([^']+)'|\"([^\"]+)\"", listed.group(1) if listed else "")
        return Hotkey(tuple(single or double for single, double in keys))
    if cls in BARE:
        return cls()
    return _lenient_text(cls, arguments)


def _lenient_text(cls: type, arguments: str) -> Action:
    if cls in TEXTED and not arguments.strip():
        return cls()
    if cls is Launch:  # the unused twin may stand beside it: Launch(app='Clock', url='')
        twin = r"(?:app|url)\s*=\s*(?:''|\"\")"
        arguments = re.sub(rf"^\s*{twin}\s*,|,\s*{twin}\s*,?\s*$", "", arguments)
    match = _LENIENT_TEXT.fullmatch(arguments)
    if match is None:
        raise ValueError(f"{cls.__name__}: expected quoted text, found {arguments[:80]!r}")
    name, _, content = match.groups()
    if cls is Launch:
        return Launch(url=content) if name == "url" else Launch(app=content)
    return cls(content)
