"""Features of an action and a screen that follows it: what changed, where, how the view moved, which texts came."""

from __future__ import annotations

import math

import numpy as np

from quality.evidence.effects import headings, shared_labels
from quality.evidence.order import fit
from quality.evidence.steps import hit, overlap, point_of, skip_top
from quality.evidence.words import plain
from quality.items.item import Step
from quality.items.pixels import changed_box, changed_share
from quality.items.screens import Element, Screen
from schemas.action_types import Launch, Scroll, Type, scroll_direction

Features = dict[str, float]
KINDS = ("Click", "Type", "Scroll", "Wait", "Launch", "PressBack", "PressEnter", "Drag", "Hotkey", "Finished")
NAN = math.nan
STAYS, SMALL, REDRAWN = 0.6, 0.1e6, 0.005
"""A page stays if it keeps this share of its labels; a small element is of at most this area; it was generated again if
this share of its pixels differ."""


def names(text: str) -> tuple[str, ...]:
    """Names of features, parted by blanks."""
    return tuple(text.split())


def action_features(step: Step) -> Features:
    """Which action it is."""
    kind = str(step.row["action_type"])
    return {f"is_{name}": float(kind == name) for name in KINDS}


def transition_features(step: Step, after: Screen | None) -> Features:
    """How `after` follows the action of a step; NaN where nothing can be said (no picture, no elements)."""
    found = dict.fromkeys(_NAMES, NAN) | action_features(step)
    before = step.screen
    if before is None or after is None:
        return found
    top = skip_top(step)
    share = changed_share(before.grey, after.grey, top)
    # Shares lie between a pixel and all of it, so by their logarithm.
    found |= {"same_picture": float(before.sha256 == after.sha256), "changed": math.log10(share + 1e-4)}
    found["fit"] = fit(step, after)
    found |= _where(step, before, after, top) | _moved(step, before, after, top) | _texts(step, before, after)
    return found | _elsewhere(step, before, after, top)


def _where(step: Step, before: Screen, after: Screen, top: float) -> Features:
    """Where it changes, against the point and the element under it."""
    box = changed_box(before.grey, after.grey, top)
    if box is None:
        return {"changed_area": 0.0}
    found = {"changed_area": math.log10((box[2] - box[0]) * (box[3] - box[1]) / 1e6 + 1e-4)}
    point = point_of(step)
    if point is None:
        return found
    # How far the change is from the point; 0 inside.
    dx = max(box[0] - point[0], 0.0, point[0] - box[2])
    dy = max(box[1] - point[1], 0.0, point[1] - box[3])
    found["change_gap"] = math.log10(math.hypot(dx, dy) + 1.0)
    found["changed_at_point"] = _local_change(before, after, point)
    under = hit(before.elements, point)
    if under is not None:
        found["change_in_element"] = overlap(under.box, box)
    return found


def _local_change(before: Screen, after: Screen, point: tuple[int, int]) -> float:
    """Share of pixels that differ within ±30 units of the point."""
    # Of another size the pictures can't be compared, and everything changed.
    one, two = before.grey, after.grey
    if one.shape != two.shape:
        return 1.0
    height, width = one.shape
    left, right = int(max(point[0] - 30, 0) * width / 1000), int(min(point[0] + 30, 1000) * width / 1000) + 1
    top, bottom = int(max(point[1] - 30, 0) * height / 1000), int(min(point[1] + 30, 1000) * height / 1000) + 1
    difference = np.abs(one[top:bottom, left:right].astype(np.int16) - two[top:bottom, left:right])
    return float((difference > 16).mean()) if difference.size else 0.0


def _moved(step: Step, before: Screen, after: Screen, top: float) -> Features:
    """How the view moved, against what the action says."""
    shift = before.shift_to(after, top)
    found = {"moved": 0.0 if shift is None else shift.amount / 1000, "moves": float(shift is not None)}
    if isinstance(step.action, Scroll):
        action = step.action
        word = action.direction or scroll_direction(action.start or (0, 0), action.end or (0, 0))
        # 1 as the action says, -1 against it, 0 where nothing moved.
        found["moved_as_told"] = 0.0 if shift is None else 1.0 if shift.direction == word else -1.0
    return found


