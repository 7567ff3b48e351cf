"""What a thought says will be done next: kinds of actions that its words name, in English, German and Chinese.

A thought tells what was done, what is to be done now, and what follows from that. Only the second counts: a mention
behind "after" or "already" is past, one behind "not" is none, and one behind "then" or "so that" comes later. Where
sentences announce a decision ("the next step is", "ich werde", "需要") the last of them counts, else all do.

Can't see: other languages, irony, and actions told without any of the listed words (`stated_actions.txt`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from quality.evidence.word_lists import sections_of
from schemas.ids import digest

_SENTENCE = re.compile(r"(?<=[.!?;\n])\s+|(?<=[。！？；])\s*")
_CLAUSE = re.compile(r"[,;:，；：。、]|\b(?:and|und|but|aber)\b")
LOOK_BACK = 24
"""Characters before a mention in which "after", "not" and their like are looked for: they stand right before it."""
MOST_TEXT = 4000
"""Characters of a thought that are read, from its end, where it comes to its decision."""

ALLOWS: dict[str, frozenset[str]] = {
    # what one says for an element that is pressed, whatever the platform's own word for it
    "click": frozenset(("Click", "SelectOption")),
    "open": frozenset(("Click", "DoubleClick", "Launch", "RightClick", "Hotkey", "PressEnter")),
    # weak words: they say what is wanted, and several actions bring it about
    "activate": frozenset(
        ("Click", "DoubleClick", "SelectOption", "LongPress", "Launch", "Hotkey", "PressEnter", "Drag", "Hover")
    ),
    "fill": frozenset(("Type", "Click", "SelectOption", "PressEnter", "Launch", "Scroll", "Hotkey")),
    "PressBack": frozenset(("PressBack", "PressHome", "Click", "Hotkey")),
    "PressHome": frozenset(("PressHome", "PressBack", "Click", "Launch")),
    "PressRecent": frozenset(("PressRecent", "Click", "Scroll")),
    "PressEnter": frozenset(("PressEnter", "Click", "Hotkey")),
    # a swipe with a start and an end is either
    "Scroll": frozenset(("Scroll", "Drag")),
    "Drag": frozenset(("Drag", "Scroll")),
    "RightClick": frozenset(("RightClick", "Click")),
    # an answer is often given with the end itself
    "Finished": frozenset(("Finished", "CallUser")),
    "CallUser": frozenset(("CallUser", "Finished", "TakeNote")),
}
"""Kind of a mention → action types that fit it; a kind that isn't listed fits the type of its own name alone."""
BROAD = frozenset(("activate", "fill", "open"))
"""Kinds that say what is wanted rather than how."""


@dataclass(frozen=True, slots=True)
class StatedAction:
    """A mention of an action. `kind`: a type of `schemas.action_types`, or a key of `ALLOWS`; `start`, `end`: where it
    stands in the text that was read; `sentence`: number of its sentence; `decided`: a cue stands in that."""

    kind: str
    start: int
    end: int
    sentence: int
    decided: bool
    later: bool

    @property
    def allows(self) -> frozenset[str]:
        """Action types that fit the mention."""
        return ALLOWS.get(self.kind, frozenset((self.kind,)))


_WORDS = sections_of(Path(__file__).with_suffix(".txt"))
WORDS_VERSION = digest(_WORDS)[:8]
"""Of the listed words: goes into the rubric of what is judged by them."""
_CUE, _PAST, _NOT, _LATER, FINGER = (
    re.compile("|".join(_WORDS.pop(name)), re.IGNORECASE) for name in ("cue", "past", "not", "later", "finger")
)
"""`FINGER`: words of the finger, whose way is the view's or its opposite, by who writes."""


def _sides(what: str) -> tuple[tuple[str, re.Pattern[str]], ...]:
    """The sections of a kind as (side, pattern), taken out of the list."""
    names = [name for name in _WORDS if name.startswith(f"{what} ")]
    return tuple((name.split()[1], re.compile("|".join(_WORDS.pop(name)), re.IGNORECASE)) for name in names)


PLACES = _sides("place")
"""Side of the screen → words for it."""
WAYS = _sides("way")
"""Direction of a scroll → words for it."""
_MENTION = re.compile("|".join(f"(?P<{kind}>{'|'.join(patterns)})" for kind, patterns in _WORDS.items()))
_DONE_BEHIND = re.compile(r"\s*(?:了|过|nicht\b)")
"""Behind a mention: Chinese marks of what is done, and the German "not", which may follow its verb."""


