"""Evidence from what an action leads to: the next screen belongs to another element, or to another kind of action.

Each function looks at one step and its next screen (see `evidence` for what a `Finding` is). Nothing here knows what a
page means: it compares headings with labels, and where pixels change with where the point is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from quality.evidence.steps import CONTAINER_SHARE, POINT_MARGIN, Finding, hit, is_bare, overlap, point_of, skip_top
from quality.evidence.words import plain
from quality.items.item import Step
from quality.items.screens import Element, Screen
from schemas.action_types import Scroll

HEADING_FROM, HEADING_TO = 0.0, 180.0
"""Where a screen's heading stands, in units from the top."""
LEAST_SCROLL = 120.0
"""Units; a bar that appears or goes moves the page by less."""
LEAST_AGREEING, MOVE_MARGIN = 0.4, 25.0
"""Share of the labels that must move with a scroll, and units by which theirs may differ from its."""
LARGE_CHANGE = 0.06
"""Share of the picture that changes when another page opens."""
TITLE = re.compile(r"^(heading|h[1-6]|title|text|statictext|label|(android\.widget\.)?textview)$", re.I)
"""Roles of what is read, not pressed."""
READ = re.compile(TITLE.pattern[:-2] + r"|textbox|input|(android\.widget\.)?edittext)$", re.I)
"""Roles that open no page of their own name."""
LEAVING = re.compile(
    r"(go )?back|close|cancel|up|return|done|ok|yes|no|save|send|submit|apply|confirm|delete|remove|call|buy|pay|order|"
    r"continue|next|search|go|log ?in|sign ?in|add\b|home"
)
"""First words of what leads elsewhere than to a page of its own name: back, and what carries something out."""
STATEFUL = re.compile(r"checkbox|switch|radio|toggle|tick|star", re.I)
CLICKS = ("Click", "DoubleClick", "LongPress")
STILL = ("Type", "Hotkey", "PressEnter", *CLICKS)


def headings(screen: Screen, before: Screen) -> list[str]:
    """Texts that stand at the top of a screen and didn't stand there before, in plain words."""
    # A heading that stood there before (within 40 units of height) is the frame's, and names no new page.
    old = {(plain(e.text or e.name), round(e.box[1] / 40)) for e in before.elements if TITLE.match(e.role)}
    found = []
    for element in screen.elements:
        text = plain(element.text or element.name)
        if not text or element.area > CONTAINER_SHARE * 1e6 or not HEADING_FROM <= element.box[1] <= HEADING_TO:
            continue
        if len(text) > 2 and TITLE.match(element.role) and (text, round(element.box[1] / 40)) not in old:
            found.append(text)
    return found


def _says(element: Element, heading: str) -> bool:
    """Whether a heading's words all stand in an element's label."""
    words = set(plain(f"{element.name} {element.text}").split())
    return bool(words) and set(heading.split()) <= words


def leads_to_other(step: Step) -> Finding | None:
    """The page that opens is named by the element that was clicked, not by another one of the screen.

    Can't see: pages whose heading is no label of the screen before, and elements without text.
    """
    point = point_of(step)
    if point is None or step.row["action_type"] not in CLICKS or step.screen is None or step.next is None:
        return None
    # On bare texts nobody knows what can be clicked; an unchanged screen shows no effect at all.
    if not step.screen.elements or is_bare(step.screen.elements) or step.screen.sha256 == step.next.sha256:
        return None
    # Less than a page: a menu or a message may bear any other element's name.
    if step.screen.changed_share(step.next, skip_top(step)) < LARGE_CHANGE:
        return None
    tops = headings(step.next, step.screen)
    under = hit(step.screen.elements, point)
    # "Back", "Save" and their like lead to pages of other names by design.
    if under is not None and LEAVING.match(plain(under.label)):
        return None
    clicked = [e for e in step.screen.elements if e.holds(point, POINT_MARGIN) and e.area <= CONTAINER_SHARE * 1e6]
    # What speaks for the click goes first: several elements may share a heading's words.
    if any(_says(element, top) for top in tops for element in clicked):
        return Finding("leads_there", 9, "the page that opens is named by the element clicked")
    for top in tops:
        named = [e for e in step.screen.elements if e.area <= 0.25e6 and not READ.match(e.role) and _says(e, top)]
        # A name on three and more elements is a word of the page, not the name of one of them.
        places = {e.box for e in named}
        if named and len(places) <= 2:
            repair = {"snap": list(named[0].box)} if len(places) == 1 else {}
            what = under.label[:40] if under is not None else "nothing"
            reason = f"{top[:40]!r} opens, which is another element's name; the point lies in {what!r}"
            return Finding("leads_to_other", 3, reason, repair=repair)
    return None


