"""Android view trees in XML (uiautomator dumps, Appium page sources) → views with bounds, and screen elements.

    <node class="android.widget.TextView" text="Clock" content-desc="" resource-id="a:id/t" clickable="true"
          bounds="[0,66][540,132]"/>

Appium writes the class as the tag, uiautomator as an attribute; both are read.
"""

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from schemas.coordinates import OffScreen, box_to_unit

_BOUNDS = re.compile(r"\[(-?\d{1,6}),(-?\d{1,6})\]\[(-?\d{1,6}),(-?\d{1,6})\]")
_FORBIDDEN = (b"<!DOCTYPE", b"<!ENTITY")
Bounds = tuple[int, int, int, int]


class TreeError(ValueError):
    """Bytes that are no view tree."""


@dataclass(frozen=True, slots=True)
class AndroidView:
    """A view in document order. `bounds` is left, top, right, bottom in screen pixels; None if the tree has none."""

    kind: str
    text: str
    description: str
    resource_id: str
    bounds: Bounds | None
    reacts: bool
    """Clickable, long-clickable, checkable or scrollable, or a text field."""

    @property
    def label(self) -> str:
        """What a screen reader says."""
        return self.description or self.text


def bounds_of(text: str) -> Bounds | None:
    """`[l,t][r,b]` → four ints; None if the text says no bounds."""
    match = _BOUNDS.search(text)
    return (int(match[1]), int(match[2]), int(match[3]), int(match[4])) if match else None


def views(data: bytes) -> list[AndroidView]:
    """A tree → its views. Raises `TreeError`, also on a document type: entities in it could grow without bound."""
    # Before the parser, which would already expand them.
    if any(word in data for word in _FORBIDDEN):
        raise TreeError("a document type or entity has no place in a view tree")
    try:
        root = ElementTree.fromstring(data)
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise TreeError(str(error)) from error
    return [_view(node) for node in root.iter() if isinstance(node.tag, str)]


def _view(node: ElementTree.Element) -> AndroidView:
    # Dumps name a view by its class, or by the tag itself.
    kind = node.get("class") or node.tag
    flags = ("clickable", "long-clickable", "checkable", "scrollable")
    return AndroidView(
        kind=kind,
        text=node.get("text") or "",
        description=node.get("content-desc") or "",
        resource_id=node.get("resource-id") or "",
        bounds=bounds_of(node.get("bounds") or ""),
        # Fields for text react without saying so.
        reacts=any(node.get(flag) == "true" for flag in flags) or "EditText" in kind,
    )


def elements(found: Iterable[AndroidView], size_px: tuple[int, int]) -> list[dict[str, Any]]:
    """What a user can see or use on a screen of `size_px` (width, height): `{box, role, text, name}`, box in 0..1000.

    Bare containers, and views without an area on the screen, are left out.
    """
    listed = []
    for view in found:
        if view.bounds is None or not (view.label.strip() or view.reacts):
            continue
        try:
            box = box_to_unit(view.bounds, size_px)
        except (OffScreen, ValueError):
            continue
        if box[0] < box[2] and box[1] < box[3]:
            listed.append({"box": box, "role": view.kind.rpartition(".")[2], "text": view.text, "name": view.label})
    return listed
