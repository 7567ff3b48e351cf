"""Evidence about one step that needs no model. Each function looks at one thing and says what it found.

A function returns None if it can't see (no picture, no elements, not its action), `Finding(cap=10)` if what it looked
at speaks for the step, else a finding whose `cap` is the highest alignment the step can still have, with the reason
and, where the evidence proves it, the repair. Caps: 0–3 = the step is wrong, 4–6 = doubtful, see docs/method.md §3.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from statistics import median
from typing import Any

import numpy as np

from quality.evidence.words import entities, holds, named_elements, plain, similarity
from quality.items.item import Step
from quality.items.pixels import STATUS_BAR, spread_around
from quality.items.screens import Box, Element, Screen
from schemas.action_types import Drag, Scroll, Type, scroll_direction

CONTAINER_SHARE = 0.4
"""An element over more of the screen is a container: hitting it proves nothing."""
POINT_MARGIN = 6.0
LEAST_MOVE = 10.0
"""Units; a label that moves by less hasn't."""
BLANK_SPREAD = 2.0
"""Standard deviation of grey levels (0..255) below which a patch is blank."""
MUST_CHANGE = ("Click", "DoubleClick", "LongPress", "Scroll", "Launch", "PressBack", "PressHome", "PressRecent", "Type")
"""After these a person sees something else. Exempt: Wait, Hover, Hotkey, PressEnter, Drag, Finished, CallUser;
and of v2 TakeNote and GetUrl, which change nothing, RightClick, whose menu a browser draws outside of the page, and
SelectOption, whose option may be chosen already."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one piece of evidence says. `cap` 10 = it speaks for the item. `repair` is read by `reconstruct`."""

    kind: str
    cap: int
    reason: str
    axis: str = "alignment"
    repair: dict[str, Any] = field(default_factory=dict)


def skip_top(step: Step) -> float:
    """Share of the height to leave out of comparisons: a phone's status bar changes by itself."""
    return STATUS_BAR if step.platform == "mobile" else 0.0


def same_picture(one: Screen, two: Screen, top: float) -> bool:
    """Whether two screens look the same; a suspicion raised on small pictures is checked at full size."""
    if one.sha256 == two.sha256:
        return True
    if one.changed_share(two, top) > 0:
        return False
    large, other = one.grey_full(), two.grey_full()
    if large.shape != other.shape:
        return False
    rows = int(len(large) * top)
    difference = np.abs(large[rows:].astype(np.int16) - other[rows:])
    return int(np.count_nonzero(difference > 24)) < 3


def point_of(step: Step) -> tuple[int, int] | None:
    """The point of a pointed action, 0..1000."""
    return getattr(step.action, "box", None)


def hit(elements: list[Element], point: tuple[int, int], margin: float = 0.0) -> Element | None:
    """The smallest element, containers left out, that holds a point."""
    holding = [e for e in elements if e.holds(point, margin) and 0 < e.area <= CONTAINER_SHARE * 1e6]
    return min(holding, key=lambda e: e.area, default=None)


TEXT_ROLES = re.compile(
    r"^(android\.widget\.)?(textview|text|statictext|heading|label|image|imageview|icon|view|paragraph|ocr)?$", re.I
)
FIELD_REACH = 80.0
ROW_MARGIN = 25.0
"""On screens listed as bare texts, a point this far above or below a text still lies in its row."""


def is_bare(elements: Sequence[Element]) -> bool:
    """Whether a screen is listed as tight text and icon boxes only (OCR): rows and buttons around them are unknown."""
    return all(map(_is_text_role, {e.role for e in elements}))  # hundreds of elements have a few roles


@lru_cache(maxsize=4096)
def _is_text_role(role: str) -> bool:
    return TEXT_ROLES.match(role) is not None


def in_row(element: Element, point: Sequence[float]) -> bool:
    """Whether a point lies in the row of a tight text box."""
    return element.box[1] - ROW_MARGIN <= point[1] <= element.box[3] + ROW_MARGIN


def below(label: Element, point: Sequence[float]) -> bool:
    """Whether a point lies where a form has the field of a label: right below it."""
    return 0 <= point[1] - label.box[3] <= FIELD_REACH and point[0] >= label.box[0] - 20