def effect_elsewhere(step: Step) -> Finding | None:
    """What changes in place isn't another switch, box or field while the clicked one stays as it was.

    Can't see: one element that sets another by design (a radio group's old choice is left out).
    """
    point = point_of(step)
    if point is None or step.row["action_type"] not in CLICKS or step.screen is None or step.next is None:
        return None
    elements = step.screen.elements
    stateful = [e for e in elements if _is_stateful(e.role)]
    box = step.screen.changed_box(step.next, skip_top(step)) if stateful else None
    if box is None or (box[2] - box[0]) * (box[3] - box[1]) > 40_000 or Element(box, "", "", "").holds(point, 12.0):
        # A large change is a new page; one at the point is the click's own effect.
        return None
    under = hit(elements, point)
    changed = [e for e in stateful if overlap(e.box, box) > 0.3]
    # A change that reaches into the element clicked may be its own.
    if under is not None and overlap(under.box, box) > 0:
        return None
    if len(changed) == 1:
        reason = f"{changed[0].label[:40]!r} changes, the point {point} lies elsewhere"
        return Finding("effect_elsewhere", 4, reason, repair={"snap": list(changed[0].box)})
    return None


@lru_cache(maxsize=4096)
def _is_stateful(role: str) -> bool:
    return STATEFUL.search(role) is not None


def moved_without_scroll(step: Step) -> Finding | None:
    """The view doesn't scroll by itself. Can't see: pages that scroll to what was clicked or typed (they do move)."""
    if step.row["action_type"] not in STILL or step.screen is None or step.next is None:
        return None
    # Labels first, as they are read already and comparing pictures costs much.
    if _labels_stay(step.screen, step.next):
        return None
    shift = step.screen.shift_to(step.next, skip_top(step))
    # Carousels move sideways by themselves, and low correlation is a page that changed.
    if shift is None or shift.direction in ("left", "right") or shift.amount < LEAST_SCROLL or shift.correlation < 0.9:
        return None
    # Labels that stay contradict a scroll that the pictures suggest, as repeating content does.
    agree = _labels_agree(step.screen, step.next, shift.amount if shift.direction == "down" else -shift.amount)
    if agree is not None and agree < LEAST_AGREEING:
        return None
    kind = step.row["action_type"]
    reason = f"the view scrolls {shift.direction} by {shift.amount:.0f} after {kind}"
    return Finding("moved_without_scroll", 4 if agree is not None else 5, reason)


def _label_moves(one: Screen, two: Screen) -> list[float]:
    """How far up, in units, the labels moved that both screens have; none with fewer than three of them."""
    before = {plain(e.label): e.box[1] for e in one.elements if plain(e.label)}
    after = {plain(e.label): e.box[1] for e in two.elements if plain(e.label)}
    moves = [before[name] - after[name] for name in before if name in after]
    return moves if len(moves) >= 3 else []


def _labels_agree(one: Screen, two: Screen, moved: float) -> float | None:
    """Share of the labels both screens have that moved up by `moved` units; None with fewer than three of them."""
    moves = _label_moves(one, two)
    return sum(abs(move - moved) < MOVE_MARGIN for move in moves) / len(moves) if moves else None


def _labels_stay(one: Screen, two: Screen) -> bool:
    """Whether the labels agree with no scroll, however far: then the pictures needn't be compared, which costs much."""
    moves = _label_moves(one, two)
    far = sum(abs(move) > LEAST_SCROLL - MOVE_MARGIN for move in moves)
    return bool(moves) and far / len(moves) < LEAST_AGREEING


def scroll_elsewhere(step: Step) -> Finding | None:
    """After a scroll the same page shows: some of what it showed, or at least the same fixed parts.

    Can't see: a scroll so far that nothing remains on a page without fixed parts.
    """
    if not isinstance(step.action, Scroll) or step.screen is None or step.next is None:
        return None
    share = step.screen.changed_share(step.next, skip_top(step))
    # If the view moved, it moved on the same page: `scroll_agrees` looks at the direction.
    if share < LARGE_CHANGE or step.screen.shift_to(step.next, skip_top(step)) is not None:
        return None
    retained = shared_labels(step.screen, step.next)
    if retained is not None and retained < 0.2:
        return Finding("scroll_elsewhere", 4, "after the scroll another page shows")
    # The strip with the heading stays when a page scrolls, and goes when another page opens.
    same_top = _same_top(step.screen, step.next, skip_top(step))
    if retained is None and share > 0.35 and not same_top:
        return Finding("scroll_elsewhere", 5, "after the scroll another page shows")
    return None


def shared_labels(one: Screen, two: Screen) -> float | None:
    """Share of the smaller screen's labels that the other shows too; None where either lists fewer than three."""
    before = {plain(e.label) for e in one.elements if plain(e.label)}
    after = {plain(e.label) for e in two.elements if plain(e.label)}
    if min(len(before), len(after)) < 3:
        return None
    return len(before & after) / min(len(before), len(after))


def _same_top(one: Screen, two: Screen, skip: float) -> bool:
    """Whether the strip below the status bar, where headings stand, looks the same."""
    if one.grey.shape != two.grey.shape:
        return False
    rows = len(one.grey)
    # Two rows at least, for small pictures.
    strip = slice(int(rows * skip), max(int(rows * (skip + 0.06)), int(rows * skip) + 2))
    # Signed: the difference of two uint8 would wrap around.
    difference = np.abs(one.grey[strip].astype(np.int16) - two.grey[strip])
    return float((difference > 24).mean()) < 0.02


EFFECT_EVIDENCE: dict[str, Callable[[Step], Finding | None]] = {
    "leads_to_other": leads_to_other,
    "effect_elsewhere": effect_elsewhere,
    "moved_without_scroll": moved_without_scroll,
    "scroll_elsewhere": scroll_elsewhere,
}
