"""Does a press at a point reach the element that is said to be there? Runs on the desktop (its python3 with python3-gi,
gir1.2-atspi-2.0, libXtst, xdotool).

Input: JSON {"points": [{"path", "x", "y", "how": "press" | "hover"}], "away": [x, y]}. Output: JSON {"found": [...]},
for each point {"hit": path of what the program itself says is at the point, "events": [[kind, path], ...] of what took
the focus or the selection, "same_window": whether the window there is the element's}. A press is let go far away, so
that nothing is carried out.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
import time
from typing import Any

import gi

gi.require_version("Atspi", "2.0")
from gi.repository import Atspi, GLib  # noqa: E402

KINDS = (
    "object:state-changed:focused",
    "object:state-changed:selected",
    "object:state-changed:armed",
    "object:state-changed:pressed",
    "object:text-caret-moved",
    "object:active-descendant-changed",
)
LAYERS = ("menu", "popup menu", "combo box menu")
SCREEN = Atspi.CoordType.SCREEN


def path_of(node: Any) -> str:
    """As `on_desktop_tree.py` writes it: program, number of its window, indices below."""
    numbers: list[str] = []
    # A hundred levels: trees with a circle must end.
    while node is not None and len(numbers) < 100:
        parent = node.get_parent()
        if parent is None:
            return ""
        if parent.get_role_name() == "application":
            return f"{parent.get_name() or ''}:{'.'.join([str(node.get_index_in_parent()), *reversed(numbers)])}"
        numbers.append(str(node.get_index_in_parent()))
        node = parent
    return ""


def node_at(path: str) -> tuple[object, list[object]]:
    """The item of a path, and the items above it, its window first."""
    name, _, numbers = path.rpartition(":")
    desktop = Atspi.get_desktop(0)
    for index in range(desktop.get_child_count()):
        node = desktop.get_child_at_index(index)
        if node is not None and (node.get_name() or "") == name:
            above = []
            for number in map(int, numbers.split(".")):
                above.append(node)
                node = node.get_child_at_index(number) if node is not None else None
            if node is not None:
                return node, above[1:]
    return None, []


# Asked from the inside: popups lie outside of their parent's box.
def hit(node: Any, above: list[Any], x: int, y: int) -> str:
    """What the program says is at the point, asked from the innermost open menu or tab (what is in them lies outside of
    their own box), else from the window."""
    outer = [
        0,
        *(
            index + (item.get_role_name() == "page tab")
            for index, item in enumerate(above)
            if item.get_role_name() in (*LAYERS, "page tab")
        ),
    ]
    at = above[outer[-1]] if outer[-1] < len(above) else node
    # From outer to inner until nothing lies deeper.
    for _ in range(60):
        inner = at.get_accessible_at_point(x, y, SCREEN) if at.get_component_iface() is not None else None
        if inner is None or inner == at:
            break
        at = inner
    return path_of(at)


def xdotool(*words: str) -> str:
    return subprocess.run(["xdotool", *words], capture_output=True, timeout=5).stdout.decode("utf-8", "replace").strip()


class Pointer:
    """The mouse, by the X server's test extension, and which windows are under it, as the server has it."""

    def __init__(self) -> None:
        self.x11 = ctypes.CDLL("libX11.so.6")
        self.x11.XOpenDisplay.restype = ctypes.c_void_p
        self.x11.XDefaultRootWindow.restype = ctypes.c_ulong
        self.x11.XDefaultRootWindow.argtypes = [ctypes.c_void_p]
        self.x11.XQueryPointer.argtypes = [ctypes.c_void_p, ctypes.c_ulong, *[ctypes.c_void_p] * 7]
        self.x11.XSync.argtypes = [ctypes.c_void_p, ctypes.c_int]
        self.test = ctypes.CDLL("libXtst.so.6")
        integers = [ctypes.c_int] * 3
        self.test.XTestFakeMotionEvent.argtypes = [ctypes.c_void_p, *integers, ctypes.c_ulong]
        self.test.XTestFakeButtonEvent.argtypes = [ctypes.c_void_p, ctypes.c_uint, ctypes.c_int, ctypes.c_ulong]
        self.display = self.x11.XOpenDisplay(None)
        self.known: dict[int, tuple[str, str]] = {}

    def move(self, x: int, y: int) -> None:
        self.test.XTestFakeMotionEvent(self.display, -1, x, y, 0)
        self.x11.XSync(self.display, 0)

    def button(self, down: bool) -> None:
        self.test.XTestFakeButtonEvent(self.display, 1, int(down), 0)
        self.x11.XSync(self.display, 0)

    def windows(self) -> list[tuple[str, str]]:
        """Process id and title of each ("" where it has none)."""
        window: int = self.x11.XDefaultRootWindow(self.display)
        found: list[tuple[str, str]] = []
        # From the root window inwards.
        while window and len(found) < 20:
            root, child, mask = ctypes.c_ulong(), ctypes.c_ulong(), ctypes.c_uint()
            numbers = [ctypes.c_int() for _ in range(4)]
            self.x11.XQueryPointer(
                self.display,
                window,
                ctypes.byref(root),
                ctypes.byref(child),
                *map(ctypes.byref, numbers),
                ctypes.byref(mask),
            )
            window = child.value
            if window:
                # Asked once a window: each question is a process.
                if window not in self.known:
                    self.known[window] = xdotool("getwindowpid", str(window)), xdotool("getwindowname", str(window))
                found.append(self.known[window])
        return found


