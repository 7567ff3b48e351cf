"""A text that a program read on a picture, as an element of the screen."""

import re

from quality.items.screens import Element

ROLE = "text"


class NoReader(ValueError):
    """The program that reads isn't there, or fails."""


def element_of(box: tuple[float, float, float, float], text: str, size: tuple[int, int]) -> Element:
    """A text by its box in pixels of a picture of a size, (width, height)."""
    width, height = size
    scaled = (box[0] * 1000 / width, box[1] * 1000 / height, box[2] * 1000 / width, box[3] * 1000 / height)
    return Element(scaled, ROLE, text, "")


def is_word(text: str) -> bool:
    """Icons read as strokes: a lone sign is none."""
    return bool(re.search(r"\w", text)) and len(text.strip()) > (0 if text.strip().isdigit() else 1)
