"""The 16 actions as immutable values (UI-Venus-1.5, Table 8). Coordinates are ints in 0..1000.

Each type checks its own arguments when it is made, so an illegal action can't exist.
"""

from __future__ import annotations

from dataclasses import dataclass

from schemas.key_names import ENTER, key_names

ACTION_SPACE = "v1.5"
DIRECTIONS = ("up", "down", "left", "right")
"""What the view does: `down` shows what lies below (the finger moves up)."""
OPPOSITE = {"up": "down", "down": "up", "left": "right", "right": "left"}

Point = tuple[int, int]
REFUSED: Point = (-1, -1)
"""What a grounding reply says where nothing on the screen was meant."""


def _check_point(kind: str, name: str, value: object) -> None:
    ok = (
        isinstance(value, tuple)
        and len(value) == 2
        and all(type(v) is int and 0 <= v <= 1000 for v in value)  # `type is int` refuses bool
    )
    if not ok:
        raise ValueError(f"{kind}.{name}: expected (x, y) of ints in 0..1000, found {value!r}")


def _check_text(kind: str, name: str, value: object) -> None:
    if not isinstance(value, str):
        raise ValueError(f"{kind}.{name}: expected text, found {value!r}")
    if any("\ud800" <= char <= "\udfff" for char in value):
        raise ValueError(f"{kind}.{name}: text holds a lone surrogate, which is no Unicode text: {value!r}")


def scroll_direction(start: Point, end: Point, size_px: tuple[int, int] | None = None) -> str:
    """Content direction of a finger path: the longer axis decides (vertical on a tie); finger up = `down`.

    Which axis is longer is a matter of pixels: a phone is twice as tall as wide. `size_px` (width, height) is that of
    the screen; without it the screen is taken for square. Raises `ValueError` if the points are equal: no direction
    follows from them.
    """
    dx, dy = end[0] - start[0], end[1] - start[1]
    if dx == 0 and dy == 0:
        raise ValueError(f"scroll from {start} to {end}: equal points have no direction")
    width, height = size_px or (1, 1)
    if abs(dy) * height >= abs(dx) * width:
        return "down" if dy < 0 else "up"
    return "right" if dx < 0 else "left"


def _is_way_of(direction: str, start: Point, end: Point) -> bool:
    """Whether a finger path goes some way in a content direction; which axis is longer isn't known here."""
    dx, dy = end[0] - start[0], end[1] - start[1]
    return {"down": dy < 0, "up": dy > 0, "right": dx < 0, "left": dx > 0}[direction]


@dataclass(frozen=True, slots=True)
class _Pointed:
    """An action at one point."""

    box: Point

    def __post_init__(self) -> None:
        _check_point(type(self).__name__, "box", self.box)


class Click(_Pointed):
    """Tap or left click at a point."""

    __slots__ = ()


class LongPress(_Pointed):
    """Press and hold at a point."""

    __slots__ = ()


class Hover(_Pointed):
    """Move the pointer to a point (web, desktop)."""

    __slots__ = ()


class DoubleClick(_Pointed):
    """Double click at a point (web, desktop)."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Drag:
    """Press at `start`, move to `end`, release."""

    start: Point
    end: Point

    def __post_init__(self) -> None:
        _check_point("Drag", "start", self.start)
        _check_point("Drag", "end", self.end)


@dataclass(frozen=True, slots=True)
class Scroll:
    """Scroll: the finger's path `start` → `end`, the content direction, or both; the path must go some way in it."""

    start: Point | None = None
    end: Point | None = None
    direction: str = ""

    def __post_init__(self) -> None:
        if (self.start is None) != (self.end is None):
            raise ValueError(f"Scroll: expected both start and end or neither, found {self.start!r} and {self.end!r}")
        if self.direction not in ("", *DIRECTIONS):
            raise ValueError(f"Scroll.direction: expected one of {DIRECTIONS}, found {self.direction!r}")
        if self.start is None or self.end is None:
            if not self.direction:
                raise ValueError("Scroll: expected points, a direction or both, found neither")
            return
        _check_point("Scroll", "start", self.start)
        _check_point("Scroll", "end", self.end)
        follows = scroll_direction(self.start, self.end)
        if self.direction and not _is_way_of(self.direction, self.start, self.end):
            raise ValueError(
                f"Scroll: direction {self.direction!r} contradicts its points {self.start} -> {self.end} ({follows!r})"
            )


