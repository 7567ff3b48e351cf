"""One name for each key, whatever a dataset, a model or a person calls it."""

import re

MODIFIERS = frozenset({"alt", "ctrl", "meta", "shift"})
ENTER = "enter"
_KEYS = """
alt: opt option ⌥
altgr: altgraph isolevel3shift
backspace: bksp bs ⌫ keycodedel
capslock: caps ⇪
ctrl: control controlormeta ctl ⌃
delete: del forwarddelete keycodeforwarddel ⌦
down: arrowdown downarrow dpaddown ↓
end: moveend
enter: newline return ⏎ ↵
esc: escape ⎋
home: movehome
insert: ins
left: arrowleft leftarrow dpadleft ←
menu: apps contextmenu
meta: cmd command os super win windows ⌘
pagedown: next pagedn pgdn pgdown ⇟
pageup: pgup prior ⇞
pause: break
prtsc: print printscreen printscrn prntscrn prtscn prtscr
right: arrowright rightarrow dpadright →
shift: ⇧
space: spacebar ␣
tab: isolefttab ⇥
up: arrowup uparrow dpadup ↑
volumedown: audiovolumedown xf86audiolowervolume
volumemute: audiovolumemute mute xf86audiomute
volumeup: audiovolumeup xf86audioraisevolume
"""
"""A key's name, then what else it is called: by pyautogui, X11, the DOM, Selenium, Android, macOS and in manuals.
Android's `KEYCODE_DEL` is what others call backspace."""
_MARKS = """
! exclam  " quotedbl  " doublequote  # numbersign  # hash  $ dollar  % percent  & ampersand  ' apostrophe  ' quote
( parenleft  ) parenright  * asterisk  * multiply  + plus  + add  , comma  - minus  - hyphen  - subtract  . dot
. period  . decimal  / slash  / divide  : colon  ; semicolon  < less  = equal  = equals  > greater  ? question  @ at
[ bracketleft  \\ backslash  ] bracketright  ^ asciicircum  ^ caret  _ underscore  ` backquote  ` backtick  ` grave
{ braceleft  | bar  | pipe  } braceright  ~ asciitilde  ~ tilde
"""
"""A character, then a name of its key."""
_ALIASES = {"\n": "enter", "\r": "enter", "\t": "tab", " ": "space"}
_ALIASES |= {said: line.partition(":")[0] for line in _KEYS.strip().splitlines() for said in line.split()[1:]}
_ALIASES |= dict(zip(_MARKS.split()[1::2], _MARKS.split()[::2], strict=True))
_SIDES = {
    word: name
    for name in ("alt", "ctrl", "control", "shift", "win", "super", "option", "meta", "cmd", "command", "os")
    for side in ("left", "right", "l", "r")
    for word in (name + side, side + name)
}
"""A modifier of one side, as pyautogui (`ctrlleft`), X11 (`Control_L`) and people (`left shift`) say it."""
_KNOWN = {*_ALIASES, *_ALIASES.values(), *_SIDES}

_PREFIX = re.compile(
    r"^(?:(?:keycode|keys?\.)(?=.)|key(?=[a-z]$)|(?:digit|num|numpad|kp)(?=[0-9]$)|(?:numpad|kp)(?=[a-z]{2}))"
)
"""Before a name as code writes it: `Key.ctrl_l`, `KEYCODE_ENTER`, `KeyC`, `Digit1`; `KP_Add` is a key's second one."""
_FRAMED = re.compile(r"[<{\[](\w+)[>}\]]")
"""A name as scripts write it: `<ctrl>`, `{ENTER}`."""


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
    if framed := _FRAMED.fullmatch(name):
        name = framed[1]
    # `windows key`, but no name that only ends so.
    if (bare := name.removesuffix("key")) in _KNOWN:
        name = bare
    # Before its prefix is taken off: without it Android's `KEYCODE_DEL` would be another key.
    if name not in _ALIASES:
        name = _PREFIX.sub("", _PREFIX.sub("", name))
    name = _SIDES.get(name, name)
    return _ALIASES.get(name, name)


def key_names(said: tuple[str, ...]) -> tuple[str, ...]:
    """The names of keys pressed together. With a modifier, the case of a letter says nothing: Ctrl+C is ctrl, c."""
    names = tuple(key_name(key) for key in said)
    # Ctrl+C and Ctrl+c are pressed by the same fingers; alone, a capital is a capital.
    if len(names) > 1 and MODIFIERS.intersection(names):
        return tuple(name.lower() if len(name) == 1 and name.isascii() else name for name in names)
    return names
