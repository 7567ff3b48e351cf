"""One name for each key, whatever a dataset, a model or a person calls it."""

import re

MODIFIERS = frozenset({"alt", "ctrl", "meta", "shift"})
ENTER = "enter"
_KEYS = """
alt: opt option ⌥
backspace: bksp
capslock: caps
ctrl: control controlormeta ⌃
delete: del
down: arrowdown downarrow
enter: kpenter numpadenter return
esc: escape
insert: ins
left: arrowleft leftarrow
menu: apps contextmenu
meta: cmd command os super win windows ⌘
pagedown: next pagedn pgdn pgdown
pageup: pgup prior
prtsc: print printscreen printscrn prntscrn prtscn prtscr
right: arrowright rightarrow
shift: ⇧
space: spacebar
up: arrowup uparrow
+: plus
-: minus
=: equal equals
,: comma
.: dot period
/: slash
;: semicolon
': apostrophe quote
[: bracketleft
]: bracketright
\\: backslash
`: backquote backtick grave
"""
"""A key's name, then what else it is called."""
_ALIASES = {"\n": "enter", "\r": "enter", "\t": "tab", " ": "space"}
_ALIASES |= {said: line.partition(":")[0] for line in _KEYS.strip().splitlines() for said in line.split()[1:]}
_SIDES = {
    word: name
    for name in ("alt", "ctrl", "control", "shift", "win", "super", "option", "meta", "cmd", "command")
    for side in ("left", "right", "l", "r")
    for word in (name + side, side + name)
}
"""A modifier of one side, as pyautogui (`ctrlleft`), X11 (`Control_L`) and people (`left shift`) say it."""


_PREFIX = re.compile(r"^(?:(?:keycode|keys?\.)(?=.)|key(?=[a-z]$)|(?:digit|num|numpad|kp)(?=[0-9]$))")
"""Before a name as code writes it: `Key.ctrl_l`, `KEYCODE_ENTER`, `KeyC`, `Digit1`, and a digit's second key."""


def key_name(said: str) -> str:
    """The name of a key: `Return` → `enter`, `Control` and `ctrlleft` → `ctrl`, `ArrowDown` → `down`; case, blanks,
    `_` and `-` within a name don't count. A single character is its own name, a name that isn't known stays as it is,
    in lower case."""
    if len(said) == 1:
        # Space and line breaks are keys of their own; other single characters name themselves.
        return _ALIASES.get(said, said)
    name = said.strip().lower().replace("_", "").replace("-", "").replace(" ", "")
    if len(name) < 2:  # a mark among blanks
        return name or said
    name = _PREFIX.sub("", name, count=1)
    name = _SIDES.get(name, name)
    return _ALIASES.get(name, name)


def key_names(said: tuple[str, ...]) -> tuple[str, ...]:
    """The names of keys pressed together. With a modifier, the case of a letter says nothing: Ctrl+C is ctrl, c."""
    names = tuple(key_name(key) for key in said)
    # Ctrl+C and Ctrl+c are pressed by the same fingers; alone, a capital is a capital.
    if len(names) > 1 and MODIFIERS.intersection(names):
        return tuple(name.lower() if len(name) == 1 and name.isascii() else name for name in names)
    return names
