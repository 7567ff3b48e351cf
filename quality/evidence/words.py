"""Text evidence: the entities an instruction names, and whether another text holds them.

An entity is a quoted string, a number, an address, or a capitalised name that doesn't open a sentence. What it can't
see: paraphrase, translation, names written in lower case. All text is data: it is compared, never evaluated.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from quality.items.screens import Element

_QUOTED = re.compile(
    r"\"([^\"\n]{1,120})\"|“([^”\n]{1,120})”|‘([^’\n]{1,120})’|「([^」\n]{1,120})」|(?<!\w)'([^'\n]{1,120}?)'(?!\w)"
)
_ADDRESS = re.compile(
    r"[\w.+-]{1,64}@[\w-]{1,63}\.[\w.-]{1,200}|\b(?:https?://)?(?:[\w-]{1,63}\.){1,8}(?:com|org|net|io|de|uk|edu|gov)\b[\w/.-]*"
)
_NUMBER = re.compile(r"(?<![\w.])\d[\d.,:/-]*\d|(?<![\w.])\d(?![\w.])")
_NAME = re.compile(r"(?<![.!?:\n] )(?<!^)\b([A-Z][\w&'-]+(?: [A-Z][\w&'-]+)*)", re.MULTILINE)
_MARKS = "".join(c for c in map(chr, range(0x300, 0x1E900)) if unicodedata.category(c) in ("Mn", "Mc"))
_NOISE = re.compile(rf"[^\w@.%$€£+#\-{_MARKS}]+|[\ufe00-\ufe0f]+")
"""What stands between words. Vowel signs and tone marks belong to a word, though \\w doesn't know them."""
_COMMON = frozenset(
    re.findall(
        r"\w+",
        "i the a an app application page screen website site google android chrome tap click type open search scroll "
        "then and or menu button field box link tab list icon form web internet home back press enter ok",
    )
)


@dataclass(frozen=True, slots=True)
class Entity:
    """Something an instruction names; `kind` is quoted, address, number or name, in falling certainty."""

    text: str
    kind: str


@lru_cache(maxsize=65536)
def plain(text: str) -> str:
    """Casefolded words joined by one blank, punctuation dropped, compatibility forms unified."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(word.strip(".-#+") or word for word in _NOISE.split(folded) if word)


def entities(text: str) -> list[Entity]:
    """Entities of an instruction in order of certainty; each text once."""
    return list(_entities(text))


@lru_cache(maxsize=1024)
def _entities(text: str) -> tuple[Entity, ...]:
    found: list[Entity] = []
    rest = text
    # From certain to uncertain: a quoted number is a quote.
    for kind, pattern in (("quoted", _QUOTED), ("address", _ADDRESS), ("number", _NUMBER), ("name", _NAME)):
        for match in pattern.finditer(rest):
            value = next((group for group in match.groups() if group), match.group(0)).strip(" .,;:")
            if plain(value) and (kind != "name" or plain(value) not in _COMMON):
                found.append(Entity(value, kind))
        # What was taken once isn't read again as something weaker; the blank keeps the places of the rest.
        rest = pattern.sub(lambda match: " " * len(match.group(0)), rest)
    # Reversed twice: of entities with the same text the first, most certain, one stays.
    return tuple({plain(entity.text): entity for entity in reversed(found)}.values())[::-1]


def holds(text: str, part: str) -> bool:
    """Whether `part` occurs in `text` as whole words (as characters where the script has no blanks)."""
    whole, piece = plain(text), plain(part)
    if not piece:
        return False
    # From U+2E80 on are the scripts that put no blanks between words.
    if not piece.isascii() and any(ord(char) > 0x2E80 for char in piece):
        return piece.replace(" ", "") in whole.replace(" ", "")
    return f" {piece} " in f" {whole} "


def held_by_any(texts: Iterable[str], part: str) -> bool:
    return any(holds(text, part) for text in texts)


def similarity(one: str, two: str) -> float:
    """Ratio of matching characters, 0..1 (`difflib`), on plain text."""
    return difflib.SequenceMatcher(None, plain(one), plain(two), autojunk=False).ratio()


def word_f1(one: str, two: str) -> float:
    """F1 over plain words; both empty = 1."""
    a, b = plain(one).split(), plain(two).split()
    if not a and not b:
        return 1.0
    common = sum(min(a.count(word), b.count(word)) for word in set(a))
    return 2 * common / (len(a) + len(b))


def _as_name(text: str, label: str) -> bool:
    """Whether a common word stands capitalised inside a sentence, as names of buttons do."""
    name = label.title()
    return name in text and re.search(rf"(?<=[\w,] ){re.escape(name)}\b", text) is not None


def named_elements(text: str, elements: Sequence[Element], minimum: int = 2) -> list[Element]:
    """The elements that a text names: those with a quoted label, else those with the longest label it contains.

    Empty if no label of at least `minimum` characters occurs. Elements with an equal label all come back: the
    text can't distinguish them.
    """
    labelled = [element for element in elements if plain(element.label)]
    # Quotes in the text decide: who quotes a label means that element.
    if quoted := {plain(entity.text) for entity in _entities(text) if entity.kind == "quoted"}:
        exact = [e for e in labelled if plain(e.name) in quoted or plain(e.text) in quoted]
        if exact:
            return exact
    whole = f" {plain(text)} "
    best: list[Element] = []
    # The longest label that occurs: "Sound" within "Sound settings" isn't what is named.
    best_size = 0
    for element in labelled:
        for label in {plain(element.name), plain(element.text)}:
            if len(label) < max(minimum, best_size) or f" {label} " not in whole:
                continue
            if label in _COMMON and not _as_name(text, label):
                continue  # "search" is a verb more often than a button
            if len(label) > best_size:
                best, best_size = [], len(label)
            if element not in best:
                best.append(element)
    return best
