"""The point or the action that a reply means, in whatever form a model writes it and in whatever frame it counts.

Models that people evaluate write points as `[x,y]`, in tags, in JSON, as a tool call, as a box; after a thought or
within a sentence; in thousandths, fractions, per cent or pixels of the picture. Which frame a model counts in is a
property of the model: `frame_of` finds it from all of its replies, since one reply alone can be ambiguous; where they
are read one by one, as in rewards, a profile says it, and `trainer.rl.unreadable` says where another would hit.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from generators.policies.profiles.profile import ReplyForm
from generators.policies.profiles.replies import read_form
from schemas.action_types import ACTION_SPACE, REFUSED, ActionSpace
from schemas.actions import MAX_REPLY, ModelReply, parse_reply
from schemas.coordinates import UNITS
from trainer.settings.rewards import ReplyProfile

Frame = Literal["thousandths", "fractions", "percent", "pixels"]
FRAMES: tuple[Frame, ...] = ("thousandths", "fractions", "percent", "pixels")
Size = tuple[int, int]
"""Width and height of the picture that was sent."""
WHOLE_SCREEN: Size = (UNITS, UNITS)
"""Stands for a picture where the frame needs none: its pixels are thousandths."""
# replies are text from strangers: bounded, as every repetition in these patterns is
MOST_NUMBERS = 64
"""Bracketed groups of numbers that are looked at."""
MOST_ANSWERS = 8

_THOUGHT = re.compile(r"</\w{0,20}(?:think|thinking|thought|reasoning)>|◁/think▷", re.IGNORECASE)
_OPENED = re.compile(r"<\w{0,20}(?:think|thinking|thought|reasoning)>|◁think▷", re.IGNORECASE)
_ANSWER = re.compile(r"<answer>", re.IGNORECASE)
_HEADING = re.compile(r"^[ \t#*]{0,8}(?:grounded operation|actions?|code|answer)[ \t*]{0,4}:", re.I | re.M)
"""What models write before their answer, on its line: `Action:` (UI-TARS), `## Code:`, `Grounded Operation:`."""
_CONSIDERED = re.compile(r"^[ \t#*]{0,8}(?:thoughts?|reasoning|observation|status|plan)[ \t*]{0,4}:", re.I | re.M)
_NUMBER = r"[-+]?\d{1,9}(?:\.\d{1,12})?"
_GAP = r"[ \t]{0,4}[,; \t\n][ \t\n]{0,4}"
_GROUP = rf"({_NUMBER}(?:{_GAP}{_NUMBER}){{1,3}})"
_CORNERS = rf"(?:[)\]][ ]{{0,2}},?[ ]{{0,2}}[(\[]({_NUMBER}{_GAP}{_NUMBER}))?"
"""The second corner of a box that is written as two points, `(x1,y1),(x2,y2)`."""
_TAGS = re.compile(
    rf"<(?:\|?)(?:point|box|box_start|bbox|click|coordinate|coord)(?:\|?)>[\s\[(]{{0,8}}{_GROUP}{_CORNERS}",
    re.IGNORECASE,
)
_MOLMO = re.compile(rf"\bx1?=[\"'](?P<x>{_NUMBER})[\"'][ \t]{{1,4}}y1?=[\"'](?P<y>{_NUMBER})[\"']")
_ARGUMENTS = re.compile(
    rf"\bx[ ]?[=:][ ]?(?P<x>{_NUMBER})(?:[ ]?,[ ]?|[ ](?:and[ ])?)y[ ]?[=:][ ]?(?P<y>{_NUMBER})", re.IGNORECASE
)
_BARE = re.compile(rf"\s{{0,8}}{_GROUP}\s{{0,8}}[.]?\s{{0,8}}")
_WIDE = str.maketrans("（）［］，：＝\u00a0", "()[],:= ")
"""Marks as Chinese keyboards write them, and a blank that doesn't break."""
_BRACKETS = re.compile(rf"[\[(][ \t\n]{{0,4}}{_GROUP}")  # the innermost bracket, so that a row of them costs no more
_NUMBERS = re.compile(_NUMBER)
_BOX_KEYS = ("bbox_2d", "bbox", "bounding_box", "box", "bounds", "rect")
_KEYS = ("point_2d", "coordinate", "coordinates", "point", "position", "click", *_BOX_KEYS)
_SIDES = ("x1 y1 x2 y2", "left top right bottom", "xmin ymin xmax ymax", "x y")
_SIZED = ("x y width height", "left top width height", "x y w h")
"""Boxes by a corner and their size: read where a name says that it is a box, as elsewhere a size may be a screen's."""
_KEY, _SET = "|".join(_KEYS), r"[ ]{0,2}[:=][ ]{0,2}[\"']?"
_QUOTED_KEY = re.compile(rf"[\"'](?:{_KEY})[\"']{_SET}[\s\[(]{{0,8}}{_GROUP}", re.IGNORECASE)
"""JSON that is cut, or a dictionary as Python writes it."""
_BARE_KEY = re.compile(rf"\b(?:{_KEY}){_SET}{_GROUP}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ReplyPoint:
    """Two numbers (x, y) as the reply has them, and the form they came in. A box is its centre; `refused`: the reply
    says that the element isn't there."""

    x: float
    y: float
    form: str
    refused: bool = False
    box: tuple[float, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether both are whole numbers."""
        return self.x == int(self.x) and self.y == int(self.y)


def read_point(reply: str) -> ReplyPoint | None:
    """The point of a reply; None if it means none that can be read."""
    if len(reply) > MAX_REPLY:
        return None
    # numbers in a thought or before the last <answer> are considerations, not the reply
    said = _ANSWER.split(_THOUGHT.split(reply)[-1])[-1].translate(_WIDE)
    if _OPENED.search(said):
        return None  # cut within its thought
    head, *answers = _HEADING.split(said)
    # from behind, since a plain `Action:` comes before the code or the operation; nothing of a thought is an answer
    for part in (*reversed(answers[-MOST_ANSWERS:]), *([] if answers and _CONSIDERED.search(head) else [head])):
        for form, find in _FORMS:
            if (numbers := find(part)) is not None:
                return _point(numbers, form)
    return None


def _point(numbers: tuple[float, ...], form: str) -> ReplyPoint:
    if len(numbers) == 4:
        left, top, right, bottom = numbers
        return ReplyPoint((left + right) / 2, (top + bottom) / 2, f"{form} box", box=numbers)
    x, y = numbers[:2]
    return ReplyPoint(x, y, form, refused=(x, y) == tuple(map(float, REFUSED)))


def _of_json(text: str) -> tuple[float, ...] | None:
    """The first point or box under a known name in the JSON values of a text."""
    decoder = json.JSONDecoder()
    at = 0
    for _ in range(8):  # objects tried: a reply has one, or some in a list of candidates
        if (start := text.find("{", at)) < 0:
            return None
        try:
            value, at = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            at = start + 1
            continue
        numbers = next(_named(value), None)
        if numbers is not None:
            return numbers
    return None


def _named(value: object, depth: int = 0) -> Iterator[tuple[float, ...]]:
    """Points and boxes in a JSON value, in order, under the names that models give them."""
    # how deep JSON is nested is the model's choice
    if depth > 6:
        return
    if isinstance(value, dict):
        lower = {str(key).lower(): one for key, one in value.items()}
        named = [_listed(lower[key], key in _BOX_KEYS) for key in _KEYS if key in lower]
        named.append(_listed(lower, box=False))
        yield from (numbers for one in named if (numbers := _numbers_of(one)) is not None)
        # Gemini's box, the only one whose name says that y comes first
        if (numbers := _numbers_of(lower.get("box_2d"))) is not None and len(numbers) == 4:
            top, left, bottom, right = numbers
            yield left, top, right, bottom
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            if isinstance(one, dict | list):
                yield from _named(one, depth + 1)


def _listed(value: object, box: bool) -> object:
    """Sides by their names as a list, left, top, right, bottom or x, y; any other value as it is."""
    if not isinstance(value, dict):
        return value
    lower = {str(key).lower(): one for key, one in value.items()}
    for sides in (*(_SIZED if box else ()), *_SIDES):
        numbers = _numbers_of([lower.get(side) for side in sides.split()])
        if numbers is not None and sides in _SIZED:
            left, top, width, height = numbers
            numbers = (left, top, left + width, top + height)
        if numbers is not None:
            return list(numbers)
    return value


def _numbers_of(value: object) -> tuple[float, ...] | None:
    # some models wrap a single point once more: [[x, y]]
    while isinstance(value, list) and len(value) == 1 and isinstance(value[0], list):
        value = value[0]
    if not isinstance(value, list) or len(value) not in (2, 4):
        return None
    if all(isinstance(one, str) and _NUMBERS.fullmatch(one) for one in value):
        value = [float(one) for one in value]
    # True is an int to Python, and json reads NaN and Infinity
    if not all(isinstance(one, int | float) and not isinstance(one, bool) and math.isfinite(one) for one in value):
        return None
    return tuple(float(one) for one in value)


def _of_names(pattern: re.Pattern[str], text: str) -> tuple[float, ...] | None:
    found = pattern.search(text)
    return (float(found["x"]), float(found["y"])) if found else None


def _of_bare(text: str) -> tuple[float, ...] | None:
    """Numbers and nothing else: within a sentence they may be anything."""
    return _group(_BARE, text) if _BARE.fullmatch(text) else None


def _group(pattern: re.Pattern[str], text: str) -> tuple[float, ...] | None:
    """The first group of two or four numbers that a pattern finds."""
    for number, found in enumerate(pattern.finditer(text)):
        numbers = tuple(float(one) for part in found.groups("") for one in _NUMBERS.findall(part))
        if len(numbers) in (2, 4):
            return numbers
        if number >= MOST_NUMBERS:
            return None
    return None


_FORMS: tuple[tuple[str, Callable[[str], tuple[float, ...] | None]], ...] = (
    ("JSON", _of_json),
    ("JSON", partial(_group, _QUOTED_KEY)),
    ("Molmo", partial(_of_names, _MOLMO)),
    ("tag", partial(_group, _TAGS)),
    ("[x,y]", partial(_group, _BRACKETS)),
    ("x=,y=", partial(_of_names, _ARGUMENTS)),
    ("x=,y=", partial(_group, _BARE_KEY)),
    ("x,y", _of_bare),
)
"""From the most explicit form to the loosest: a pair of numbers also stands inside JSON and tags."""
_STRAY = -40.0
"""Log density of a point outside its frame, far below any inside: a few of them tell the frame, a slip in dozens
doesn't."""
_PRIOR: Mapping[Frame, float] = {"thousandths": 0.0, "fractions": 0.0, "pixels": -math.log(1e6)}
"""Log odds before a reply is read: thousandths is what our prompts ask for, so pixels have to be shown, by a point past
1000 or by some dozens that all fit into smaller pictures."""


def frame_of(points: Sequence[ReplyPoint | None], sizes: Sequence[Size]) -> Frame:
    """The frame that a model counts in, by all of its replies and the sizes of their pictures: per cent for Molmo's
    form, else the likeliest of thousandths, fractions and pixels, were points spread evenly over a frame. So what fits
    into every picture, though thousandths needn't, is pixels, and a slip outside the frame changes none of the rest."""
    read = [(one, size) for one, size in zip(points, sizes, strict=True) if one is not None and not one.refused]
    # by majority, so that one reply in another form doesn't change the frame of all
    if read and Counter(point.form == "Molmo" for point, _ in read).most_common(1)[0][0]:
        return "percent"
    return max(_PRIOR, key=lambda frame: _PRIOR[frame] + sum(_density(*one, frame) for one in read))


def _density(point: ReplyPoint, size_px: Size, frame: Frame) -> float:
    """Log density of a reply's numbers, were they counted in a frame and spread evenly over it."""
    width, height = _sides(frame, size_px)
    if not (0 <= point.x <= width and 0 <= point.y <= height):
        return _STRAY
    # a corner, [0,1], is whole in every frame: among fractions it is rare, and alone no sign of them
    return _STRAY / 2 if frame == "fractions" and point.whole else -math.log(width * height)


def _sides(frame: Frame, size_px: Size) -> Size:
    """What x and y count to."""
    return {"thousandths": WHOLE_SCREEN, "fractions": (1, 1), "percent": (100, 100), "pixels": size_px}[frame]


def in_thousandths(point: ReplyPoint, frame: Frame, size_px: Size) -> tuple[float, float]:
    """A point in 0..1000 of its picture; `REFUSED` stays. `size_px`: (width, height) of the picture that was sent."""
    if point.refused:
        return REFUSED
    width, height = _sides(frame, size_px)
    return point.x * UNITS / width, point.y * UNITS / height


@dataclass(frozen=True, slots=True)
class ProfileForms:
    """How a family of models writes a point: the forms that are its own (() for any, a box counts as its form), what
    the numbers count, and in which forms it writes actions."""

    forms: tuple[str, ...] = ()
    frame: Frame = "thousandths"
    actions: tuple[ReplyForm, ...] = ("tool_call", "calls", "pyautogui", "words", "tags")


PROFILES: Mapping[ReplyProfile, ProfileForms] = {
    "vesper": ProfileForms(("[x,y]",), actions=("tags",)),  # read by `parse_reply` alone
    "qwen3-vl": ProfileForms(("JSON",), actions=("tool_call",)),
    "ui-tars": ProfileForms(("[x,y]", "tag"), actions=("calls",)),
    "os-atlas": ProfileForms(("[x,y]", "tag"), actions=("words",)),
    "molmo": ProfileForms(("Molmo",), "percent", actions=("tags",)),
    "fractions": ProfileForms(frame="fractions"),
    "pixels": ProfileForms(frame="pixels"),
    "any": ProfileForms(),
}
"""Pixels are those of the picture that was sent: whether a model counts those of a picture that its server made of it,
no reply says."""


def profile_point(text: str, profile: ReplyProfile, size_px: Size = WHOLE_SCREEN) -> tuple[float, float] | None:
    """The point of a grounding reply in 0..1000 as a profile reads it, `REFUSED` for a refusal; None where there is
    none, or outside the frame. A point in another form than the profile's is a point all the same."""
    if profile == "vesper":
        return parse_reply(text).point
    found = read_point(text)
    point = None if found is None else in_thousandths(found, PROFILES[profile].frame, size_px)
    return point if point == REFUSED or (point and all(0 <= side <= UNITS for side in point)) else None


def profile_box(
    text: str, profile: ReplyProfile, size_px: Size = WHOLE_SCREEN
) -> tuple[float, float, float, float] | None:
    """The box l, t, r, b of a reply, 0..1000, as a profile other than "vesper" reads it; None without one."""
    found = read_point(text)
    if found is None or not found.box:
        return None
    corners = [
        in_thousandths(ReplyPoint(x, y, found.form), PROFILES[profile].frame, size_px)
        for x, y in (found.box[:2], found.box[2:])
    ]
    (l, t), (r, b) = corners
    return (l, t, r, b) if 0 <= l <= r <= UNITS and 0 <= t <= b <= UNITS else None


def in_profile(text: str, profile: ReplyProfile, box: bool) -> bool:
    """Whether a reply has a form of a profile other than "vesper": a box where one is asked for, else either; or
    says that the element isn't there."""
    found = read_point(text)
    forms = PROFILES[profile].forms
    if found is None or (forms and found.form.removesuffix(" box") not in forms):
        return False
    return found.refused or not box or bool(found.box)


def profile_step(
    text: str, profile: ReplyProfile, space: ActionSpace = ACTION_SPACE, size_px: Size = WHOLE_SCREEN
) -> ModelReply:
    """The action of a navigation reply as a profile reads it; an action in our tags is one all the same, since our
    prompts ask for them. Never raises on text: `error` says why there is no action."""
    frame = _sides(PROFILES[profile].frame, size_px)
    # the own forms first: a call of another family may look like a part of one of ours
    reply = ModelReply()
    for form in dict.fromkeys((*PROFILES[profile].actions, "tags")):
        reply = read_form(text, form, frame, space)
        if reply.action is not None:
            break
    return reply


def step_in_profile(text: str, profile: ReplyProfile, space: ActionSpace, size_px: Size) -> bool:
    """Whether a navigation reply has one of the forms of a profile other than "vesper"."""
    frame = _sides(PROFILES[profile].frame, size_px)
    return any(read_form(text, form, frame, space).action is not None for form in PROFILES[profile].actions)