def point_on_element(step: Step) -> Finding | None:
    """The point lies in a known element, not on blank ground.

    On screens listed as bare texts, blank ground within a text's row is no objection (rows are clickable). Can't see:
    an element that the source doesn't list (so a point on something drawn is only doubtful), and whether the element
    hit is the one meant.
    """
    point = point_of(step)
    if point is None or step.screen is None:
        return None
    elements = [e for e in step.screen.elements if 0 < e.area <= CONTAINER_SHARE * 1e6]
    found = hit(elements, point, POINT_MARGIN)
    if found is not None:
        return Finding("point_on_element", 10, f"the point lies in {_name(found)}")
    if elements and is_bare(elements) and any(in_row(e, point) for e in elements):
        return None
    if spread_around(step.screen.grey, point) < BLANK_SPREAD:
        known = bool(elements) and not is_bare(elements)
        if not known and (step.next is None or not same_picture(step.screen, step.next, skip_top(step))):
            return None  # rows and fields are blank in places; only a click without effect makes blank ground suspect
        cap = 2 if known else 4
        return Finding("blank_point", cap, f"the point {point} lies on blank ground", repair=_nearest(elements, point))
    if len(elements) < 3:
        return None
    return Finding("off_element", 5, f"the point {point} lies in no known element", repair=_nearest(elements, point))


def _nearest(elements: list[Element], point: tuple[int, int]) -> dict[str, Any]:
    return {"point": point} if elements else {}


def _name(element: Element) -> str:
    return f"{element.role or 'element'} {element.label[:40]!r}"


def named_element_hit(step: Step) -> Finding | None:
    """The step instruction names an element of the screen, and the point lies in it.

    Can't see: what is described and not named ("the second icon"), and elements without text. Where several
    elements have the name, a point in any of them counts.
    """
    point = point_of(step)
    if point is None or step.screen is None or not step.row["step_instruction"]:
        return None
    named = [e for e in named_elements(step.row["step_instruction"], step.screen.elements) if _is_place(e)]
    if not named:
        return None
    if any(e.holds(point, POINT_MARGIN) for e in named):
        return Finding("named_element_hit", 10, f"the point lies in {_name(named[0])}, which the step names")
    if is_bare(step.screen.elements) and any(in_row(e, point) or below(e, point) for e in named):
        return None
    under = hit(step.screen.elements, point)
    if under is not None and any(_inside(under.box, e.box) or _inside(e.box, under.box) for e in named):
        return Finding("named_element_hit", 9, f"the point lies beside {_name(named[0])} in the same element")
    if under is not None and under.label and holds(step.row["step_instruction"], under.label):
        return None
    reason = f"the step names {_name(named[0])}; {point} lies outside it"
    if under is not None and effect_beside_point(step) is not None:  # the point is what was done: the words are wrong
        return Finding("misses_named", 5, reason, repair={"called": named[0].label})
    repair = {"snap": list(named[0].box)} if len({e.box for e in named}) == 1 else {}
    return Finding("misses_named", 3, reason, repair=repair)


def _is_place(element: Element) -> bool:
    return 0 < element.area <= CONTAINER_SHARE * 1e6


def _inside(inner: Box, outer: Box) -> bool:
    return inner[0] >= outer[0] and inner[1] >= outer[1] and inner[2] <= outer[2] and inner[3] <= outer[3]


def point_in_target(step: Step) -> Finding | None:
    """The point lies in the step's own target box. Can't see: whether the box itself is right."""
    point, box = point_of(step), step.row["target_box"]
    if point is None or box is None:
        return None
    target = Element(tuple(box), "", "", "")
    if target.area <= 0:
        return Finding("empty_target", 5, f"the target box {_round(box)} has no area")
    if target.holds(point, POINT_MARGIN):
        return Finding("point_in_target", 9, "the point lies in its target box")
    return Finding(
        "outside_target", 3, f"the point {point} lies outside its target box {_round(box)}", repair={"snap": list(box)}
    )


def _round(box: Any) -> list[int]:
    return [round(value) for value in box]


def target_on_element(step: Step) -> Finding | None:
    """The target box is the box of some known element. Can't see: elements that the source doesn't list."""
    box = step.row["target_box"]
    if box is None or step.screen is None or len(step.screen.elements) < 3:
        return None
    best = max((overlap(tuple(box), e.box) for e in step.screen.elements), default=0.0)
    if best >= 0.5:
        return Finding("target_on_element", 9, "the target box is a known element's")
    return (
        None if best >= 0.2 else Finding("target_no_element", 5, f"no known element has the target box {_round(box)}")
    )


