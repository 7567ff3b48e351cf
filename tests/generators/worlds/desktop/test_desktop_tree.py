"""Places from an AT-SPI tree: hidden, off screen, covered, and hostile items."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generators.devices.desktop.accessibility_tree import clip, screen_elements_of

SIZE = (1000, 500)
INT_MIN = -(1 << 31)


def item(path: str, box: list[Any], role: str = "push button", **more: Any) -> dict[str, Any]:
    return {
        "path": path,
        "role": role,
        "name": path,
        "text": "",
        "box": box,
        "states": ["SENSITIVE"],
        "actions": 1,
        **more,
    }


def window(*items: dict[str, Any], active: bool = True) -> dict[str, Any]:
    return {"app": "x", "title": "t", "active": active, "items": list(items)}


def keys(*windows: dict[str, Any]) -> list[str]:
    return [place.key for place in screen_elements_of({"windows": list(windows)}, SIZE)]


def test_hidden_and_off_screen_items_are_left_out_and_boxes_clipped() -> None:
    frame = item("w", [0, 0, 1000, 500], "frame")
    hidden, outside = item("w.0", [INT_MIN, INT_MIN, 50, 20]), item("w.1", [1000, 10, 50, 20])
    seen = screen_elements_of({"windows": [window(frame, hidden, outside, item("w.2", [-10, 490, 60, 20]))]}, SIZE)
    assert [(place.key, place.box) for place in seen] == [("w.2", (0.0, 980.0, 50.0, 1000.0))]


def test_what_a_window_or_an_open_menu_covers_is_left_out() -> None:
    top = window(item("top", [0, 0, 100, 100], "frame"), item("top.0", [10, 10, 10, 10]))
    low = window(
        item("low", [0, 0, 400, 400], "frame"),
        item("low.0", [20, 20, 10, 10]),
        item("low.1", [200, 200, 10, 10]),
        active=False,
    )
    assert keys(top, low) == ["low.1", "top.0"]
    menu = window(
        item("m", [0, 0, 400, 400], "frame"),
        item("m.0", [0, 0, 40, 20], "menu"),
        item("m.0.0", [0, 20, 100, 20], "menu item"),
        item("m.1", [50, 25, 10, 10]),
    )
    assert keys(menu) == ["m.0", "m.0.0"]


@given(st.lists(st.one_of(st.integers(INT_MIN, -INT_MIN), st.integers(-50, 1100), st.none(), st.text()), max_size=5))
def test_a_clipped_box_is_inside_the_screen(raw: list[Any]) -> None:
    box = clip(raw, SIZE)
    assert box is None or (0 <= box[0] < box[2] <= SIZE[0] and 0 <= box[1] < box[3] <= SIZE[1])


@pytest.mark.parametrize("raw", [{}, {"windows": 3}, {"windows": [{"items": []}]}, {"windows": ["x"]}])
def test_another_shape_is_an_error(raw: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="AT-SPI tree"):
        screen_elements_of(raw, SIZE)
