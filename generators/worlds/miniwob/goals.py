"""How MiniWoB++'s goals are worded: what all solvers that read them share."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from generators.worlds.miniwob.html import OracleMiss

if TYPE_CHECKING:
    from generators.worlds.miniwob.miniwob_world import MiniwobNode

BOXES = r"Select (.*) and click Submit"
CELL = r"value of (.*) into"
CONTACT = r"Find (\S+) in the contact book and click on their (\w+)"
ENTRY = r"Select (.*) from the list"
FORM_TWO = r"Check the (\d)\w+ radio button and enter the number \"(-?\d+)\" into the (\d)\w+ textbox"
RECEIVER = r"forward that email to (\w+)"
RESULT = r"(\d)(st|nd|rd|th) search result"
SENDER = r"email by (\w+)"
TAB = r"Tab #(\d+)"
USER = r"(@\w+)"
POST_ICONS = {"Reply": "reply", "Retweet": "retweet", "Like": "like", "Share": "share"}
"""What a goal calls an icon under a post → the icon's class."""


def quoted(text: str) -> list[str]:
    """What stands in quotation marks."""
    return re.findall(r'"([^"]*)"', text)


def match(pattern: str, text: str) -> re.Match[str]:
    """Where a goal is of a form. Raises `OracleMiss` where it isn't."""
    found = re.search(pattern, text)
    if found is None:
        raise OracleMiss(f"{text!r} isn't of the form {pattern}")
    return found


def is_field(node: MiniwobNode) -> bool:
    return node.place.role == "textbox"
