"""What sentence embeddings don't hear: when near vectors may not be believed.

The embedded model puts "turn on Wi-Fi" and "turn off Wi-Fi" at a cosine of 0.93, takes each word of a script that it
can't read for one and the same unknown word (1.0), and hardly hears who gives and who receives. So nearness counts only
between texts that do not `conflict`:

| texts differ in | example | how it is noticed |
|---|---|---|
| what can't be read | two Thai texts; 👍 and 👎 | mostly unread: equal wording alone counts; else they are equal |
| values | 7:30 and 7:35; 5 km and 5 miles; "A" and "B" | numbers, units, quotes, addresses, days, colours are equal |
| names | Ann and Bob | a capitalised name of one occurs in the other, in any case |
| turns | on and off; with and without | as many words of each kind of `meaning_words.TURNS`, about the same things |
| parts | from A to B and from B to A | no two words have changed their parts or their places |

A text that says the same in quite other words isn't in conflict with this one: the cosine decides. What is still not
heard: other common nouns in one place of a long sentence, and turns told without any of the listed words.
"""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

from quality.evidence.meaning_words import BEGINNINGS, FUNCTION, ROLES, TURNS, VALUES
from quality.evidence.words import entities
from schemas.ids import canonical_json

VERSION = "1"
"""Goes into the config of all that compares meanings."""
READABLE = 0.8
"""Share of a text's letters that must be Latin, or its vector says nothing."""
LAST_LATIN = "\u0250"

