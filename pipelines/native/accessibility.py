"""AndroidAccessibilityForest (android_env): the wire form of Android accessibility trees, decoded and encoded.

Field numbers as published in google-deepmind/android_env, `android_env/proto/a11y/*.proto`:
forest{1: windows}, window{1: bounds, 3: id, 4: layer, 5: title, 6: type, 8: active, 9: focused, 11: tree},
tree{1: nodes}, rect{1: left, 2: top, 3: right, 4: bottom}; the node's are in `_TEXTS`, `_FLAGS` and `_INTS` below.
proto3 leaves out what is zero, false or empty, so an absent field has that value.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.native import wire
from schemas.coordinates import OffScreen, box_to_unit

Bounds = tuple[int, int, int, int]
"""left, top, right, bottom in screen pixels."""

_TEXTS = {
    3: "class_name",
    4: "content_description",
    5: "hint_text",
    6: "package_name",
    7: "text",
    10: "view_id_resource_name",
    31: "tooltip_text",
}
_FLAGS = {
    12: "is_checkable",
    13: "is_checked",
    14: "is_clickable",
    15: "is_editable",
    16: "is_enabled",
    17: "is_focusable",
    18: "is_focused",
    19: "is_long_clickable",
    20: "is_password",
    21: "is_scrollable",
    22: "is_selected",
    23: "is_visible_to_user",
}
_INTS = {
    1: "unique_id",
    8: "text_selection_start",
    9: "text_selection_end",
    11: "window_id",
    27: "depth",
    28: "labeled_by_id",
    29: "label_for_id",
    30: "drawing_order",
}
_BOUNDS, _CHILDREN = 2, 25


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessibilityNode:
    """A view of the screen. Actions and clickable spans (fields 24, 26) are skipped: nothing here uses them."""

    unique_id: int = 0
    bounds: Bounds = (0, 0, 0, 0)
    class_name: str = ""
    content_description: str = ""
    hint_text: str = ""
    package_name: str = ""
    text: str = ""
    text_selection_start: int = 0
    text_selection_end: int = 0
    view_id_resource_name: str = ""
    window_id: int = 0
    is_checkable: bool = False
    is_checked: bool = False
    is_clickable: bool = False
    is_editable: bool = False
    is_enabled: bool = False
    is_focusable: bool = False
    is_focused: bool = False
    is_long_clickable: bool = False
    is_password: bool = False
    is_scrollable: bool = False
    is_selected: bool = False
    is_visible_to_user: bool = False
    child_ids: tuple[int, ...] = ()
    depth: int = 0
    labeled_by_id: int = 0
    label_for_id: int = 0
    drawing_order: int = 0
    tooltip_text: str = ""

    @property
    def is_interactive(self) -> bool:
        """Whether the view reacts to the user."""
        return self.is_clickable or self.is_long_clickable or self.is_editable or self.is_checkable

    @property
    def label(self) -> str:
        """The name a screen reader says: description, else text, else hint, else tooltip."""
        return self.content_description or self.text or self.hint_text or self.tooltip_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A window with the nodes of its tree, in stored order. `type`: 0 unknown, 1 application, 2 input method, 3 system,
    4 accessibility overlay, 5 divider of a split screen."""

    nodes: tuple[AccessibilityNode, ...] = ()
    bounds: Bounds = (0, 0, 0, 0)
    id: int = 0
    layer: int = 0
    title: str = ""
    type: int = 0
    is_active: bool = False
    is_focused: bool = False


def decode(data: bytes) -> list[Window]:
    """Serialised forest → its windows. Raises `pipelines.native.wire.ProtoError` (bytes that are no forest)."""
    return [_window(wire.as_bytes(number, kind, value)) for number, kind, value in wire.fields(data) if number == 1]


