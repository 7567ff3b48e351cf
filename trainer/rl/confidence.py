"""Stated confidence of a grounding reply, `[x,y] 0.8`, and its reward (HyperClick).

Rewarded for hits alone, a policy may state what it likes. The reward 1 − (c − s)² is largest, on average, for the mean
of s that such a click earns; s is 1 in the middle of the element, falls off as a Gaussian whose width follows the
element's, and is 0 outside. A point states its confidence behind it, so that a policy that is unsure can abstain.
"""

import math
import re
from collections.abc import Sequence

from schemas.action_types import REFUSED
from schemas.actions import CONFIDENCE, parse_reply
from schemas.coordinates import centre, contains
from trainer.rl.reply_forms import WHOLE_SCREEN, Size, profile_point
from trainer.settings.rewards import CONFIDENCE_SPREAD, ReplyProfile

# only behind a closing bracket, so that no number of the point itself is taken for a confidence
_STATED = re.compile(rf"(.*[\])}}>`])\s+({CONFIDENCE})\s*", re.DOTALL)


def without_confidence(text: str) -> str | None:
    """The reply without its confidence; None where it states none behind a closing bracket."""
    found = _STATED.fullmatch(text)
    return found.group(1) if found else None


def target_confidence(
    point: tuple[float, float] | None,
    boxes: Sequence[Sequence[float]],
    refusal: bool = False,
    spread: float = CONFIDENCE_SPREAD,
) -> float:
    """s of a click, 0..1: the best truncated Gaussian of the true boxes at the point; 0 for a miss or no point.

    Where refusal is the truth there is no middle to be near: 1 for (-1, -1), else 0.
    """
    if refusal or point is None:
        return float(refusal and point == REFUSED)
    return max((_gaussian(point, box, spread) for box in boxes if contains(list(box), point)), default=0.0)


def _gaussian(point: tuple[float, float], box: Sequence[float], spread: float) -> float:
    """At a point inside the box; a side without length holds its middle alone."""
    # 1e-9 instead of 0: the middle of a line still has distance 0 and gets 1, all else of it 0
    halves = [max((box[i + 2] - box[i]) / 2, 1e-9) for i in (0, 1)]
    away = [(at - middle) / half for at, middle, half in zip(point, centre(box), halves, strict=True)]
    return math.exp(-(away[0] ** 2 + away[1] ** 2) / (2 * spread**2))


def confidence_reward(
    text: str,
    boxes: Sequence[Sequence[float]],
    refusal: bool = False,
    spread: float = CONFIDENCE_SPREAD,
    profile: ReplyProfile = "vesper",
    size_px: Size = WHOLE_SCREEN,
) -> float:
    """1 − (c − s)² for the stated confidence c, 0..1; 0 for a reply that states none or can't be read."""
    point, confidence = _read(text, profile, size_px)
    if point is None or confidence is None:
        return 0.0
    return 1.0 - (confidence - target_confidence(point, boxes, refusal, spread)) ** 2


def _read(text: str, profile: ReplyProfile, size_px: Size) -> tuple[tuple[float, float] | None, float | None]:
    if profile == "vesper":
        reply = parse_reply(text)
        return reply.point, reply.confidence
    found = _STATED.fullmatch(text)
    return (profile_point(found.group(1), profile, size_px), float(found.group(2))) if found else (None, None)
