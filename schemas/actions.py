"""The text forms of the actions: canonical (`format`, `parse`), model output (`parse_reply`), training (`render`).

`parse(format(action)) == action` for every legal action over any Unicode text. `parse` reads canonical
text only; `parse_reply` is the lenient reader of what models write. Which actions there are is a matter of the space
(`schemas.action_types.SPACES`): `parse` reads the widest unless told, `parse_reply` that of v1.5, as what a model may
say is what it was taught.
"""

import re
from dataclasses import dataclass

from schemas import reply_arguments
from schemas.action_types import (
    ACTION_SPACE,
    ACTION_TYPES,
    BARE,
    POINTED,
    REFUSED,
    SPACES,
    TEXTED,
    WIDEST,
    Action,
    ActionSpace,
    CallUser,
    Click,
    DoubleClick,
    Drag,
    Finished,
    GetUrl,
    Hotkey,
    Hover,
    Launch,
    LongPress,
    Point,
    PressBack,
    PressEnter,
    PressHome,
    PressRecent,
    RightClick,
    Scroll,
    SelectOption,
    TakeNote,
    Type,
    Wait,
    direction_of,
    pressed,
    scroll_direction,
)
from schemas.reply_arguments import NUMBER, centre, named_point, numbers_in

__all__ = [
    "ACTION_SPACE",
    "ACTION_TYPES",
    "Action",
    "ActionSpace",
    "CallUser",
    "Click",
    "DoubleClick",
    "Drag",
    "Finished",
    "GetUrl",
    "Hotkey",
    "Hover",
    "Launch",
    "LongPress",
    "ModelReply",
    "ReplySpans",
    "Point",
    "PressBack",
    "PressEnter",
    "PressHome",
    "PressRecent",
    "RightClick",
    "SPACES",
    "Scroll",
    "SelectOption",
    "TakeNote",
    "Type",
    "WIDEST",
    "Wait",
    "format",
    "parse",
    "parse_reply",
    "render",
    "reply_spans",
    "direction_of",
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
    if isinstance(action, SelectOption):
        return f"SelectOption(box={_point(action.box)}, option={_quote(action.option)})"
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
    # Unreachable for actions; a new type that was forgotten here must not become an empty text.
    raise ValueError(f"format: expected one of the actions, found {action!r}")


_POINT = r"\((0|[1-9]\d{0,3}),(0|[1-9]\d{0,3})\)"
_TEXT = r"'((?:[^'\\\n\r\t]|\\[\\'nrt])*)'"
_CALL = re.compile(r"([A-Za-z]+)\((.*)\)", re.DOTALL)
_ARGUMENTS = {
    **{kind.__name__: re.compile(rf"box={_POINT}", re.ASCII) for kind in POINTED},
    "SelectOption": re.compile(rf"box={_POINT}, option={_TEXT}", re.ASCII),
    "Drag": re.compile(rf"start={_POINT}, end={_POINT}", re.ASCII),
    "Scroll": re.compile(rf"(?:start={_POINT}, end={_POINT})?(?:(?:(?<=\)), )?direction='(\w*)')?", re.ASCII),
    **{kind.__name__: re.compile(rf"content={_TEXT}") for kind in TEXTED},
    "Launch": re.compile(rf"(app|url)={_TEXT}"),
    "Hotkey": re.compile(rf"keys=\[({_TEXT}(?:,{_TEXT}){{0,2}})\]"),
    **{kind.__name__: re.compile("") for kind in BARE},
}


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: _UNESCAPE[match.group(1)], text)


def parse(text: str, space: ActionSpace = WIDEST) -> Action:
    """Canonical text → action of a space, the inverse of `format`. Raises `ValueError` that says what is wrong."""
    call = _CALL.fullmatch(text)
    if call is None:
        raise ValueError(f"action: expected Name(arguments), found {text[:80]!r}")
    kind, arguments = call.groups()
    if kind not in SPACES[space]:
        raise ValueError(f"action: unknown name {kind[:40]!r}; known are {', '.join(SPACES[space])}")
    match = _ARGUMENTS[kind].fullmatch(arguments)
    if match is None:
        raise ValueError(f"{kind}: arguments are not in canonical form: {arguments[:80]!r}")
    action = _build(kind, match)
    if format(action) != text:  # e.g. a blank that the pattern's alternatives let through
        raise ValueError(f"{kind}: expected {format(action)[:80]!r}, found {text[:80]!r}")
    return action


