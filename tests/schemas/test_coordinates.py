"""One rounding rule, the same for one number and for arrays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.coordinates import OffScreen, box_to_unit, contains, point_to_unit, to_unit, to_unit_array


@given(st.floats(-50, 4000), st.integers(1, 4000))
def test_scalar_and_array_give_the_same_integer(x_px: float, size_px: int) -> None:
    try:
        expected = to_unit(x_px, size_px)
    except OffScreen:
        expected = -1
    assert to_unit_array(np.array([x_px]), np.array([float(size_px)])).tolist() == [expected]


@given(st.integers(1, 8000).flatmap(lambda size: st.tuples(st.integers(0, size), st.just(size))))
def test_reprojected_point_lies_within_half_a_unit(pair: tuple[int, int]) -> None:
    x_px, size = pair
    assert abs(to_unit(x_px, size) - x_px * 1000 / size) <= 0.5 + 1e-9


def test_hand_checked_values() -> None:
    assert to_unit(540, 1080) == 500
    assert to_unit(390, 2400) == 163  # 162.5 + 0.5 = 163
    assert point_to_unit((1288.5, 116.0), (1440, 900)) == (895, 129)  # 894.79…, 128.88…
    assert to_unit(1080, 1080) == 1000
    assert to_unit(-1, 1080) == 0  # -0.93 units: within one unit, clamped
    assert to_unit(1081, 1080) == 1000
    for bad in (-2, 1083, float("nan"), float("inf")):
        with pytest.raises(OffScreen):
            to_unit(bad, 1080)
    with pytest.raises(ValueError, match="positive"):
        to_unit(1, 0)


def test_boxes_are_cut_at_the_frame_and_refused_outside() -> None:
    assert box_to_unit((-10, 0, 540, 2400), (1080, 2400)) == [0.0, 0.0, 500.0, 1000.0]
    for bad in ((1100, 0, 1200, 10), (50, 0, 10, 10), (0, 0, float("nan"), 1)):
        with pytest.raises(OffScreen):
            box_to_unit(bad, (1080, 2400))


def test_a_box_holds_its_borders_whatever_kind_of_sequence_it_is() -> None:
    for box in ([0, 10, 20, 30], (0.0, 10.0, 20.0, 30.0), np.array([0, 10, 20, 30])):
        assert all(contains(box, point) for point in ((0, 10), [20, 30], (7, 12.5)))
        assert not any(contains(box, point) for point in ((-0.1, 10), (20.1, 30), (7, 9), (7, 31)))