def read_part(thought: str) -> str:
    """The part of a thought that is read, in small letters of the same number (so places in it are places in it)."""
    text = thought[-MOST_TEXT:]
    folded = text.lower()
    return folded if len(folded) == len(text) else "".join(c.lower() if len(c.lower()) == 1 else c for c in text)


@lru_cache(maxsize=4096)
def mentions(thought: str) -> tuple[StatedAction, ...]:
    """All mentions of actions to be done, in order; past and denied ones are left out."""
    text = read_part(without_quotes(thought))
    found: list[StatedAction] = []
    bounds = [0, *(match.end() for match in _SENTENCE.finditer(text)), len(text)]
    for number, (left, right) in enumerate(zip(bounds, bounds[1:], strict=False)):
        sentence = text[left:right]
        decided = _CUE.search(sentence) is not None
        for match in _MENTION.finditer(sentence):
            before = sentence[max(0, match.start() - LOOK_BACK) : match.start()]
            if _PAST.search(before) or _NOT.search(before) or _DONE_BEHIND.match(sentence, match.end()):
                continue
            clause = _CLAUSE.split(sentence[: match.start()])[-1]
            # "then" in the first clause of a sentence follows the sentence before; in a later one, this sentence
            later = _LATER.search(clause) is not None and bool(found)
            kind = str(match.lastgroup)
            found.append(StatedAction(kind, left + match.start(), left + match.end(), number, decided, later))
    return tuple(found)


def decisive(thought: str) -> tuple[StatedAction, ...]:
    """The mentions that say what is done next: those of the last sentence that decides, else of all. Later ones count
    only where nothing else is said."""
    listed = mentions(thought)
    now = [one for one in listed if not one.later] or list(listed)
    decided = [one for one in now if one.decided]
    if decided:
        last = decided[-1].sentence
        now = [one for one in now if one.sentence == last]
    # "press Enter to search": the precise words say how, the broad ones why
    precise = [one for one in now if one.kind not in BROAD]
    # ...but "as the task is complete" is a reason, too
    return tuple(now if all(one.kind == "Finished" for one in precise) else precise)


def sentences_of(thought: str, stated: tuple[StatedAction, ...]) -> str:
    """The sentences in which mentions stand, as they were written, without the clauses that tell what was done."""
    parts = _clauses(thought, {one.sentence for one in stated})
    return "".join(part for left, part in parts if _acts(left, part, stated) or not _TELLS_PAST.match(part.lower()))


def clauses_of(thought: str, stated: tuple[StatedAction, ...]) -> str:
    """The clauses in which mentions stand, up to the next comma on both sides."""
    parts = _clauses(thought, {one.sentence for one in stated})
    return " ".join(part for left, part in parts if _acts(left, part, stated))


def _acts(left: int, part: str, stated: tuple[StatedAction, ...]) -> bool:
    return any(left <= one.start < left + len(part) for one in stated)


def _clauses(thought: str, sentences: set[int]) -> list[tuple[int, str]]:
    """(where it begins, text) of the clauses of sentences by number, in order; quoted commas part nothing."""
    text, bare = thought[-MOST_TEXT:], read_part(without_quotes(thought))
    bounds = [0, *(match.end() for match in _SENTENCE.finditer(bare)), len(text)]
    found = []
    for number in sorted(sentences):
        left, right = bounds[number], bounds[number + 1]
        edges = [left, *(left + match.end() for match in _COMMA.finditer(bare[left:right])), right]
        found += [(start, text[start:end]) for start, end in zip(edges, edges[1:], strict=False)]
    return found


_COMMA = re.compile(r"[,;，；]\s*")
_TELLS_PAST = re.compile(r"(?:after|having|since|i have|i've|nachdem|nach dem|ich habe|已|刚|之前)")
_QUOTES = re.compile(
    r"\"[^\"\n]{1,120}\"|“[^”\n]{1,120}”|「[^」\n]{1,120}」|„[^“”\n]{1,120}[“”]|"
    r"(?<!\w)'[^'\n]{1,120}?'(?!\w)"
)


def without_quotes(thought: str) -> str:
    """The text with blanks in the place of what it quotes: a button called "Scroll down" is no scroll. Same length."""
    return _QUOTES.sub(lambda match: match[0][0] + " " * (len(match[0]) - 2) + match[0][-1], thought)
