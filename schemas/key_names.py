"""One name for each key, whatever a dataset, a model or a person calls it."""

MODIFIERS = frozenset({"alt", "ctrl", "meta", "shift"})
ENTER = "enter"
_KEYS = """
alt: option
backspace: bksp
ctrl: control controlormeta
delete: del
down: arrowdown downarrow
enter: kpenter numpadenter return
esc: escape
insert: ins
left: arrowleft leftarrow
meta: cmd command super win windows
pagedown: pagedn pgdn pgdown
pageup: pgup
prtsc: printscreen prntscrn prtscn prtscr
right: arrowright rightarrow
space: spacebar
up: arrowup uparrow
"""
"""A key's name, then what else it is called."""
_ALIASES = {"\n": "enter", "\r": "enter", "\t": "tab", " ": "space"}
_ALIASES |= {said: line.partition(":")[0] for line in _KEYS.strip().splitlines() for said in line.split()[1:]}
_SIDES = {
    f"{name}{side}": name for name in ("alt", "ctrl", "shift", "win", "option", "meta") for side in ("left", "right")
}


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
    name = _SIDES.get(name, name)
    return _ALIASES.get(name, name)


def key_names(said: tuple[str, ...]) -> tuple[str, ...]:
    """The names of keys pressed together. With a modifier, the case of a letter says nothing: Ctrl+C is ctrl, c."""
    names = tuple(key_name(key) for key in said)
    # Ctrl+C and Ctrl+c are pressed by the same fingers; alone, a capital is a capital.
    if len(names) > 1 and MODIFIERS.intersection(names):
        return tuple(name.lower() if len(name) == 1 and name.isascii() else name for name in names)
    return names
