"""uiautomator's XML of a screen: nodes in, the bytes of `uiautomator dump` out.

Source of the form: AccessibilityNodeInfoDumper in the Android Open Source Project. Characters that XML 1.0 forbids
become `.`, as there.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\n": "&#10;", "\r": "&#13;", "\t": "&#9;"}
_ESCAPE = re.compile('[&<>"\n\r\t]')
CLASSES = {
    "button": "android.widget.Button",
    "checkbox": "android.widget.CheckBox",
    "combobox": "android.widget.Spinner",
    "icon": "android.widget.ImageView",
    "image": "android.widget.ImageView",
    "link": "android.widget.TextView",
    "option": "android.widget.CheckedTextView",
    "radio": "android.widget.RadioButton",
    "slider": "android.widget.SeekBar",
    "switch": "android.widget.Switch",
    "tab": "android.widget.TextView",
    "textbox": "android.widget.EditText",
    "searchbox": "android.widget.EditText",
}
"""Roles of a page → Android's class; any other role is a TextView with text and a View without."""


@dataclass(frozen=True, slots=True)
class UiAutomatorNode:
    """A view. `bounds` = left, top, right, bottom in pixels; `parent` = index in the list, -1 at the top."""

    bounds: tuple[int, int, int, int]
    kind: str = "android.view.View"
    text: str = ""
    description: str = ""
    resource_id: str = ""
    package: str = ""
    clickable: bool = False
    checkable: bool = False
    checked: bool = False
    focused: bool = False
    scrollable: bool = False
    long_clickable: bool = False
    enabled: bool = True
    selected: bool = False
    password: bool = False
    parent: int = -1


def class_of(role: str, text: str) -> str:
    """Android's class for the role of a page's element."""
    return CLASSES.get(role, "android.widget.TextView" if text else "android.view.View")


def nodes_of(elements: Sequence[Mapping[str, Any]], scale: float, package: str) -> list[UiAutomatorNode]:
    """What `vesperRead()` gives (boxes in CSS pixels) → nodes in device pixels; `scale` device pixels a CSS pixel.

    An element's key becomes its resource id. The name is a content description where it says more than the text.
    """
    made = []
    for element in elements:
        # Rounded half up, as pages do.
        left, top, right, bottom = (int(side * scale + 0.5) for side in element["box"])
        text, name, key = str(element["text"]), str(element["name"]), str(element["k"] or element.get("id") or "")
        made.append(
            UiAutomatorNode(
                bounds=(left, top, right, bottom),
                kind=class_of(str(element["role"]), text),
                text=text,
                # Only where it says more than the text.
                description=name if name != text else "",
                resource_id=f"{package}:id/{key}" if key else "",
                package=package,
                clickable=bool(element["clickable"]),
                checkable=bool(element["checkable"]),
                checked=bool(element["checked"]),
                focused=bool(element["focused"]),
                scrollable=bool(element["scrollable"]),
                parent=int(element["parent"]),
            )
        )
    return made


def _attribute(value: str) -> str:
    return _ESCAPE.sub(lambda match: _ESCAPES[match[0]], _FORBIDDEN.sub(".", value))


def _flag(value: bool) -> str:
    return "true" if value else "false"


def dump_xml(nodes: Sequence[UiAutomatorNode], size_px: tuple[int, int], package: str) -> bytes:
    """The whole dump: a root frame of the screen's size and the nodes as its tree, in document order."""
    children: dict[int, list[int]] = {}
    for index, node in enumerate(nodes):
        # A parent that comes later or isn't there: the node stands at the top.
        children.setdefault(node.parent if -1 <= node.parent < index else -1, []).append(index)
    frame = UiAutomatorNode((0, 0, *size_px), "android.widget.FrameLayout", package=package)
    parts = ["<?xml version='1.0' encoding='UTF-8' standalone='yes' ?>", '<hierarchy rotation="0">', _open(frame, 0)]
    # An explicit stack: a page may nest deeper than Python's own recursion goes.
    stack = [iter(enumerate(children.get(-1, ())))]
    while stack:
        step = next(stack[-1], None)
        if step is None:
            stack.pop()
            parts.append("</node>")
            continue
        order, index = step
        parts.append(_open(nodes[index], order))
        stack.append(iter(enumerate(children.get(index, ()))))
    parts.append("</hierarchy>")
    return "".join(parts).encode()


def _open(node: UiAutomatorNode, order: int) -> str:
    # Attributes in the order of the dumper's code; clients compare texts.
    left, top, right, bottom = node.bounds
    attributes = {
        "index": str(order),
        "text": node.text,
        "resource-id": node.resource_id,
        "class": node.kind,
        "package": node.package,
        "content-desc": node.description,
        "checkable": _flag(node.checkable),
        "checked": _flag(node.checked),
        "clickable": _flag(node.clickable),
        "enabled": _flag(node.enabled),
        # Clickable things and fields can take the focus.
        "focusable": _flag(node.clickable or node.kind.endswith("EditText")),
        "focused": _flag(node.focused),
        "scrollable": _flag(node.scrollable),
        "long-clickable": _flag(node.long_clickable),
        "password": _flag(node.password),
        "selected": _flag(node.selected),
        "bounds": f"[{left},{top}][{right},{bottom}]",
    }
    return "<node " + " ".join(f'{name}="{_attribute(value)}"' for name, value in attributes.items()) + ">"
