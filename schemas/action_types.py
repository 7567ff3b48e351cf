"""The actions as immutable values: the 16 of UI-Venus-1.5 (Table 8), and the four that V2 has beside them. Coordinates
are ints in 0..1000.

Each type checks its own arguments when it is made, so an illegal action can't exist.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from schemas.key_names import ENTER, key_names

ActionSpace = Literal["v1.5", "v2"]
"""Which actions corpora hold, task pools ask for and checkpoints speak (`SPACES`)."""
ACTION_SPACE: ActionSpace = "v1.5"
"""What is spoken where nobody says another."""
WIDEST: ActionSpace = "v2"
"""The space that holds all others: what stands in a table was held to its own space when it was written."""
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
        # An order of checks that never raises by itself: kind, length, then the numbers.
        and all(type(v) is int and 0 <= v <= 1000 for v in value)  # `type is int` refuses bool
    )
    if not ok:
        raise ValueError(f"{kind}.{name}: expected (x, y) of ints in 0..1000, found {value!r}")


def _check_text(kind: str, name: str, value: object) -> None:
    if not isinstance(value, str):
        raise ValueError(f"{kind}.{name}: expected text, found {value!r}")
    # Arrow holds UTF-8, which has no lone surrogates.
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
    # In pixels: units of 0..1000 are shorter across a tall screen than along it.
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


class RightClick(_Pointed):
    """Right click at a point, which opens what can be done with what lies there (web, desktop; v2)."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class SelectOption:
    """Choose an option, by what it says, of the list at a point: a native one may draw its options outside of any
    screenshot (web, desktop; v2)."""

    box: Point
    option: str

    def __post_init__(self) -> None:
        _check_point("SelectOption", "box", self.box)
        _check_text("SelectOption", "option", self.option)
        if not self.option:
            raise ValueError("SelectOption.option: expected the text of an option, found an empty one")


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
        # Half a path is no path.
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
        # By one axis only: a slanted path may follow either direction.
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


class TakeNote(_Texted):
    """Keep a text for later steps: it stays in the history, and nothing on the screen changes (v2)."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Launch:
    """Open an app by name, or a URL; exactly one of the two."""

    app: str = ""
    url: str = ""

    def __post_init__(self) -> None:
        _check_text("Launch", "app", self.app)
        _check_text("Launch", "url", self.url)
        # bool: exactly one of the two is given.
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
        # Frozen: the name that each key has is set past the dataclass's own guard.
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


class GetUrl(_Bare):
    """Ask for the address of the page, which the next observation says (web; v2)."""

    __slots__ = ()


def pressed(keys: tuple[str, ...]) -> "Action":
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
    | RightClick
    | SelectOption
    | GetUrl
    | TakeNote
)

POINTED = (Click, LongPress, Hover, DoubleClick, RightClick)
"""At one point, and nothing else."""
TEXTED = (Type, Finished, CallUser, TakeNote)
BARE = (Wait, PressBack, PressHome, PressEnter, PressRecent, GetUrl)
AT_A_POINT = (*POINTED, SelectOption)
"""All that have a `box`."""

ACTION_TYPES: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        *(Click, LongPress, Hover, DoubleClick, Drag, Scroll, Type, Finished, CallUser, Launch, Hotkey),
        *(Wait, PressBack, PressHome, PressEnter, PressRecent),
    )
}
"""The 16 types of v1.5 by name."""
ADDED_IN_V2: dict[str, type] = {kind.__name__: kind for kind in (RightClick, SelectOption, GetUrl, TakeNote)}
"""The types of v2 that v1.5 hasn't, by name."""
SPACES: Mapping[ActionSpace, Mapping[str, type]] = {"v1.5": ACTION_TYPES, "v2": {**ACTION_TYPES, **ADDED_IN_V2}}
"""Action space → its types by name. A third space is one entry more here."""


def speaks(space: ActionSpace, kind: type) -> bool:
    """Whether a space has this type of action."""
    return kind.__name__ in SPACES[space]


def check_space(name: str) -> ActionSpace:
    """The action space of this name. Raises `ValueError` that lists those that exist."""
    found = next((space for space in SPACES if space == name), None)
    if found is None:
        raise ValueError(f"action space: expected one of {', '.join(SPACES)}, found {name[:40]!r}")
    return found