def _build(kind: str, match: re.Match[str]) -> Action:
    groups, cls = match.groups(), SPACES[WIDEST][kind]
    if kind == "Scroll":
        x1, y1, x2, y2, direction = groups
        start, end = (None, None) if x1 is None else ((int(x1), int(y1)), (int(x2), int(y2)))
        # No points and no direction: `Scroll` itself refuses that.
        return Scroll(start, end, direction or "")
    if kind == "Drag":
        return Drag((int(groups[0]), int(groups[1])), (int(groups[2]), int(groups[3])))
    if kind == "Launch":
        return Launch(**{groups[0]: _unescape(groups[1])})
    if kind == "Hotkey":
        return Hotkey(_keys(match))
    if kind == "SelectOption":
        return SelectOption((int(groups[0]), int(groups[1])), _unescape(groups[2]))
    if cls in TEXTED:
        return cls(_unescape(groups[0]))
    if cls in POINTED:
        return cls((int(groups[0]), int(groups[1])))
    return cls()


def _keys(match: re.Match[str]) -> tuple[str, ...]:
    return tuple(_unescape(key) for key in re.findall(_TEXT, match.group(1)))


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
    if isinstance(action, SelectOption):
        return f"SelectOption(box={_point(action.box)}, option='{action.option}')"
    if not isinstance(action, Scroll):
        return format(action)
    if platform == "mobile":
        # A model for phones knows paths only; a direction becomes the usual one.
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


MAX_REPLY = 100_000
"""Longest text that `parse_reply` reads, in characters: some 25,000 tokens, more than any preset lets a model write."""
CONFIDENCE = r"0\.[0-9]+|1\.0+"
"""How sure a grounding reply may say to be, behind its point."""
_GROUNDING = re.compile(
    rf"[\s`]*[\[(]\s*({NUMBER}(?:\s*,\s*{NUMBER}){{1}}(?:(?:\s*,\s*{NUMBER}){{2}})?)\s*[\])]"
    rf"(?:\s+({CONFIDENCE}))?[\s`.]*"
)
_CONCLUDED = re.compile(r"</action>\s*<conclusion>")
_HEAD = re.compile(r"([A-Za-z]+)\s*\(")
_BY_LOWER = {space: {name.lower(): name for name in types} for space, types in SPACES.items()}


def parse_reply(text: str, space: ActionSpace = ACTION_SPACE) -> ModelReply:
    """Output of a model that speaks `space` → `ModelReply`, in linear time; never raises on text.

    Reads the three tags (in any order, or none), blanks anywhere between tokens, `key=` for `keys=`, keys as a list or
    as `ctrl+c`, points as tuples or lists, a box of four numbers as its centre, a confidence behind either, floats,
    either quote. Backslashes in text are literal: models don't escape. Coordinates outside 0..1000 are an error, never
    clamped. So is a text longer than `MAX_REPLY`, and a second argument or call that would become part of a text.
    """
    # Before any pattern runs, so that a reply of endless length costs nothing.
    if len(text) > MAX_REPLY:
        return ModelReply(error=f"reply: expected at most {MAX_REPLY} characters, found {len(text)}")
    tags_ok = _well_tagged(text)
    thought, conclusion = _between(text, "think"), _between(text, "conclusion")
    # The body alone is read: tags, thought and conclusion can't be mistaken for an action.
    body = text[slice(*_body(text))]
    grounding = _GROUNDING.fullmatch(body)
    try:
        if grounding:
            numbers = numbers_in(grounding.group(1))
            point = REFUSED if numbers == [-1.0, -1.0] else centre(numbers)
            stated = grounding.group(2)
            return ModelReply(thought, None, conclusion, point, tags_ok, None, float(stated) if stated else None)
        return ModelReply(thought, _lenient_action(body, space), conclusion, None, tags_ok)
    except ValueError as error:
        return ModelReply(thought, None, conclusion, None, tags_ok, str(error))


@dataclass(frozen=True, slots=True)
class ReplySpans:
    """Where in a reply's text `parse_reply` found what it read, as (start, end): the name of the action's type, None of
    a grounding reply; and what stands between its brackets, or the numbers of the point."""

    type: tuple[int, int] | None
    parameters: tuple[int, int]


