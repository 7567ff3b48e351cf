"""The accessibility forest's wire form: decode and encode are inverses, and elements are what a user sees."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.native import accessibility
from pipelines.native.accessibility import AccessibilityNode, Bounds, Window, decode, elements, encode
from pipelines.native.wire import ProtoError

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
INT32 = st.integers(-(2**31), 2**31 - 1)
BOUNDS = st.tuples(INT32, INT32, INT32, INT32)
_BY_TYPE: dict[Any, st.SearchStrategy[Any]] = {
    str: TEXT,
    bool: st.booleans(),
    int: INT32,
    Bounds: BOUNDS,
    tuple[int, ...]: st.lists(INT32).map(tuple),
}
NODES = st.builds(AccessibilityNode, **{field.name: _BY_TYPE[field.type] for field in fields(AccessibilityNode)})
WINDOWS = st.builds(
    Window,
    nodes=st.lists(NODES, max_size=3).map(tuple),
    bounds=BOUNDS,
    id=INT32,
    layer=INT32,
    title=TEXT,
    type=st.integers(0, 5),
    is_active=st.booleans(),
    is_focused=st.booleans(),
)
VISIBLE = AccessibilityNode(
    class_name="android.widget.Button", text="OK", is_visible_to_user=True, bounds=(10, 20, 30, 40)
)


def shown(*nodes: AccessibilityNode) -> list[dict]:
    return elements([Window(nodes=nodes)], (100, 200))


@pytest.mark.slow
@given(st.lists(WINDOWS, max_size=3))
@settings(deadline=None, max_examples=60)
def test_decode_is_the_inverse_of_encode(windows: list[Window]) -> None:
    assert decode(encode(windows)) == windows


def test_field_tables_name_every_field_of_a_node() -> None:
    named = [*accessibility._TEXTS.values(), *accessibility._FLAGS.values(), *accessibility._INTS.values()]
    assert sorted([*named, "bounds", "child_ids"]) == sorted(field.name for field in fields(AccessibilityNode))


def test_bytes_written_by_hand_are_read() -> None:
    # rect{left 1, right 300 (= varint ac 02), bottom 4}: a top of 0 is left out, as proto3 does
    rect = b"\x08\x01" + b"\x18\xac\x02" + b"\x20\x04"
    # node{unique_id 5; bounds; class_name "V"; text "hi"; is_clickable (14: key 0x70); is_visible (23: key b8 01);
    #      child_ids packed (25: key ca 01) [6, 7]; an action (24: key c2 01), which is skipped}
    node = (
        b"\x08\x05"
        + b"\x12"
        + bytes([len(rect)])
        + rect
        + b"\x1a\x01V"
        + b"\x3a\x02hi"
        + b"\x70\x01"
        + b"\xb8\x01\x01"
        + b"\xca\x01\x02\x06\x07"
        + b"\xc2\x01\x02\x08\x10"
    )
    tree = b"\x0a" + bytes([len(node)]) + node
    window = b"\x18\x02" + b"\x2a\x01T" + b"\x30\x01" + b"\x5a" + bytes([len(tree)]) + tree
    (found,) = decode(b"\x0a" + bytes([len(window)]) + window)
    expected = AccessibilityNode(
        unique_id=5,
        bounds=(1, 0, 300, 4),
        class_name="V",
        text="hi",
        is_clickable=True,
        is_visible_to_user=True,
        child_ids=(6, 7),
    )
    assert found == Window(id=2, title="T", type=1, nodes=(expected,))


def test_negative_bounds_take_ten_bytes_and_come_back() -> None:
    node = replace(VISIBLE, bounds=(-5, -(2**31), 3, 4))
    assert decode(encode([Window(nodes=(node,))]))[0].nodes[0].bounds == (-5, -(2**31), 3, 4)


@given(st.binary(max_size=80))
@settings(deadline=None)
def test_any_bytes_decode_or_raise_proto_error(data: bytes) -> None:
    try:
        decode(data)
    except ProtoError:
        pass


def test_a_broken_tree_raises() -> None:
    whole = encode([Window(nodes=(VISIBLE,))])
    with pytest.raises(ProtoError, match="are left"):
        decode(whole[:-1])


def test_element_has_role_text_name_and_box_in_thousandths() -> None:
    # 10/100, 20/200, 30/100, 40/200 of the screen
    (element,) = shown(replace(VISIBLE, content_description="Confirm"))
    assert element == {"box": [100.0, 100.0, 300.0, 200.0], "role": "Button", "text": "OK", "name": "Confirm"}


def test_invisible_unlabelled_and_flat_nodes_are_no_elements() -> None:
    bare = replace(VISIBLE, text="")
    assert shown(replace(VISIBLE, is_visible_to_user=False), bare, replace(VISIBLE, bounds=(10, 20, 10, 40))) == []
    assert shown(replace(VISIBLE, bounds=(200, 20, 300, 40))) == []  # beside the screen
    assert shown(replace(VISIBLE, bounds=(30, 20, 10, 40))) == []  # sides swapped
    assert len(shown(replace(bare, is_clickable=True))) == 1  # no label, but it reacts


def test_boxes_are_cut_at_the_edge_of_the_screen() -> None:
    assert shown(replace(VISIBLE, bounds=(-10, 20, 30, 400)))[0]["box"] == [0.0, 100.0, 300.0, 1000.0]
