"""Names of keys, as `Hotkey` has them, to X keysyms that xdotool takes; and names of programs to what starts them."""

from generators.devices.drivers.driver_names import NAMES
from generators.devices.keyboard import find_key

_KEYSYMS: dict[str, str] = NAMES["keysyms"]
PROGRAMS: dict[str, tuple[str, ...]] = {
    "calculator": ("galculator",),
    "galculator": ("galculator",),
    "mousepad": ("mousepad",),
    "text editor": ("mousepad",),
    "editor": ("mousepad",),
}
"""Name of a program, in lower case → the words that start it."""


def keysym(name: str) -> str | None:
    """The X keysym of a key; None for a name that no key has. A letter is its key: `A` is `a` without shift."""
    key = find_key(name)
    if key is None:
        return None
    # xdotool's own names where they differ, else the key itself without shift
    return _KEYSYMS.get(key.key, key.key.lower() if len(key.key) == 1 else key.key)
