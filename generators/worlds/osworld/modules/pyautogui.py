"""What setup commands of task files call of `pyautogui`, by xdotool; runs in a sealed desktop session (system Python).

Of the library's own names those that OSWorld's task files use, with their arguments; another name is an
AttributeError, as anything else that isn't there.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterable

FAILSAFE = True
PAUSE = 0.1
_BUTTONS = {"left": "1", "middle": "2", "right": "3"}
_KEYS = {
    "enter": "Return",
    "return": "Return",
    "esc": "Escape",
    "escape": "Escape",
    "tab": "Tab",
    "space": "space",
    "backspace": "BackSpace",
    "delete": "Delete",
    "del": "Delete",
    "home": "Home",
    "end": "End",
    "pageup": "Prior",
    "pagedown": "Next",
    "up": "Up",
    "down": "Down",
    "left": "Left",
    "right": "Right",
    "ctrl": "ctrl",
    "alt": "alt",
    "shift": "shift",
    "win": "super",
    "command": "super",
}


def _do(*words: str) -> str:
    done = subprocess.run(["xdotool", *words], capture_output=True, text=True, timeout=30, check=True)
    time.sleep(PAUSE)
    return done.stdout


def _key(name: str) -> str:
    low = name.lower()
    if low in _KEYS:
        return _KEYS[low]
    if low.startswith("f") and low[1:].isdigit():
        return f"F{low[1:]}"
    return f"U{ord(name):04X}" if len(name) == 1 and not name.isalnum() else name


def size() -> tuple[int, int]:
    width, height = _do("getdisplaygeometry").split()
    return int(width), int(height)


def moveTo(x: float, y: float, duration: float = 0.0) -> None:
    _do("mousemove", str(int(x)), str(int(y)))
    time.sleep(duration)


def click(
    x: float | None = None, y: float | None = None, clicks: int = 1, interval: float = 0.0, button: str = "left"
) -> None:
    if x is not None and y is not None:
        moveTo(x, y)
    for _ in range(clicks):
        _do("click", _BUTTONS[button])
        time.sleep(interval)


def doubleClick(x: float | None = None, y: float | None = None) -> None:
    if x is not None and y is not None:
        moveTo(x, y)
    _do("click", "--repeat", "2", "--delay", "80", "1")


def rightClick(x: float | None = None, y: float | None = None) -> None:
    click(x, y, button="right")


def dragTo(x: float, y: float, duration: float = 0.0, button: str = "left") -> None:
    _do("mousedown", _BUTTONS[button])
    moveTo(x, y, duration)
    _do("mouseup", _BUTTONS[button])


def scroll(clicks: int, x: float | None = None, y: float | None = None) -> None:
    if x is not None and y is not None:
        moveTo(x, y)
    for _ in range(abs(clicks)):
        _do("click", "4" if clicks > 0 else "5")


def write(message: str, interval: float = 0.0) -> None:
    _do("type", "--delay", str(max(12, int(interval * 1000))), "--", message)


typewrite = write


def press(keys: str | Iterable[str], presses: int = 1, interval: float = 0.0) -> None:
    for _ in range(presses):
        for name in [keys] if isinstance(keys, str) else keys:
            _do("key", _key(name))
            time.sleep(interval)


def hotkey(*names: str, interval: float = 0.0) -> None:
    _do("key", "+".join(_key(name) for name in names))
    time.sleep(interval)


def keyDown(name: str) -> None:
    _do("keydown", _key(name))


def keyUp(name: str) -> None:
    _do("keyup", _key(name))


def sleep(seconds: float) -> None:
    time.sleep(seconds)
