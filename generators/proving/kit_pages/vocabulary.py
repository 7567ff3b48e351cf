"""Words of interfaces in four languages, and what an icon is called: the texts of pages, drawn by topic."""

import json
from pathlib import Path
from random import Random

from generators.proving.perception.vocabulary import ICONS
from generators.proving.perception.vocabulary import WORDS as NANO_WORDS

_PLAIN = json.loads(Path(__file__).with_name("interface_words.json").read_text(encoding="utf-8"))
LANGUAGES: tuple[str, ...] = tuple(_PLAIN["languages"])
TOPICS: dict[str, list[list[str]]] = _PLAIN["topics"]
"""Topic → rows, the same word in each of `LANGUAGES`."""
SAMPLES = {"en": "gR", "de": "äß", "es": "ñó", "zh": "设置"}
"""Two characters of each language that look alike only where a font has glyphs for neither."""
OTHER_WORDS = 0.35
"""Share of English texts made of nano's words: six times as many as the topics have, so that spelling is learned."""
ICON_NAMES: dict[str, list[str]] = _PLAIN["icon_names"]
"""What an icon may be called besides its own name, which comes first."""
KIT_ICONS: dict[str, list[str]] = _PLAIN["icon_files"]
"""File names of an icon in the kits, the first that is there."""
assert set(KIT_ICONS) == set(ICONS), "an icon of the sheets has no file names in the kits"


class Words:
    """Texts of one page in one language; no text of a topic comes twice before all of it was used."""

    def __init__(self, rng: Random, language: str) -> None:
        self._rng, self._column = rng, LANGUAGES.index(language)
        self._decks: dict[str, list[str]] = {}

    def text(self, topic: str) -> str:
        """A text of a topic; in English often a word or two of nano's."""
        # Prose and names of people keep their own words; only English has nano's words.
        if self._column == 0 and topic not in ("prose", "name") and self._rng.random() < OTHER_WORDS:
            return " ".join(self._rng.choices(NANO_WORDS, k=self._rng.choice((1, 1, 2)))).capitalize()
        deck = self._decks.setdefault(topic, [])
        if not deck:
            # A set, since some languages have one word for two rows; sorted
            # before the shuffle, so the seed decides alone.
            deck += sorted({row[self._column] for row in TOPICS[topic]})
            self._rng.shuffle(deck)
        return deck.pop()

    def price(self) -> str:
        """An amount of money."""
        return f"{self._rng.choice('$€£')}{self._rng.randrange(1, 400)}.{self._rng.randrange(100):02d}"

    def time(self) -> str:
        """A time of day."""
        return f"{self._rng.randrange(24)}:{self._rng.randrange(60):02d}"

    def number(self, below: int = 10_000) -> str:
        """A whole number."""
        return str(self._rng.randrange(1, below))
