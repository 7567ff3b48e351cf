"""What an explorer found: a graph of screens and actions; and how screens are told apart by what is visible."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from generators.environments.world import Place
from schemas.ids import canonical_json, digest

FIELDS = ("textbox", "searchbox", "spinbutton")
"""Roles of what can be typed into."""
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")


class ExplorationError(ValueError):
    """A saved exploration can't be read; the message says what is wrong."""


@dataclass
class Screen:
    """A screen that looks like no other. `way` is the first sequence of actions that led there from `start`."""

    number: int
    fingerprint: str
    page: str
    sha256: str
    places: tuple[Place, ...]
    way: tuple[str, ...]
    start: int
    elements: str = ""  # digest of what can be clicked
    astray: int = 0


@dataclass(frozen=True)
class Way:
    """An action that was taken: from one screen to another. `element` and `role` tell what was worked."""

    source: int
    action: str
    target: int
    element: str = ""
    role: str = ""


@dataclass
class Exploration:
    """What was found. `episodes` are all actions since each reset (start, actions), so everything can be done again."""

    starts: list[dict[str, Any]]
    screens: list[Screen] = field(default_factory=list)
    ways: list[Way] = field(default_factory=list)
    episodes: list[tuple[int, list[str]]] = field(default_factory=list)
    actions: int = 0

    def plain(self) -> dict[str, Any]:
        """Plain JSON data: nodes with fingerprint, picture hash and elements, edges with their actions."""
        nodes = [
            {
                "number": s.number,
                "fingerprint": s.fingerprint,
                "page": s.page,
                "screenshot_sha256": s.sha256,
                "start": s.start,
                "way": list(s.way),
                "elements": [p.as_element() | {"clickable": p.clickable} for p in s.places],
            }
            for s in self.screens
        ]
        edges = [{"source": w.source, "action": w.action, "target": w.target, "element": w.element, "role": w.role}
                 for w in self.ways]  # fmt: skip
        episodes = [{"start": start, "actions": actions} for start, actions in self.episodes]
        return {"starts": self.starts, "nodes": nodes, "edges": edges, "episodes": episodes, "actions": self.actions}

    def to_json(self) -> str:
        return canonical_json(self.plain())

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Exploration:
        """The inverse of `plain`. Raises `ExplorationError`."""
        try:
            screens = [
                Screen(
                    n["number"],
                    n["fingerprint"],
                    n["page"],
                    n["screenshot_sha256"],
                    tuple(
                        Place(tuple(e["box"]), e["role"], e["text"], e["name"], "", e["clickable"])
                        for e in n["elements"]
                    ),
                    tuple(n["way"]),
                    n["start"],
                )
                for n in plain["nodes"]
            ]
            ways = [Way(e["source"], e["action"], e["target"], e["element"], e["role"]) for e in plain["edges"]]
            episodes = [(e["start"], list(e["actions"])) for e in plain["episodes"]]
            return cls(list(plain["starts"]), screens, ways, episodes, int(plain["actions"]))
        except (KeyError, TypeError, ValueError) as error:
            raise ExplorationError(
                f"exploration: expected what Exploration.plain writes, found {error!r:.120}"
            ) from error


def normal(text: str, typed: Sequence[str] = ()) -> str:
    """A text as fingerprints see it: own words masked, numbers as 0 or N."""
    return _NUMBER.sub(lambda m: "0" if not m[0].strip("0.,:") else "N", normal_words(text, typed))


def normal_words(text: str, typed: Sequence[str] = ()) -> str:
    """A text with what the explorer typed itself masked."""
    for own in typed:
        text = text.replace(own, "‹typed›")
    return text


def fingerprint(places: Sequence[Place], typed: Sequence[str] = ()) -> str:
    """Digest of what is visible: role, name and standing of every place, in order; boxes and pictures don't count."""
    seen = [
        (p.role, normal(p.name, typed) if p.clickable else amount(normal_words(p.name, typed)), standing(p, typed))
        for p in places
    ]
    return digest(seen)[:24]


def amount(text: str) -> str:
    """A text with its numbers by size (0, 1, 2, 5, 10, 20, 50 …): a counter that grows shows at last."""

    def size(match: re.Match[str]) -> str:
        value = float(re.sub(r"[^0-9]", "", match[0]))
        return str(next((step for step in (0, 1, 2, 5, 10, 20, 50) if value <= step), "N"))

    return _NUMBER.sub(size, text)


def standing(place: Place, typed: Sequence[str] = ()) -> str:
    """What a control holds, as fingerprints see it."""
    if place.role in FIELDS:
        return "typed" if place.text in typed or (place.text and set(place.text) == {"•"}) else "free"
    if place.role in ("combobox", "checkbox", "switch", "radio"):
        return place.text
    return "" if place.text == place.name else normal(place.text, typed)


def act_name(place: Place, places: Sequence[Place]) -> str:
    """An element's name on its screen: role, normal name, and which of its twins it is."""
    name = normal(place.name)
    twins = [p for p in places if p.role == place.role and normal(p.name) == name]
    return f"{place.role}|{name}|{twins.index(place)}"