def related(path: str, other: str) -> bool:
    """Whether one is in the other, or both are the same."""
    return bool(other) and (f"{path}.".startswith(f"{other}.") or other.startswith(f"{path}."))


class Checker:
    def __init__(self, away: list[int]) -> None:
        self.pointer = Pointer()
        self.away = [int(value) for value in away]
        self.heard: list[Any] = []
        self.listener = Atspi.EventListener.new(self.hear)
        for kind in KINDS:
            self.listener.register(kind)

    def hear(self, event: Any) -> None:
        # Only what was taken; what was lost isn't heard.
        if event.type.startswith("object:state-changed") and not event.detail1:
            return
        source = event.source
        if event.type.startswith("object:active-descendant"):
            source = source.get_child_at_index(event.detail1) if event.detail1 >= 0 else source
        self.heard.append((event.type, source))

    def listen(self, seconds: float, path: str = "") -> bool:
        """For so long, or until something at or around a path took the focus: True."""
        context, end = GLib.MainContext.default(), time.monotonic() + seconds
        while time.monotonic() < end:
            before = len(self.heard)
            if not context.iteration(False):
                time.sleep(0.003)
            if path and any(related(path, path_of(source)) for _, source in self.heard[before:]):
                return True
        return False

    def same_window(self, node: Any, above: list[Any]) -> bool:
        """Whether the window under the pointer is of this program, and of this title unless it is a menu."""
        pid, title = str(node.get_process_id()), ((above[0] if above else node).get_name() or "").strip()
        in_menu = any(item.get_role_name() in LAYERS for item in above)
        return any(had == pid and (in_menu or said == title) for had, said in self.pointer.windows())

    def check(self, asked: dict[str, Any]) -> dict[str, object]:
        node, above = node_at(asked["path"])
        if node is None:
            return {"hit": "", "events": [], "same_window": False}
        x, y, press = int(asked["x"]), int(asked["y"]), asked["how"] == "press"
        found: dict[str, Any] = {"hit": hit(node, above, x, y), "how": asked["how"]}
        for _ in range(2 if press else 1):  # the first press only closes a menu that is open
            # Events of what was before must not count for this one.
            self.listen(0.005)
            self.heard.clear()
            # From one pixel beside: a pointer that doesn't move gives no events.
            self.pointer.move(x - 1, y)
            self.pointer.move(x, y)
            found["same_window"] = self.same_window(node, above)
            reached = False
            if press:
                self.pointer.button(True)
                reached = self.listen(0.08, asked["path"])
                # Let go far away, so that nothing is carried out.
                self.pointer.move(*self.away)
                self.pointer.button(False)
            self.listen(0.02 if reached else 0.04)
            found["events"] = [[kind, path_of(source)] for kind, source in self.heard if source is not None]
            if any(related(asked["path"], path) for _, path in found["events"]):
                break
        return found


def main() -> None:
    asked = json.loads(sys.stdin.buffer.read())
    Atspi.init()
    checker = Checker(asked["away"])
    found = []
    for point in asked["points"]:
        try:
            found.append(checker.check(point))
        # A program that ended meanwhile: its elements are unconfirmed.
        except GLib.Error:
            found.append({"hit": "", "events": [], "same_window": False})
    sys.stdout.write(json.dumps({"found": found}))


main()
