"""Browser events with the DOM at each → gestures (a click, a drag, a run of keys) and elements with their boxes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from os.path import commonprefix
from typing import Any

from pipelines.mapping.items import whole_number
from schemas.actions import Action, Click, DoubleClick, Drag, PressEnter, Scroll, Type, pressed
from schemas.coordinates import OffScreen, box_to_unit, point_to_unit

DRAG_PX = 3.0
"""A mouseup farther than this from its mousedown, on either axis, is a drag."""
_MODIFIERS = {16: "shift", 17: "ctrl", 18: "alt", 20: "capslock", 91: "meta", 92: "meta", 93: "meta", 224: "meta"}
_COMBINING = ("ctrl", "alt", "meta")
_COMPOSED = 229
"""keyCode of what an input method or a phone's keyboard writes: the event doesn't say which text."""
_KEYS = {
    8: "backspace",
    9: "tab",
    27: "esc",
    33: "pageup",
    34: "pagedown",
    35: "end",
    36: "home",
    37: "left",
    38: "up",
    39: "right",
    40: "down",
    45: "insert",
    46: "delete",
    **{111 + number: f"f{number}" for number in range(1, 13)},
}
_MOUSE = ("mousedown", "mouseup", "click", "dblclick")
_KEYBOARD = ("keydown", "keypress", "keyup")

CLICK, DRAG, DOUBLE, TYPING, ENTER, COMBO, KEY, SCROLL, OTHER = (
    "mousedown, mouseup, click",
    "mousedown, displaced mouseup",
    "dblclick",
    "keypress run",
    "key 13",
    "ctrl, alt + key",
    "other keys",
    "scroll",
    "other events",
)
"""The words under which gestures are counted."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event: `state` is its place in the list of states."""

    state: int
    action: dict[str, Any]
    time: Any

    @property
    def kind(self) -> str:
        return str(self.action.get("type"))

    @property
    def point(self) -> tuple[float, float] | None:
        x, y = self.action.get("x"), self.action.get("y")
        numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (x, y))
        return (float(x), float(y)) if numbers else None  # type: ignore[arg-type]

    def code(self, name: str) -> int:
        """keyCode or charCode; 0 if there is none."""
        return whole_number(self.action.get(name)) or 0


@dataclass
class DomGesture:
    """What a person did at once. `text` is typed text, `keys` the keys of a hotkey, `direction` of a scroll."""

    word: str
    events: list[Event]
    text: str = ""
    keys: tuple[str, ...] = ()
    direction: str = ""
    error: tuple[str, str] | None = None
    rules: list[str] = field(default_factory=list)
    composed: bool = False
    """Whether the text stands in the field alone."""

    def actions(self, frame: tuple[int, int]) -> Action | tuple[str, str]:
        """The action, or (reason, detail) why there is none."""
        if self.error is not None:
            return self.error
        try:
            if self.word in (CLICK, DOUBLE, DRAG):
                return self._pointed(frame)
            if self.word == TYPING:
                return Type(self.text)
            if self.word == SCROLL:
                return (
                    Scroll(direction=self.direction)
                    if self.direction
                    else ("no_counterpart", "scroll_direction_unknown")
                )
            return PressEnter() if self.word == ENTER else pressed(self.keys)
        except OffScreen as error:
            return "off_screen", str(error)
        except ValueError as error:
            return "bad_value", str(error)

    def _pointed(self, frame: tuple[int, int]) -> Action | tuple[str, str]:
        points = [event.point for event in self.events if event.kind in _MOUSE]
        # Without a point on every event nobody knows where.
        if not points or None in points:
            return "missing_field", "a mouse event without x and y"
        start = point_to_unit(points[0], frame)  # type: ignore[arg-type]
        if self.word == DRAG:
            ends = [event.point for event in self.events if event.kind == "mouseup"]
            return Drag(start, point_to_unit(ends[0], frame))  # type: ignore[arg-type]
        return DoubleClick(start) if self.word == DOUBLE else Click(start)