def overlap(one: Box, two: Box) -> float:
    """Intersection over union of two boxes."""
    width = min(one[2], two[2]) - max(one[0], two[0])
    height = min(one[3], two[3]) - max(one[1], two[1])
    if width <= 0 or height <= 0:
        return 0.0
    shared = width * height
    areas = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (one, two))
    return shared / (areas - shared)


def frame_changes(step: Step) -> Finding | None:
    """Something changes after an action that must have an effect.

    Can't see: effects out of the frame, an effect later than the next screenshot, and the cause of a change.
    """
    kind = step.row["action_type"]
    if kind not in MUST_CHANGE or step.screen is None or step.next is None:
        return None
    if isinstance(step.action, Type) and not step.action.content:
        return None
    if not same_picture(step.screen, step.next, skip_top(step)):
        return Finding("frame_changes", 9, "the frame changes after the action")
    # Typing into a hidden field or clicking the focused one leaves no trace: doubtful, not wrong.
    return Finding("no_effect", 6 if kind == "Type" else 5, f"nothing changes after {kind}", repair={"drop": True})


def labels_moved(one: Screen, two: Screen) -> float | None:
    """How far up the listed labels went from one screen to the other, in units (below 0: down); None unless most of
    those that moved, three at least, moved alike. Labels that a screen has twice aren't looked at."""
    before, after = _single_labels(one), _single_labels(two)
    moves = [before[label] - after[label] for label in before.keys() & after.keys()]
    moved = [move for move in moves if abs(move) > LEAST_MOVE]
    amount = median(moved) if moved else 0.0
    alike = sum(abs(move - amount) < LEAST_MOVE for move in moved)
    return amount if alike >= 3 and 2 * alike > len(moved) else None


def _single_labels(screen: Screen) -> dict[str, float]:
    """Labels that stand on a screen once → where their boxes begin, from the top."""
    labels = [(plain(e.label), e.box[1]) for e in screen.elements]
    times = Counter(label for label, _ in labels)
    return {label: top for label, top in labels if label and times[label] == 1}


def scroll_agrees(step: Step) -> Finding | None:
    """The scroll word agrees with the measured shift of the picture, or else of its labels.

    Can't see: repeating content, a shift beyond the view, two lists that move apart.
    """
    if not isinstance(step.action, Scroll) or step.screen is None or step.next is None:
        return None
    word = step.action.direction or scroll_direction(step.action.start or (0, 0), step.action.end or (0, 0))
    shift = step.screen.shift_to(step.next, skip_top(step))
    if shift is not None:
        direction, amount = shift.direction, shift.amount
    else:
        up = labels_moved(step.screen, step.next) if word in ("up", "down") else None
        if up is None:
            return None
        direction, amount = ("down" if up > 0 else "up"), abs(up)
    if direction == word:
        return Finding("scroll_agrees", 10, f"the view moves {word} by {amount:.0f}")
    reason = f"the step says {word}, the view moves {direction} by {amount:.0f}"
    return Finding("scroll_contradicts", 2, reason, repair={"flip": direction})


def effect_beside_point(step: Step) -> Finding | None:
    """A small change right after a click lies in the element that was clicked.

    Can't see anything when the change is large (a new page) or lies elsewhere by design (a message, a counter).
    """
    point = point_of(step)
    if point is None or step.row["action_type"] == "Hover" or step.screen is None or step.next is None:
        return None
    box = step.screen.changed_box(step.next, skip_top(step))
    if box is None or (box[2] - box[0]) * (box[3] - box[1]) > 60_000:
        return None
    if Element(box, "", "", "").holds(point, 15.0):
        return Finding("effect_at_point", 9, "what changes lies at the point")
    return None


def visible_text(screen: Screen) -> list[str]:
    """Texts and names of a screen's elements."""
    return [text for e in screen.elements for text in (e.text, e.name) if text]


