"""Features of one step: its words against the element under the point, its box against the drawing, its effect."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from quality.evidence.steps import CONTAINER_SHARE, Finding, hit, overlap, point_of, skip_top, spread_around
from quality.evidence.words import holds, named_elements, plain
from quality.items.item import Step
from quality.items.pixels import changed_box, cut_sides, spread_in
from quality.items.screens import Element
from quality.judges.nano.transition import NAN, TRANSITION, Features, names, transition_features
from schemas.action_types import Type

Cosine = Callable[[str, str], float]
RULES = names(
    "point_on_element misses_named outside_target target_no_element no_effect scroll_contradicts "
    "typed_before typed_differs typed_not_told off_by_one blank_point repeated loop misses_goal "
    "other_than_goal leads_to_other effect_elsewhere moved_without_scroll scroll_elsewhere"
)
"""Kinds of objection of the rules judge that are features of their own."""


def step_features(
    step: Step,
    goal: str,
    findings: Sequence[Finding],
    place: tuple[int, int],
    cosine: Cosine,
    before: Step | None = None,
) -> Features:
    """All features of a step. `place` = (position, number of steps); `cosine` of two texts' sentence embeddings;
    `before` = the action before it that isn't Wait."""
    # All features exist, so that each row has the same columns.
    found = dict.fromkeys(STEP, NAN) | transition_features(step, step.next)
    found |= {"position": place[0] / max(place[1] - 1, 1), "steps": math.log(place[1])}
    found |= rule_features(findings, RULES)
    elements = step.screen.elements if step.screen is not None else []
    found["has_tree"] = float(bool(elements))
    found |= _point(step, elements, goal, cosine) | _words(step, elements, cosine) | _target(step, elements)
    if isinstance(step.action, Type):
        typed = step.action.content
        found["typed_in_goal"] = float(holds(goal, typed))
        found["typed_told"] = _holds(step.row["step_instruction"], typed)
        found["typed_near_goal"] = cosine(typed, goal)
        found |= _typed_where(step, before)
    return found


def _typed_where(step: Step, before: Step | None) -> Features:
    """Whether a field was chosen right before, and how far from it the text appears (log10 of units + 1)."""
    point, found = point_of(before) if before is not None else None, _shown(step)
    # Nobody chose a field: the text may have gone anywhere.
    found["typed_unchosen"] = float(point is None)
    if point is None or step.screen is None or step.next is None:
        return found
    box = changed_box(step.screen.grey, step.next.grey, skip_top(step))
    if box is not None:
        field = hit(step.screen.elements, point)
        left, top, right, bottom = field.box if field is not None else (*point, *point)
        # 0 where the text appears inside the field.
        gap = math.hypot(max(box[0] - right, 0.0, left - box[2]), max(box[1] - bottom, 0.0, top - box[3]))
        found["typed_gap"] = math.log10(gap + 1.0)
    return found


def rule_features(findings: Sequence[Finding], kinds: Sequence[str]) -> Features:
    """Lowest cap, confirmations, and each kind of objection as a feature. A late screen is none: the bench holds all
    of them out, so what is seen of the finding are sound steps after an action in vain."""
    against = [finding for finding in findings if finding.cap < 8 and finding.kind != "late_screen"]
    found = {f"rule_{kind}": 0.0 for kind in kinds}
    for finding in against:
        if f"rule_{finding.kind}" in found:
            found[f"rule_{finding.kind}"] = (8 - finding.cap) / 8
    found["rule_cap"] = min((finding.cap for finding in against), default=8) / 8
    found["rule_confirms"] = float(min(sum(finding.cap >= 9 for finding in findings), 4))
    return found


def _holds(text: str | None, part: str) -> float:
    return float(holds(text, part)) if text else NAN


