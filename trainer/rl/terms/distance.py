"""A reward that falls smoothly with the distance from the target (after MagicGUI's spatial reward).

A hit in the box is all or nothing: where every reply of a group misses, nothing tells the near miss from the far one,
and the group is skipped. This term does. MagicGUI publishes no formula; this one is ours.
"""

import math
from collections.abc import Sequence

from schemas.action_types import AT_A_POINT, REFUSED
from schemas.actions import Action, Drag
from schemas.settings import Number, Settings, setting
from trainer.rl.reply_forms import profile_point, profile_step
from trainer.rl.rewards import Box, ReplyTarget
from trainer.settings.rewards import ReplyProfile


class DistanceOptions(Settings):
    """Options of the term `distance`."""

    reach: Number = setting(140.0, "Distance in 1/1000 of the screen at which 1/e of the reward is left.", gt=0)
    profile: ReplyProfile = setting("vesper", "Whose way of writing points and actions replies are read by.")


def distance(text: str, truth: ReplyTarget, **options: object) -> float:
    """exp(−d / reach), d from the nearest target box (0 inside), or from the true point where no box is known, in the
    frame of 0..1000.

    Of a drag the mean over both ends. 0 for a reply without the point that is asked for, for another type of action and
    for actions without a point; a refusal is 1 where it is the truth, else 0. Raises `ValueError` for unknown options.
    """
    config = DistanceOptions.parsed(options, "reward term distance")
    if truth.action is None:
        found = profile_point(text, config.profile, truth.size_px)
        if truth.refusal or found is None or found == REFUSED:
            return float(truth.refusal and found == REFUSED)
        return _worth(found, truth.boxes, config.reach)
    found_action = profile_step(text, config.profile, truth.space, truth.size_px).action
    return _of_action(found_action, truth.action, truth.boxes, config.reach)


def _of_action(found: Action | None, truth: Action, boxes: Sequence[Box], reach: float) -> float:
    if isinstance(found, AT_A_POINT) and isinstance(truth, AT_A_POINT) and type(found) is type(truth):
        # a box without size: its distance is that of the point
        return _worth(found.box, boxes or (truth.box * 2,), reach)
    if isinstance(found, Drag) and isinstance(truth, Drag):
        ends = ((found.start, truth.start), (found.end, truth.end))
        return sum(_worth(one, (true * 2,), reach) for one, true in ends) / 2
    return 0.0


def _worth(point: Sequence[float], boxes: Sequence[Box], reach: float) -> float:
    return max(math.exp(-_outside(point, box) / reach) for box in boxes)


def _outside(point: Sequence[float], box: Box) -> float:
    """Distance of a point from a box, 0 inside."""
    return math.hypot(*(max(box[i] - point[i], 0.0, point[i] - box[i + 2]) for i in (0, 1)))
