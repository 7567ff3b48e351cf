"""Pictures that must fit a frame known from elsewhere: a cropped or foreign one would move every coordinate."""

from collections.abc import Mapping, Sequence

from pipelines.mapping.adapter import RecordScreen
from pipelines.mapping.items import ItemError, is_number, plain_number

MISFIT = "image_misfit"
MAX_SIDE_PX = 100_000
"""No screen is wider or taller; a page that was photographed whole can be as tall as this."""


def whole_sides(size: object) -> tuple[int, int] | None:
    """(width, height) in px of two positive whole numbers, which some tools write as floats or as text; None of
    anything else."""
    if not isinstance(size, list | tuple) or len(size) != 2:
        return None
    found = [side for side in map(plain_number, size) if is_number(side)]
    sides = [int(side) for side in found if 0 < side <= MAX_SIDE_PX and side == int(side)]
    return (sides[0], sides[1]) if len(sides) == 2 else None


def stated_size(value: object, name: str, word: str) -> tuple[int, int] | None:
    """The sides that stand under a name, in px; None where nothing does. Raises `ItemError("bad_frame")`."""
    if value is not None and (sides := whole_sides(value)) is None:
        raise ItemError("bad_frame", f"{name}: expected two positive ints, found {value!r:.60}", word)
    return None if value is None else sides


def sides_of(screen: RecordScreen, why: str, word: str) -> tuple[int, int]:
    """Width and height in px of the screen that an item is on. Raises `ItemError("bad_frame")`, which says why there
    are none."""
    if screen.width_px is None or screen.height_px is None:
        raise ItemError("bad_frame", why, word)
    return screen.width_px, screen.height_px


def fitting_screen(
    data: bytes | None, frame: tuple[int, int], elements: Sequence[Mapping[str, object]] = ()
) -> RecordScreen:
    """A screen of a known frame (width, height in native px). The picture is used only if its sides have the frame's
    ratio: scaled to the picture's width, the frame's height differs by at most 1 px. Else problem = `image_misfit`."""
    screen = RecordScreen.load(data, elements, frame)
    if screen.info is not None and abs(screen.info.width_px * frame[1] / frame[0] - screen.info.height_px) > 1:
        return RecordScreen(frame[0], frame[1], None, None, tuple(elements), MISFIT)
    return screen
