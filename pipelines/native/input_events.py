"""Raw events of mouse, fingers and keys → what a person did; frames of a recording → those that show a new state.

An event is an object with its time `t` in seconds and a word `event`:

| event | fields |
|---|---|
| down, up, move | x, y in px of the screen; button: left unless said |
| wheel | dy > 0 shows what lies below, dx > 0 what lies right; the wheel reports every notch |
| key_down, key_up | key: a character, or a name such as `enter`, `ctrl`, `back`; text: what it wrote, if not the key |
| text | text, as an input method wrote it |

[ShowUI-Aloha] and [GUI-World] teach from such recordings.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from pipelines.mapping.items import ItemError, bad_values, is_number, is_text, text_of
from pipelines.mapping.points import in_frame, swipe, wheel_direction
from pipelines.store.images import open_image
from schemas import actions
from schemas.action_types import ActionSpace, speaks

TREMBLE_PX = 6.0
"""A hand moves by so much between pressing and letting go without meaning it."""
HELD_S = 0.5
"""On a phone: from then on a touch is a long press, and what moves after it a drag."""
DOUBLE_S = 0.5
"""Between the two presses of a double click, as the desktops have it."""
WHEEL_S = 1.0
"""Notches of a wheel that are further apart are two scrolls."""
CLICK, DOUBLE, HOLD, DRAG, RIGHT, WHEEL, TYPING, KEY, COMBO, OTHER = (
    "press",
    "two presses",
    "held press",
    "press that moves",
    "right press",
    "wheel run",
    "typing run",
    "key",
    "modifiers and key",
    "other events",
)
_MODIFIERS = {"ctrl": "ctrl", "control": "ctrl", "alt": "alt", "option": "alt", "shift": "shift"}
_MODIFIERS |= dict.fromkeys(("meta", "cmd", "command", "win", "super"), "meta")
_COMBINING = ("ctrl", "alt", "meta")
_PHONE: Mapping[str, Callable[[], actions.Action]] = {
    "back": actions.PressBack,
    "home": actions.PressHome,
    "recent": actions.PressRecent,
}
InputEvent = Mapping[str, object]


@dataclass
class RecordedGesture:
    """What a person did at once: the events, and either an action or the error that says why there is none."""

    word: str
    events: list[InputEvent]
    action: actions.Action | None = None
    error: ItemError | None = None
    rules: list[str] = field(default_factory=list)

    @property
    def begins(self) -> float:
        """Seconds."""
        return seconds(self.events[0])

    @property
    def ends(self) -> float:
        """Seconds."""
        return seconds(self.events[-1])


def seconds(event: object) -> float:
    """When an event was. Raises `ItemError("missing_field")`."""
    return _number(event, "t")


def read_input(
    events: Sequence[object], size: tuple[int, int], platform: str, space: ActionSpace
) -> list[RecordedGesture]:
    """Events in order → gestures in the order of their first events, on a screen of (width, height) px. Moves without a
    press, releases of keys and modifiers are no gestures of their own; what can't be read is one with an error."""
    reader = _InputReader(size, platform, space)
    for event in events:
        try:
            reader.read(event)
        except ItemError as error:
            reader.done.append(
                RecordedGesture(OTHER, [event if isinstance(event, Mapping) else {"t": 0.0}], None, error)
            )
    if reader.down is not None:
        cut = ItemError("truncated_record", "the recording ends while something is pressed", OTHER)
        reader.done.append(RecordedGesture(OTHER, reader.down, None, cut))
    return [_typed(one) for one in sorted(reader.done, key=lambda one: _time_or_zero(one.events[0]))]


