"""Lists that wait on disk: what was put in, once."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quality.duplicates import spilled


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers()), max_size=40), st.integers(1, 5))
def test_lists_on_disk_come_back_in_order_and_once(items: list, held: int) -> None:
    with pytest.MonkeyPatch.context() as patched, tempfile.TemporaryDirectory() as folder:
        patched.setattr(spilled, "HELD", held)
        lists = spilled.SpilledLists[int](4, Path(folder))
        for number, item in items:
            lists.add(number, item)
        for number in range(4):
            assert lists.take(number) == [item for place, item in items if place == number]
            assert lists.take(number) == []