class _DomEventReader:
    """State of the reading: the mouse button, held keys, a key that waits for its character."""

    def __init__(self, states: Sequence[Any]) -> None:
        self.states = states
        self.done: list[DomGesture] = []
        self.down: DomGesture | None = None
        self.held: set[str] = set()
        self.waiting: Event | None = None

    def read(self, event: Event) -> None:
        # A new press: the key before it wrote nothing.
        if self.waiting is not None and event.kind in ("mousedown", "keydown", "dblclick"):
            self._give_up()
        if event.kind in _MOUSE:
            self._mouse(event)
        elif event.kind in _KEYBOARD:
            self._key(event)
        elif event.kind == "scroll":
            # A wheel reports every notch.
            if self.done and self.done[-1].word == SCROLL:
                self.done[-1].events.append(event)
            else:
                self.done.append(DomGesture(SCROLL, [event]))
        else:
            reason = f"unknown_action:{event.kind[:60]}" if "type" in event.action else "missing_field"
            self.done.append(
                DomGesture(OTHER, [event], error=(reason, f"expected one of {(*_MOUSE, *_KEYBOARD, 'scroll')}"))
            )

    def _give_up(self) -> None:
        """A key that neither wrote a character nor is one we know by name."""
        assert self.waiting is not None
        code = self.waiting.code("keyCode")
        self.done.append(DomGesture(OTHER, [self.waiting], error=("bad_value", f"key {code} wrote no character")))
        self.waiting = None

    def _mouse(self, event: Event) -> None:
        if event.kind == "mousedown":
            self.down = DomGesture(CLICK, [event])
            self.done.append(self.down)
        elif event.kind == "mouseup":
            # Pressed before the recording began.
            if self.down is None:
                self.done.append(DomGesture(OTHER, [event], error=("missing_field", "a mouseup without a mousedown")))
                return
            self.down.events.append(event)
            start, end = self.down.events[0].point, event.point
            # A hand trembles by a few pixels.
            if start and end and max(abs(start[0] - end[0]), abs(start[1] - end[1])) > DRAG_PX:
                self.down.word = DRAG
            self.down = None
        elif event.kind == "click":
            self._click(event)
        else:
            self._double(event)

    def _click(self, event: Event) -> None:
        """The end of a press; a further one without a press is made by the browser (a label, Enter on a button)."""
        if not self.done:
            self.done.append(DomGesture(CLICK, [event], rules=["click_without_press"]))
            return
        last = self.done[-1]
        # The first click ends the press; a second one has no press of its own.
        if last.word in (DRAG, CLICK, DOUBLE) and not any(seen.kind == "click" for seen in last.events):
            last.events.append(event)
        else:
            last.events.append(event)
            last.rules.append("click_made_by_browser")

    def _double(self, event: Event) -> None:
        """The two clicks before a dblclick are the same gesture."""
        clicks: list[DomGesture] = []
        # Only clicks at this place: two others may have come just before.
        while self.done and self.done[-1].word == CLICK and len(clicks) < 2 and _near(self.done[-1].events[0], event):
            clicks.insert(0, self.done.pop())
        self.done.append(DomGesture(DOUBLE, [*(seen for click in clicks for seen in click.events), event]))

    def _key(self, event: Event) -> None:
        code = event.code("keyCode")
        # Modifiers are held, not pressed: they change what follows.
        if code in _MODIFIERS and event.kind != "keypress":
            (self.held.add if event.kind == "keydown" else self.held.discard)(_MODIFIERS[code])
        elif event.kind == "keydown":
            self._press(event, code)
        elif event.kind == "keypress":
            self._character(event)

    def _press(self, event: Event, code: int) -> None:
        # An input method (as for Chinese) is at work: only the field shows what it wrote.
        if code == _COMPOSED:
            if not (self.done and self.done[-1].composed):
                self.done.append(DomGesture(TYPING, [], rules=["text_from_field"], composed=True))
            self.done[-1].events.append(event)
            return
        combining = tuple(key for key in _COMBINING if key in self.held)
        name = _KEYS.get(code) or (
            "enter" if code == 13 else chr(code).lower() if 48 <= code <= 90 or code == 32 else ""
        )
        # Shift alone writes capitals, so it makes no combination.
        if combining and name:
            shift = ("shift",) if "shift" in self.held else ()
            keys = (*combining, *shift, "space" if name == " " else name)
            error = ("no_counterpart", f"{len(keys)} keys at once") if len(keys) > 3 else None
            self.done.append(DomGesture(COMBO, [event], keys=keys[:3] if error is None else (), error=error))
        elif code == 13:
            self.done.append(DomGesture(ENTER, [event]))
        elif code in _KEYS:
            keys = ("shift", _KEYS[code]) if "shift" in self.held else (_KEYS[code],)
            self.done.append(DomGesture(KEY, [event], keys=keys))
        else:
            # Which character it writes, the next event says.
            self.waiting = event

    def _character(self, event: Event) -> None:
        down, self.waiting = self.waiting, None
        char = event.code("charCode")
        last = self.done[-1] if self.done else None
        # Browsers send a character for some combinations as well.
        if char == 0 or (last is not None and last.word in (COMBO, KEY) and down is None):
            if last is not None and down is None:
                # An echo of the combination.
                last.events.append(event)
            elif down is not None:
                self.waiting = down
                self._give_up()
            return
        if char in (10, 13):
            if last is not None and last.word == ENTER:
                last.events.append(event)
            else:
                # Enter reports itself twice: as a key and as a character.
                self.done.append(DomGesture(ENTER, [event]))
            return
        events = [event] if down is None else [down, event]
        if not 32 <= char <= 0x10FFFF or 0xD800 <= char <= 0xDFFF:
            self.done.append(DomGesture(OTHER, events, error=("bad_value", f"charCode {char} is no character")))
        elif last is not None and last.word == TYPING:
            # Characters in a row are one text.
            last.text += chr(char)
            last.events += events
        else:
            self.done.append(DomGesture(TYPING, events, text=chr(char)))


