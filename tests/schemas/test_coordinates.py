"""One rounding rule, the same for one number and for arrays."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas import coordinates

SIDE = st.one_of(st.integers(0, 1000), st.floats(0, 1000), st.floats(0, 1000, width=32))
BOX = st.tuples(SIDE, SIDE, SIDE, SIDE)


@given(st.floats(-50, 4000), st.integers(1, 4000))
def test_scalar_and_array_give_the_same_integer(x_px: float, size_px: int) -> None:
    try:
        expected = coordinates.to_unit(x_px, size_px)
    except coordinates.OffScreen:
        expected = -1
    assert coordinates.to_unit_array(np.array([x_px]), np.array([float(size_px)])).tolist() == [expected]


@given(st.integers(1, 8000).flatmap(lambda size: st.tuples(st.integers(0, size), st.just(size))))
def test_reprojected_point_lies_within_half_a_unit(pair: tuple[int, int]) -> None:
    x_px, size = pair
    assert abs(coordinates.to_unit(x_px, size) - x_px * 1000 / size) <= 0.5 + 1e-9


def test_hand_checked_values() -> None:
    assert coordinates.to_unit(540, 1080) == 500
    assert coordinates.to_unit(390, 2400) == 163  # 162.5 + 0.5 = 163
    assert coordinates.point_to_unit((1288.5, 116.0), (1440, 900)) == (895, 129)  # 894.79…, 128.88…
    assert coordinates.to_unit(1080, 1080) == 1000
    assert coordinates.to_unit(-1, 1080) == 0  # -0.93 units: within one unit, clamped
    assert coordinates.to_unit(1081, 1080) == 1000
    for bad in (-2, 1083, float("nan"), float("inf")):
        with pytest.raises(coordinates.OffScreen):
            coordinates.to_unit(bad, 1080)
    with pytest.raises(ValueError, match="positive"):
        coordinates.to_unit(1, 0)


def test_boxes_are_cut_at_the_frame_and_refused_outside() -> None:
    assert coordinates.box_to_unit((-10, 0, 540, 2400), (1080, 2400)) == [0.0, 0.0, 500.0, 1000.0]
    for bad in ((1100, 0, 1200, 10), (50, 0, 10, 10), (0, 0, float("nan"), 1)):
        with pytest.raises(coordinates.OffScreen):
            coordinates.box_to_unit(bad, (1080, 2400))


def test_a_box_holds_its_borders_whatever_kind_of_sequence_it_is() -> None:
    for box in ([0, 10, 20, 30], (0.0, 10.0, 20.0, 30.0), np.array([0, 10, 20, 30])):
        assert all(coordinates.contains(box, point) for point in ((0, 10), [20, 30], (7, 12.5)))
        assert not any(coordinates.contains(box, point) for point in ((-0.1, 10), (20.1, 30), (7, 9), (7, 31)))


@given(BOX)
def test_centres_are_the_plain_formulas_bit_for_bit(box: tuple[float, float, float, float]) -> None:
    left, top, right, bottom = box
    assert coordinates.centre(box) == coordinates.centre(list(box)) == ((left + right) / 2, (top + bottom) / 2)
    assert coordinates.rounded_centre(box) == (int((left + right) / 2 + 0.5), int((top + bottom) / 2 + 0.5))
    assert coordinates.centre_in_units(box) == (
        coordinates.to_unit((left + right) / 2, 1000),
        coordinates.to_unit((top + bottom) / 2, 1000),
    )


def test_within_the_frame_both_ways_of_rounding_agree() -> None:
    """Both never fall as x grows, so to agree around every half is to agree everywhere in between."""
    for unit in range(1000):
        half = unit + 0.5
        below, above = math.nextafter(half, 0), math.nextafter(half, 1000)
        for x in (math.nextafter(below, 0), below, half, above):
            assert coordinates.rounded_centre((x, x, x, x)) == coordinates.centre_in_units((x, x, x, x))
        assert coordinates.centre_in_units((0, 0, *(2 * math.nextafter(below, 0),) * 2)) == (unit, unit)
    assert coordinates.centre_in_units((0, 0, 1, 2001)) == (1, 1000)  # halves up; within a unit of the frame: clamped
    with pytest.raises(coordinates.OffScreen):
        coordinates.centre_in_units((0, 0, 1, 2004))


CORNER = st.integers(0, 9)
CELLS = st.tuples(CORNER, CORNER, CORNER, CORNER).map(
    lambda b: (min(b[0], b[2]), min(b[1], b[3]), max(b[0], b[2]), max(b[1], b[3]))
)


@given(CELLS, CELLS)
def test_iou_is_what_counting_cells_gives(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    def cells(box: tuple[int, ...]) -> set[tuple[int, int]]:
        return {(x, y) for x in range(box[0], box[2]) for y in range(box[1], box[3])}

    both, either = cells(one) & cells(other), cells(one) | cells(other)
    assert coordinates.iou(one, other) == coordinates.iou(other, one) == (len(both) / len(either) if either else 0.0)


def test_iou_of_boxes_worked_out_by_hand() -> None:
    assert coordinates.iou((0, 0, 10, 10), (5, 0, 15, 10)) == 50 / 150
    assert coordinates.iou([0.0, 0.0, 10.0, 10.0], (2.0, 2.0, 4.0, 7.0)) == 10 / 100
    assert coordinates.iou((3, 3, 8, 9), (3, 3, 8, 9)) == 1.0
    assert coordinates.iou((0, 0, 10, 10), (10, 0, 20, 10)) == 0.0  # a common border is no area
    assert coordinates.iou((5, 5, 5, 5), (5, 5, 5, 5)) == 0.0  # nor has a point any
    assert coordinates.iou((0, 0, 1e-200, 1e-200), (0, 0, 1e-200, 1e-200)) == 0.0  # areas too small for a float


def test_what_hangs_over_a_little_is_cut_off_and_said_and_more_is_refused() -> None:
    assert coordinates.screen_box((10, 20, 50, 40), (100, 100)) == (100, 200, 500, 400)
    assert not coordinates.screen_box((10, 20, 50, 40), (100, 100)).cut
    hanging = coordinates.screen_box((-2, 0, 50, 102), (100, 100))
    assert hanging == (0, 0, 500, 1000) and hanging.cut
    for beyond in ((-2.1, 0, 50, 50), (0, 0, 50, 103), (101, 0, 102, 5), (100, 0, 101, 5), (5, -1, 9, 0)):
        with pytest.raises(coordinates.OffScreen):
            coordinates.screen_box(beyond, (100, 100))
