"""Evidence that compares the goal's words with what was chosen: another than the one named, or none at all.

Looks only at names the goal writes with a capital or in quotes and that stand as labels on the trace's screens. What it
can't see: goals in other words, numbers (a slider at 20 for 30), icons without labels, and sources whose elements are
bare text lines (OCR), where nobody knows what can be chosen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from quality.evidence.steps import CONTAINER_SHARE, TEXT_ROLES, Finding, hit, in_row, is_bare, point_of
from quality.evidence.words import entities, holds, plain
from quality.items.item import Episode, Step
from quality.items.screens import Element
from schemas.action_types import Launch, Type

COMMIT = frozenset(
    ("save", "submit", "send", "buy", "pay", "order", "continue", "confirm", "apply", "post", "book", "add", "next")
)
"""First words of buttons that carry out what a form prepared (English; other languages aren't seen)."""
ALWAYS_COMMIT = frozenset(("save", "submit", "continue", "confirm", "apply", "next"))


def goal_chosen(episode: Episode) -> Finding | None:
    """What the goal names was acted on, where the screens offer it; not something else of its kind in its place."""
    named = named_labels(episode)
    if not named:
        return None
    acted = acted_texts(episode)
    open_names = {name: alike for name, alike in named.items() if not any(holds(label, name) for label in acted)}
    if not open_names:
        # All that is named was acted on: nothing is left to look for.
        return Finding("goal_chosen", 9, "what the goal names was acted on", "reachability")
    for name, alike in open_names.items():
        chosen = _instead(episode, alike)
        if chosen:
            reason = f"the goal names {name!r}, {chosen[0][:40]!r} of the same kind is chosen"
            repair = {"told": name, "chosen": chosen[0]} if len(chosen) == 1 else {}
            return Finding("chose_other", 5, reason, "reachability", repair)
    offered = [name for name, alike in open_names.items() if any(_can_be_chosen(e) for e in alike)]
    # A cut trace may have gone on to it; what isn't offered can't be acted on.
    if episode.is_prefix or not offered:
        return None
    reason = f"the goal names {offered[0]!r}, which is offered and never acted on"
    return Finding("not_reached", 5, reason, "reachability")


def _elements(episode: Episode) -> Iterator[Element]:
    seen: set[str] = set()
    for step in episode.steps:
        if step.screen is not None and step.screen.sha256 not in seen:
            seen.add(step.screen.sha256)
            yield from step.screen.elements


def _can_be_chosen(element: Element) -> bool:
    return not TEXT_ROLES.match(element.role) and 0 < element.area <= CONTAINER_SHARE * 1e6


def named_labels(episode: Episode) -> dict[str, list[Element]]:
    """Labels on the trace's screens that the goal names in quotes or with a capital: label → its elements. A label
    within a longer one that is named too is left out."""
    goal = episode.instruction
    quoted = {plain(entity.text) for entity in entities(goal) if entity.kind == "quoted"}
    found: dict[str, list[Element]] = {}
    for element in _elements(episode):
        label = element.label.strip()
        # Short labels and digits occur in any goal by chance; containers bear the words of all within them.
        if len(plain(label)) < 3 or plain(label).isdigit() or element.area > CONTAINER_SHARE * 1e6:
            continue
        # Inside a sentence and with a capital, so "home" in a goal isn't the button Home.
        # Most labels aren't in the goal at all, and a pattern of its own for each costs far more than that look.
        inside = label in goal and label[0].isupper() and re.search(rf"(?<=[\w,;:] ){re.escape(label)}(?!\w)", goal)
        if inside or plain(label) in quoted:
            found.setdefault(label, []).append(element)
    # "Settings" within "Sound Settings": only the longer one is meant.
    return {name: found[name] for name in found if not any(name != other and holds(other, name) for other in found)}


def acted_texts(episode: Episode, instructed: bool = True) -> list[str]:
    """Labels of all that was clicked (whatever holds the point, or lies in the row of bare texts), typed or launched,
    and, if `instructed`, what the steps' own instructions say."""
    texts: list[str] = []
    for step in episode.actions:
        texts.append((instructed and step.row["step_instruction"]) or "")
        if isinstance(step.action, Type):
            texts.append(step.action.content)
        elif isinstance(step.action, Launch):
            texts.append(step.action.app)
        texts += [text for e in _touched(step, reach=60.0) for text in (e.text, e.name)]
    return [text for text in texts if text]


def _touched(step: Step, reach: float = 0.0) -> list[Element]:
    """Elements that a pointed step touches: they hold the point, lie in the smallest one that does, or in its row
    (`reach` units more, where rows may have several lines)."""
    point = point_of(step)
    if point is None or step.screen is None:
        return []
    elements = [e for e in step.screen.elements if 0 < e.area <= CONTAINER_SHARE * 1e6]
    # Bare texts: their rows reach further than their boxes.
    if is_bare(elements):
        return [e for e in elements if e.holds(point, 2.0 + reach) or in_row(e, point)]
    holding = [e for e in elements if e.holds(point, 2.0)]
    chosen = min((e for e in holding if _can_be_chosen(e)), key=lambda e: e.area, default=None)
    if chosen is None:
        return holding
    # What lies within the element chosen belongs to it: the title and the price on a card.
    return holding + [e for e in elements if e not in holding and _lies_in(e, chosen)]


def _lies_in(inner: Element, outer: Element) -> bool:
    a, b = inner.box, outer.box
    return a[0] >= b[0] - 2 and a[1] >= b[1] - 2 and a[2] <= b[2] + 2 and a[3] <= b[3] + 2


def _instead(episode: Episode, alike: list[Element]) -> list[str]:
    """Labels touched, unnamed by the goal, that stand in a column or row with one of `alike`, the likest first."""
    chosen: dict[str, str] = {}
    for step in episode.actions:
        for element in _touched(step):
            label = element.label.strip()
            # What the goal names itself is no wrong choice, and digits stand everywhere.
            if not plain(label) or holds(episode.instruction, label) or plain(label).isdigit():
                continue
            if any(_of_a_kind(element, other) for other in alike):
                chosen.setdefault(plain(label), label)
    return list(chosen.values())


def _of_a_kind(one: Element, other: Element) -> bool:
    """Same role, about the same height, in one column or one row, and not the same place."""
    # Entries of a list look alike; a tenth in height allows for two-line ones.
    heights = (one.box[3] - one.box[1], other.box[3] - other.box[1])
    lined = abs(one.box[0] - other.box[0]) <= 4 or abs(one.box[1] - other.box[1]) <= 4
    return (
        one.role == other.role and lined and one.box != other.box and abs(heights[0] - heights[1]) <= 0.1 * max(heights)
    )


def left_unconfirmed(episode: Episode) -> Finding | None:
    """The last screen doesn't still offer, untouched, the button that carries out what the trace prepared.

    Only for traces that end with Finished, and in which nobody was asked: a user who was may have said no. Can't see:
    buttons in other languages, icons.
    """
    if not episode.actions or episode.actions[-1].row["action_type"] != "Finished" or episode.is_prefix:
        return None
    # The instruction grew by an answer, so the user was asked.
    if episode.actions[-1].row["instruction"] != episode.actions[0].row["instruction"]:
        return None  # it grew by an answer
    last, words = episode.actions[-1], plain(episode.instruction).split()
    if last.screen is None or len(episode.actions) < 2:
        return None
    before = episode.actions[-2]
    point = point_of(before)
    under = hit(before.screen.elements, point) if before.screen is not None and point is not None else None
    # The button was pressed, and its page just goes on offering it.
    if under is not None and _commit_word(under):
        return None
    acted = {plain(text) for text in acted_texts(episode)}
    for element in last.screen.elements:
        word = _commit_word(element) if _can_be_chosen(element) else None
        if word is None or plain(element.label) in acted:
            continue
        # The button's word must be the goal's ("send …"), or the trace filled in a form that such a button
        # ends.
        if word in words or (word in ALWAYS_COMMIT and _fills_in(episode)):
            reason = f"ends while {element.label[:40]!r} is still to be pressed"
            return Finding("left_unconfirmed", 5, reason, "reachability")
    return None


def _commit_word(element: Element) -> str | None:
    words = plain(element.label).split()
    return words[0] if 0 < len(words) <= 3 and words[0] in COMMIT else None


def _fills_in(episode: Episode) -> bool:
    return any(step.row["action_type"] == "Type" for step in episode.actions)