class _InputReader:
    """State of the reading: the press that isn't over, the keys that are held, what was typed."""

    def __init__(self, size: tuple[int, int], platform: str, space: ActionSpace) -> None:
        self.size, self.space, self.touch = size, space, platform == "mobile"
        self.done: list[RecordedGesture] = []
        self.down: list[InputEvent] | None = None
        self.held: dict[str, None] = {}

    def read(self, event: object) -> None:
        """Raises `ItemError`: missing_field, bad_value, off_screen, no_counterpart, unknown_action."""
        seconds(event)
        assert isinstance(event, Mapping), "it has a time"
        kind = event.get("event")
        if kind == "down":
            self.down = [event]
        elif kind == "move":
            if self.down is not None:
                self.down.append(event)
        elif kind == "up":
            self._release(event)
        elif kind == "wheel":
            self._wheel(event)
        elif kind == "key_up":
            self.held.pop(_name(event), None)
        elif kind == "key_down":
            self._key(event)
        elif kind == "text":
            self._write(event, text_of(event, "text", TYPING))
        else:
            raise ItemError(f"unknown_action:{str(kind)[:60]}", "event: see the table of events", OTHER)

    def _release(self, event: InputEvent) -> None:
        press, self.down = self.down, None
        if press is None:
            raise ItemError("missing_field", "an up without a down", OTHER)
        press = [*press, event]
        button, start, end = str(press[0].get("button") or "left"), _xy(press[0]), _xy(event)
        moves = [one for one in press if _far(start, _xy(one))]
        at = in_frame(*start, self.size, CLICK)
        if button != "left":
            self._other_button(press, button, at, bool(moves))
        elif moves and _far(start, end):
            # A finger that rests first takes something along; one that doesn't turns the page.
            finger = self.touch and seconds(moves[0]) - seconds(press[0]) < HELD_S
            to = in_frame(*end, self.size, DRAG)
            self._add(DRAG, press, swipe(at, to, DRAG, self.size) if finger else actions.Drag(at, to))
        elif self.touch and seconds(event) - seconds(press[0]) >= HELD_S:
            self._add(HOLD, press, actions.LongPress(at))
        elif self._is_second(press[0], start):
            first = self.done.pop()
            self._add(
                DOUBLE, [*first.events, *press], actions.DoubleClick(in_frame(*_xy(first.events[0]), self.size, DOUBLE))
            )
        else:
            self._add(CLICK, press, actions.Click(at))

    def _other_button(self, press: list[InputEvent], button: str, at: actions.Point, moved: bool) -> None:
        if button != "right" or moved or not speaks(self.space, actions.RightClick):
            error = ItemError("no_counterpart", f"a press of the {button[:40]} button", RIGHT)
            self.done.append(RecordedGesture(RIGHT, press, None, error))
        else:
            self._add(RIGHT, press, actions.RightClick(at))

    def _is_second(self, down: InputEvent, at: tuple[float, float]) -> bool:
        last = self.done[-1] if self.done else None
        if last is None or last.word != CLICK:
            return False
        return seconds(down) - last.begins <= DOUBLE_S and not _far(_xy(last.events[0]), at)

    def _wheel(self, event: InputEvent) -> None:
        dx, dy = (_number(event, side) if side in event else 0.0 for side in ("dx", "dy"))
        if not dx and not dy:
            raise ItemError("bad_value", "a wheel that doesn't turn", WHEEL)
        direction = wheel_direction(dx, dy)
        last = self.done[-1] if self.done else None
        if last and last.action == actions.Scroll(direction=direction) and seconds(event) - last.ends <= WHEEL_S:
            last.events.append(event)
        else:
            self._add(WHEEL, [event], actions.Scroll(direction=direction))

    def _key(self, event: InputEvent) -> None:
        name = _name(event)
        if name in _MODIFIERS.values():
            self.held[name] = None
            return
        combining = tuple(key for key in _COMBINING if key in self.held)
        shift = ("shift",) if "shift" in self.held else ()
        text = event.get("text", name if len(name) == 1 else None)
        last = self.done[-1] if self.done else None
        if combining:
            keys = (*combining, *shift, name)
            # A key that is held down repeats itself.
            if name in self.held and last is not None and last.word == COMBO:
                last.events.append(event)
                return
            self.held[name] = None
            if len(keys) > 3:
                raise ItemError("no_counterpart", f"a hotkey of {len(keys)} keys; the space has at most 3", COMBO)
            self._add(COMBO, [event], _pressed(keys, COMBO))
        elif isinstance(text, str) and text.isprintable() and text:
            # Without a text of its own a letter is as large as Shift makes it.
            self._write(event, text.upper() if shift and "text" not in event else text)
        elif name == "backspace" and last is not None and isinstance(last.action, actions.Type) and last.action.content:
            last.action = actions.Type(last.action.content[:-1])
            last.events.append(event)
            last.rules = ["corrected"]
        elif self.touch and name in _PHONE:
            self._add(KEY, [event], _PHONE[name]())
        else:
            self._add(KEY, [event], _pressed((*shift, name), KEY))

    def _write(self, event: InputEvent, text: str) -> None:
        if not is_text(text):
            raise ItemError("bad_value", "not Unicode text", TYPING)
        last = self.done[-1] if self.done else None
        if last is not None and isinstance(last.action, actions.Type):
            last.action = actions.Type(last.action.content + text)
            last.events.append(event)
        else:
            self._add(TYPING, [event], actions.Type(text))

    def _add(self, word: str, events: list[InputEvent], action: actions.Action) -> None:
        self.done.append(RecordedGesture(word, events, action))


