"""Fingerprints of instructions, and when two of them count as one.

A text is compared as its plain words (casefolded, punctuation dropped; a Chinese, Japanese or Korean character is a
word of its own). Words that any instruction holds ("click the button on the screen") say nothing, so a text's weight is
the number of its content words, two CJK characters counting as one.

| rule | needs | counts as one if |
|---|---|---|
| exact | `TEXT_WEIGHT` content words | the words are equal |
| n-gram | that and `SHINGLE_TEXT_WORDS` words | `CONTAINMENT` of the suite's 8-word runs and its literals are in it |
| embedding | that, and mostly Latin letters | cosine >= `COSINE`, and no conflict (`quality.evidence.meaning`) |

Shorter texts never count on their own: "close" and "open the settings" stand in every corpus. They count together with
a place on the screen (`quality.contamination.contamination`). Literals are numbers, quoted words, addresses and names:
tasks of one template that differ in them are different tasks. Texts in a script that the embedded model can't read are
left to the first two rules.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from quality.evidence.meaning import VERSION as MEANING_VERSION
from quality.evidence.meaning import Meaning, meaning
from quality.evidence.words import entities, plain

VERSION = f"2.{MEANING_VERSION}"
"""Goes into the config of all that compares texts."""
SHINGLE_WORDS = 8
SHINGLE_TEXT_WORDS = 12
"""Five shingles: fewer, and one shared phrase would be most of a text."""
CONTAINMENT = 0.8
TEXT_WEIGHT = 6.0
"""Content words that a text needs to tell on its own."""
APP_WEIGHT = 4.0
"""... and where the app is the same."""
COSINE = 0.95
"""all-MiniLM-L6-v2 puts instructions of one template with another slot at 0.80 to 0.93."""

_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")
_STOP = frozenset(
    re.findall(
        r"\w+",
        "a an the this that these those it its i me my you your we our is are was be been being to of in on at by for "
        "from with into onto and or not as if then so do does did can could will would should may please there here "
        "which who what where when how click tap press select choose open go button icon link element screen page app "
        "application menu option text",
    )
)


@dataclass(frozen=True, slots=True)
class TextPrint:
    """What is kept of a text."""

    plain: str
    words: tuple[str, ...]
    weight: float
    literals: frozenset[str]
    meaning: Meaning
    """What its vector wouldn't say."""


def text_print(text: str) -> TextPrint:
    """Any text → its fingerprint."""
    flat = plain(text)
    words = tuple(tokens(flat))
    # Literals as plain words, as texts are compared in that form.
    return TextPrint(flat, words, weight(words), frozenset(plain(e.text) for e in entities(text)), meaning(text))


def tokens(flat: str) -> list[str]:
    """Words of a plain text; CJK characters one by one."""
    return _CJK.sub(lambda match: f" {match.group(0)} ", flat).split()


def weight(words: Sequence[str]) -> float:
    """Number of content words; a CJK character is half a word."""
    # Two characters of Chinese make about one word.
    return sum(0.5 if _CJK.fullmatch(word) else 1.0 for word in words if word not in _STOP)


def shingles(words: Sequence[str]) -> list[int]:
    """64-bit hashes of all runs of `SHINGLE_WORDS` words, sorted, each once; none for a text that is too short."""
    if len(words) < SHINGLE_TEXT_WORDS:
        return []
    runs = {" ".join(words[i : i + SHINGLE_WORDS]) for i in range(len(words) - SHINGLE_WORDS + 1)}
    return sorted(int.from_bytes(hashlib.blake2b(run.encode(), digest_size=8).digest()) for run in runs)