def _window(data: memoryview) -> Window:
    known: dict[str, Any] = {}
    # Numbers are those of the forest's definition; what it holds beside these isn't needed.
    for number, kind, value in wire.fields(data):
        if number == 1:
            known["bounds"] = _rect(wire.as_bytes(number, kind, value))
        elif number in (3, 4, 6):
            known[{3: "id", 4: "layer", 6: "type"}[number]] = wire.as_int(number, kind, value)
        elif number == 5:
            known["title"] = wire.as_text(number, kind, value)
        elif number in (8, 9):
            known[{8: "is_active", 9: "is_focused"}[number]] = bool(wire.as_int(number, kind, value))
        elif number == 11:
            tree = wire.fields(wire.as_bytes(number, kind, value))
            known["nodes"] = tuple(_node(wire.as_bytes(n, k, v)) for n, k, v in tree if n == 1)
    return Window(**known)


def _node(data: memoryview) -> AccessibilityNode:
    known: dict[str, Any] = {}
    children: list[int] = []
    for number, kind, value in wire.fields(data):
        if number in _TEXTS:
            known[_TEXTS[number]] = wire.as_text(number, kind, value)
        elif number in _FLAGS:
            known[_FLAGS[number]] = bool(wire.as_int(number, kind, value))
        elif number in _INTS:
            known[_INTS[number]] = wire.as_int(number, kind, value)
        elif number == _BOUNDS:
            known["bounds"] = _rect(wire.as_bytes(number, kind, value))
        elif number == _CHILDREN and kind == wire.BYTES:
            # Writers pack repeated numbers or don't; readers must take both.
            children += wire.packed_varints(wire.as_bytes(number, kind, value))
        elif number == _CHILDREN:
            children.append(wire.as_int(number, kind, value))
    return AccessibilityNode(**known, child_ids=tuple(children))


def _rect(data: memoryview) -> Bounds:
    sides = {number: wire.as_int(number, kind, value) for number, kind, value in wire.fields(data) if 1 <= number <= 4}
    return sides.get(1, 0), sides.get(2, 0), sides.get(3, 0), sides.get(4, 0)


def encode(windows: Iterable[Window]) -> bytes:
    """Windows → serialised forest; `decode(encode(windows)) == windows`."""
    return b"".join(wire.bytes_field(1, _encode_window(window)) for window in windows)


def _encode_window(window: Window) -> bytes:
    tree = b"".join(wire.bytes_field(1, _encode_node(node)) for node in window.nodes)
    return b"".join(
        [
            _encode_rect(1, window.bounds),
            wire.int_field(3, window.id),
            wire.int_field(4, window.layer),
            wire.text_field(5, window.title),
            wire.int_field(6, window.type),
            wire.int_field(8, window.is_active),
            wire.int_field(9, window.is_focused),
            wire.bytes_field(11, tree),
        ]
    )


def _encode_node(node: AccessibilityNode) -> bytes:
    parts = {_BOUNDS: _encode_rect(_BOUNDS, node.bounds)}
    parts |= {number: wire.text_field(number, getattr(node, name)) for number, name in _TEXTS.items()}
    parts |= {number: wire.int_field(number, int(getattr(node, name))) for number, name in (_FLAGS | _INTS).items()}
    if node.child_ids:
        parts[_CHILDREN] = wire.bytes_field(_CHILDREN, wire.pack_varints(node.child_ids))
    return b"".join(parts[number] for number in sorted(parts))


def _encode_rect(number: int, bounds: Bounds) -> bytes:
    return wire.bytes_field(number, b"".join(wire.int_field(place, side) for place, side in enumerate(bounds, start=1)))


def elements(windows: Sequence[Window], size_px: tuple[int, int]) -> list[dict[str, Any]]:
    """What a user can see or use: `{box, role, text, name}`, box in 0..1000, in stored order.

    Kept are nodes that are visible, have an area on the screen of `size_px` (width, height), and carry a label or
    react to the user; bare layout containers are left out. role = class name without its package.
    """
    found = []
    for window in windows:
        for node in window.nodes:
            if not node.is_visible_to_user or not (node.label or node.is_interactive):
                continue
            try:
                box = box_to_unit(node.bounds, size_px)
            except OffScreen:
                # A view beside the screen is in the tree, but nobody can see it.
                continue
            if box[0] < box[2] and box[1] < box[3]:
                role = node.class_name.rpartition(".")[2]
                found.append({"box": box, "role": role, "text": node.text, "name": node.label})
    return found
