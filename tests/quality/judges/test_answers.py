"""A question's answer is given where the last screen proves it, and nowhere else."""

from __future__ import annotations

from collections import Counter

import pytest

from quality.items.part import SourcePart
from quality.judges.answers import answer_of, answered_rows
from quality.judges.cleaning import clean
from quality.judges.rules import RulesJudge
from quality.judges.verdicts import judge_part
from quality.refinement.gold import count
from quality.refinement.refine import refine_part
from quality.refinement.rewrite import ProofRewriter
from schemas.actions import CallUser, Click, Finished, parse
from schemas.tables import Samples, Screens, Steps

ROWS = ((40, 100, 300, 140), (400, 100, 700, 140), (40, 200, 300, 240), (400, 200, 700, 240))
"""Two rows of two columns, in pixels."""
PRICES = ("Green tea", "3.50 EUR", "Coffee", "2.20 EUR")


def shown(world, texts: tuple[str, ...], role: str = "text") -> str:
    """A page with these texts in rows of two; returns its hash."""
    sha = str(world.page(list(zip(ROWS, texts, strict=False))))
    for element in world.rows[sha]["elements"]:
        element["role"] = role
    return sha


def asked(world, goal: str, page: str, **more: str):
    """An episode that asks, taps, and ends silently on a page; `more`: words of its steps."""
    return world.episode((Click((100, 100)), page), (Finished(), page), instruction=goal, **more)


@pytest.mark.parametrize(
    ("goal", "texts", "answer"),
    [
        ("What is the price of green tea?", PRICES, "3.50 EUR"),
        ("how much is the coffee", PRICES, "2.20 EUR"),
        ("How many unread mails are there?", ("Unread mails: 12", "Sent: 40"), "12"),
        ("Who is the author of Dune?", ("Author", "Frank Herbert", "Year", "1965"), "Frank Herbert"),
        ("When is the dentist?", ("Dentist", "Tuesday 14:30", "Gym", "Friday"), "Tuesday 14:30"),
    ],
)
def test_a_label_that_the_question_names_leads_to_its_value(world, goal: str, texts: tuple, answer: str) -> None:
    episode = asked(world, goal, shown(world, texts))
    assert answer_of(goal, episode.actions[-1]) == answer


@pytest.mark.parametrize(
    ("goal", "texts"),
    [
        ("What is the price of cocoa?", PRICES),  # it isn't there
        ("What is the price of tea?", ("Tea", "3.50", "Tea", "4.10")),  # twice
        ("How many mails are there?", ("Mails", "none", "Spam", "3")),  # not of the kind
        ("What is the price of green tea?", ("Green tea", "Sold out")),
        ("Is it raining?", ("Weather", "Rain")),
        ("What is 7 times 7?", ("7", "49")),  # a number is no label
    ],
)
def test_nothing_is_invented(world, goal: str, texts: tuple) -> None:
    episode = asked(world, goal, shown(world, texts))
    assert answered_rows(episode) is None
    found = clean(of(world, episode))
    assert {taken.rule for taken in found.taken.values()} == {"unanswered_question"} and not found.answered


def test_what_one_acts_on_is_no_answer(world) -> None:
    goal = "What is the price of green tea?"
    assert answered_rows(asked(world, goal, shown(world, PRICES, role="button"))) is None


def test_the_recordings_own_words_choose_among_what_the_screen_shows(world) -> None:
    goal, texts = "Which city is the fair in?", ("Ghent", "Leuven", "Opening", "Monday")
    page = shown(world, texts)
    told = asked(world, goal, page, conclusion="The fair is in Leuven.")
    assert answer_of(goal, told.actions[-1]) == "Leuven"
    for words in ("The fair is in Bruges.", "It is in Ghent or in Leuven.", "The city is shown."):
        assert answer_of(goal, asked(world, goal, page, conclusion=words).actions[-1]) is None


def of(world, *episodes) -> SourcePart:
    steps = [step.row for episode in episodes for step in episode.steps]
    return SourcePart("p", Steps.table(steps), Samples.table([]), Screens.table(world.rows.values()), world.bank())


def test_the_answer_stands_before_the_end_and_every_item_still_ends_once(world) -> None:
    goal = "What is the price of green tea?"
    episode = asked(world, goal, shown(world, PRICES))
    part = of(world, episode)
    found = clean(part)
    assert not found.taken and found.answered == 1
    [answered] = found.items
    assert [step.action for step in answered.actions] == [Click((100, 100)), CallUser("3.50 EUR"), Finished()]
    assert [step.row["step_index"] for step in answered.steps] == [0, 1, 2]
    assert answered.actions[1].provenance["repairs"] == ["answer"]
    assert answered.actions[1].provenance["parent"] == episode.actions[-1].item_id
    assert not clean(of(world, answered)).answered, "it is answered once"

    verdicts = judge_part(part, RulesJudge())
    refined = refine_part(part, verdicts, RulesJudge(), ProofRewriter())
    counts = count(part, refined)
    names = ("kept", "rewritten", "reconstructed", "discarded", "unrepaired", "dropped", "review", "pending")
    assert sum(counts[name] for name in names) == counts["items"] == 3
    kinds = Counter(type(parse(row["action_text"])).__name__ for row in refined.steps)
    assert refined.answered == 1 and kinds["CallUser"] + len(refined.rejects) >= 1