def _typed(one: RecordedGesture) -> RecordedGesture:
    """Typing of which nothing is left is no action."""
    if one.action == actions.Type(""):
        return RecordedGesture(one.word, one.events, None, ItemError("empty_text", "all was deleted again", one.word))
    return one


def _pressed(keys: tuple[str, ...], word: str) -> actions.Action:
    with bad_values(word):
        return actions.pressed(keys)


def _name(event: InputEvent) -> str:
    """The key in our words: a character as it is, a name in lower case. Raises `ItemError`."""
    key = text_of(event, "key", KEY) if event.get("key") != " " else " "
    return key if len(key) == 1 else _MODIFIERS.get(key.strip().lower(), key.strip().lower())


def _number(event: object, name: str) -> float:
    value = event.get(name) if isinstance(event, Mapping) else None
    if not is_number(value) or not np.isfinite(value):
        raise ItemError("missing_field", f"{name}: expected a number, found {value!r:.60}", OTHER)
    return float(value)


def _time_or_zero(event: InputEvent) -> float:
    try:
        return seconds(event)
    except ItemError:
        return 0.0


def _xy(event: InputEvent) -> tuple[float, float]:
    return _number(event, "x"), _number(event, "y")


def _far(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return max(abs(one[0] - other[0]), abs(one[1] - other[1])) > TREMBLE_PX


LOOK_PX = 640
"""Frames are compared at about this width: a checkbox still covers a few pixels."""
LOUD = 24
"""Grey levels; noise of a video's compression stays below."""
LEAST_PX = 4
"""Fewer changed pixels are a caret or noise."""


def look(data: bytes) -> np.ndarray:
    """A frame in grey, int16 [h, w], by a whole factor smaller. Raises `ImageError`."""
    image = open_image(data).convert("L")
    return np.asarray(image.reduce(max(1, round(image.width / LOOK_PX))), dtype=np.int16)


def key_frames(times: Sequence[float], looks: Sequence[np.ndarray], acted: Sequence[float]) -> list[int]:
    """Places of the frames that show a new state, the first among them: they differ from the key frame before them, and
    either the next frame looks the same (what moves isn't a state yet) or something was done before it came. `times`
    and `acted` (when something was done) in seconds, in order."""
    found = [0] if looks else []
    for place in range(1, len(looks)):
        if _same(looks[found[-1]], looks[place]):
            continue
        last = place + 1 == len(looks)
        if last or _same(looks[place], looks[place + 1]) or any(times[place] <= at < times[place + 1] for at in acted):
            found.append(place)
    return found


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    return one.shape == other.shape and int(np.count_nonzero(np.abs(one - other) > LOUD)) < LEAST_PX
