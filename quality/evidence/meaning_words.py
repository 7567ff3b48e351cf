"""Words that change what a sentence says and that embeddings hardly hear, read from `meaning_words.txt`.

Of a pair of opposites one pole is enough (`off` without `on`): the other often serves as a mere preposition, and has
more synonyms. Words of one line mean the same here: "delete" and "remove" are no difference. A few words of other
languages with Latin letters stand beside the English ones, since the embedded model reads those letters.
"""

from pathlib import Path

_SECTIONS: dict[str, dict[str, str]] = {}


def _read() -> None:
    # Kind and words by a colon; in sections without kinds each word stands for itself.
    words: dict[str, str] = {}
    for line in Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            words = _SECTIONS.setdefault(line.strip("[]"), {})
        elif line and not line.startswith("#"):
            name, colon, listed = line.partition(": ")
            words |= {word: name if colon else word for word in (listed if colon else line).split()}


_read()
TURNS = _SECTIONS["turns"]
"""Word → the turn it makes (off, not, less, ...)."""
VALUES = _SECTIONS["values"] | _SECTIONS["plain values"]
"""Word → the value it stands for, as digits do: numbers, days, units, colours. Sentences that differ in them differ."""
ROLES = _SECTIONS["roles"]
"""Word → the part that the next word plays: "from Paris to London" isn't "from London to Paris"."""
FUNCTION = frozenset(_SECTIONS["function"])
"""Words that carry little of their own, and particles that may stand before or behind their object."""
BEGINNINGS = (
    ("", "un"),
    ("", "dis"),
    ("", "de"),
    ("", "des"),
    ("", "dés"),
    ("", "in"),
    ("", "im"),
    ("", "non"),
    ("", "mis"),
    ("in", "ex"),
    ("im", "ex"),
    ("en", "dis"),
    ("up", "down"),
    ("a", "de"),
)
"""select / deselect, include / exclude: words that are one but for such a beginning are opposites."""