def _texts(step: Step, before: Screen, after: Screen) -> Features:
    """Which labels stay, come and go, and whether those that come have to do with the action."""
    if not before.elements or not after.elements:
        return {}
    found: Features = {}
    retained = shared_labels(before, after)
    found["labels_kept"] = NAN if retained is None else retained
    old, new = _labels(before), _labels(after)
    fresh, gone = new - old, old - new
    found["labels_new"] = math.log1p(len(fresh))
    found["labels_gone"] = math.log1p(len(gone))
    tops = headings(after, before)
    found["headings_new"] = float(len(tops))
    acted = _acted_text(step, before)
    if acted:
        # What comes up should have to do with what was clicked.
        words = set(acted.split())
        found["acted_in_headings"] = max((_share(set(top.split()), words) for top in tops), default=0.0)
        found["acted_in_new"] = max((_share(words, set(text.split())) for text in fresh), default=0.0)
        found["acted_still_there"] = float(any(words <= set(text.split()) for text in new))
    # A heading that names another element: the click went there.
    others = {plain(e.label) for e in before.elements if plain(e.label) and plain(e.label) != acted}
    found["headings_of_others"] = float(any(top in others for top in tops))
    point = point_of(step)
    if point is not None:
        under = hit(before.elements, point)
        found["element_stays"] = float(under is not None and any(_same_place(under, e) for e in after.elements))
    return found


def _elsewhere(step: Step, before: Screen, after: Screen, top: float) -> Features:
    """On a page that stays, what changed that the action doesn't touch: elements generated again, and texts written."""
    # Where the view moved, every place changed.
    if before.grey.shape != after.grey.shape or before.shift_to(after, top) is not None:
        return {}
    retained = shared_labels(before, after)
    if retained is None or retained < STAYS:
        return {}
    point, acted = point_of(step), _acted_text(step, before)
    # Small ones, and not what was acted on: their change needs another cause.
    small = [e for e in before.elements if 0 < e.area <= SMALL and not (point and e.holds(point, 6.0))]
    difference = np.abs(before.grey.astype(np.int16) - after.grey) > 16
    drawn = sum(_share_in(difference, e.box) > REDRAWN for e in small)
    now = {_place(e): plain(e.label) for e in after.elements}
    written = [now[_place(e)] for e in small if now.get(_place(e), plain(e.label)) != plain(e.label)]
    # What was typed may show in several places.
    strange = [text for text in written if not (acted and acted in text)]
    return {"changed_elsewhere": math.log1p(drawn), "rewritten_elsewhere": math.log1p(len(strange))}


def _share_in(mask: np.ndarray, box: tuple[float, float, float, float]) -> float:
    height, width = mask.shape
    left, right = int(box[0] * width / 1000), int(math.ceil(box[2] * width / 1000))
    top, bottom = int(box[1] * height / 1000), int(math.ceil(box[3] * height / 1000))
    inside = mask[top:bottom, left:right]
    return float(inside.mean()) if inside.size else 0.0


def _place(element: Element) -> tuple[str, int, int]:
    """Where an element stands, whatever is written in it (its right and lower sides may move with that)."""
    return element.role, round(element.box[0] / 4), round(element.box[1] / 4)


def _labels(screen: Screen) -> set[str]:
    return {text for e in screen.elements for text in (plain(e.name), plain(e.text)) if text}


def _acted_text(step: Step, before: Screen) -> str:
    """What the action is about in words: the label under the point, the text typed, the app opened."""
    action = step.action
    if isinstance(action, Type):
        return plain(action.content)
    if isinstance(action, Launch):
        return plain(action.app or action.url)
    point = point_of(step)
    under = hit(before.elements, point) if point is not None else None
    return plain(under.label) if under is not None else ""


def _share(part: set[str], whole: set[str]) -> float:
    return len(part & whole) / len(part) if part else 0.0


def _same_place(one: Element, two: Element) -> bool:
    return plain(one.label) == plain(two.label) and max(abs(a - b) for a, b in zip(one.box, two.box, strict=True)) < 12


def rival_features(follows: float, rivals: list[float]) -> Features:
    """How the recorded next screen does against the episode's other screens, by the transition head's logits."""
    best = max(rivals, default=NAN)
    return {"follows": follows, "rival": best, "follows_less_rival": follows - best if rivals else NAN}


_NAMES = names(
    "same_picture changed fit changed_area change_gap changed_at_point change_in_element moved moves "
    "moved_as_told labels_kept labels_new labels_gone headings_new acted_in_headings acted_in_new "
    "acted_still_there headings_of_others element_stays changed_elsewhere rewritten_elsewhere"
)
TRANSITION = (*_NAMES, *(f"is_{name}" for name in KINDS))
"""The features of a transition, in order."""
