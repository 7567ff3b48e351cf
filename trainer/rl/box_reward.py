"""Rewards of a grounding reply that is a box `[x1,y1,x2,y2]`, and weights for harder questions (GUI-G1).

Rewarded for its centre alone, a policy shrinks its boxes; rewarded for the overlap alone, it inflates them: either can
be had by size instead of by looking. `size_agreement` takes that way from both: it punishes the predicted area for
leaving the true one, in ratio, so half and double cost the same. The centre's hit is `rewards.r_point`, which reads a
box as its centre. All boxes are l, t, r, b in the 0..1000 frame.
"""

import re
from collections.abc import Sequence

from schemas.coordinates import UNITS, centre, contains
from trainer.rl.reply_forms import WHOLE_SCREEN, Size, profile_box
from trainer.settings.rewards import ReplyProfile

Box = Sequence[float]

BOX = re.compile(r"\s*\[\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*\]\s*", re.ASCII)


def box_of(
    text: str, profile: ReplyProfile = "vesper", size_px: Size = WHOLE_SCREEN
) -> tuple[float, float, float, float] | None:
    """The box that a reply states; None where it states none, its sides are swapped or it leaves the frame."""
    if profile != "vesper":
        return profile_box(text, profile, size_px)
    found = BOX.fullmatch(text)
    if found is None:
        return None
    l, t, r, b = (float(side) for side in found.groups())
    return (l, t, r, b) if l <= r <= UNITS and t <= b <= UNITS else None


def area(box: Box) -> float:
    """Area of a box, at least one unit, so that ratios stay finite."""
    return max(1.0, (box[2] - box[0]) * (box[3] - box[1]))


def floored_iou(one: Box, other: Box) -> float:
    """Intersection over union, 0..1, with areas of at least one unit (`area`)."""
    sides = [min(one[i + 2], other[i + 2]) - max(one[i], other[i]) for i in (0, 1)]
    # a box without width or height overlaps nothing, not even itself: equal ones still agree
    if min(sides) <= 0:
        return float(list(one) == list(other))
    shared = sides[0] * sides[1]
    return min(1.0, shared / (area(one) + area(other) - min(shared, area(one), area(other))))


def best_iou(text: str, boxes: Sequence[Box], profile: ReplyProfile = "vesper", size_px: Size = WHOLE_SCREEN) -> float:
    """The largest `floored_iou` of the stated box with a true one; 0 without a box on either side."""
    found = box_of(text, profile, size_px)
    return max((floored_iou(found, box) for box in boxes), default=0.0) if found else 0.0


def size_agreement(
    text: str, boxes: Sequence[Box], profile: ReplyProfile = "vesper", size_px: Size = WHOLE_SCREEN
) -> float:
    """The punishment for size, −1..0: min(q, 1/q) − 1 for q = predicted / true area, −1 without a readable box.

    Of several true boxes those that hold the centre are meant, else all; the best one counts. Without a true box
    (a refusal) there is no size to keep: 0.
    """
    if not boxes:
        return 0.0
    found = box_of(text, profile, size_px)
    if found is None:
        return -1.0
    # r_point judges the centre, so the size is held to the element that the centre hit
    meant = [box for box in boxes if contains(list(box), centre(found))] or boxes
    ratios = [area(found) / area(box) for box in meant]
    return max(min(ratio, 1.0 / ratio) for ratio in ratios) - 1.0


def difficulty_weights(boxes: Sequence[Sequence[Box]], power: float) -> list[float]:
    """True boxes of each question → how much its advantages count: share of the screen ^ −power, 1 on average.

    A smaller target is harder to hit, and easy questions else take most of the update. A question without a box (a
    refusal) gets 1, and so does all at power 0. Raises `ValueError` for a negative power.
    """
    if power < 0:
        raise ValueError(f"difficulty: expected a power >= 0, found {power}")
    raw = [max(area(box) for box in some) ** -power for some in boxes if some]
    # divided by the mean, so that a power changes who counts, not how large the update is
    mean = sum(raw) / max(1, len(raw))
    scaled = iter(raw)
    return [next(scaled) / mean if some else 1.0 for some in boxes]
