"""Whether a thought and its action agree: D-Artemis's check of thought and action, by rules.

| looked at | in the thought | in the action |
|---|---|---|
| `kind` | what it says will be done (`stated_actions`) | its type |
| `target` | the elements that it names | the element at the point |
| `place` | "at the bottom", "oben rechts", "左下角" | where the point lies |
| `text` | what is to be typed, chosen or opened | its text |
| `direction` | where it scrolls to | the direction; of a swipe the axis alone, since sources differ in what moves |

A thought that says nothing of its action is neither. Text that speaks to a judge is left out before anything is read
(`quality.judges.orders` does so for items; `without_orders` there is for callers with bare texts).

Can't see: a target in words that no element has for a label, a wrong one of several elements alike, a paraphrase of a
text, and on screens without elements any target but its place.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from quality.evidence.stated_actions import (
    BROAD,
    FINGER,
    PLACES,
    WAYS,
    StatedAction,
    clauses_of,
    decisive,
    sentences_of,
)
from quality.evidence.steps import CONTAINER_SHARE, POINT_MARGIN, below, hit, in_row, is_bare
from quality.evidence.words import entities, holds, plain, similarity
from quality.items.screens import Element
from schemas.action_types import BARE, OPPOSITE, POINTED, Click, Launch, Scroll, SelectOption, Type, direction_of
from schemas.actions import Action

ALIKE = 0.8
"""Texts this similar are one text with a slip."""
SHORT_ALIKE = 0.6
"""Names of an app this similar are one: sources write them by heart."""
EDGE = 0.35
"""A point further than this share of the screen from an edge isn't at that edge; generous, since headers are high."""
LEAST_LABEL = 2
"""Characters; of CJK labels and others."""

NEAR_WAY = 40
"""Characters around a mention of scrolling in which its direction stands."""
_UNQUOTED = re.compile(
    r"\b(?:type|typing|input|inputting) "
    r"(?!(?:the|an?|my|your|our|his|her|it|this|that|these|in|into|something|text|some|here|out|any|more|all|each)\b)"
    r"(\w[^,.;:!?\n]{1,60}?)(?= (?:in|into|to|on|since|as|and|for|so|because)\b|[,.;!?\n]|$)",
    re.IGNORECASE,
)
"""A text to be typed that stands without quotes: words right behind the verb that don't merely describe one."""
_QUOTE_MARKS = str.maketrans(dict.fromkeys("„“”«»「」『』《》", '"'))
"""Each language's marks of quotes → the one that all readers of entities know; none changes a text's length."""
_BARE = {kind.__name__: kind for kind in BARE}
_POINTED = {kind.__name__: kind for kind in POINTED}
_FIRM = ("quoted", "address", "number")


@dataclass(frozen=True, slots=True)
class ThoughtCheck:
    """What the check found. `agrees` None: the thought says nothing that could be held against the action. `looked_at`
    names the line of the module's table that decided ("" where none objects). `implied`: the action that the thought
    asks for instead, where it is the only one."""

    agrees: bool | None
    looked_at: str = ""
    reason: str = ""
    implied: Action | None = None


def check_thought(thought: str, action: Action, elements: Sequence[Element] = ()) -> ThoughtCheck:
    """Hold an action against the thought before it. `elements`: those of the screen that both are about, in 0..1000;
    empty where nobody knows them."""
    thought = thought.translate(_QUOTE_MARKS)
    stated = decisive(thought)
    if not stated:
        return ThoughtCheck(None, reason="the thought names no action")
    words = sentences_of(thought, stated)
    kind = type(action).__name__
    if not any(kind in one.allows for one in stated):
        named = ", ".join(dict.fromkeys(one.kind for one in stated))
        implied = implied_action(thought, elements)
        return ThoughtCheck(False, "kind", f"the thought says {named}, the action is {kind}", implied)
    for looked_at, reason in (
        ("direction", _other_way(action, thought, stated)),
        ("text", _other_text(action, thought, words)),
        ("target", _other_target(action, thought, words, stated, elements)),
        ("place", _other_place(action, words)),
    ):
        if reason:
            implied = implied_action(thought, elements)
            return ThoughtCheck(False, looked_at, reason, implied if implied != action else None)
    return ThoughtCheck(True, reason=f"the thought fits {kind}")


# --- one look each: why the action isn't what the thought says, or ""
def _other_way(action: Action, thought: str, stated: Sequence[StatedAction]) -> str:
    """Scrolls against the way that is named right beside the mention."""
    if not isinstance(action, Scroll):
        return ""
    way = direction_of(action)
    ways = _ways_named(thought, stated)
    if not ways or way in ways:
        return ""
    finger = any(FINGER.search(thought[one.start : one.end]) for one in stated if one.kind == "Scroll")
    if finger and OPPOSITE[way] in ways:
        return ""
    return f"the thought scrolls {' or '.join(sorted(ways))}, the action {way}"


