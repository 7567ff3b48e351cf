"""The screen graphs: what is hidden is true, what is drawn is what is hit, and tasks are as long as they say."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generators.execution.execute import execute
from generators.execution.journal import Journal
from generators.policies.registry import build_policy
from generators.tasks.task_spec import TaskSpec
from generators.tasks.world_interface import UnsupportedAction, WorldError
from generators.worlds.evaluators import holds
from generators.worlds.graph.graph_tasks import plan, tasks
from generators.worlds.graph.graph_world import GraphWorld, open_graph
from generators.worlds.graph.screen_graph import ScreenGraph, make_graph
from schemas.action_types import CallUser, Click, Finished, Hover, PressBack, PressHome, Wait

GRAPHS = st.tuples(st.integers(0, 10_000), st.integers(2, 14), st.integers(1, 9))


def distances(graph: ScreenGraph, start: int) -> dict[int, int]:
    """By relaxing every edge until nothing changes."""
    found = {start: 0}
    for _ in graph.names:
        for here, icons in enumerate(graph.icons):
            for icon in icons:
                if here in found and found[here] + 1 < found.get(icon.to, 999):
                    found[icon.to] = found[here] + 1
    return found


@given(GRAPHS)
@settings(max_examples=40, deadline=None)
def test_every_screen_is_reached_by_a_shortest_way(sizes: tuple[int, int, int]) -> None:
    graph = make_graph(*sizes)
    assert len(set(graph.names)) == sizes[1]
    for start in range(sizes[1]):
        far = distances(graph, start)
        for goal in range(sizes[1]):
            here, way = start, graph.path(start, goal)
            for icon in way:
                assert icon in graph.icons[here]
                here = icon.to
            assert here == goal and len(way) == far[goal]


@given(GRAPHS, st.booleans())
@settings(max_examples=25, deadline=None)
def test_each_icon_is_hit_where_it_is_drawn(sizes: tuple[int, int, int], labels: bool) -> None:
    seed, screens, icons = sizes
    world, graph = GraphWorld(), make_graph(*sizes)
    start = {"seed": seed, "screens": screens, "icons": icons, "at": screens - 1, "labels": labels}
    world.reset(start)
    seen = world.observe()
    assert len(seen.elements) == 1 + len(graph.icons[-1])
    for icon in graph.icons[-1]:
        world.reset(start)
        element = seen.element(icon.name)
        assert element is not None and element.text == (graph.names[icon.to] if labels else "")
        world.act(Click(element.centre))
        assert world.state()["screen"] == graph.names[icon.to]
        world.act(PressBack())
        assert world.observe().png == seen.png and world.state()["way"] == [graph.names[-1]]


def test_what_hits_nothing_changes_nothing() -> None:
    world = GraphWorld()
    before = world.state()
    for action in (Click((999, 999)), Click((500, 20)), PressBack(), Wait(), CallUser("x"), Finished("")):
        world.act(action)
        assert world.state() == before
    world.act(PressHome())
    assert world.state()["screen"] == before["way"][0]
    with pytest.raises(UnsupportedAction, match="no action Hover"):
        world.act(Hover((500, 500)))


@pytest.mark.parametrize(
    ("start", "said"),
    [
        ({"seed": "1"}, "expected whole numbers, found seed '1'"),
        ({"screens": True}, "found screens True"),
        ({"screens": 1}, "expected 2 to 120 screens"),
        ({"icons": 10}, "1 to 9 icons, found 12 and 10"),
        ({"at": 12}, "expected `at` of 0 to 11, found 12"),
    ],
)
def test_a_start_that_is_none(start: Mapping[str, Any], said: str) -> None:
    with pytest.raises(WorldError, match=said):
        GraphWorld().reset(start)


def test_tasks_are_as_far_away_as_they_say() -> None:
    for seed in range(30):
        made = tasks(seed)
        assert made == tasks(seed) and {one.target for one in made} == {"graph/labelled", "graph/hidden"}
        assert len({one.capabilities for one in made}) == len(made) >= 6
        for task in made:
            assert len(plan(task)) == task.expected_steps > 0
            world = GraphWorld()
            world.reset(task.initial_state)
            assert not holds(task.evaluator, world.state())


def test_the_scripted_policy_opens_the_screen(tmp_path: Path) -> None:
    policies = build_policy("scripted")
    with open_graph() as world, Journal(tmp_path) as journal:
        for seed in range(4):
            for task in tasks(seed):
                done = execute(task, world, policies.make(task, world), seed, journal, None)
                assert done.ended == "finished" and holds(task.evaluator, done.end_state)
                assert len(done.turns) == task.expected_steps + 1


def test_a_task_of_no_graph_has_no_plan() -> None:
    task = tasks(1)[0]
    other = TaskSpec(
        task.instruction, "mobile", "graph/x", task.initial_state, {"rule": "graph_screen", "screen": "?"}, 1
    )
    with pytest.raises(ValueError, match="expected one of its screens, found '\\?'"):
        plan(other)
    with pytest.raises(ValueError, match="expected no options, found nano"), open_graph(nano=True):
        pass
