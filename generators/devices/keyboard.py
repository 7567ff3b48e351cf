"""Names of keys, as `Hotkey` has them, to the fields of CDP's key events."""

from dataclasses import dataclass

from schemas.key_names import key_name

ALT, CONTROL, META, SHIFT = 1, 2, 4, 8
"""Bits of `modifiers`."""


@dataclass(frozen=True, slots=True)
class Key:
    """`key` and `code` as in DOM events, `number` = Windows' virtual key code, `text` = what it types alone."""

    key: str
    code: str
    number: int
    text: str = ""
    modifier: int = 0


_NAMED = {
    "alt": Key("Alt", "AltLeft", 18, modifier=ALT),
    "backspace": Key("Backspace", "Backspace", 8),
    "ctrl": Key("Control", "ControlLeft", 17, modifier=CONTROL),
    "delete": Key("Delete", "Delete", 46),
    "down": Key("ArrowDown", "ArrowDown", 40),
    "end": Key("End", "End", 35),
    "enter": Key("Enter", "Enter", 13, "\r"),
    "esc": Key("Escape", "Escape", 27),
    "home": Key("Home", "Home", 36),
    "insert": Key("Insert", "Insert", 45),
    "left": Key("ArrowLeft", "ArrowLeft", 37),
    "meta": Key("Meta", "MetaLeft", 91, modifier=META),
    "pagedown": Key("PageDown", "PageDown", 34),
    "pageup": Key("PageUp", "PageUp", 33),
    "right": Key("ArrowRight", "ArrowRight", 39),
    "shift": Key("Shift", "ShiftLeft", 16, modifier=SHIFT),
    "space": Key(" ", "Space", 32, " "),
    "tab": Key("Tab", "Tab", 9),
    "up": Key("ArrowUp", "ArrowUp", 38),
    **{f"f{number}": Key(f"F{number}", f"F{number}", 111 + number) for number in range(1, 13)},
}
_MARKS = {
    ";": ("Semicolon", 186),
    "=": ("Equal", 187),
    ",": ("Comma", 188),
    "-": ("Minus", 189),
    ".": ("Period", 190),
    "/": ("Slash", 191),
    "`": ("Backquote", 192),
    "[": ("BracketLeft", 219),
    "\\": ("Backslash", 220),
    "]": ("BracketRight", 221),
    "'": ("Quote", 222),
}


def find_key(name: str) -> Key | None:
    """A key by name (any case, `_`, `-` and blanks inside names don't count) or by the one ASCII character on it."""
    if len(name) == 1:
        if name.isascii() and name.isalpha():
            return Key(name, f"Key{name.upper()}", ord(name.upper()), name)
        if name.isascii() and name.isdigit():
            return Key(name, f"Digit{name}", ord(name), name)
        if name in _MARKS:
            return Key(name, *_MARKS[name], name)
    return _NAMED.get(key_name(name))