def _ways_named(thought: str, stated: Sequence[StatedAction]) -> set[str]:
    ways: set[str] = set()
    for one in stated:
        if one.kind != "Scroll":
            continue
        # behind the mention first: "scroll down to the settings on the left" goes down
        behind = thought[one.start : one.end + NEAR_WAY]
        first = [(match.start(), way) for way, pattern in WAYS if (match := pattern.search(behind)) is not None]
        if first:
            ways.add(min(first)[1])
        else:
            before = thought[max(0, one.start - NEAR_WAY) : one.start]
            ways |= {way for way, pattern in WAYS if pattern.search(before)}
    return ways


def _other_text(action: Action, thought: str, words: str) -> str:
    """Types, chooses or opens something else than the thought quotes."""
    content = _content(action)
    if not plain(content) or holds(thought, content) or plain(content) in plain(thought):
        return ""
    named = [one for one in entities(words) if one.kind in _FIRM or (one.kind == "name" and isinstance(action, Launch))]
    if not named and isinstance(action, Type) and (bare := _UNQUOTED.search(words)) is not None:
        shared = set(plain(bare[1]).split()) & set(plain(content).split())
        return "" if shared else f"the thought types {bare[1][:40]!r}, the action {content[:40]!r}"
    if not named or any(_one_text(one.text, content) for one in named):
        return ""
    if isinstance(action, Launch) and _short_name(words, [one.text for one in named], content):
        return ""
    strong = [one for one in named if one.kind != "number" or any(char.isdigit() for char in content)]
    return f"the thought names {strong[0].text[:40]!r}, the action {content[:40]!r}" if strong else ""


def _content(action: Action) -> str:
    """The text that an action says or chooses; not that of an end or an answer, which thoughts only describe."""
    if isinstance(action, Type):
        return action.content
    if isinstance(action, SelectOption):
        return action.option
    return action.app if isinstance(action, Launch) else ""


def _one_text(named: str, content: str) -> bool:
    """Whether a named text is, holds or is held by what the action says; numbers must be equal."""
    if any(char.isdigit() for char in named) and any(char.isdigit() for char in content):
        return plain(named) in plain(content) or plain(content) in plain(named)
    return holds(content, named) or holds(named, content) or similarity(named, content) >= ALIKE


def _short_name(words: str, named: Sequence[str], app: str) -> bool:
    """Whether an app goes by a short form of what is named, or by another spelling: TOI, NYTimes, Sketchar."""
    short = plain(app).replace(" ", "")
    if len(short) > 2 and short in "".join(word[0] for word in plain(words).split()):
        return True
    for name in named:
        whole = plain(name).replace(" ", "")
        if similarity(name, app) >= SHORT_ALIKE or any(w[:5] in short for w in plain(name).split() if len(w) > 4):
            return True
        if any(word[:5] in whole for word in plain(app).split() if len(word) > 3):
            return True
    return False


def _other_target(
    action: Action, thought: str, words: str, stated: Sequence[StatedAction], elements: Sequence[Element]
) -> str:
    """Points at another element than those that the thought names on this screen."""
    point = getattr(action, "box", None)
    places = [one for one in elements if 0 < one.area <= CONTAINER_SHARE * 1e6 and plain(one.label)]
    if point is None or not places:
        return ""
    touched = _touched(places, point)
    # what is named nearest to the decision counts: others that the thought speaks of don't excuse the point
    clauses = clauses_of(thought, tuple(stated))
    near = next((part for part in (clauses, words) if _named(part, places)), thought)
    named = _named(near, places) if near is not thought else []
    if any(_mentioned(near, element) for element in touched):
        return ""
    if not named and len(told := _named(thought, places)) == 1:
        named = told  # "The Save button is what I need. I tap it."
    if any(_leads_to(element, point, touched, elements) for element in named):
        return ""
    if named:
        what = repr(touched[0].label[:40]) if touched else "nothing with a label"
        return f"the thought names {named[0].label[:40]!r}, the point {point} lies in {what}"
    # quoted right for pressing and on no label here: another screen's element, or another name for this one
    quoted = [one.text for one in entities(words) if one.kind == "quoted"]
    pressing = all(one.kind in ("click", "LongPress", "DoubleClick", "RightClick", "Hover") for one in stated)
    if quoted and touched and pressing and not any(_shares_word(text, one) for text in quoted for one in touched):
        return f"the thought names {quoted[0][:40]!r}, the point {point} lies in {touched[0].label[:40]!r}"
    return ""


