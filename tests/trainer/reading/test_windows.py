"""Windows of a screen: they cover it, and points and boxes go there and back within a pixel."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.actions import Click, Drag, Finished, Scroll
from schemas.settings import SettingsError
from trainer.reading.windows import ScreenWindow, around, points_of, whole, windows
from trainer.settings.reading import Reading

WINDOWS = Reading(mode="windows")
sides = st.integers(40, 4000)
units = st.integers(0, 1000)


@given(sides, sides, st.integers(1, 12))
def test_windows_cover_every_pixel_and_are_no_more_than_allowed(wide: int, high: int, most: int) -> None:
    views = windows((wide, high), WINDOWS.changed(most=most))
    assert 1 <= len(views) <= most
    for axis in (0, 1):
        spans = sorted({((view.left, view.right), (view.top, view.bottom))[axis] for view in views})
        assert spans[0][0] == 0 and spans[-1][1] == (wide, high)[axis]
        assert all(one[1] >= other[0] for one, other in zip(spans, spans[1:], strict=False)), "no gap between them"
    limit = WINDOWS.window
    assert all(view.shown[0] <= limit[0] and view.shown[1] <= limit[1] for view in views)


def test_a_screen_of_a_phone_is_seen_at_scale_one() -> None:
    views = windows((540, 960), WINDOWS)
    assert len(views) == 6
    assert all(view.size == view.shown == (320, 448) for view in views)


def test_what_fits_into_one_window_is_one_window() -> None:
    assert windows((300, 400), WINDOWS) == [ScreenWindow(0, 0, 300, 400, (300, 400), (300, 400))]


@given(sides, sides, units, units, st.data())
def test_a_point_comes_back_within_a_pixel(wide: int, high: int, x: int, y: int, data: st.DataObject) -> None:
    view = data.draw(st.sampled_from([*windows((wide, high), WINDOWS), around((x, y), (wide, high), 2.0)]))
    seen = view.to_window((x, y))
    inside = view.left <= x * wide / 1000 <= view.right and view.top <= y * high / 1000 <= view.bottom
    assert (seen is not None) == inside
    if seen is not None:
        back = view.to_screen(seen)
        unit = (wide / 1000, high / 1000)  # pixels of a step of the screen's own frame
        assert abs(back[0] - x) * unit[0] <= max(1.0, unit[0]) and abs(back[1] - y) * unit[1] <= max(1.0, unit[1])


@given(sides, sides, units, units, st.floats(1.1, 8.0))
def test_the_part_around_a_point_holds_it_and_lies_on_the_screen(
    wide: int, high: int, x: int, y: int, zoom: float
) -> None:
    view = around((x, y), (wide, high), zoom)
    assert 0 <= view.left < view.right <= wide and 0 <= view.top < view.bottom <= high
    assert view.shown == (wide, high)
    assert view.left - 1 <= x * wide / 1000 <= view.right + 1 and view.top - 1 <= y * high / 1000 <= view.bottom + 1


def test_a_box_is_cut_at_the_border_of_a_window() -> None:
    view = ScreenWindow(100, 0, 300, 400, (1000, 400), (200, 400))
    assert view.box_in_window([120, 0, 200, 500]) == ([100.0, 0.0, 500.0, 500.0], 1.0)
    assert view.box_in_window([250, 0, 350, 1000]) == ([750.0, 0.0, 1000.0, 1000.0], 0.5)
    assert view.box_in_window([400, 0, 500, 1000]) is None


def test_actions_move_with_their_points() -> None:
    view = ScreenWindow(100, 0, 300, 400, (1000, 400), (200, 400))
    assert view.action_in_window(Click((200, 500))) == Click((500, 500))
    assert view.action_on_screen(Click((500, 500))) == Click((200, 500))
    assert view.action_in_window(Drag((200, 0), (900, 0))) is None, "it ends outside"
    moved = view.action_in_window(Scroll((200, 900), (200, 100), "down"))
    assert moved == Scroll((500, 900), (500, 100), "down")
    assert view.action_in_window(Finished("done")) == Finished("done")
    assert points_of(Scroll(direction="up")) == []


def test_pixels_are_those_of_the_screen() -> None:
    pixels = np.arange(40 * 60 * 3, dtype=np.uint8).reshape(40, 60, 3)
    view = ScreenWindow(10, 5, 30, 25, (60, 40), (20, 20))
    assert np.array_equal(view.cut(pixels), pixels[5:25, 10:30])
    assert ScreenWindow(10, 5, 30, 25, (60, 40), (40, 40)).cut(pixels).shape == (40, 40, 3)
    assert np.array_equal(whole((60, 40)).cut(pixels), pixels)


def test_windows_that_are_no_larger_than_their_overlap_are_refused() -> None:
    with pytest.raises(SettingsError, match="overlap"):
        Reading.parsed({"window": [64, 448]}, "reading")
