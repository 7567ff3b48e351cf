"""What of the label of an element that an item acts on a judge reads: what the item's own texts speak of.

Whoever writes a page may add to a label ("Save – done as requested"), which no judge may score. They are read by form:
what grades, a sentence and another script fall away beside what the item speaks of, or else beside a name.

Can't see: text without a mark beside a label of which the item doesn't speak, and sentences in the words of a name.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from quality.evidence.samples import boxes_of, expression_of
from quality.evidence.steps import CONTAINER_SHARE, point_of
from quality.evidence.words import held_by_any, plain
from quality.items.item import Item, Sample
from quality.items.screens import Screen
from quality.judges.asked import REQUEST, WITHIN, odd, praised, script
from quality.judges.orders import speaks

_PARTS = re.compile(r"\s*\n\s*|\s+[-–—|•·]+\s+|[:：]\s+|(?<=[.!?;])\s+|(?<=[。！？；])\s*")
_GRADE = re.compile(r"(?<!\w)\w+\s*(?:=|[:：])\s*[\w+/.]+[;,]?")
_CLAUSE = re.compile(r"[,;=!?。，、！]")
_MARKS = " ,;:–—-|\n"
_LEAST_SMALL = 3
"""Words in small letters, and marks, in a sentence beside a name of which nothing speaks."""
_MOST = 300
"""Characters of a label that is read by its parts: longer ones are paragraphs, and read whole."""


def readings(item: Item) -> dict[str, str]:
    """Texts of the elements at an item's points → what a judge reads of them; only those of which it isn't all."""
    said = _said(item)
    found: dict[str, str] = {}
    for screen, point in _points(item):
        at = [e for e in screen.elements if e.area <= CONTAINER_SHARE * 1e6 and e.holds(point, 2.0)]
        for text in {text for e in at for text in (e.text, e.name) if text}:
            if (part := _read(text, said)) != text:
                found[text] = part
    return found


def _said(item: Item) -> tuple[str, ...]:
    """The plain texts of an item that say what it acts on."""
    if isinstance(item, Sample):
        return plain(expression_of(item)), plain(item.row["answer"])
    texts = [item.instruction]
    for step in item.steps:
        typed = getattr(step.action, "content", "") or getattr(step.action, "option", "")
        texts += [step.row["step_instruction"] or "", step.row["thought"] or "", typed]
    return tuple(dict.fromkeys(filter(None, map(plain, texts))))


def _points(item: Item) -> Iterable[tuple[Screen, Sequence[float]]]:
    """The points that an item acts on or asks for, each with its screen."""
    if isinstance(item, Sample):
        middles = [((box[0] + box[2]) / 2, (box[1] + box[3]) / 2) for box in boxes_of(item)]
        return [(item.screen, middle) for middle in middles if item.screen is not None]
    steps = [(step.screen, point_of(step)) for step in item.steps]
    return [(screen, point) for screen, point in steps if screen is not None and point is not None]


@lru_cache(maxsize=65536)
def _read(label: str, said: tuple[str, ...]) -> str:
    if len(label) > _MOST or len(label.split()) < 2 or held_by_any(said, label):
        return label
    own = script(" ".join(said))
    # 1. Without keys and values that grade ("Score: 10"), and words in other scripts.
    left = _GRADE.sub(lambda pair: " " if "=" in pair[0] or odd(pair[0], ()) else pair[0], label)
    left = re.sub(r"\S+", lambda word: word[0] if script(word[0]) in ("", own) else "", left).strip(_MARKS)
    if not plain(left):
        return label
    # 2. Of parts between marks those spoken of, or else the first that is a name.
    bounds = [0, *(at for mark in _PARTS.finditer(left) for at in mark.span()), len(left)]
    spans = [span for span in zip(bounds[::2], bounds[1::2], strict=True) if plain(left[slice(*span)])]
    kept = [span for span in spans if _spoken(left[slice(*span)], said)]
    kept = kept or [span for span in spans if not _says_more(left[slice(*span)])][:1]
    kept = kept or [min(spans, key=lambda span: (_graded(left[slice(*span)]), left[slice(*span)].count(" ")))]
    if any(_says_more(left[slice(*span)]) for span in spans if span not in kept):
        left = left[kept[0][0] : kept[-1][1]].strip(_MARKS)
    # 3. Of words that no mark parts, those at an end that are spoken of, or else the name.
    part = _end_spoken_of(left, said) or _name_in(left)
    return label if plain(part) == plain(label) else part


def _spoken(part: str, said: tuple[str, ...]) -> bool:
    """Whether an item's texts hold a part, or most of the words of one that is a name."""
    words = plain(part).split()
    most = 2 * sum(held_by_any(said, word) for word in words) > len(words)
    return held_by_any(said, part) or (most and not _says_more(part))


def _graded(part: str) -> bool:
    """Whether a part of a label speaks to a judge, grades or praises."""
    return speaks(part) or odd(part, ()) or praised(part)


def _says_more(part: str) -> bool:
    """Whether a part of a label does that, or is a sentence."""
    words = part.split()
    small = any(word[0].isalpha() and not word[0].isupper() for word in words[1:])
    return _graded(part) or _CLAUSE.search(part) is not None or (len(words) > 2 and words[0][0].isupper() and small)


def _told(part: str, least: int = _LEAST_SMALL) -> bool:
    """Whether a part of a label grades, or has as many words in small letters and marks as sentences have."""
    return _graded(part) or len(re.findall(r"(?<!\S)[^\W\d_A-ZÀ-ÖØ-Þ]|[,;=!?]", part)) >= least


def _end_spoken_of(label: str, said: tuple[str, ...]) -> str:
    """The longest run of words at an end of a label that a text holds, beside a sentence that none does; else ""."""
    if held_by_any(said, label):
        return label
    words = label.split()
    for size in range(min(len(words) - 1, 12), 0, -1):
        for run, rest in ((words[:size], words[size:]), (words[-size:], words[:-size])):
            part = " ".join(run).strip(_MARKS)
            if plain(part) in ("", *WITHIN) or not plain(run[0]) or not plain(run[-1]):
                continue
            # A verb alone says too little, and a small last word belongs to those before it: "the opening hours".
            small = size == 1 and part.islower() and run[0] != words[0]
            least = _LEAST_SMALL + 2 * small - (not all(word.casefold() in REQUEST for word in run))
            if not _told(" ".join(rest), least) or not held_by_any(said, part):
                continue
            firm = [word for word in rest if len(plain(word)) > 4]
            if 2 * sum(held_by_any(said, word) for word in firm) <= len(firm):
                return part
    return ""


def _name_in(label: str) -> str:
    """Of a label of which no text speaks: the name before or behind a sentence, else the label."""
    words = label.split()
    for place in range(len(words) - 1, 0, -1):
        head, tail = " ".join(words[:place]), " ".join(words[place:])
        if words[place][0].isupper() and (told := _told(head)) != _told(tail):
            return (tail if told else head).strip(_MARKS)
    return label
