"""Native points and swipes → units of 0..1000; what can't be is an `ItemError` with its reason."""

from pipelines.mapping.items import ItemError, is_number
from schemas.actions import Point, Scroll, scroll_direction
from schemas.coordinates import OffScreen, point_to_unit


def in_frame(x: float, y: float, size: tuple[float, float], word: str = "?") -> Point:
    """A point in a frame of (width, height) → 0..1000. Raises `ItemError("off_screen")`."""
    try:
        return point_to_unit((x, y), size)
    except (OffScreen, OverflowError) as error:
        raise ItemError("off_screen", str(error), word) from error


def pixel_point(value: object, size: tuple[float, float], word: str) -> Point:
    """`[x, y]` in a frame of (width, height) → 0..1000. Raises `ItemError`: bad_value, off_screen."""
    numbers = value if isinstance(value, list) else []
    if len(numbers) != 2 or not all(map(is_number, numbers)):
        raise ItemError("bad_value", f"expected x and y, found {value!r:.60}", word)
    return in_frame(numbers[0], numbers[1], size, word)


def fraction_point(value: object, word: str) -> Point:
    """`[x, y]` as fractions 0..1 of the screen → 0..1000. Raises `ItemError`: missing_field, off_screen."""
    numbers = value if isinstance(value, list | tuple) else []
    if len(numbers) != 2 or not all(map(is_number, numbers)):
        raise ItemError("missing_field", f"{word}: expected x and y, found {value!r:.60}", word)
    return in_frame(numbers[0], numbers[1], (1.0, 1.0), word)


def swipe(start: Point, end: Point, word: str, size_px: tuple[int, int] | None = None) -> Scroll:
    """A finger's way from point to point as what the view does, on a screen of (width, height) px; without its size the
    direction is left to the `EpisodeBuilder`, which knows the screen. Raises `ItemError("bad_value")` for a way of no
    length, which has no direction."""
    try:
        return Scroll(start, end, scroll_direction(start, end, size_px) if size_px else "")
    except ValueError as error:
        raise ItemError("bad_value", str(error), word) from error


def wheel_direction(dx: float, dy: float) -> str:
    """What a wheel's amounts show: a wheel turns one way at a time here, so the larger part wins; "" for none."""
    if not (dx or dy):
        return ""
    if abs(dy) >= abs(dx):
        return "down" if dy > 0 else "up"
    return "right" if dx > 0 else "left"
