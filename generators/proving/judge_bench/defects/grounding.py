"""Defects of grounding screens: one box off its element, or all boxes of a screenshot moved in one direction."""

from dataclasses import dataclass
from random import Random
from statistics import median

from generators.proving.judge_bench.defects.steps import LARGE_SHIFT, SMALL_SHIFT, inside, shift
from generators.proving.judge_bench.trace import GroundingScreen
from generators.tasks.world_interface import Box
from schemas.coordinates import centre


@dataclass(frozen=True)
class MovedBox:
    """A box that was moved: position of the item, the new box, how far in sizes of the element (or of the median)."""

    item: int
    box: Box
    sizes: float


def one_box(screen: GroundingScreen, rng: Random, large: bool) -> list[MovedBox]:
    """One item's box moved off its element; none where nothing has room."""
    at = rng.randrange(len(screen.items))
    # By the element's own size, whatever is around it.
    place = screen.items[at].place
    moved = shift(place.box, place.centre, rng, *(LARGE_SHIFT if large else SMALL_SHIFT))
    return [] if moved is None else [MovedBox(at, moved[0], moved[2])]


def whole_screen(screen: GroundingScreen, rng: Random, large: bool) -> list[MovedBox]:
    """All boxes moved by one vector of so many median element sizes, cut at the edges of the screen.

    Boxes whose new centre still lies in their element are moved too (they aren't defects by themselves, and are left
    out of the truth by `is_off`).
    """
    boxes = [item.place.box for item in screen.items]
    size = rng.uniform(*(LARGE_SHIFT if large else SMALL_SHIFT))
    # The median: one banner must not move every box off the screen.
    wide, high = median(b[2] - b[0] for b in boxes), median(b[3] - b[1] for b in boxes)
    dx, dy = rng.choice(((0.0, size * high), (0.0, -size * high), (size * wide, 0.0), (-size * wide, 0.0)))
    moved = []
    for at, box in enumerate(boxes):
        left, top, right, bottom = (min(max(s + by, 0.0), 1000.0) for s, by in zip(box, (dx, dy, dx, dy), strict=True))
        if right - left < 1 or bottom - top < 1:
            return []  # a box pushed off the screen would be seen by ingestion
        moved.append(MovedBox(at, (left, top, right, bottom), size))
    return moved


def is_off(screen: GroundingScreen, moved: MovedBox) -> bool:
    """Hit test: the centre of the moved box lies outside the element."""
    return not inside(screen.items[moved.item].place.box, centre(moved.box))