_TOKEN = re.compile(
    r"[+\-\u2212]?\d+(?:[.,:/\-]\d+)*|[^\W\d_][^\W_]*(?:['\u2019-][^\W_]+)*|[$€£¥%°][cf]?|[.,;:!?()\n]|\S"
)
_WORDS = frozenset(["and", "then", "but", "und", "et", "y", "e"])
_CLAUSE_END = frozenset([".", ",", ";", ":", "!", "?", "(", ")", "\n"]) | _WORDS
_ARTICLES = frozenset(["a", "an", "the", "my", "your", "please"])
_QUOTE = 0xE000
"""Private characters that stand for quoted words while a text is taken apart."""
_MARKS = "[\"'\u201c\u201d\u2018\u2019\u300c\u300d]"
_SYMBOLS = frozenset("+#<>=%")
"""Symbols that change what a text says."""
_HALF_DAY = re.compile(r"\b([ap])\. ?m\b\.?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Meaning:
    """A text as far as vectors are deaf to it."""

    wording: str
    """Its words, casefolded, with marks and symbols, without punctuation."""
    readable: bool
    unread: tuple[str, ...]
    """Words and symbols that the model can't tell apart, in order."""
    values: tuple[tuple[str, str, str], ...]
    """(value, content word before it, after it) in order."""
    quoted: frozenset[str]
    """Wordings of what stands in quotes, and of addresses."""
    names: frozenset[str]
    turns: tuple[tuple[str, int], ...]
    """(kind, how often)."""
    words: tuple[str, ...]
    """Content words in order."""
    order: tuple[str, ...]
    """The same with the small words between them, without articles."""
    parts: tuple[tuple[str, str], ...]
    """(content word, part it plays); once for each occurrence that has one."""
    turned: tuple[tuple[str, str], ...]
    """(content word, kind of turn in its clause)."""

    def as_json(self) -> str:
        """One line that `from_json` reads; the text itself isn't in it."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        return canonical_json({k: sorted(v) if isinstance(v, frozenset) else v for k, v in plain.items()})

    @classmethod
    def from_json(cls, line: str) -> "Meaning":
        """What `as_json` wrote."""
        plain = json.loads(line)
        held = {name: _frozen(value) for name, value in plain.items()}
        return cls(**held | {name: frozenset(plain[name]) for name in ("quoted", "names")})


@lru_cache(maxsize=65536)
def meaning(text: str) -> Meaning:
    """Any text → what of it vectors are deaf to."""
    folded = _folded(text)
    found = (_folded(e.text) for e in entities(text) if e.kind in ("quoted", "address"))
    # Longest first: a quote within another must not cut it apart.
    quoted = sorted((q for q in found if _wording(q)), key=lambda q: (-len(q), q))
    rest = folded
    for number, piece in enumerate(quoted):  # one word each, whatever stands in it
        # Short quotes occur within words, so they are looked for between quotation marks alone.
        inside = re.escape(piece) if len(piece) > 4 else rf"(?<={_MARKS}){re.escape(piece)}(?={_MARKS})"
        rest = re.sub(inside, f" {chr(_QUOTE + number)} ", rest)
    tokens = [_spelled(token) for token in _TOKEN.findall(_HALF_DAY.sub(r"\1m", rest)) if _told(token)]
    tokens = [f'"{_wording(quoted[ord(t[0]) - _QUOTE])}"' if _stands_for(t, quoted) else t for t in tokens]
    letters = [char for char in folded if char.isalpha()]
    read = _Reading()
    # Each token with the one before it, and a full stop at the end that closes the last clause.
    for before, token in zip(["", *tokens], [*tokens, "."], strict=True):
        read.take(token, before)
    return Meaning(
        wording=_wording(folded),
        readable=bool(letters) and sum(char < LAST_LATIN for char in letters) >= READABLE * len(letters),
        unread=tuple(token for token in tokens if _unread(token)),
        values=tuple((v, b, a) for v, b, a in read.values),
        quoted=frozenset(map(_wording, quoted)),
        names=_names(text, rest),
        turns=tuple(sorted(read.turns.items())),
        words=tuple(read.words),
        order=tuple(read.order),
        parts=tuple(read.parts),
        turned=tuple(read.turned),
    )


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


class _Reading:
    """Tokens one by one → values, turns, and what part each content word plays."""

    def __init__(self) -> None:
        self.turns: Counter[str] = Counter()
        self.words: list[str] = []
        self.order: list[str] = []
        self.parts: list[tuple[str, str]] = []
        self.turned: list[tuple[str, str]] = []
        self.values: list[list[str]] = []
        self._clause: tuple[list[str], set[str]] = ([], set())
        self._role = ""

    def take(self, token: str, before: str) -> None:
        """Read one token more; a clause's end closes what was said of its words."""
        if token in _CLAUSE_END:
            # A turn holds for all words of its clause: "turn on Wi-Fi, off Bluetooth" has two clauses.
            self.turned += [(word, kind) for word in self._clause[0] for kind in sorted(self._clause[1])]
            self._clause, self._role = ([], set()), ""
            return
        kind = _kind(token)
        if kind:
            self.turns[kind] += 1
            self._clause[1].add(kind)
        # A role ("from", "to", "not") is for the next content word, and not a word itself.
        if token in ROLES or kind == "not":
            self._role = "not" if kind == "not" else ROLES[token]
        elif token in FUNCTION and token not in _ARTICLES:
            self.order.append(token)
        elif token not in _ARTICLES and (token in VALUES or any(c.isalnum() or not c.isascii() for c in token)):
            # Words, values and signs such as emoji are content; ASCII punctuation isn't.
            self._content(token, kind, before)

    def _content(self, token: str, kind: str, before: str) -> None:
        value = _value(token, before)
        # A turn stands as its kind, so that "remove" and "delete" are one word in the order.
        word = value or kind or token
        if value:
            self.values.append([value, self.words[-1] if self.words else "", ""])
        elif self.values and not self.values[-1][2]:
            # The content word behind a value is known only now.
            self.values[-1][2] = word
        self.order.append(word)
        self.words.append(word)
        self._clause[0].append(word)
        if self._role:
            self.parts.append((word, self._role))
            self._role = ""


def _stands_for(token: str, quoted: Sequence[str]) -> bool:
    return 0 <= ord(token[0]) - _QUOTE < len(quoted)


def conflict(one: Meaning, two: Meaning) -> str:
    """Why two texts can't mean the same however near their vectors are: script, values, names, turns or parts; "" if
    nothing stands against it."""
    # Equal wording means the same even where it can't be read.
    if one.wording == two.wording:
        return ""
    # In a script that the model doesn't read all words have one vector: only equality counts.
    if not (one.readable and two.readable) or one.unread != two.unread:
        return "script"
    # In order of how certain the difference is; the first that is found is the reason.
    if _values_differ(one.values, two.values) or not (_says(two, one.quoted) and _says(one, two.quoted)):
        return "values"
    if not (one.names <= _held(two) and two.names <= _held(one)):
        return "names"
    if one.turns != two.turns or _exchanged(one, two, one.turned, two.turned) or _prefixed(one.words, two.words):
        return "turns"
    if _exchanged(one, two, one.parts, two.parts) or _swapped(one.order, two.order):
        return "parts"
    return ""


def _folded(text: str) -> str:
    """Compatibility forms unified, casefolded; variation selectors and joiners, which nobody sees, left out."""
    # NFKC: full-width letters and ligatures are the same to a reader.
    folded = text if text.isascii() else unicodedata.normalize("NFKC", text)
    if not folded.isascii():
        folded = "".join(c for c in folded if not ("\ufe00" <= c <= "\ufe0f" or unicodedata.category(c) == "Cf"))
    # Both apostrophes: a negation must not hide in its contraction.
    return folded.casefold().replace("n't", " not").replace("n\u2019t", " not")


def _told(token: str) -> bool:
    """Whether a token says something: punctuation that ends a clause does, other punctuation doesn't."""
    if token in _CLAUSE_END or token in _SYMBOLS or token[-1].isalnum():
        return True
    return not unicodedata.category(token[0]).startswith("P")


def _spelled(token: str) -> str:
    """One spelling of numbers and of hyphenated words: 1,000 is 1000, Wi-Fi is wifi, two is 2."""
    if token[-1].isdigit():
        # A comma before just three digits groups thousands; any other is kept.
        return re.sub(r",(?=\d{3}(?:\D|$))", "", token)
    return re.sub(r"['\u2019]s?$|[-'\u2019]", "", token)


def _kind(token: str) -> str:
    """The turn a word makes, also in another form of it (closes, closing)."""
    # Endings of English verbs: closes, closed, closing come from close.
    for stem in (token, token[:-1], token[:-2], token[:-3], token[:-3] + "e", token[:-2] + "e"):
        if stem in TURNS and (stem == token or (len(stem) > 3 and token[len(stem.rstrip("e")) :] in _ENDINGS)):
            return TURNS[stem]
    return ""


_ENDINGS = frozenset(["s", "d", "es", "ed", "ing", "ped", "ping", "e", "en"])


def _value(token: str, before: str) -> str:
    """The value a token stands for, or "". Short units count behind a number only: "5 m", not "I'm"."""
    if any(char.isdigit() for char in token):
        return token
    if token in VALUES and (len(token) > 2 or not token.isalpha() or VALUES.get(before, before)[-1:].isdigit()):
        return VALUES[token]
    return ""


def _wording(folded: str) -> str:
    return " ".join(t for t in _TOKEN.findall(folded) if _told(t) and t not in _CLAUSE_END - _WORDS)


def _says(other: Meaning, wordings: Iterable[str]) -> bool:
    return all(f" {wording} " in f" {other.wording} " for wording in wordings)


def _unread(token: str) -> bool:
    if token in _SYMBOLS:
        return token != "%"
    return any(char >= LAST_LATIN and not unicodedata.category(char).startswith("P") for char in token)


def _names(text: str, rest: str) -> frozenset[str]:
    """Words of capitalised names outside quotes; none where capitals say nothing (TITLES, Every Word Capital)."""
    # A capital after a word or comma, not at the beginning of a sentence, where it says nothing.
    inside = re.findall(r"(?<=[\w,] )[^\W\d_]+", text)
    small = [word for word in inside if word.casefold() in FUNCTION or word.casefold() in ROLES]
    # Small words with capitals: a title in which every word has one.
    if text.isupper() or any(word[0].isupper() and word != "I" for word in small):
        return frozenset()
    named = (e.text for e in entities(text) if e.kind == "name")
    found = {_spelled(word) for name in named for word in _folded(name).split()}
    return frozenset(word for word in found if word in rest.replace("-", "") and not _kind(word)) - FUNCTION


def _held(of: Meaning) -> frozenset[str]:
    """All words of a text in the spelling of names."""
    return frozenset(_spelled(word) for word in of.wording.split()) | frozenset(of.words)


def _values_differ(one: Sequence[tuple[str, ...]], two: Sequence[tuple[str, ...]]) -> bool:
    """Other values, or the same ones in another order and beside other words ("2 pears 3 figs", "3 pears 2 figs")."""
    a, b = [value for value, _, _ in one], [value for value, _, _ in two]
    if a == b:
        return False
    if sorted(a) != sorted(b):
        return True
    # Beside which words each value stands, before and behind, in both texts: only if both sides differ did
    # they swap.
    sides = [Counter((v, side[n]) for v, *side in listed) for listed in (one, two) for n in (0, 1)]
    return sides[0] != sides[2] and sides[1] != sides[3]


def _exchanged(one: Meaning, two: Meaning, mine: Sequence[tuple[str, str]], theirs: Sequence[tuple[str, str]]) -> bool:
    """Whether words of both texts have changed parts with each other, or one from a part to its opposite."""
    both = set(one.words) & set(two.words)
    lost = {(word, part) for word, part in set(mine) - set(theirs) if word in both}
    won = {(word, part) for word, part in set(theirs) - set(mine) if word in both}
    # A word that was "from" and is "to" now changed its part without any other word.
    if any(part in _OPPOSITE and (word, _OPPOSITE[part]) in won for word, part in lost):
        return True
    return any(part == other and word != heir for word, part in lost for heir, other in won)


_OPPOSITE = {"from": "to", "to": "from"}


def _prefixed(one: Sequence[str], two: Sequence[str]) -> bool:
    """Whether a word of one text is the opposite of a word of the other by its prefix."""
    mine, theirs = set(one) - set(two), set(two) - set(one)
    sides = [(own, other, pair) for own, other in ((mine, theirs), (theirs, mine)) for pair in BEGINNINGS]
    return any(word.startswith(a) and b + word[len(a) :] in other for own, other, (a, b) in sides for word in own)


def _swapped(one: Sequence[str], two: Sequence[str]) -> bool:
    """Whether the texts are the same words with two of them exchanged that don't stand side by side, as in a list."""
    if len(one) != len(two):
        return False
    places = [n for n, (a, b) in enumerate(zip(one, two, strict=True)) if a != b]
    # Two words exchanged side by side are an enumeration: "apples and pears".
    if len(places) != 2 or places[1] - places[0] == 1:
        return False
    return [one[n] for n in places] == [two[n] for n in reversed(places)]
