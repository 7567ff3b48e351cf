"""What a click would hit among elements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from generators.environments.world import Place


def under(places: Iterable[Place], point: Sequence[float]) -> Place | None:
    """The smallest element that can be clicked under a point; None where there is none."""
    x, y = point
    held = [p for p in places if p.clickable and p.key and p.box[0] <= x <= p.box[2] and p.box[1] <= y <= p.box[3]]
    return min(held, key=lambda p: (p.box[2] - p.box[0]) * (p.box[3] - p.box[1]), default=None)
