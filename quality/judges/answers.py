"""The answer that a trace shows but never gives: what V1's cleaning puts into a `CallUser` before `Finished`.

A task that asks a question and ends without an answer would teach to stop silent. Where its last screen shows the
answer beyond doubt, that is said; where it doesn't, nothing is invented, and `cleaning.unanswered_question` takes the
ending out. Proof is one of two things, and only if it leads to exactly one text of the screen:

- the recording's own words at its end (thought, conclusion) hold a text of the screen that the question doesn't;
- a label of the screen that the question names stands before a value of the kind that the question asks for, in one
  element, in its row or right below it.

Can't see: answers that lie on an earlier screen, are counted or compared, or stand on a screen without elements.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from quality.evidence.words import holds, plain
from quality.items.item import Episode, Row, Step, provenance
from quality.items.screens import Element
from schemas.actions import CallUser, Finished, format
from schemas.ids import canonical_json

REPAIR = "answer"
"""The repair that the provenance of an inserted step names."""
_QUESTION = re.compile(
    r"(?:what|which|who|whom|whose|when|where|why|how (?:many|much|long|far|old|often|high|big|tall))\b.*",
    re.IGNORECASE | re.DOTALL,
)
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_KINDS = (
    (re.compile(r"how (?:many|long|far|old|often|high|big|tall)\b", re.IGNORECASE), re.compile(r"\d")),
    (re.compile(r"how much\b|\b(?:price|cost|costs|total|balance)\b", re.IGNORECASE), re.compile(r"\d")),
    (
        re.compile(r"when\b|what (?:time|day|date)\b", re.IGNORECASE),
        re.compile(r"\d|\b(?:mon|tues|wednes|thurs|fri|satur|sun)day\b|\b(?:today|tomorrow|noon|midnight)\b", re.I),
    ),
)
"""How a question begins (or what it names) → what its answer has to hold."""
_ACTIVE = frozenset(
    ["button", "tab", "checkbox", "switch", "radio", "icon", "image", "combobox", "textbox", "slider", "menuitem"]
)
"""Roles of what one acts on: no answer stands on them."""
_SMALL = frozenset(
    str.split(
        "a an and are at be by can did do does for from has have how i in is it its last many me much my of on or that "
        "the their there this to was were what when where which who whom whose why will with you your"
    )
)
LONGEST = 80
"""Characters of an answer: more is a paragraph that holds it."""


def asks(goal: str) -> bool:
    """Whether a task is a question."""
    return goal.strip().endswith("?") or _QUESTION.fullmatch(goal.strip()) is not None


def unanswered(episode: Episode) -> bool:
    """Whether a task asks, and its trace ends with a Finished without any answer."""
    actions = episode.actions
    if not actions or not asks(episode.instruction) or not isinstance(actions[-1].action, Finished):
        return False
    return not any(isinstance(s.action, CallUser | Finished) and s.action.content.strip() for s in actions)


def answered_rows(episode: Episode) -> list[Row] | None:
    """Rows of an unanswered episode with the answer before its end; None where its last screen doesn't prove one. The
    answer has the place that Finished had, which moves on by one."""
    end = episode.actions[-1]
    # Where another screen follows the ending, nobody knows on which one the answer was to be given.
    if end is not episode.steps[-1] or (answer := answer_of(episode.instruction, end)) is None:
        return None
    said = CallUser(answer)
    # A repair like any other: its parent and name stand in the provenance.
    plain_provenance = provenance(end.row) | {"parent": end.item_id, "repairs": [REPAIR]}
    asked = {
        **end.row,
        "action_type": type(said).__name__,
        "action_text": format(said),
        # Thought and conclusion belong to the ending; an invented step has none.
        "thought": None,
        "conclusion": None,
        "provenance": canonical_json(plain_provenance),
    }
    last = {**end.row, "step_index": end.row["step_index"] + 1}
    return [*(step.row for step in episode.steps[:-1]), asked, last]


def answer_of(goal: str, end: Step) -> str | None:
    """The one text of the last screen that is proven to answer; None if there is none, or several."""
    if end.screen is None or end.follows_gap:
        return None
    # A button named like the answer isn't one.
    shown = [element for element in end.screen.elements if element.role.casefold() not in _ACTIVE]
    told = " ".join(end.row[name] or "" for name in ("thought", "conclusion"))
    # The recording's own words are the stronger proof, so they are asked first.
    for candidates in (_said(goal, told, shown), _labelled(goal, shown)):
        fitting = {plain(text): text for text in candidates if _fits(goal, text)}
        # Several texts would answer: that is no proof of any.
        if len(fitting) == 1:
            return next(iter(fitting.values()))
    return None


def _fits(goal: str, text: str) -> bool:
    """Of the kind that is asked for, new to the question, and short."""
    if not plain(text) or len(text) > LONGEST or holds(goal, text):
        return False
    kinds = [answer for question, answer in _KINDS if question.search(goal)]
    # The first kind that fits the question decides; "how much" goes before what it names.
    return all(kind.search(text) for kind in kinds[:1])


def _said(goal: str, told: str, shown: Sequence[Element]) -> Iterator[str]:
    """Texts of the screen that the recording's own words hold, less those within a longer one."""
    found = {text for element in shown if (text := element.text.strip()) and holds(told, text) and _fits(goal, text)}
    yield from (one for one in found if not any(one != other and holds(other, one) for other in found))


def _labelled(goal: str, shown: Sequence[Element]) -> Iterator[str]:
    """Values of labels that the question names."""
    words = set(plain(goal).split())
    for element in shown:
        label, mark, value = element.text.partition(":")
        if mark and value.strip() and _names(words, label):
            yield value.strip()
        elif _names(words, element.text) and (beside := _value_of(element, shown)) is not None:
            yield beside.text.strip()


def _names(words: set[str], label: str) -> bool:
    """Whether a question has all words of a label, and one at least says something."""
    named = set(plain(label).split())
    # At least one word that says something: "the" alone names no label.
    return named <= words and bool(named - _SMALL) and not all(_NUMBER.fullmatch(word) for word in named)


def _value_of(label: Element, shown: Sequence[Element]) -> Element | None:
    """What stands next to a label in its row, else right below it."""
    others = [one for one in shown if one is not label and one.text.strip()]
    row = [one for one in others if _row(label, one)]
    if row:
        # The nearest to the right; where a row has none, the nearest below.
        return min(row, key=lambda one: one.box[0])
    below = [one for one in others if _below(label, one)]
    return min(below, key=lambda one: one.box[1]) if below else None


def _row(label: Element, other: Element) -> bool:
    shared = min(label.box[3], other.box[3]) - max(label.box[1], other.box[1])
    least = min(label.box[3] - label.box[1], other.box[3] - other.box[1])
    return other.box[0] >= label.box[2] - 1 and shared >= 0.5 * least > 0


def _below(label: Element, other: Element) -> bool:
    height = label.box[3] - label.box[1]
    aligned = min(label.box[2], other.box[2]) > max(label.box[0], other.box[0])
    # Nearly touching, and no further than one and a half lines.
    return aligned and 0 <= other.box[1] - label.box[3] + 1 <= 1.5 * height
