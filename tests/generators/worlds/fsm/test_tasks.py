"""Tasks: paths that were carried out, all strata, contradictions left out, evaluators as plain data."""

from __future__ import annotations

import json
from random import Random

import pytest

from generators.tasks.task_spec import TaskSpec
from generators.worlds.fsm.evaluate import evaluator, holds
from generators.worlds.fsm.fsm_tasks import FsmTask, TaskMaker, contradict
from generators.worlds.fsm.interpreted import InterpretedWorld
from generators.worlds.fsm.plan import NoPlan, Planner
from generators.worlds.fsm.sites import make_site
from schemas.action_types import Click
from schemas.tables import Tasks
from tests.generators.worlds.fsm.test_spec import changed


@pytest.fixture(scope="module")
def tasks() -> list[FsmTask]:
    return [task for kind in ("bank", "streaming", "survey") for task in TaskMaker(make_site(kind, 3)).tasks(30)]


def test_every_task_is_a_row_whose_path_reaches_its_goal(tasks: list[FsmTask]) -> None:
    world = InterpretedWorld(make_site)
    for task in tasks:
        world.reset(task.start)
        assert not holds(world.state(), task.rule)
        for action in task.path:
            world.act(action)
        assert holds(world.state(), task.rule), task.instruction
        assert TaskSpec.from_row(task.contract().as_row()) == task.contract()
    table = Tasks.table([task.contract().as_row() for task in tasks])
    assert len(set(table["task_id"].to_pylist())) == table.num_rows == len(tasks)
    assert set(table["stratum"].to_pylist()) == {"easy", "medium", "hard"}
    row = table.to_pylist()[0]
    assert json.loads(row["initial_state"]) == {"world": "fsm", "kind": "bank", "seed": 3}
    assert row["expected_steps"] == len(tasks[0].path) and row["task_id"] == "a074c8bfdd752c7d8fb0ce5d912ba859"


def test_the_same_seed_gives_the_same_tasks() -> None:
    one, two, other = (list(TaskMaker(make_site("streaming", 3)).tasks(8, seed)) for seed in (1, 1, 2))
    assert one == two and one != other


def test_a_single_goals_path_is_a_shortest_one() -> None:
    site = make_site("streaming", 3)
    planner = Planner(site)
    start = planner.machine.start()
    goal = next(goal for goal in site.goals if goal.id.startswith("watch"))
    acts = planner.plan(start, goal.when)
    reach, depth = {(start.page, start.values)}, 0  # every situation that fewer clicks reach
    while not any(planner.machine.holds(values, goal.when) for _, values in reach):
        depth += 1
        step = {
            planner.machine.take(page, values, e.edges[n])
            for page, values in reach
            for e in site.elements(page)
            if e.edges and planner.machine.holds(values, e.shown) and (n := planner.machine.choose(values, e)) >= 0
        }
        reach |= step
    assert len(acts) == depth


def test_tasks_fail_where_the_edge_they_need_is_broken() -> None:
    site = make_site("streaming", 3)
    task = next(t for t in TaskMaker(site).tasks(60) if t.goals[0].startswith("watch") and len(t.goals) == 1)
    film = f"film{task.goals[0].removeprefix('watch')}"
    world = InterpretedWorld(lambda kind, seed: changed(site, film, "button-play", ()))
    world.reset(task.start)
    for action in task.path:
        world.act(action)
    assert not holds(world.state(), task.rule)


def test_contradictions_and_impossible_goals_are_left_out() -> None:
    site = make_site("insurance", 0)
    maker = TaskMaker(site)
    two = [goal for goal in site.goals if goal.id.startswith("buy")][:2]
    assert contradict([atom for goal in two for atom in goal.when])
    assert maker.joined(two, Random(0)) is None and list(maker.skipped.values()) == ["the goals contradict one another"]
    with pytest.raises(NoPlan, match="fsm/insurance/0"):
        maker.planner.plan(maker.planner.machine.start(), [("callback", "eq", "Never")])


def test_evaluators_are_checked_and_read_no_code() -> None:
    state = {"page": "cart", "variables": {"cart": 2, "open": True}, "history": ""}
    assert holds(state, evaluator([("cart", "ge", 2), ("open", "eq", True)], "cart"))
    assert not holds(state, evaluator([("cart", "ge", 3)]))
    assert not holds(state, evaluator([("gone", "eq", 1)])) and not holds(state, evaluator([("open", "eq", 1)]))
    for rule in (
        {"rule": "eval", "conditions": [["page", "eq", "x"]]},
        {"rule": "state_conditions", "conditions": []},
        {"rule": "state_conditions", "conditions": [["page", "__class__", "x"]]},
    ):
        with pytest.raises(ValueError, match="evaluator"):
            holds(state, rule)


def test_paths_begin_with_what_is_on_the_screen(tasks: list[FsmTask]) -> None:
    assert all(isinstance(task.path[0], Click) or task.path[0].direction for task in tasks)  # type: ignore[union-attr]
