"""Features of a grounding sample: its box against elements, drawing and the boxes of its neighbours."""

from __future__ import annotations

import math
from collections.abc import Sequence

from quality.evidence.samples import boxes_of, expression_of
from quality.evidence.steps import Finding, overlap
from quality.evidence.words import named_elements, plain
from quality.items.item import Sample
from quality.items.pixels import cut_sides, spread_in
from quality.judges.nano.step import Cosine, rule_features
from quality.judges.nano.transition import NAN, Features, names

RULES = names(
    "answer_outside answer_elsewhere blank_box box_cuts box_misses_named box_no_element boxes_moved huge_box thin_box"
)


def sample_features(sample: Sample, findings: Sequence[Finding], cosine: Cosine) -> Features:
    """All features of a sample; NaN where it has no box or no picture."""
    found = dict.fromkeys(SAMPLE, NAN) | rule_features(findings, RULES)
    boxes = boxes_of(sample)
    expression = expression_of(sample)
    screen = sample.screen
    found["boxes"] = float(len(boxes))
    if screen is None or not boxes:
        return found
    box, elements = boxes[0], screen.elements
    grey = screen.grey_full()
    found |= {"has_tree": float(bool(elements)), "area": math.log10(_area(box) / 1e6 + 1e-6)}
    found |= {"spread": math.log1p(spread_in(screen.grey, box)), "cut": float(cut_sides(grey, box, 0.05))}
    found["cut_more"] = float(cut_sides(grey, box, 0.15))
    cuts = [float(cut_sides(grey, tuple(other), 0.05)) for row in sample.siblings for other in row["target_boxes"][:1]]
    found["cut_of_neighbours"] = sum(cuts) / len(cuts) if cuts else NAN
    blank = [spread_in(screen.grey, tuple(other)) < 3 for row in sample.siblings for other in row["target_boxes"][:1]]
    found["blank_of_neighbours"] = sum(blank) / len(blank) if blank else NAN
    if not elements:
        return found
    overlaps = sorted((overlap(box, e.box), plain(e.label)) for e in elements)
    found["iou"] = overlaps[-1][0] if overlaps else 0.0
    around = [
        max((overlap(tuple(other), e.box) for e in elements), default=0.0)
        for row in sample.siblings
        for other in row["target_boxes"][:1]
    ]
    found["iou_of_neighbours"] = sum(around) / len(around) if around else NAN
    label = overlaps[-1][1] if overlaps and overlaps[-1][0] > 0.1 else ""
    if label:
        words = set(plain(expression).split())
        found["label_told"] = len(set(label.split()) & words) / len(set(label.split()))
        found["label_near"] = cosine(expression, label)
    named = named_elements(expression, elements)
    centre = ((box[0] + box[2]) / 2, (box[1] + box[3]) / 2)
    found["names_other"] = float(bool(named) and not any(e.holds(centre, 4.0) for e in named))
    return found


def _area(box: Sequence[float]) -> float:
    return max(box[2] - box[0], 0.0) * max(box[3] - box[1], 0.0)


SAMPLE = (
    *(f"rule_{kind}" for kind in RULES),
    *names(
        "rule_cap rule_confirms boxes has_tree area spread cut cut_more cut_of_neighbours blank_of_neighbours "
        "iou iou_of_neighbours label_told label_near names_other"
    ),
)
"""The features of a sample, in order."""
