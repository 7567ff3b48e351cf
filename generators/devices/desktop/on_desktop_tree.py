"""Runs on the desktop (its system's python3 with python3-gi and gir1.2-atspi-2.0); the driver sends it over stdin.

Input: nothing. Output: JSON {"cut": some left out, "windows": [{"app", "title", "active", "items": [...]}]}; an item is
{"path", "label", "role", "name", "text", "box": [x, y, w, h] in pixels, "states", "actions"}. Only what shows is
listed.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import gi

gi.require_version("Atspi", "2.0")
from gi.repository import Atspi, GLib  # noqa: E402

MAX_ITEMS = 5000
MAX_DEPTH = 60
MAX_TEXT = 65536
STATES = ("ACTIVE", "FOCUSED", "CHECKED", "SELECTED", "SENSITIVE", "EDITABLE", "FOCUSABLE", "EXPANDED")


UNNAMED = ("text", "password text", "entry", "spin button", "slider", "combo box", "table", "list box")
"""Roles that programs mostly leave without a name, but with a label beside them."""


def labels_of(node: Any) -> str:
    """Names of the labels that a program ties to an item."""
    said = []
    for relation in node.get_relation_set() or ():
        if relation.get_relation_type() == Atspi.RelationType.LABELLED_BY:
            said += [relation.get_target(i).get_name() or "" for i in range(relation.get_n_targets())]
    return " ".join(said)


class DesktopTreeReader:
    def __init__(self) -> None:
        self.count = 0
        self.cut = False

    def item(self, node: Any, path: str) -> dict[str, Any]:
        states = node.get_state_set()
        text = ""
        if node.get_text_iface() is not None:
            text = Atspi.Text.get_text(node, 0, min(Atspi.Text.get_character_count(node), MAX_TEXT))
        box = [0, 0, 0, 0]
        if node.get_component_iface() is not None:
            found = Atspi.Component.get_extents(node, Atspi.CoordType.SCREEN)
            box = [found.x, found.y, found.width, found.height]
        actions = 0
        if node.get_action_iface() is not None:
            actions = Atspi.Action.get_n_actions(node)
        # a label beside a field names it where the program gives it no name of its own
        label = labels_of(node) if not node.get_name() and node.get_role_name() in UNNAMED else ""
        return {
            "path": path,
            "label": label,
            "role": node.get_role_name(),
            "name": node.get_name() or "",
            "text": text,
            "box": box,
            "actions": actions,
            "states": [name for name in STATES if states.contains(getattr(Atspi.StateType, name))],
        }

    def walk(self, node: Any, path: str, items: list[dict[str, Any]], depth: int) -> None:
        # bounded: a program may list a tree without end
        if self.count >= MAX_ITEMS or depth > MAX_DEPTH:
            self.cut = True
            return
        if not node.get_state_set().contains(Atspi.StateType.SHOWING):
            return
        self.count += 1
        items.append(self.item(node, path))
        for index in range(min(node.get_child_count(), MAX_ITEMS)):
            try:
                child = node.get_child_at_index(index)
                if child is not None:
                    self.walk(child, f"{path}.{index}", items, depth + 1)
            except GLib.Error:
                continue  # it went away while the tree was read


def main() -> None:
    Atspi.init()
    reader = DesktopTreeReader()
    windows: list[dict[str, Any]] = []
    desktop = Atspi.get_desktop(0)
    for index in range(desktop.get_child_count()):
        try:
            app = desktop.get_child_at_index(index)
            for number in range(app.get_child_count() if app is not None else 0):
                window = app.get_child_at_index(number)
                items: list[dict[str, Any]] = []
                if window is not None:
                    reader.walk(window, f"{app.get_name() or ''}:{number}", items, 0)
                if items:
                    windows.append(
                        {
                            "app": app.get_name() or "",
                            "title": items[0]["name"],
                            "active": "ACTIVE" in items[0]["states"],
                            "items": items,
                        }
                    )
        except GLib.Error:
            continue  # a program that ends
    sys.stdout.write(json.dumps({"windows": windows, "cut": reader.cut}))


main()