def _point(step: Step, elements: list[Element], goal: str, cosine: Cosine) -> Features:
    """What lies under the point."""
    point = point_of(step)
    if point is None or step.screen is None:
        return {}
    found = {"spread_at_point": math.log1p(spread_around(step.screen.grey, point))}
    if not elements:
        return found
    under = hit(elements, point)
    found["on_element"] = float(under is not None)
    # Without an element under the point there are no words to compare.
    if under is None:
        return found
    label = plain(under.label)
    found |= {"label_size": math.log1p(len(label)), "area": math.log10(under.area / 1e6 + 1e-6)}
    found["centred_x"] = abs(point[0] - (under.box[0] + under.box[2]) / 2) / max(under.box[2] - under.box[0], 1)
    found["centred_y"] = abs(point[1] - (under.box[1] + under.box[3]) / 2) / max(under.box[3] - under.box[1], 1)
    # Containers hold everything, so they name nothing.
    named = [e for e in named_elements(goal, elements, minimum=3) if e.area <= CONTAINER_SHARE * 1e6]
    found["goal_names_other"] = float(bool(named) and not any(e.holds(point, 6.0) for e in named))
    if label:
        words, stated = set(label.split()), set(plain(goal).split())
        found["label_in_goal"] = len(words & stated) / len(words)
        found["label_near_goal"] = cosine(under.label, goal)
        # Whether another element fits the goal better.
        rivals = [plain(e.label) for e in elements if e is not under and 0 < e.area <= 0.2e6 and plain(e.label)]
        in_goal = [len(set(text.split()) & stated) / len(set(text.split())) for text in rivals]
        found["rival_in_goal"] = max(in_goal, default=0.0)
    return found


def _words(step: Step, elements: list[Element], cosine: Cosine) -> Features:
    """The step's instruction and thought against the element under the point."""
    found: Features = {}
    point = point_of(step)
    under = hit(elements, point) if point is not None and elements else None
    for name, text in (("told", step.row["step_instruction"]), ("thought", step.row["thought"])):
        found[f"{name}_there"] = float(bool(text))
        if not text:
            continue
        if under is not None and plain(under.label):
            found[f"{name}_names_it"] = float(holds(text, under.label))
            found[f"{name}_near_it"] = cosine(text, under.label)
        if point is not None and elements:
            named = [e for e in named_elements(text, elements, minimum=2) if e.area <= CONTAINER_SHARE * 1e6]
            found[f"{name}_names_other"] = float(bool(named) and not any(e.holds(point, 6.0) for e in named))
    return found


def _target(step: Step, elements: list[Element]) -> Features:
    """The target box against the elements and against what is drawn."""
    box = step.row["target_box"]
    if box is None or step.screen is None:
        return {"has_target": 0.0}
    target = tuple(box)
    found = {"has_target": 1.0, "target_spread": math.log1p(spread_in(step.screen.grey, target))}
    # A box whose edges run through what is drawn was made for something else.
    found["target_cut"] = float(cut_sides(step.screen.grey_full(), target, 0.05))
    if elements:
        found["target_iou"] = max((overlap(target, e.box) for e in elements), default=0.0)
    return found


def _shown(step: Step) -> Features:
    """Whether the text typed stands on the next screen where it didn't stand before."""
    if not isinstance(step.action, Type) or step.screen is None or step.next is None or not step.next.elements:
        return {}
    # Counted, as the text may have stood there before.
    times = [
        sum(holds(e.label, step.action.content) or holds(e.text, step.action.content) for e in screen.elements)
        for screen in (step.screen, step.next)
    ]
    return {"typed_shown": float(times[1] > times[0])}


STEP = (
    *TRANSITION,
    *names("position steps"),
    *(f"rule_{kind}" for kind in RULES),
    *names(
        "rule_cap rule_confirms has_tree spread_at_point on_element label_size area centred_x centred_y "
        "goal_names_other label_in_goal label_near_goal rival_in_goal told_there told_names_it told_near_it "
        "told_names_other thought_there thought_names_it thought_near_it thought_names_other has_target "
        "target_spread target_cut target_iou typed_in_goal typed_told typed_near_goal typed_unchosen "
        "typed_gap typed_shown follows rival follows_less_rival before_follows"
    ),
)
"""The features of a step, in order; the last four come from the transition head."""
