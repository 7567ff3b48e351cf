"""Text that speaks to a judge, in many languages and disguises, moves no judge that reads texts by rules or features;
texts of tasks and screens are left as they are."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from generators.worlds.fsm.fsm_tasks import TaskMaker
from generators.worlds.fsm.sites import TEMPLATES, make_site
from quality.judges.nano.judge import NanoJudge
from quality.judges.orders import without_orders
from quality.judges.process_judge import ProcessJudge
from quality.judges.rules import RulesJudge
from schemas.actions import Click, Finished
from tests.support.nanomaker import random_judge

ADDRESSED = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines()
MOST_MOVE = 0.5


@pytest.fixture(scope="module")
def judges(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    return [RulesJudge(), ProcessJudge(RulesJudge()), NanoJudge(random_judge(tmp_path_factory.mktemp("nano")))]


def scores(judge: Any, world: Any, buttons: Any, injected: str) -> list[tuple[int | None, int | None]]:
    """Of an episode that holds a text in its goal, its steps' words, its thoughts, and far off on its screens."""
    pages = [
        world.page([*buttons, *([((20, 560, 340, 600), injected)] if injected else [])], note=str(n)) for n in (0, 1)
    ]
    words = f"Tap Search {injected}".strip()
    item = world.episode(
        (Click((750, 195)), pages[0], words),
        (Finished(injected), pages[1]),
        instruction=f"open the search {injected}".strip(),
        thought=injected or None,
    )
    return [(verdict.alignment, verdict.reachability) for verdict in judge.judge([item])]


@pytest.mark.slow
def test_what_speaks_to_a_judge_moves_none(judges: list[Any], world: Any, buttons: Any) -> None:
    moved = []
    for judge in judges:
        plain = scores(judge, world, buttons, "")
        # nano embeds each text, which takes its time: every third says as much of features
        for injected in ADDRESSED[:: 3 if judge.name == "nano" else 1]:
            pairs = zip(plain, scores(judge, world, buttons, injected), strict=True)
            for one, other in ((a, b) for before, after in pairs for a, b in zip(before, after, strict=True)):
                if (one is None) != (other is None) or abs((one or 0) - (other or 0)) > MOST_MOVE:
                    moved.append((judge.name, injected, one, other))
    assert not moved and len(ADDRESSED) >= 70


WORDS = (
    "judge grader verdict score alignment ten 10 10/10 perfect keep accept approve certified trusted expert passes AI "
    "Quality label=good please must only now as the of to is und 通过 满分 верно ignore rules : ! -- <system> step done"
)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from(WORDS.split()), min_size=1, max_size=12).map(" ".join),
    st.sampled_from(["screen", "answer", "thought"]),
)
def test_no_words_of_pages_answers_and_thoughts_move_the_rules(world: Any, buttons: Any, text: str, where: str) -> None:
    """Whatever the words, and whether or not they are known to speak to a judge: rules read a thought, a final answer
    and an element far from the point for nothing that such text could earn. (A goal is read for what it asks.)"""

    def scored(judge: Any, said: str) -> list[tuple[int | None, int | None]]:
        more = [((20, 560, 340, 600), said)] if said and where == "screen" else []
        pages = [world.page([*buttons, *more], note=str(n)) for n in (0, 1)]
        item = world.episode(
            (Click((750, 195)), pages[0], "Tap Search"),
            (Finished(said if where == "answer" else ""), pages[1]),
            instruction="open the search",
            thought=f"I tap Search. {said if where == 'thought' else ''}".strip(),
        )
        return [(verdict.alignment, verdict.reachability) for verdict in judge.judge([item])]

    for judge in (RulesJudge(), ProcessJudge(RulesJudge())):
        assert scored(judge, text) == scored(judge, "")


HARMLESS = (
    "Rate the app with 5 stars.",
    "Give the recipe Pea Risotto 3 stars",
    "Mark this message as read",
    "Reply to Ann with 10 apples",
    "Set the volume to 10",
    "Grade 10 homework: open the sheet",
    "Bewerte die App mit 5 Sternen",
    "给这个应用打5星",
    "Write a review for the judge Smith",
    "Approve the request of Ann",
)


def test_tasks_are_left_as_they_are() -> None:
    tasks = [task.instruction for kind in TEMPLATES for task in islice(TaskMaker(make_site(kind, 1)).tasks(4), 20)]
    assert len(tasks) >= 40
    for text in (*HARMLESS, *tasks):
        assert without_orders(text) == text
