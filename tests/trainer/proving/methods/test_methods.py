"""Checks of methods by name: the contract of each, on a small share of its budget (`bench/methods.py` runs all)."""

from __future__ import annotations

import math

import pytest

from bench.methods import CHECKS

SLOW = {"proposals", "hindsight", "agreement"}
"""Whose worlds take seconds, whatever the budget."""
CELLS = [
    pytest.param(name, member, marks=[pytest.mark.slow] if name in SLOW else [])
    for name, check in CHECKS.items()
    for member in check.members
]


@pytest.mark.parametrize(("name", "member"), CELLS)
def test_every_member_gives_the_same_figures_again(name: str, member: str) -> None:
    check = CHECKS[name]
    found = check.run(member, 3, 0.02)
    assert tuple(found) == check.figures and all(math.isfinite(one) for one in found.values())
    assert found == check.run(member, 3, 0.02)
    assert check.reference in check.members