def direction_of(scroll: Scroll) -> str:
    """The content direction of a scroll: as it says, else by its points, on a screen taken for square."""
    if scroll.direction or scroll.start is None or scroll.end is None:
        return scroll.direction
    return scroll_direction(scroll.start, scroll.end)


@dataclass(frozen=True, slots=True)
class _Texted:
    """An action with free text."""

    content: str = ""

    def __post_init__(self) -> None:
        _check_text(type(self).__name__, "content", self.content)


class Type(_Texted):
    """Type text where the focus is; neither a focusing tap nor an Enter is implied."""

    __slots__ = ()


class Finished(_Texted):
    """The task is done (optional closing text)."""

    __slots__ = ()


class CallUser(_Texted):
    """The answer of an information task, or a question to the user."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Launch:
    """Open an app by name, or a URL; exactly one of the two."""

    app: str = ""
    url: str = ""

    def __post_init__(self) -> None:
        _check_text("Launch", "app", self.app)
        _check_text("Launch", "url", self.url)
        if bool(self.app) == bool(self.url):
            raise ValueError(f"Launch: expected exactly one of app and url, found app={self.app!r}, url={self.url!r}")


@dataclass(frozen=True, slots=True)
class Hotkey:
    """One to three keys pressed together (web, desktop), each under its one name (`schemas.key_names`)."""

    keys: tuple[str, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.keys, tuple) or not 1 <= len(self.keys) <= 3:
            raise ValueError(f"Hotkey.keys: expected a tuple of 1 to 3 keys, found {self.keys!r}")
        for key in self.keys:
            _check_text("Hotkey", "keys", key)
            if not key:
                raise ValueError(f"Hotkey.keys: expected names of keys, found an empty one in {self.keys!r}")
        object.__setattr__(self, "keys", key_names(self.keys))


@dataclass(frozen=True, slots=True)
class _Bare:
    """An action without arguments."""


class Wait(_Bare):
    """Do nothing for a moment."""

    __slots__ = ()


class PressBack(_Bare):
    """The Back key."""

    __slots__ = ()


class PressHome(_Bare):
    """The Home key (mobile)."""

    __slots__ = ()


class PressEnter(_Bare):
    """The Enter key."""

    __slots__ = ()


class PressRecent(_Bare):
    """The Recent-apps key (mobile)."""

    __slots__ = ()


def pressed(keys: tuple[str, ...]) -> Action:
    """Keys pressed together as an action; Enter alone, whatever it is called, is `PressEnter`. Raises `ValueError` as
    `Hotkey` does."""
    hotkey = Hotkey(keys)
    return PressEnter() if hotkey.keys == (ENTER,) else hotkey


Action = (
    Click
    | Drag
    | Scroll
    | Type
    | Launch
    | Wait
    | Finished
    | CallUser
    | LongPress
    | PressBack
    | PressHome
    | PressEnter
    | PressRecent
    | Hover
    | DoubleClick
    | Hotkey
)

POINTED = (Click, LongPress, Hover, DoubleClick)
TEXTED = (Type, Finished, CallUser)
BARE = (Wait, PressBack, PressHome, PressEnter, PressRecent)

ACTION_TYPES: dict[str, type] = {
    kind.__name__: kind for kind in (*POINTED, Drag, Scroll, *TEXTED, Launch, Hotkey, *BARE)
}
"""The 16 types by name."""
