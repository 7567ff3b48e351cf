"""The held-out cases of consequential actions, and the sheet of steps to look at."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from generators.proving.care_bench import recognition
from generators.proving.care_heldout import heldout_steps
from generators.proving.care_sheet import SheetStep, chosen, sheet
from quality.evidence.consequence_kinds import KINDS
from quality.evidence.consequence_words import LANGUAGES
from quality.evidence.consequences import Consequence
from schemas.actions import Click, Type

FOUND = Consequence("delete", "Delete", "control")


def test_the_cases_hold_every_kind_in_every_language_and_controls_without_one() -> None:
    steps = list(heldout_steps())
    assert len(steps) == 1041 and len({s.cluster for s in steps}) > 100
    assert {s.truth for s in steps} == {None, *KINDS}
    counts = Counter((s.language, bool(s.truth)) for s in steps)
    assert {language for language, _ in counts} == set(LANGUAGES) and min(counts.values()) >= 35
    counted = recognition(steps)
    assert counted.consequential == 341 and counted.others == 700


def test_a_screen_gives_a_step_for_each_control_with_all_of_it_in_sight(tmp_path: Path) -> None:
    path = tmp_path / "cases.txt"
    path.write_text("en | shop | Tidy | Drop the list? | | button: Yes = delete ; button: No = -\n")
    yes, no = heldout_steps(path)
    assert (yes.label, yes.truth, no.label, no.truth) == ("Yes", "delete", "No", None)
    assert yes.action != no.action and yes.cluster == no.cluster == "shop Tidy"
    path.write_text("en | shop | Tidy | Delete the list? | | button: Yes = delete ; button: No = -\n")
    assert [step.found for step in heldout_steps(path)] == ["delete", None], "the heading was read"


@pytest.mark.parametrize(
    "line",
    [
        "en | shop | Tidy | Fridge | | button: Eat = eat",
        "en | shop | Tidy | Fridge | button: Delete = delete",
        "en | shop | Tidy | Fridge | | button Delete = delete",
    ],
)
def test_a_line_of_another_form_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "cases.txt"
    path.write_text(f"# about\nen | shop | Tidy | Trash | | button: Delete = delete\n{line}\n")
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
