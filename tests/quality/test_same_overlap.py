"""One intersection over union: what hashed sources spell out themselves is `schemas.coordinates.iou`, bit for bit.

Their text is part of a rubric or code version, so they can't be pointed at it without everything being judged anew.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quality.evidence import steps
from quality.safety import trigger_scan
from schemas.coordinates import iou

SIDE = st.one_of(st.integers(0, 40), st.integers(0, 1000), st.floats(0, 1000, width=32), st.floats(0, 1000))
"""Small whole numbers too: random boxes seldom share a border."""
BOX = st.tuples(SIDE, SIDE, SIDE, SIDE).map(
    lambda b: (min(b[0], b[2]), min(b[1], b[3]), max(b[0], b[2]), max(b[1], b[3]))
)


@given(BOX, BOX)
def test_the_same_number_to_the_last_bit(one: steps.Box, other: steps.Box) -> None:
    found = iou(one, other)
    for spelled_out in (steps.overlap, trigger_scan._overlap):
        try:
            assert spelled_out(one, other) == found
        except ZeroDivisionError:  # sides so small that their product is 0: only `iou` has an answer
            assert found == 0.0