def reply_spans(text: str, space: ActionSpace = ACTION_SPACE) -> ReplySpans | None:
    """The spans of an action or a point; None of a text in which `parse_reply` finds neither."""
    # What `parse_reply` can't read has no spans, so both always agree.
    if parse_reply(text, space).error is not None:
        return None
    start, end = _body(text)
    if point := _GROUNDING.fullmatch(text, start, end):
        return ReplySpans(None, point.span(1))
    start, end = _bare(text, start, end)
    call = _HEAD.match(text, start, end)
    assert call is not None  # it was read as an action
    return ReplySpans(call.span(1), (call.end(), end - 1))


def _body(text: str) -> tuple[int, int]:
    """Where the action or point stands, without blanks around it: in its tag, up to the last closing one, for typed
    text may hold one; in a text without the tag, all of it."""
    opened = text.find("<action>")
    start, end = (0 if opened < 0 else opened + len("<action>")), len(text)
    # The last closing tag: typed text may hold one of its own.
    closed = text.rfind("</action>", start)
    return _without_blanks(text, start, closed if opened >= 0 and closed > start else end)


def _bare(text: str, start: int, end: int) -> tuple[int, int]:
    """A body without the signs of code and sentences around it."""
    lead = len(text[start:end]) - len(text[start:end].lstrip("`"))
    start, end = _without_blanks(text, start + lead, start + len(text[start:end].rstrip("`")))
    # Models end calls as sentences or code.
    return start, start + len(text[start:end].rstrip(";.`").rstrip())


def _without_blanks(text: str, start: int, end: int) -> tuple[int, int]:
    body = text[start:end]
    start += len(body) - len(body.lstrip())
    return start, start + len(body.strip())


def _well_tagged(text: str) -> bool:
    """Whether thought, action and conclusion stand in order with nothing but blanks around them, `<action>` once."""
    thought, _, rest = text.strip().partition("<action>")
    concluded = _CONCLUDED.search(rest)
    return (
        "<action>" not in rest
        and thought.startswith("<think>")
        and thought[len("<think>") :].rstrip().endswith("</think>")
        and concluded is not None
        and rest[concluded.end() :].endswith("</conclusion>")
    )


def _between(text: str, tag: str) -> str:
    return text.partition(f"<{tag}>")[2].partition(f"</{tag}>")[0].strip()


def _lenient_action(body: str, space: ActionSpace) -> Action:
    body = body[slice(*_bare(body, 0, len(body)))]
    call = _HEAD.match(body)
    if call is None or not body.endswith(")"):
        raise ValueError(f"reply: expected an action or [x,y], found {body[:80]!r}")
    kind = _BY_LOWER[space].get(call.group(1).lower())
    if kind is None:
        raise ValueError(f"reply: unknown action {call.group(1)[:40]!r}")
    cls, arguments = SPACES[space][kind], body[call.end() : -1].strip()
    if cls is Hotkey:
        canonical = _ARGUMENTS[kind].fullmatch(arguments)  # `render` escapes keys, unlike text
        keys = _keys(canonical) if canonical else reply_arguments.keys(arguments)
        return Hotkey(reply_arguments.pressed_together(keys))
    if cls in TEXTED or cls is Launch:
        return _lenient_text(cls, arguments, space)
    if cls is SelectOption:
        return SelectOption(*reply_arguments.choice(arguments, space))
    # A second call behind the first would silently be dropped.
    if reply_arguments.closes_early(arguments):
        raise ValueError(f"{kind}: expected one action, found more behind it: {body[:80]!r}")
    arguments = reply_arguments.one_blank(arguments)
    if cls is Click:
        reply_arguments.plain_click(arguments)
    if cls in POINTED:  # without the name all numbers count: Click(10, 20) or Click((10, 20))
        return cls(named_point(arguments, "box") or centre(numbers_in(arguments)))
    if cls in BARE:
        return cls()
    start, end = named_point(arguments, "start"), named_point(arguments, "end")
    if cls is Scroll:
        return Scroll(start, end, reply_arguments.direction(arguments))
    if start is None or end is None:
        raise ValueError(f"Drag: expected start and end, found {arguments[:80]!r}")
    return Drag(start, end)


def _lenient_text(cls: type, arguments: str, space: ActionSpace) -> Action:
    if cls in TEXTED and not arguments:
        return cls()
    try:
        named, content = reply_arguments.quoted_text(
            reply_arguments.without_unused(arguments) if cls is Launch else arguments, space
        )
    except ValueError as error:
        raise ValueError(f"{cls.__name__}: {error}") from None
    if cls is Launch:
        return Launch(url=content) if named == "url" else Launch(app=content)
    return cls(content)
