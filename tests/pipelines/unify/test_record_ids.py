"""Names of records are told apart by their digests, whatever text they are."""

from __future__ import annotations

import pytest

from pipelines.unify.record_ids import OTHER, REPEAT, RecordIds, name_digest


@pytest.mark.parametrize("odd", ["plain", "\ud800"])
def test_a_name_is_the_same_whatever_stands_beside_it(odd: str) -> None:
    ids = RecordIds()
    first, second = bytes(16), bytes(range(16))
    assert ids.check(["a", odd, "b"], [first, first, first]) == {}
    assert ids.check(["a", "b", "c"], [first, second, first]) == {0: REPEAT, 1: OTHER}
    assert ids.check([odd], [first]) == {0: REPEAT}
    ids.end_group()
    names = [ids.dump()[at : at + 16] for at in range(16, 16 + 7 * 32, 32)]
    assert names == [name_digest(name) for name in ("a", odd, "b", "a", "b", "c", odd)]
