"""Agreement as a signal that needs no label (GUI-RC, GUI-RCPO): several replies to one question vote with regions.

A predicted point votes for the square of side `side` around it, in the 0..1000 frame. A reply's reward is the share of
the votes that its own square holds on average. With squares of one size that is a sum over pairs, so no pixel grid is
needed. Refusals vote for refusing, unreadable replies for nothing, and both count among the votes.
"""

from collections.abc import Sequence

from schemas.action_types import REFUSED
from trainer.rl.reply_forms import WHOLE_SCREEN, Size, profile_point
from trainer.settings.rewards import REGION_SIDE, ReplyProfile


def region_consistency(
    texts: Sequence[str], side: float = REGION_SIDE, profile: ReplyProfile = "vesper", size_px: Size = WHOLE_SCREEN
) -> list[float]:
    """Replies to one grounding question → the reward of each, 1/K to 1 for a readable one (it agrees with itself),
    else 0: 1/K · Σ_j |R_i ∩ R_j| / |R_i|. No truth is read. Raises `ValueError` for a side that isn't positive.
    """
    points = [profile_point(text, profile, size_px) for text in texts]
    return [sum(_overlap(one, other, side) for other in points) / len(points) for one in points]


def _overlap(one: tuple[float, float] | None, other: tuple[float, float] | None, side: float) -> float:
    """Share of one's square that the other's covers."""
    if side <= 0:
        raise ValueError(f"region consistency: expected a side > 0, found {side}")
    if one is None or other is None:
        return 0.0
    # a refusal covers no area: it agrees with refusals alone
    if REFUSED in (one, other):
        return float(one == other)
    shared = [max(0.0, side - abs(a - b)) / side for a, b in zip(one, other, strict=True)]
    return shared[0] * shared[1]
