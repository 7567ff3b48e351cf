"""Words of the templates: names, things and looks from which a seed draws; they stand in `words.json`."""

import json
from pathlib import Path

_FOUND = json.loads(Path(__file__).with_name("words.json").read_text("utf-8"))


def _texts(name: str) -> tuple[str, ...]:
    return tuple(_FOUND[name])


def _groups(name: str) -> dict[str, tuple[str, ...]]:
    return {group: tuple(texts) for group, texts in _FOUND[name].items()}


PALETTES = tuple((str(a), str(b), str(c), str(d)) for a, b, c, d in _FOUND["palettes"])
"""(accent, dark, paper, ink); text on each is readable (contrast ≥ 4.5)."""
FONTS = _texts("fonts")
PEOPLE = _texts("people")
MAILS = _texts("mails")
STREETS = _texts("streets")
CITIES = _texts("cities")
DATES = _texts("dates")
PHONES = _texts("phones")
CODES = _texts("codes")
SECRETS = _texts("secrets")
GOODS = _groups("goods")
FILMS = _texts("films")
DISHES = _texts("dishes")
TOPICS = _texts("topics")
THREADS = _texts("threads")
ISSUES = _texts("issues")
ARTICLES = _texts("articles")
EVENTS = _texts("events")
WORDS = _texts("words")
SENTENCES = _texts("sentences")
SERVERS = _texts("servers")
