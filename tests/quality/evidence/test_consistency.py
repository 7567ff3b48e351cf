"""The check of thought and action, on cases by hand, on planted rows, and against text that stretches or orders."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generators.proving.planted_thoughts import PlantedThought, generated_thoughts
from quality.evidence.consistency import check_thought, implied_action
from quality.evidence.stated_actions import decisive
from quality.items.screens import Element
from schemas.action_types import (
    Click,
    Finished,
    Launch,
    LongPress,
    PressBack,
    PressEnter,
    Scroll,
    SelectOption,
    Type,
    Wait,
)

SCREEN = tuple(
    Element((20, top, 480, top + 80), "button", label, label)
    for top, label in ((100, "Save"), (300, "Cancel"), (500, "Sort by price"), (700, "保存"), (880, "Löschen"))
)
SAVE, CANCEL, SORT, BAOCUN = (200, 140), (200, 340), (200, 540), (200, 740)

AGREE = (
    ("I'll tap Save.", Click(SAVE)),
    ("After clicking Cancel, I need to press Save now.", Click(SAVE)),
    ("I click Save. Then I will scroll down to Cancel.", Click(SAVE)),
    ("Instead of clicking Cancel, I press Enter.", PressEnter()),
    ('I press Enter to search for "blue shoes".', PressEnter()),
    ("Die Seite lädt noch, ich warte.", Wait()),
    ("Ich gebe „Anna“ ein.", Type("Anna")),
    ("下一步点击“保存”。", Click(BAOCUN)),
    ("Open the Times of India app", Launch(app="TOI")),
    ('I choose "Large" from the list.', SelectOption(SORT, "Large")),
    ("The list goes on; swipe up to see more.", Scroll(direction="down")),
)
CONTRADICT = (
    ("I'll tap Save.", Click(CANCEL), "target"),
    ('The next step is to click "Sort by price".', Click(SAVE), "target"),
    ("下一步点击“保存”。", Click(SAVE), "target"),
    ("Ich tippe auf „Löschen“.", Click(SAVE), "target"),
    ("I scroll down.", Click(SAVE), "kind"),
    ("I will long press Save.", Click(SAVE), "kind"),
    ("The task is complete.", Click(SAVE), "kind"),
    ("I go back.", Type("x"), "kind"),
    ('I type "Ann".', Type("Bob"), "text"),
    ("Ich gebe „1506“ ein.", Type("1507"), "text"),
    ("I scroll down to the end.", Scroll(direction="up"), "direction"),
    ("I click the button in the top right corner.", Click((100, 900)), "place"),
    ("I open the Clock app.", Launch(app="Spotify"), "text"),
)


@pytest.mark.parametrize(("thought", "action"), AGREE)
def test_thoughts_that_agree(thought: str, action: object) -> None:
    found = check_thought(thought, action, SCREEN)  # type: ignore[arg-type]
    assert found.agrees is True, found


@pytest.mark.parametrize(("thought", "action", "looked_at"), CONTRADICT)
def test_thoughts_that_contradict(thought: str, action: object, looked_at: str) -> None:
    found = check_thought(thought, action, SCREEN)  # type: ignore[arg-type]
    assert found.agrees is False and found.looked_at == looked_at and found.reason


@pytest.mark.parametrize("thought", ["", "The screen shows a list.", "Das ist eine Liste.", "这是一个列表。"])
def test_a_thought_without_an_action_is_neither(thought: str) -> None:
    assert check_thought(thought, Click(SAVE), SCREEN).agrees is None


@pytest.mark.parametrize(
    ("thought", "action"),
    [
        ("I'll tap Save.", Click((250, 140))),
        ("Ich drücke lange auf „Löschen“.", LongPress((250, 920))),
        ('I type "Ann".', Type("Ann")),
        ("I scroll down.", Scroll(direction="down")),
        ("I swipe up.", None),
        ("I go back.", PressBack()),
        ("I click it.", None),
        ("I click Save or scroll down.", None),
    ],
)
def test_what_a_thought_asks_for(thought: str, action: object) -> None:
    assert implied_action(thought, SCREEN) == action


def f1(rows: list[PlantedThought]) -> float:
    """F1 of finding what was planted; an abstention finds nothing."""
    found = [(check_thought(row.thought, row.action, row.elements).agrees is False, bool(row.planted)) for row in rows]
    hits = sum(flagged and planted for flagged, planted in found)
    return 2 * hits / (sum(flagged for flagged, _ in found) + sum(planted for _, planted in found))


def test_planted_rows_are_found_in_phrasings_that_the_words_were_not_written_by() -> None:
    rows = list(generated_thoughts("held_out", 600, seed=1))
    assert sum(bool(row.planted) for row in rows) == 300
    assert f1(rows) >= 0.9
    for language in ("en", "de", "zh"):
        assert f1([row for row in rows if row.origin == language]) >= 0.9


@given(st.text(max_size=200), st.sampled_from([Click(SAVE), Type("x"), Scroll(direction="up"), Finished(), Wait()]))
def test_any_text_is_read(thought: str, action: object) -> None:
    found = check_thought(thought, action, SCREEN)  # type: ignore[arg-type]
    assert (found.agrees is False) == bool(found.looked_at)
    assert all(one.start < one.end for one in decisive(thought))


@given(st.sampled_from(CONTRADICT), st.text(alphabet="abc ,", max_size=40))
def test_words_in_front_of_a_decision_change_nothing(case: tuple[str, object, str], before: str) -> None:
    thought, action, looked_at = case
    assert check_thought(f"{before}. {thought}", action, SCREEN).looked_at == looked_at  # type: ignore[arg-type]
