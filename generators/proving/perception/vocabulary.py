"""Everything that can stand on a perception screen: colours, shapes, icons and words, each under one name."""

import json
from pathlib import Path

_DRAWN: dict[str, dict[str, str]] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
COLOURS = _DRAWN["colours"]
"""Name → CSS colour."""
SHAPES = _DRAWN["shapes"]
"""Name → SVG in a 24 x 24 box, filled with the colour."""
ICONS = _DRAWN["icons"]
"""Name → SVG in a 24 x 24 box, drawn as strokes."""

WIDGETS = (
    "checked checkbox",
    "empty checkbox",
    "selected radio button",
    "empty radio button",
    "switch on",
    "switch off",
    "slider",
    "empty text field",
    "dropdown",
)
"""Widgets that carry no text."""

WORDS = tuple((Path(__file__).parent / "words.txt").read_text(encoding="utf-8").split())
"""Words of interfaces, and those that the phone, the sites and MiniWoB++'s pages say more than once (`words.txt`).

A label is one or two of them, or a number."""