def typed_text_shows(step: Step) -> Finding | None:
    """The text typed shows on the next screen (where the source lists texts).

    Can't see: passwords, fields whose content isn't listed among the elements.
    """
    if not isinstance(step.action, Type) or not plain(step.action.content):
        return None
    if step.screen is None or step.next is None or not step.next.elements:
        return None
    typed = step.action.content
    before = [plain(text) for text in visible_text(step.screen)]
    after = visible_text(step.next)
    if any(holds(text, typed) for text in after):
        if any(plain(typed) == text for text in before) and step.screen.sha256 != step.next.sha256:
            return Finding("typed_before", 6, "the text typed shows already before it is typed")
        return Finding("typed_text_shows", 10, "the text typed shows on the next screen")
    fresh = [text for text in after if plain(text) and plain(text) not in before]
    close = [text for text in fresh if _near(text, typed)]
    if len({plain(text) for text in close}) == 1:
        reason = f"{typed[:40]!r} is typed, the next screen shows {close[0][:40]!r}"
        return Finding("typed_differs", 3, reason, repair={"type": close[0]})
    return None


def _near(text: str, typed: str) -> bool:
    return len(plain(text)) > 2 and similarity(text, typed) >= 0.6


def typed_as_instructed(step: Step) -> Finding | None:
    """The step's own instruction quotes what is to be typed. Can't see: text that is only described."""
    if not isinstance(step.action, Type) or not step.row["step_instruction"]:
        return None
    typed = step.action.content
    if holds(step.row["step_instruction"], typed):
        return Finding("typed_as_told", 10, "the step instruction holds the text typed")
    quoted = [e for e in entities(step.row["step_instruction"]) if e.kind == "quoted"]
    if len(quoted) != 1 or not plain(typed):
        return None
    reason = f"the step says {quoted[0].text[:40]!r}, {typed[:40]!r} is typed"
    return Finding("typed_not_told", 4, reason, repair={"typed": typed, "told": quoted[0].text})


def screenshot_in_time(step: Step) -> Finding | None:
    """The action fits the screen it stands with better than the screens before and after it (off-by-one).

    Fit: the point lies in the element that the step names, else in a small element at all. Can't see: a shift
    between screens that look alike at the point, and steps that name nothing where both have an element there.
    """
    point = point_of(step)
    if point is None or step.screen is None or not step.screen.elements:
        return None
    here = _fit(step, step.screen, point)
    rivals = [
        (offset, _fit(step, other, point))
        for offset, other in ((-1, step.previous), (1, step.next))
        if other is not None and other.elements and other.sha256 != step.screen.sha256
    ]
    if here >= 1 or not rivals:
        return None
    offset, best = max(rivals, key=lambda rival: rival[1])
    if best < 2 and not (best == 1 and here == 0 and spread_around(step.screen.grey, point) < BLANK_SPREAD):
        return None
    word = "previous" if offset < 0 else "next"
    cap = 3 if best == 2 else 4
    repair = {"realign": offset} if best == 2 else {}
    return Finding("off_by_one", cap, f"the action fits the {word} screen, not its own", repair=repair)


def _fit(step: Step, screen: Screen, point: tuple[int, int]) -> int:
    """2 = in the element that the step names, 1 = in an element, 0 = in none."""
    stated, bare = step.row["step_instruction"], is_bare(screen.elements)
    if stated:
        named = [e for e in named_elements(stated, screen.elements) if _is_place(e)]
        if any(e.holds(point, POINT_MARGIN) or (bare and in_row(e, point)) for e in named):
            return 2
    return int(hit(screen.elements, point) is not None or (bare and any(in_row(e, point) for e in screen.elements)))


def path_on_screen(step: Step) -> Finding | None:
    """A drag starts on something drawn. Can't see: whether it ends where it should."""
    if not isinstance(step.action, Drag) or step.screen is None:
        return None
    start = step.action.start
    if spread_around(step.screen.grey, start) < BLANK_SPREAD and hit(step.screen.elements, start) is None:
        return Finding("blank_point", 4, f"the drag starts on blank ground at {start}")
    return Finding("path_on_screen", 8, "the drag starts on something")


STEP_EVIDENCE: dict[str, Callable[[Step], Finding | None]] = {
    "point_on_element": point_on_element,
    "named_element_hit": named_element_hit,
    "point_in_target": point_in_target,
    "target_on_element": target_on_element,
    "frame_changes": frame_changes,
    "scroll_agrees": scroll_agrees,
    "effect_beside_point": effect_beside_point,
    "typed_text_shows": typed_text_shows,
    "typed_as_told": typed_as_instructed,
    "screenshot_in_time": screenshot_in_time,
    "path_on_screen": path_on_screen,
}
"""All evidence about a step by name; `evidence_episode` adds what only the whole episode shows."""
