"""What to type into a field seen for the first time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random

from generators.tasks.world_interface import ScreenElement

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


def worth_typing(label: str, places: Sequence[ScreenElement], rng: Random) -> list[str]:
    """Texts to try in a field, the sensible one first: by its label, then what the screen shows in quotes."""
    words = next(words for pattern, words in VOCABULARY if re.search(pattern, label.lower()))
    quoted = [found for place in places for found in _QUOTED.findall(f"{place.text} {place.name}")]
    return list(dict.fromkeys([rng.choice(words), *quoted]))
