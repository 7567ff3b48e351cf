"""What a click would hit among elements."""

from collections.abc import Iterable, Sequence

from generators.tasks.world_interface import ScreenElement
from schemas.coordinates import contains


def under(elements: Iterable[ScreenElement], point: Sequence[float]) -> ScreenElement | None:
    """The smallest element that can be clicked under a point; None where there is none."""
    # Without a key it is no element of the world's own truth.
    held = [element for element in elements if element.clickable and element.key and contains(element.box, point)]
    return min(held, key=lambda p: (p.box[2] - p.box[0]) * (p.box[3] - p.box[1]), default=None)
