"""The held-out cases of consequential actions, and the sheet of steps to look at."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from generators.proving.care_bench import recognition
from generators.proving.care_heldout import heldout_steps
from generators.proving.care_sheet import SheetStep, chosen, sheet
from quality.evidence.consequences import KINDS, Consequence
from schemas.actions import Click, Type

FOUND = Consequence("delete", "Delete", "control")


def test_the_cases_hold_every_kind_in_four_languages_and_twins_without_one() -> None:
    steps = list(heldout_steps())
    assert len(steps) == len({(s.language, s.label, s.goal) for s in steps}) == 250
    assert {s.truth for s in steps} == {None, *KINDS}
    assert min(Counter((s.language, bool(s.truth)) for s in steps).values()) >= 20
    counted = recognition(steps)
    assert counted.consequential == 130 and counted.others == 120


def test_a_line_of_another_form_is_named(tmp_path: Path) -> None:
    path = tmp_path / "cases.txt"
    path.write_text("# about\nen | delete | button | Delete | Trash | Tidy\nen | eat | button | Eat | Fridge | Eat\n")
    with pytest.raises(ValueError, match=r"cases\.txt:3: expected language"):
        list(heldout_steps(path))


def step(number: int, found: Consequence | None = None, goal: str = "Tidy") -> SheetStep:
    return SheetStep("source", "episode", number, goal, Click((5, 5)), "Delete", found, 3)


def test_half_of_a_sheet_are_recognised_steps_kinds_in_turn_and_the_same_each_time() -> None:
    steps = [step(n, FOUND) for n in range(60)] + [step(99, Consequence("pay", "Pay", "goal"))]
    steps += [step(n) for n in range(100, 300)]
    shown = chosen(steps, 20)
    kinds = Counter(one.found.kind for one in shown if one.found)
    assert (len(shown), kinds["delete"], kinds["pay"]) == (20, 9, 1)
    assert chosen(steps[::-1], 20) == shown
    assert len(chosen(steps[:61], 20)) == 20, "recognised ones fill a sheet that has no others"
    assert len(chosen(steps[:5], 20)) == 5


def test_nothing_of_a_record_is_markup_on_the_sheet() -> None:
    bad = SheetStep("s", "e", 0, "<script>alert(1)</script>", Type("<b>&"), '"><img src=x>', FOUND, 1, b"\x89PNG")
    page = sheet([bad, step(1)], 2)
    assert "<script>" not in page and "<b>" not in page and "<img src=x>" not in page
    assert page.count("<tr class=found>") == 1 and "data:image/png;base64," in page
    assert "default-src 'none'" in page
