"""The point that a reply means, in whatever form a model writes it and in whatever frame it counts.

Models that people evaluate write points as `[x,y]`, in tags, in JSON, as a tool call, as a box; after a thought or
within a sentence; in thousandths, fractions, per cent or pixels of the picture. Which frame a model counts in is a
property of the model: `frame_of` finds it from all of its replies, since one reply alone can be ambiguous.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from schemas.action_types import REFUSED

Frame = Literal["thousandths", "fractions", "percent", "pixels"]
FRAMES: tuple[Frame, ...] = ("thousandths", "fractions", "percent", "pixels")
MAX_CHARS = 32_000
"""Longer replies aren't read: no model means a point by them."""
MOST_NUMBERS = 64
"""Bracketed groups of numbers that are looked at."""

_THOUGHT = re.compile(r"</(?:think|thinking|thought|reasoning)>", re.IGNORECASE)
_ANSWER = re.compile(r"<answer>", re.IGNORECASE)
_NUMBER = r"[-+]?\d{1,9}(?:\.\d{1,12})?"
_GAP = r"[ \t]{0,4}[,; \t\n][ \t\n]{0,4}"
_GROUP = rf"({_NUMBER}(?:{_GAP}{_NUMBER}){{1,3}})"
_TAGS = re.compile(
    rf"<(?:\|?)(?:point|box|box_start|bbox|click|coordinate|coord)(?:\|?)>[\s\[(]{{0,8}}{_GROUP}", re.IGNORECASE
)
_MOLMO = re.compile(rf"\bx1?=[\"'](?P<x>{_NUMBER})[\"'][ \t]{{1,4}}y1?=[\"'](?P<y>{_NUMBER})[\"']")
_ARGUMENTS = re.compile(rf"\bx[ ]?=[ ]?(?P<x>{_NUMBER})[ ]?,[ ]?y[ ]?=[ ]?(?P<y>{_NUMBER})")
_BRACKETS = re.compile(rf"[\[(][\s\[(]{{0,8}}{_GROUP}")
_NUMBERS = re.compile(_NUMBER)
_JSON_START = re.compile(r"[{\[]")
_KEYS = ("point_2d", "bbox_2d", "coordinate", "coordinates", "point", "bbox", "box", "position", "click")


@dataclass(frozen=True, slots=True)
class ReplyPoint:
    """Two numbers (x, y) as the reply has them, and the form they came in. A box is its centre; `refused`: the reply
    says that the element isn't there."""

    x: float
    y: float
    form: str
    refused: bool = False

    @property
    def whole(self) -> bool:
        """Whether both are whole numbers."""
        return self.x == int(self.x) and self.y == int(self.y)


def read_point(reply: str) -> ReplyPoint | None:
    """The point of a reply; None if it means none that can be read."""
    if len(reply) > MAX_CHARS:
        return None
    said = _ANSWER.split(_THOUGHT.split(reply)[-1])[-1]
    for form, find in (
        ("JSON", _of_json),
        ("Molmo", _of_molmo),
        ("tag", _of_tag),
        ("[x,y]", _of_brackets),
        ("x=,y=", _of_arguments),
    ):
        if (numbers := find(said)) is not None:
            return _point(numbers, form)
    return None


def _point(numbers: tuple[float, ...], form: str) -> ReplyPoint:
    if len(numbers) == 4:
        left, top, right, bottom = numbers
        return ReplyPoint((left + right) / 2, (top + bottom) / 2, f"{form} box")
    x, y = numbers[:2]
    return ReplyPoint(x, y, form, refused=(x, y) == tuple(map(float, REFUSED)))


def _of_json(text: str) -> tuple[float, ...] | None:
    """The first point or box under a known name in the JSON values of a text."""
    decoder = json.JSONDecoder()
    at = 0
    for _ in range(8):  # values tried: a reply has one, or one in a list of candidates
        found = _JSON_START.search(text, at)
        if found is None:
            return None
        try:
            value, at = decoder.raw_decode(text, found.start())
        except (ValueError, RecursionError):
            at = found.end()
            continue
        numbers = next(_named(value), None)
        if numbers is not None:
            return numbers
    return None


def _named(value: object, depth: int = 0) -> Iterator[tuple[float, ...]]:
    """Points and boxes in a JSON value, in order, under the names that models give them."""
    if depth > 6:
        return
    if isinstance(value, dict):
        for key in _KEYS:
            if key in value and (numbers := _numbers_of(value[key])) is not None:
                yield numbers
        if (numbers := _numbers_of([value.get("x"), value.get("y")])) is not None:
            yield numbers
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            if isinstance(one, dict | list):
                yield from _named(one, depth + 1)


def _numbers_of(value: object) -> tuple[float, ...] | None:
    while isinstance(value, list) and len(value) == 1 and isinstance(value[0], list):
        value = value[0]
    if not isinstance(value, list) or len(value) not in (2, 4):
        return None
    if not all(isinstance(one, int | float) and not isinstance(one, bool) and math.isfinite(one) for one in value):
        return None
    return tuple(float(one) for one in value)


def _of_molmo(text: str) -> tuple[float, ...] | None:
    found = _MOLMO.search(text)
    return (float(found["x"]), float(found["y"])) if found else None


def _of_arguments(text: str) -> tuple[float, ...] | None:
    found = _ARGUMENTS.search(text)
    return (float(found["x"]), float(found["y"])) if found else None


def _of_tag(text: str) -> tuple[float, ...] | None:
    return _group(_TAGS, text)


def _of_brackets(text: str) -> tuple[float, ...] | None:
    return _group(_BRACKETS, text)


def _group(pattern: re.Pattern[str], text: str) -> tuple[float, ...] | None:
    """The first group of two or four numbers that a pattern finds."""
    for number, found in enumerate(pattern.finditer(text)):
        numbers = tuple(float(one) for one in _NUMBERS.findall(found[1]))
        if len(numbers) in (2, 4):
            return numbers
        if number >= MOST_NUMBERS:
            return None
    return None


def frame_of(points: Iterable[ReplyPoint | None]) -> Frame:
    """The frame that a model counts in, by all of its replies: per cent for Molmo's form; fractions if nothing passes 1
    and something isn't whole; pixels if something passes 1000; else thousandths."""
    read = [point for point in points if point is not None and not point.refused]
    if read and Counter(point.form == "Molmo" for point in read).most_common(1)[0][0]:
        return "percent"
    highest = max((max(point.x, point.y) for point in read), default=0.0)
    if highest <= 1.0 and any(not point.whole for point in read):
        return "fractions"
    return "pixels" if highest > 1000.0 else "thousandths"


def in_thousandths(point: ReplyPoint, frame: Frame, size_px: tuple[int, int]) -> tuple[float, float]:
    """A point in 0..1000 of its picture; `REFUSED` stays. `size_px`: (width, height) of the picture that was sent."""
    if point.refused:
        return REFUSED
    if frame == "pixels":
        return point.x * 1000.0 / size_px[0], point.y * 1000.0 / size_px[1]
    scale = {"fractions": 1000.0, "percent": 10.0, "thousandths": 1.0}[frame]
    return point.x * scale, point.y * scale