def _touched(places: Sequence[Element], point: tuple[int, int]) -> list[Element]:
    """Labelled elements that a point is about: those that hold it, the smallest first, what lies in that, and on
    screens of bare texts those of its row."""
    holding = sorted((one for one in places if one.holds(point, POINT_MARGIN)), key=lambda one: one.area)
    if holding:
        first = holding[0].box
        inner = [one for one in places if first[0] <= one.box[0] and first[1] <= one.box[1] and first[2] >= one.box[2]]
        return [*holding, *(one for one in inner if one.box[3] <= first[3] and one not in holding)]
    return [one for one in places if in_row(one, point)] if is_bare(places) else []


def _leads_to(element: Element, point: tuple[int, int], touched: Sequence[Element], all_: Sequence[Element]) -> bool:
    """Whether a named label is that of the unlabelled field or switch at the point: above it, or left in its row."""
    if touched and hit(list(all_), point) in touched:
        return False
    return below(element, point) or in_row(element, point)


def _named(words: str, places: Sequence[Element]) -> list[Element]:
    """Elements whose label stands in the words: quoted ones if there are any, else those with the longest label."""
    quoted = [one.text for one in entities(words) if one.kind == "quoted"]
    exact = [one for one in places if any(_is_label(one, text) for text in quoted)]
    if exact:
        return exact
    found = [one for one in places if _long_enough(one.label) and _written(words, one.label)]
    longest = max((len(plain(one.label)) for one in found), default=0)
    return [one for one in found if len(plain(one.label)) == longest]


def _written(words: str, label: str) -> bool:
    """Whether a label stands in a text as a name does: with its capital, or in more words than one."""
    if not holds(words, label):
        return False
    return label in words if label[:1].isupper() else len(plain(label).split()) > 1 or not label.isascii()


def _mentioned(thought: str, element: Element) -> bool:
    """Whether a thought says any of an element's texts, or most words of its label."""
    if any(_long_enough(text) and holds(thought, text) for text in (element.name, element.text)):
        return True
    own = {word for word in plain(element.label).split() if len(word) > 2}
    said = set(plain(thought).split())
    return bool(own) and 2 * len(own & said) > len(own)


def _is_label(element: Element, text: str) -> bool:
    return plain(text) in (plain(element.name), plain(element.text)) or similarity(text, element.label) >= ALIKE


def _shares_word(text: str, element: Element) -> bool:
    label = plain(f"{element.name} {element.text}")
    if similarity(text, element.label) >= 0.5 or holds(text, element.label) or holds(label, text):
        return True
    return bool({word for word in plain(text).split() if len(word) > 2} & set(label.split()))


def _long_enough(label: str) -> bool:
    return len(plain(label)) >= LEAST_LABEL


def _other_place(action: Action, words: str) -> str:
    """Points at the half of the screen away from the side that the thought names."""
    point = getattr(action, "box", None)
    if point is None:
        return ""
    x, y = point[0] / 1000, point[1] / 1000
    away = {"top": y > 1 - EDGE, "bottom": y < EDGE, "left": x > 1 - EDGE, "right": x < EDGE}
    sides = [side for side, pattern in PLACES if pattern.search(words)]
    # several sides of one axis speak of several things: nobody knows which of them the point is
    clear = [side for side in sides if not {"top", "bottom"} <= set(sides) and not {"left", "right"} <= set(sides)]
    wrong = [side for side in clear if away[side]]
    return f"the thought names the {wrong[0]} of the screen, the point is {point}" if wrong else ""


# --- what the thought asks for
def implied_action(thought: str, elements: Sequence[Element] = ()) -> Action | None:
    """The one action that a thought asks for on a screen of these elements; None where it leaves a choice."""
    thought = thought.translate(_QUOTE_MARKS)
    stated = decisive(thought)
    kinds = {one.kind for one in stated}
    precise = kinds - BROAD
    if len(precise) > 1 or not stated:
        return None
    words = sentences_of(thought, stated)
    kind = next(iter(precise or kinds))
    if kind in _BARE:
        return _BARE[kind]()
    if kind == "Scroll":
        ways = _ways_named(thought, stated)
        fingers = FINGER.search(thought) is not None
        return Scroll(direction=ways.pop()) if len(ways) == 1 and not fingers else None
    quoted = [one.text for one in entities(words) if one.kind == "quoted"]
    if kind == "Type":
        return Type(quoted[0]) if len(quoted) == 1 else None
    named = {one.box: one for one in _named(words, [e for e in elements if 0 < e.area <= CONTAINER_SHARE * 1e6])}
    if len(named) != 1:
        return None
    [element] = named.values()
    return _POINTED.get(kind, Click)(_centre(element))


def _centre(element: Element) -> tuple[int, int]:
    left, top, right, bottom = element.box
    return min(max(round((left + right) / 2), 0), 1000), min(max(round((top + bottom) / 2), 0), 1000)
