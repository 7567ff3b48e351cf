"""Rico: `combined/<id>.jpg` and its view hierarchy `combined/<id>.json`, bounds in a frame of 1440 x 2560."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from generators.proving.embedded.native import common
from generators.proving.embedded.screens import StillScreen
from generators.worlds.pages.own_pages import PageElement
from generators.worlds.pages.page_task import PACKAGES

FRAME = 4  # hierarchy pixels a CSS pixel: 360 x 640 -> 1440 x 2560


def node(element: PageElement, app: str, children: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """One view, with the fields of Rico's dumps."""
    return {
        "class": common.android_class(element),
        "bounds": [round(side * FRAME) for side in element.box],
        "clickable": element.clickable,
        "focusable": element.clickable,
        "focused": element.focused,
        "enabled": True,
        "visible-to-user": True,
        "visibility": "visible",
        "long-clickable": False,
        "scrollable-horizontal": False,
        "scrollable-vertical": False,
        "selected": element.checked,
        "pressed": "not_pressed",
        "draw": True,
        "package": PACKAGES[app],
        "resource-id": f"{PACKAGES[app]}:id/{element.role}",
        "content-desc": [element.name if element.name != element.text else None],
        "text": element.text,
        "ancestors": ["android.view.View", "java.lang.Object"],
        "adapter-view": False,
        "children": children,
    }


def hierarchy(screen: StillScreen) -> dict[str, object]:
    """The dump of one screen: elements nested as they lie in the page, under a root."""
    children: dict[int, list[int]] = {}
    for i, element in enumerate(screen.elements):
        children.setdefault(element.parent, []).append(i)

    def build(i: int) -> dict[str, Any]:
        return node(screen.elements[i], screen.app, [build(c) for c in children.get(i, [])])

    root = {
        "class": "com.android.internal.policy.PhoneWindow$DecorView",
        "bounds": [0, 0, 360 * FRAME, 640 * FRAME],
        "clickable": False,
        "visible-to-user": True,
        "visibility": "visible",
        "package": PACKAGES[screen.app],
        "content-desc": [None],
        "ancestors": ["android.view.View"],
        "children": [build(i) for i in children.get(-1, [])],
    }
    return {
        "activity_name": f"{PACKAGES[screen.app]}/.{screen.view.capitalize()}",
        "activity": {"root": root, "added_fragments": [], "active_fragments": []},
        "is_keyboard_deployed": False,
        "request_id": screen.number,
    }


def write(root: Path, screens: Sequence[StillScreen]) -> None:
    for screen in screens:
        # Pictures are left out where only the trees are needed.
        if screen.picture is None:
            raise ValueError(f"rico/{screen.number}: expected a screen rendered with its picture")
        common.write(root / "combined" / f"{screen.number}.jpg", screen.picture)
        common.write(root / "combined" / f"{screen.number}.json", json.dumps(hierarchy(screen)))