def read_gestures(events: Sequence[Event], states: Sequence[object]) -> list[DomGesture]:
    """Events (each once) in order → gestures in order of their first event. Key releases, Shift and other modifiers
    are no gestures of their own."""
    reader = _DomEventReader(states)
    for event in events:
        reader.read(event)
    if reader.waiting is not None:
        reader._give_up()
    for place, gesture in enumerate(reader.done):
        if gesture.composed:
            # Until the next gesture, as only the field shows what was composed.
            ends = reader.done[place + 1].events[0].state if place + 1 < len(reader.done) else len(states)
            _read_field(gesture, _field(states[max(gesture.events[0].state - 1, 0)]), _field(states[ends - 1]))
        if gesture.word == SCROLL:
            before, after = max(gesture.events[0].state - 1, 0), min(gesture.events[-1].state + 1, len(states) - 1)
            gesture.direction = scroll_direction(_dom(states[before]), _dom(states[after]))
            gesture.rules.append("direction_from_dom")
    return reader.done


def _field(state: object) -> str:
    """What the focused field holds; nothing if none is focused."""
    focused = [node for node, _ in nodes(_dom(state)) if node.get("focused") and isinstance(node.get("value"), str)]
    return str(focused[-1]["value"]) if focused else ""


def _read_field(gesture: DomGesture, before: str, after: str) -> None:
    """What was written between two values of a field; an error if something was taken away, or nothing written."""
    start = len(commonprefix([before, after]))
    end = len(commonprefix([before[start:][::-1], after[start:][::-1]]))
    gesture.text = after[start : len(after) - end]
    if start + end < len(before) or not gesture.text:
        gesture.error = ("bad_value", f"key {_COMPOSED}: the field went from {before[:40]!r} to {after[:40]!r}")


def _near(event: Event, other: Event) -> bool:
    a, b = event.point, other.point
    return a is not None and b is not None and max(abs(a[0] - b[0]), abs(a[1] - b[1])) <= DRAG_PX


def _dom(state: object) -> Any:
    return state.get("dom") if isinstance(state, dict) else None


def nodes(dom: Any) -> list[tuple[dict[str, Any], tuple[float, float, float, float]]]:
    """All nodes with a box, parents first, each with the part of its box (left, top, right, bottom in px) that its
    ancestors let through (swapped sides: nothing). An absent or malformed node is left out with its children."""
    found = []
    stack = [(dom, (float("-inf"), float("-inf"), float("inf"), float("inf")))]
    while stack:
        node, clip = stack.pop()
        try:
            left, top = float(node["left"]), float(node["top"])
            right, bottom = left + float(node["width"]), top + float(node["height"])
        except (KeyError, TypeError, ValueError):
            continue
        box = (max(left, clip[0]), max(top, clip[1]), min(right, clip[2]), min(bottom, clip[3]))
        found.append((node, box))
        children = node.get("children")
        stack += [(child, box) for child in reversed(children if isinstance(children, list) else [])]
    return found


def leaves(dom: object, frame: tuple[int, int]) -> list[dict[str, Any]]:
    """Visible leaves of a DOM as elements in 0..1000 of the frame."""
    found = []
    for node, box in nodes(dom):
        if node.get("children") or box[0] >= box[2] or box[1] >= box[3]:
            continue
        try:
            unit = box_to_unit(box, frame)
        except OffScreen:
            continue
        if unit[0] < unit[2] and unit[1] < unit[3]:
            value, text = (str(node.get(name) or "").strip() for name in ("value", "text"))
            found.append(
                {"box": unit, "role": str(node.get("tag", "")).lower(), "text": text or value, "name": text or value}
            )
    return found


def scroll_direction(before: object, after: object) -> str:
    """What a scroll showed, from the nodes (by ref) that kept their size and moved: up → `down`. "" if none moved or
    they moved apart."""
    old = {node.get("ref"): node for node, _ in nodes(before)}
    moves: set[str] = set()
    for node, _ in nodes(after):
        was = old.get(node.get("ref"))
        if was is None or any(was.get(side) != node.get(side) for side in ("width", "height")):
            continue
        dx, dy = float(node["left"]) - float(was["left"]), float(node["top"]) - float(was["top"])
        if abs(dy) >= 1 and abs(dy) >= abs(dx):
            moves.add("down" if dy < 0 else "up")
        elif abs(dx) >= 1:
            moves.add("right" if dx < 0 else "left")
    return moves.pop() if len(moves) == 1 else ""
