"""What runs on a target found: a graph of screens and actions; and how screens are distinguished by what is visible."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from generators.tasks.world_interface import ScreenElement
from schemas.ids import digest

FIELDS = ("textbox", "searchbox", "spinbutton")
"""Roles of what can be typed into."""
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")


@dataclass
class ExploredScreen:
    """A screen that looks like no other. `way` is the first sequence of actions that led there from `start`."""

    number: int
    fingerprint: str
    elements: tuple[ScreenElement, ...]
    way: tuple[str, ...]
    start: int


@dataclass(frozen=True)
class Way:
    """An action that was taken: from one screen to another. `role` is that of what was worked."""

    source: int
    action: str
    target: int
    role: str = ""


@dataclass
class Exploration:
    """What was found, from each of `starts` (`World.reset`)."""

    starts: list[dict[str, Any]]
    screens: list[ExploredScreen] = field(default_factory=list)
    ways: list[Way] = field(default_factory=list)


def normal(text: str, typed: Sequence[str] = ()) -> str:
    """A text as fingerprints see it: own words masked, numbers as 0 or N."""
    # Zeros keep their meaning (an empty cart); any other number is N,
    # so that counters don't make new screens.
    return _NUMBER.sub(lambda m: "0" if not m[0].strip("0.,:") else "N", normal_words(text, typed))


def normal_words(text: str, typed: Sequence[str] = ()) -> str:
    """A text with what was typed on the way masked."""
    for own in typed:
        # Replaced first by what was typed first; a longer text that holds an earlier one is masked in part.
        text = text.replace(own, "‹typed›")
    return text


def fingerprint(elements: Sequence[ScreenElement], typed: Sequence[str] = ()) -> str:
    """Digest of what is visible: role, name and standing of every element, in order; boxes and pictures don't count."""
    seen = [
        # Names of controls by wording, texts by the size of their numbers.
        (p.role, normal(p.name, typed) if p.clickable else amount(normal_words(p.name, typed)), standing(p, typed))
        for p in elements
    ]
    return digest(seen)[:24]


def amount(text: str) -> str:
    """A text with its numbers by size (0, 1, 2, 5, 10, 20, 50 …): a counter that grows shows at last."""

    def size(match: re.Match[str]) -> str:
        value = float(re.sub(r"[^0-9]", "", match[0]))
        # Steps 1, 2, 5 as on a price scale; above 50 all are alike.
        return str(next((step for step in (0, 1, 2, 5, 10, 20, 50) if value <= step), "N"))

    return _NUMBER.sub(size, text)


def standing(element: ScreenElement, typed: Sequence[str] = ()) -> str:
    """What a control holds, as fingerprints see it."""
    if element.role in FIELDS:
        # A masked password shows dots only: it was typed, whatever it was.
        return "typed" if element.text in typed or (element.text and set(element.text) == {"•"}) else "free"
    if element.role in ("combobox", "checkbox", "switch", "radio"):
        return element.text
    # A label that repeats its name holds nothing of its own.
    return "" if element.text == element.name else normal(element.text, typed)
