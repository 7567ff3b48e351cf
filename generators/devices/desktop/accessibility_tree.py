"""A desktop's AT-SPI tree as elements. It is what a program on the desktop says, so nothing of it is trusted.

Hidden items stand at INT_MIN and are left out, as is what lies off the screen or under another window or an open menu.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from generators.tasks.world_interface import ScreenElement
from schemas.coordinates import centre

SCRIPT = Path(__file__).with_name("on_desktop_tree.py").read_bytes()
FAR = 100_000
"""Pixels; no screen reaches there. Toolkits put hidden items at INT_MIN."""
LAYERS = ("menu", "popup menu", "combo box menu")
FILLERS = frozenset(
    {
        "filler",
        "panel",
        "frame",
        "window",
        "redundant object",
        "scroll pane",
        "viewport",
        "unknown",
        "separator",
        "application",
        "root pane",
        "layered pane",
        "split pane",
        "grouping",
    }
)
MAX_TEXT = 2000
Pixels = tuple[int, int, int, int]


def clip(raw: object, size: tuple[int, int]) -> Pixels | None:
    """x, y, width, height → left, top, right, bottom inside the screen; None where nothing of it is on it."""
    # `type`, since True is an int to Python
    if not (isinstance(raw, list) and len(raw) == 4 and all(type(v) is int for v in raw)):
        return None
    x, y, width, height = raw
    if min(x, y) <= -FAR or max(x, y, width, height) >= FAR or width <= 0 or height <= 0:
        return None
    left, top, right, bottom = max(x, 0), max(y, 0), min(x + width, size[0]), min(y + height, size[1])
    return (left, top, right, bottom) if left < right and top < bottom else None


def windows_of(raw: Mapping[str, object]) -> list[dict[str, Any]]:
    """The windows that the script listed, the active one last (on top). Raises `ValueError` on another shape."""
    windows = raw.get("windows")
    if not isinstance(windows, list) or not all(
        isinstance(window, dict) and isinstance(window.get("items"), list) and window["items"] for window in windows
    ):
        raise ValueError("AT-SPI tree: expected an object with windows that have items")
    # the active window last: it lies on top of the others
    return sorted(windows, key=lambda window: bool(window.get("active")))


def menu_covers(window: Mapping[str, Any], size: tuple[int, int]) -> Iterator[tuple[str, Pixels]]:
    """Path and box of the open menus of a window: children lie outside of a menu's title, so their union counts."""
    boxes: dict[str, list[Pixels]] = {}
    menus = {item["path"] for item in window["items"] if item.get("role") in LAYERS}
    for item in window["items"]:
        parent = str(item.get("path")).rpartition(".")[0]
        if parent in menus and (box := clip(item.get("box"), size)):
            boxes.setdefault(parent, []).append(box)
    for path, found in boxes.items():
        yield (
            path,
            (min(b[0] for b in found), min(b[1] for b in found), max(b[2] for b in found), max(b[3] for b in found)),
        )


def _inside(x: float, y: float, box: Pixels) -> bool:
    return box[0] <= x < box[2] and box[1] <= y < box[3]


def screen_elements_of(raw: Mapping[str, object], size: tuple[int, int]) -> tuple[ScreenElement, ...]:
    """Elements of all windows, the lowest first. `key` is the program and the path below it."""
    windows = windows_of(raw)
    found: list[ScreenElement] = []
    for index, window in enumerate(windows):
        # a window that lies above hides what is in its frame
        higher = [box for above in windows[index + 1 :] if (box := clip(above["items"][0].get("box"), size))]
        menus = list(menu_covers(window, size))
        for item in window["items"]:
            box = clip(item.get("box"), size)
            if box is None or item.get("role") in FILLERS:
                continue
            path = str(item.get("path"))
            x, y = centre(box)
            if any(_inside(x, y, above) for above in higher):
                continue
            # an open menu hides what is below it, but not its own items
            if any(_inside(x, y, cover) and not path.startswith(f"{menu}.") for menu, cover in menus):
                continue
            found.append(_element(item, box, size))
    return tuple(found)


def name_of(item: Mapping[str, object]) -> str:
    """The name without the blanks around it (menus pad theirs)."""
    return str(item.get("name", ""))[:MAX_TEXT].strip()


def _element(item: Mapping[str, Any], box: Pixels, size: tuple[int, int]) -> ScreenElement:
    width, height = size
    unit = (box[0] * 1000 / width, box[1] * 1000 / height, box[2] * 1000 / width, box[3] * 1000 / height)
    states = item.get("states") or ()
    clickable = "SENSITIVE" in states and bool(item.get("actions") or "FOCUSABLE" in states or "EDITABLE" in states)
    name, text = name_of(item), str(item.get("text", ""))[:MAX_TEXT]
    return ScreenElement(unit, str(item.get("role", "")), text or name, name, str(item.get("path")), clickable)


def texts_of(window: Mapping[str, Any]) -> list[dict[str, str]]:
    """Role, name and text of the items of a window that say anything, and which of them are checked or focused."""
    return [
        {
            "role": str(item.get("role")),
            "name": name_of(item),
            "text": str(item.get("text", "")),
            "states": " ".join(
                # states that say what a user has chosen; the others are how a toolkit draws
                state
                for state in item.get("states", ())
                if state in ("CHECKED", "SELECTED", "FOCUSED")
            ),
        }
        for item in window["items"]
        if item.get("name") or item.get("text")
    ]
