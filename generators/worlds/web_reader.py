"""Reads any page that is open in Chromium as accessibility would: visible, hit-tested elements (`web_reader.js`)."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

READER = Path(__file__).with_suffix(".js")
"""Defines `vesperSee`, `vesperHits`, `vesperLands` and `vesperWhere`. The page must name its elements: it has
`vesperKey` and `vesperNode` before the first of these is called."""


@dataclass(frozen=True)
class ObservedElement:
    """An element as the reader lists it; `box` in CSS pixels of the screen. `raw` has what else it gave."""

    key: str
    role: str
    name: str
    text: str
    box: tuple[float, float, float, float]
    clickable: bool
    share: float
    raw: Mapping[str, Any]

    @property
    def tag(self) -> str:
        return str(self.raw["tag"])

    @property
    def label(self) -> str:
        """What a person would call it: a field's caption, else its name."""
        return str(self.raw["caption"] or self.name)


def seen_of(raw: Mapping[str, Any]) -> ObservedElement:
    """One item of what `vesperSee` gives, its box rounded to hundredths of a CSS pixel."""
    # Hundredths: sub-pixel noise between machines would change every digest.
    left, top, right, bottom = (round(float(value), 2) for value in raw["box"])
    return ObservedElement(
        raw["k"], raw["role"], raw["name"], raw["text"], (left, top, right, bottom), raw["clickable"], raw["share"], raw
    )
