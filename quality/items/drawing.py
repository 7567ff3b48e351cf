"""Draw an action on its screenshot: what a judge, a reviewer and the metadata pictures show."""

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image, ImageDraw

from pipelines.store.images import open_image
from schemas.action_types import Action, Drag, Scroll
from schemas.actions import SYNTHESISED_PATHS

RED, BLUE, GREEN = (230, 30, 50), (30, 90, 230), (20, 160, 70)
MAX_SIDE_PX = 1280
DRAWING_VERSION = "1"
"""Goes into the judge's cache key: another drawing is another question."""


Place = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Gesture:
    """What of an action can be drawn, in 0..1000: a point, or a path from its start to its end."""

    point: Place | None = None
    path: tuple[Place, Place] | None = None


def gesture_of(action: Action | None) -> Gesture:
    """The drawable part of an action. A Scroll with only a direction is the finger's path through the middle."""
    point = getattr(action, "box", None)
    if point is not None:
        return Gesture(point=point)
    if isinstance(action, Drag):
        return Gesture(path=(action.start, action.end))
    return Gesture(path=_finger_path(action)) if isinstance(action, Scroll) else Gesture()


def draw_action(
    data: bytes, action: Action | None, target_box: Sequence[float] | None = None, max_side_px: int = MAX_SIDE_PX
) -> Image.Image:
    """Encoded screenshot + action → RGB picture: a ring at a point, an arrow along a drag or scroll, a box.

    A Scroll with only a direction is drawn as the finger's path through the middle. Raises `ImageError`.
    """
    image = open_image(data)
    if max(image.size) > max_side_px:
        image.thumbnail((max_side_px, max_side_px))
    mark_action(image, action, target_box)
    return image


def mark_action(
    image: Image.Image, action: Action | None, target_box: Sequence[float] | None = None, *, halo: bool = False
) -> None:
    """Draw an action, as `draw_action` does, on a picture of its screen, whatever that picture's size; with a `halo`
    wider and on white, so that it is seen on any colour and in a small picture."""
    draw = ImageDraw.Draw(image)
    # By the picture's size, so that a line is as visible on a phone's screen as on a desktop's.
    width = max(2, round(max(image.size) / 320))
    if target_box is not None:
        box = [_to_px(target_box[i], image.size[i % 2]) for i in range(4)]
        # A box without area is drawn as a line, which a rectangle of negative size couldn't be.
        draw.rectangle((*box[:2], max(box[2], box[0]), max(box[3], box[1])), outline=GREEN, width=width)
    gesture = gesture_of(action)
    radius = max(image.size) / (35 if halo else 50)
    # The white line first and wider, so that colour stands on it whatever lies below.
    for colour, more in (("white", 6), (None, 2)) if halo else ((None, 0),):
        if gesture.point is not None:
            _ring(draw, _place(gesture.point, image.size), radius + more / 2, width + more, colour or RED)
        elif gesture.path is not None:
            ends = [_place(end, image.size) for end in gesture.path]
            _arrow(draw, ends[0], ends[1], width + more, colour or BLUE)


def draw_boxes(data: bytes, boxes: Sequence[Sequence[float]], max_side_px: int = MAX_SIDE_PX) -> Image.Image:
    """Encoded screenshot + boxes (0..1000) → RGB picture with each box outlined."""
    image = open_image(data)
    image.thumbnail((max_side_px, max_side_px))
    draw = ImageDraw.Draw(image)
    for box in boxes:
        left, top, right, bottom = (_to_px(box[i], image.size[i % 2]) for i in range(4))
        draw.rectangle(
            (left, top, max(right, left), max(bottom, top)), outline=GREEN, width=max(2, max(image.size) // 320)
        )
    return image


def to_png(image: Image.Image) -> bytes:
    """PNG bytes of a drawn picture (not content-addressed, so Pillow's own encoder will do)."""
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def _finger_path(action: Scroll) -> tuple[tuple[int, int], tuple[int, int]]:
    if action.start is not None and action.end is not None:
        return action.start, action.end
    return SYNTHESISED_PATHS[action.direction]


def _to_px(value: float, size: int) -> float:
    # The last pixel, as 1000 is the far border.
    return min(max(value * size / 1000, 0), size - 1)


def _place(point: Sequence[float], size: tuple[int, int]) -> tuple[float, float]:
    return _to_px(point[0], size[0]), _to_px(point[1], size[1])


Colour = str | tuple[int, int, int]


def _ring(draw: ImageDraw.ImageDraw, centre: Place, radius: float, width: int, colour: Colour) -> None:
    x, y = centre
    draw.ellipse((x - radius, y - radius, x + radius, y + radius), outline=colour, width=width)
    draw.ellipse((x - 2, y - 2, x + 2, y + 2), fill=colour)


def _arrow(draw: ImageDraw.ImageDraw, start: Place, end: Place, width: int, colour: Colour) -> None:
    draw.line((*start, *end), fill=colour, width=width)
    angle = math.atan2(end[1] - start[1], end[0] - start[0])
    head = 6 * width
    sides = [(end[0] - head * math.cos(angle + turn), end[1] - head * math.sin(angle + turn)) for turn in (0.5, -0.5)]
    draw.polygon([end, *sides], fill=colour)
