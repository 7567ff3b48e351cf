"""Thoughts by a teacher: what is asked, what is kept, what is declined, and whose it is; over HTTP on loopback."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from generators.proving.planted_thoughts import PlantedThought, generated_thoughts
from quality.evidence.consistency import implied_action
from quality.model_client.client import ModelClient
from quality.refinement.taught_thoughts import VERSION, reads_as, teach_thoughts
from schemas.actions import Click, Finished, Scroll, Type, format
from tests.support.scripted_judge import Question, ScriptedJudge

SEARCH, NOTE = Click((750, 195)), Type("hello")
GOOD = {format(SEARCH): "I tap Search.", format(NOTE): 'I type "hello".', format(Finished()): "The task is complete."}


@pytest.fixture
def server() -> Iterator[ScriptedJudge]:
    with ScriptedJudge() as running:
        yield running


def scripted(thoughts: Mapping[str, str], read: Callable[[str], str]) -> Callable[[Question], Mapping[str, Any]]:
    """A teacher that writes these thoughts, by action, and a reader."""

    def answer(question: Question) -> Mapping[str, Any]:
        if "thought" in question.fields:
            return {"thought": thoughts[question.blocks["action"]]}
        return {"action": read(question.blocks["thought"])}

    return answer


def rows_of(world: Any, buttons: Any, **more: Any) -> list[dict[str, Any]]:
    pages = [world.page(buttons, note=str(n)) for n in range(3)]
    steps = ((SEARCH, pages[0]), (NOTE, pages[1]), (Finished(), pages[2]))
    return [step.row for step in world.episode(*steps, **more).steps]


def read_well(thought: str) -> str:
    return next(action for action, said in GOOD.items() if said == thought)


def test_a_thought_that_is_read_as_its_action_is_kept_with_its_origin(
    server: ScriptedJudge, world: Any, buttons: Any, tmp_path: Path
) -> None:
    server.script = scripted(GOOD, read_well)
    rows = rows_of(world, buttons)
    teacher, reader = (ModelClient(server.url, name, tmp_path) for name in ("teacher", "reader"))
    taught = teach_thoughts(rows, world.bank(), teacher, reader)
    assert [row["thought"] for row in taught.rows] == list(GOOD.values()) and taught.written == 3
    origin = json.loads(taught.rows[0]["provenance"])["thought"]
    assert origin == {"by": "teacher", "read_by": "reader", "prompts": VERSION}
    assert all(row["thought"] is None for row in rows)  # what was given stays as it was
    # the second reading sees neither the action nor the goal
    readings = [question for question in server.questions if "action" in question.fields]
    assert len(readings) == 3 and all(set(question.blocks) == {"thought"} for question in readings)
    # and a rerun asks nothing
    before = len(server.bodies)
    assert teach_thoughts(rows, world.bank(), teacher, reader).rows == taught.rows and len(server.bodies) == before


def test_what_implies_another_action_is_declined(
    server: ScriptedJudge, world: Any, buttons: Any, tmp_path: Path
) -> None:
    wrong = {format(SEARCH): "I tap Settings.", format(NOTE): "This is a page.", format(Finished()): " "}
    server.script = scripted(wrong, lambda thought: format(Click((1, 1))))
    taught = teach_thoughts(rows_of(world, buttons), world.bank(), ModelClient(server.url, "m", tmp_path))
    assert taught.written == 0 and all(row["thought"] is None for row in taught.rows)
    assert dict(taught.declined) == {"rules": 1, "reading": 1, "empty": 1}


def test_own_thoughts_are_kept_and_nothing_is_asked(server: ScriptedJudge, world: Any, buttons: Any) -> None:
    rows = rows_of(world, buttons, thought="mine")
    assert teach_thoughts(rows, world.bank(), ModelClient(server.url, "m", None)).rows == rows and not server.bodies


def test_what_the_model_cannot_answer_is_declined(server: ScriptedJudge, world: Any, buttons: Any) -> None:
    server.script = lambda question: 400 if question.blocks else None
    taught = teach_thoughts(rows_of(world, buttons), world.bank(), ModelClient(server.url, "m", None))
    assert dict(taught.declined) == {"unanswered": 3}


@pytest.mark.parametrize(
    ("said", "same"),
    [
        ("Click(box=(700,180))", True),  # in the same button
        ("Click(box=(200,195))", False),
        ("LongPress(box=(750,195))", False),
        ("none", False),
        ("Click(box=(99999,1))", False),
    ],
)
def test_a_reading_is_the_same_on_the_same_element(said: str, same: bool, world: Any, buttons: Any) -> None:
    [step] = world.episode((SEARCH, world.page(buttons))).steps
    assert reads_as(said, step) is same


@pytest.mark.slow
def test_planted_thoughts_are_caught_and_true_ones_are_kept(world: Any) -> None:
    """Every row is a step with its own action; the teacher writes the thought that stands in the row, right or wrong.
    The reader is a stand-in that reads rules: it names what the thought asks for, if that is one thing."""
    rows = [row for row in generated_thoughts("held_out", 240, seed=5) if not isinstance(row.action, Scroll)]
    thoughts = {f"row {n}": f"Step {n}. {row.thought}" for n, row in enumerate(rows)}
    by_thought = {thoughts[f"row {n}"]: row for n, row in enumerate(rows)}

    def answer(question: Question) -> Mapping[str, Any]:
        if "thought" in question.fields:
            return {"thought": thoughts[question.blocks["goal"]]}
        return {"action": reading(by_thought[question.blocks["thought"]])}

    steps = [step_of(world, n, row) for n, row in enumerate(rows)]
    with ScriptedJudge(answer) as server:
        taught = teach_thoughts(steps, world.bank(), ModelClient(server.url, "m", None)).rows
    kept = [bool(row["thought"]) for row in taught]
    wrong = [is_kept for row, is_kept in zip(rows, kept, strict=True) if row.planted]
    right = [is_kept for row, is_kept in zip(rows, kept, strict=True) if not row.planted]
    print(f"planted caught {1 - sum(wrong) / len(wrong):.3f} of {len(wrong)}, true kept {sum(right) / len(right):.3f}")
    assert len(wrong) >= 75 and sum(wrong) <= 0.05 * len(wrong)
    assert sum(right) >= 0.98 * len(right)


def reading(row: PlantedThought) -> str:
    """What a reader that follows the thought does on its screen."""
    asked = implied_action(row.thought, row.elements)
    # a reader names one action, whatever the thought leaves open: the row's own, where the rules know no other
    return format(asked) if asked is not None else format(row.action)


def step_of(world: Any, number: int, row: PlantedThought) -> dict[str, Any]:
    """A row as an episode of one step, on a screen of its own that lists the row's elements."""
    sha = world.page([], note=str(number))
    world.rows[sha]["elements"] = [
        {"box": list(e.box), "role": e.role, "text": e.text, "name": e.name} for e in row.elements
    ]
    return dict(world.row(0, row.action, sha, episode_id=f"e{number}", instruction=f"row {number}"))
