"""Texts without word lists of their own, and those an encoder can't read: exact characters and n-grams decide.

`quality.evidence.meaning` hears opposites, directions and negations by lists of words in Latin letters. Elsewhere a
single character may turn a task into its opposite (เปิด, ปิด), and an English encoder reads nothing at all there. So:

- what the encoder doesn't read says the same as another text only where their characters are the same, whatever blanks,
  punctuation, case, width and digits they are written with;
- what a multilingual encoder reads is a duplicate by its cosine, unless it shares much of its n-grams with the other
  text: of two that differ in one word nobody here knows which word that is. Quite other words for the same are left to
  the encoder.
"""

import re
import unicodedata
from dataclasses import replace
from functools import lru_cache

from quality.evidence.embedding import EMBEDDED, Embedder
from quality.evidence.meaning import Meaning, conflict, meaning

UNKNOWN = 0.2
"""Share of a text's pieces that an encoder may not know, if it is to have read it."""
NGRAM = 2
ALIKE = 0.25
"""Dice of two texts' n-grams from which they are one text with a part changed: so say nine of ten such pairs of
`bench/dedup_pairs.txt` in other scripts than Latin, and one in a hundred of tasks that have nothing in common."""
_BLANK = re.compile(r"(?<!\d) | (?!\d)")


def understood(text: str, embedder: Embedder) -> Meaning:
    """A text's meaning, as far as this encoder reads it: the embedded one Latin letters alone, any other whatever
    it has pieces for. Symbols, which encoders hardly tell apart, have to be equal in either case."""
    found = meaning(text)
    # The embedded model reads Latin letters; any other model what its tokenizer has pieces for.
    if embedder.model == EMBEDDED or found.readable or embedder.unknown_share(text) > UNKNOWN:
        return found
    symbols = tuple(token for token in found.unread if any(unicodedata.category(char)[0] == "S" for char in token))
    return replace(found, readable=any(char.isalpha() for char in text), unread=symbols)


def foreign(text: str) -> bool:
    """Whether there are no word lists for a text: too few of its letters are Latin."""
    return not meaning(text).readable


def spelled_alike(one: str, two: str) -> bool:
    """Whether foreign texts are equal but for how they are written."""
    return foreign(one) and foreign(two) and bool(characters(one)) and characters(one) == characters(two)


def apart(one: str, two: str, embedder: Embedder) -> bool:
    """Whether two texts that aren't spelled alike can't say the same, however near their vectors are."""
    if conflict(understood(one, embedder), understood(two, embedder)):
        return True
    # Much of the same n-grams: one text with a part changed, and nobody here knows what that part means.
    return (foreign(one) or foreign(two)) and shared_ngrams(one, two) >= ALIKE


@lru_cache(maxsize=65536)
def characters(text: str) -> str:
    """A text by its characters alone: no blanks (but between numbers), no punctuation, one form of case, width and
    digits; empty where nothing is left."""
    wording = meaning(text).wording
    # Blanks between numbers stay: "1 12" isn't "11 2".
    return _BLANK.sub("", "".join(_digit(char) for char in wording))


def _digit(char: str) -> str:
    value = unicodedata.decimal(char, None)
    return char if value is None else str(value)


def shared_ngrams(one: str, two: str) -> float:
    """Dice of the n-grams of two texts' characters, 0 to 1."""
    left, right = _ngrams(characters(one)), _ngrams(characters(two))
    return 2 * len(left & right) / max(len(left) + len(right), 1)


@lru_cache(maxsize=65536)
def _ngrams(text: str) -> frozenset[str]:
    # A text shorter than an n-gram is one by itself.
    return frozenset(text[start : start + NGRAM] for start in range(max(len(text) - NGRAM + 1, 1)))
