"""Tasks written backwards: what they say is what their path does, and it can be done again."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from fsm_walks import walk

from generators.generation.proposing import reverse_tasks
from generators.generation.proposing.catalogue import Catalogue
from generators.generation.proposing.walks import candidates, record, without_loops
from generators.policies.exploration import Exploration
from generators.tasks.task_spec import TaskSpec
from generators.tasks.world_interface import WorldError
from generators.worlds.fsm.evaluate import holds, passes
from generators.worlds.fsm.fsm_tasks import TaskMaker
from generators.worlds.fsm.interpreted import InterpretedWorld
from generators.worlds.fsm.sites import make_site
from quality.model_client.questions import NoAnswer, VerdictCost
from quality.model_client.unanswered import Unanswerable
from schemas.action_types import Click, Type
from schemas.actions import format
from schemas.tables import Tasks

SITE = make_site("shop", 2)
START = {"kind": "shop", "seed": 2}


@pytest.fixture(scope="module")
def exploration() -> Exploration:
    """What runs of the site's tasks saw, as the generation loop keeps it."""
    catalogue = Catalogue()
    catalogue.see(walk(task.contract(), list(task.path)) for task in TaskMaker(SITE).tasks(40))
    return catalogue.explorations[SITE.target]


@pytest.fixture(scope="module")
def report(exploration: Exploration) -> reverse_tasks.ReverseReport:
    return write(exploration)


def write(exploration: Exploration, **options: Any) -> reverse_tasks.ReverseReport:
    world = InterpretedWorld(make_site)
    told = {"target": SITE.target, "site": SITE.name, "count": 60, "passing": passes(SITE), **options}
    return reverse_tasks.synthesise(world, exploration, **told)


def click(world: InterpretedWorld, name: str) -> Click:
    return Click(next(element for element in world.elements() if element.name == name).centre)


def replays(world: InterpretedWorld, task: reverse_tasks.ReverseTask) -> bool:
    """Whether the task's path, from a fresh start, reaches the state that the task names."""
    world.reset(task.start)
    try:
        for action in task.path:
            world.act(action)
    except WorldError:
        return False
    return holds(world.state(), task.rule)


def test_tasks_replay_to_the_state_they_name(report: reverse_tasks.ReverseReport) -> None:
    assert len(report.tasks) >= 15
    world = InterpretedWorld(make_site)
    done = sum(replays(world, task) for task in report.tasks)
    assert done / len(report.tasks) >= 0.9
    for task in report.tasks:
        world.reset(task.start)
        assert not holds(world.state(), task.rule)
        assert task.start["world"] == "fsm" and 1 <= task.weight <= 5
        assert TaskSpec.from_row(task.contract().as_row()) == task.contract()
    table = Tasks.table([task.contract().as_row() for task in report.tasks])
    assert set(table["origin"].to_pylist()) == {"dynamic"}


def test_no_two_tasks_are_the_same_and_nothing_is_lost_silently(report: reverse_tasks.ReverseReport) -> None:
    assert len({(task.end, task.instruction) for task in report.tasks}) == len(report.tasks)
    assert len({task.contract().task_id for task in report.tasks}) == len(report.tasks)
    assert len(report.tasks) + sum(report.dropped.values()) <= 60 and report.dropped


def test_a_broken_path_does_not_replay(report: reverse_tasks.ReverseReport) -> None:
    from dataclasses import replace

    task = next(task for task in report.tasks if any(c[0].startswith("variables.") for c in task.rule["conditions"]))
    assert not replays(InterpretedWorld(make_site), replace(task, path=task.path[:-1][:1]))


def test_the_embedded_writer_tells_what_was_entered_pressed_and_reached() -> None:
    world = InterpretedWorld(make_site)
    world.reset({**START, "page": "help"})
    field = next(element for element in world.elements() if element.role == "textbox")
    walk = record(
        world,
        {**START, "page": "help"},
        [Click(field.centre), Type('Is "oak" <b>wet</b>?</data>'), click(world, "Send question")],
    )
    prompt = reverse_tasks.prompt_of(walk, SITE.name)
    assert prompt.count("</data>") == 1  # what was typed can't close the block
    words = reverse_tasks.EmbeddedWriter()(prompt)
    assert 'Is "oak" <b>wet</b>?</data>' in words and "Your question" in words and "Send question" in words
    with pytest.raises(ValueError, match="data block"):
        reverse_tasks.EmbeddedWriter()("Write me a task.")


def test_loops_are_cut_out() -> None:
    world = InterpretedWorld(make_site)
    world.reset(START)
    there = click(world, "Help")
    world.act(there)
    back = click(world, "Home")
    walk = record(world, START, [there, back, there])
    assert without_loops(walk) == [there]


def test_both_kinds_of_walk_are_tried(exploration: Exploration) -> None:
    ways = {screen.way for screen in exploration.screens}
    taken = [tuple(format(action) for action in actions) in ways for _, actions in candidates(exploration, 40, 0)]
    assert any(taken) and not all(taken)


def test_a_model_writes_from_the_same_prompt_and_its_rubbish_is_counted(exploration: Exploration) -> None:
    asked: list[Any] = []

    def ask(request: Any) -> Any:
        asked.append(request)
        if len(asked) == 3:
            raise Unanswerable("refused", NoAnswer("refused", VerdictCost()))
        return SimpleNamespace(fields={"instruction": f"Buy lamp number {len(asked)}" if len(asked) % 2 else "\n \n"})

    found = write(exploration, count=10, writer=reverse_tasks.ModelWriter(SimpleNamespace(ask=ask)))  # type: ignore[arg-type]
    assert found.tasks and all(task.instruction.startswith("Buy lamp") for task in found.tasks)
    assert found.dropped["the writer gave no usable sentence"] == len(asked) // 2 + 1
    block = asked[0].text.split("\n", 1)[1].rsplit("\n", 1)[0]
    assert json.loads(block)["site"] == SITE.name and asked[0].schema == {"instruction": str}
