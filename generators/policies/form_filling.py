"""How to fill in a form seen for the first time: what it asks for, in what stages, with what words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from random import Random

from generators.environments.world import Place
from generators.policies.exploration import FIELDS

TICKS = ("checkbox", "switch")
VOCABULARY: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"mail", ("mira@post.test", "paul@mail.test")),
    (r"\b(date|born|birth|when|day|on)\b", ("2027-01-08", "1990-05-17")),
    (r"phone|\btel", ("0305512", "0894410")),
    (r"amount|€|price|limit|number|quantity|\bage\b|pin", ("25", "40")),
    (r"street|address", ("Oak Street 12", "Mill Lane 4")),
    (r"city|town|place", ("Oslo", "Ghent")),
    (r"name|guest|traveller|who", ("Mira Stone", "Paul Berg")),
    (r"", ("A good idea", "river")),
)
"""What people type into a field whose label matches (the first match counts)."""
_QUOTED = re.compile(r"[\"“]([^\"“”]{1,60})[\"”]")
_SEARCH = re.compile(r"search|find|look for|query")
NAMES = 30
"""Names seen on other pages that are tried in a search."""
Recipe = tuple[int, int]
"""How a form is filled in: (choice of words, how many of its controls)."""


def worth_typing(label: str, places: Sequence[Place], rng: Random) -> list[str]:
    """Texts to try in a field, the sensible one first: by its label, then what the screen shows in quotes."""
    words = next(words for pattern, words in VOCABULARY if re.search(pattern, label.lower()))
    quoted = [found for place in places for found in _QUOTED.findall(f"{place.text} {place.name}")]
    return list(dict.fromkeys([rng.choice(words), *quoted]))


def controls(places: Sequence[Place]) -> list[Place]:
    """What a form asks for, in reading order: free fields, empty boxes, the first of open radios, open lists."""
    found: list[Place] = []
    group: list[Place] = []
    for place in [*places, None]:
        if place is not None and place.role == "radio":
            group.append(place)
            continue
        if group and not any(p.text for p in group):
            found.append(group[0])
        group = []
        if place is None:
            continue
        empty_list = place.role == "combobox" and place.text.lower().startswith(("choose", "select", "pick", "-"))
        if place.role in FIELDS or (place.role in TICKS and not place.text) or empty_list:
            found.append(place)
    return found


def recipes(places: Sequence[Place]) -> Iterator[Recipe]:
    """The ways to fill in a form: in stages with sensible words, then with what the screen quotes."""
    asked = controls(places)
    quoted = max((len(worth_typing(p.name, places, Random(0))) for p in asked if p.role in FIELDS), default=1)
    below = 4 if any(p.box[3] >= 995 for p in places) else 0  # more of it may lie there
    for count in range(1, len(asked) + 1 + below):
        yield 0, count
    for choice in range(1, quoted if len(asked) > 1 or quoted < 3 else quoted + 1):
        yield choice, len(asked)
    if quoted > 1:
        for count in range(1, len(asked)):
            yield 1, count
    singles = [p for p in asked if p.role in FIELDS]
    if len(singles) == 1 and _SEARCH.search(singles[0].name.lower()):
        for choice in range(NAMES):
            yield 100 + choice, len(asked)
