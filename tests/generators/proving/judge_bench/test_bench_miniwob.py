"""MiniWoB++ as a world of the judge bench: tasks are solved by unified actions, proved by reward, and repeatable."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from generators.devices.browser import BrowserMissing, find_chromium
from generators.proving.judge_bench.recorders.miniwob_oracles_sites import SOLVERS
from generators.proving.judge_bench.recorders.miniwob_tasks import SINGLE, MiniwobRecorder, record_one
from generators.proving.judge_bench.trace import Trace, arrive, perform, reached
from generators.tasks.world_interface import WorldError
from generators.worlds.miniwob.html import html_folder
from generators.worlds.miniwob.miniwob_world import MiniwobWorld
from generators.worlds.miniwob.scripted_pages import SCRIPTED_PAGES
from schemas.action_types import Click, Finished, Launch, Wait

pytestmark = pytest.mark.slow

TASKS = (
    "click-checkboxes",
    "login-user",
    "search-engine",
    "click-tab-2",
    "use-autocomplete-nodelay",
    "enter-date",
    "choose-list",
    "email-inbox-reply",
    "social-media",
    "click-menu",
    "navigate-tree",
    "click-link",
)


@pytest.fixture(scope="module")
def world() -> Iterator[MiniwobWorld]:
    try:
        find_chromium()
    except BrowserMissing as missing:
        pytest.skip(str(missing))
    with MiniwobRecorder().open() as found:
        yield found


@pytest.fixture(scope="module")
def traces(world: MiniwobWorld) -> list[Trace]:
    """One trace of each of some tasks: the first seed of four that the oracle can do."""
    found = [next((t for seed in range(4) if (t := record_one(world, task, seed))), None) for task in TASKS]
    assert all(found), [task for task, trace in zip(TASKS, found, strict=True) if trace is None]
    return [trace for trace in found if trace]


def test_the_tasks_are_pages_of_the_package() -> None:
    assert len(SOLVERS) >= 25 and set(SINGLE) <= set(SOLVERS) == set(SCRIPTED_PAGES)
    assert not [task for task in SOLVERS if not (html_folder() / "miniwob" / f"{task}.html").is_file()]


def test_equal_when_performed_again(world: MiniwobWorld, traces: list[Trace]) -> None:
    for trace in traces[::2]:
        shots, end = perform(world, trace)
        assert end == trace.end_state and end["reward"] > 0 and reached(end, trace.evaluator), trace.uid
        assert [shot.png for shot in shots] == [shot.png for shot in trace.shots], trace.uid
        assert [shot.state for shot in shots] == [shot.state for shot in trace.shots], trace.uid


def test_clicks_lie_on_their_elements(traces: list[Trace]) -> None:
    for trace in traces:
        assert isinstance(trace.moves[-1].action, Finished)
        for move, shot in zip(trace.moves, trace.shots, strict=True):
            if isinstance(move.action, Click):
                element = shot.element(move.key)
                assert element is not None and element.box == move.box, (trace.uid, move)
                left, top, right, bottom = element.box
                assert left <= move.action.box[0] <= right and top <= move.action.box[1] <= bottom


def test_without_the_last_action_the_goal_is_not_reached(world: MiniwobWorld, traces: list[Trace]) -> None:
    for trace in traces:
        end = arrive(world, trace, trace.moves[:-2])
        assert end["reward"] is None and not reached(end, trace.evaluator), trace.uid


def test_the_end_is_not_covered_and_the_instruction_not_shown(world: MiniwobWorld, traces: list[Trace]) -> None:
    for trace in traces:
        for shot in (trace.shots[0], trace.shots[-1]):
            told = " ".join(element.text for element in shot.elements)
            assert "START" not in told and trace.goal not in told


def test_a_near_miss_of_a_link_is_not_rewarded(world: MiniwobWorld, traces: list[Trace]) -> None:
    """The rule behind near misses: what a changed goal names earns nothing on this page."""
    trace = next(trace for trace in traces if trace.family == "miniwob/click-link")
    assert trace.near_misses and trace.goal not in trace.near_misses
    for goal in trace.near_misses:
        word = goal.split('"')[1]
        element = next(element for element in trace.shots[0].elements if element.text == word)
        end = arrive(world, trace, [replace(trace.moves[0], action=Click(element.centre))])
        assert end["reward"] == -1 and not end["solved"], goal


def test_a_part_of_the_reward_is_not_enough(world: MiniwobWorld) -> None:
    """The large checkbox task pays for every box that is right; only all of them count as solved."""
    trace = next(t for seed in range(4) if (t := record_one(world, "click-checkboxes-large", seed)))
    end = arrive(world, trace, [*trace.moves[:1], *trace.moves[2:]])
    assert 0 < end["reward"] < 1 and not reached(end, trace.evaluator)


def test_an_episode_that_has_just_begun_is_not_loaded_again(world: MiniwobWorld) -> None:
    start = {"task": "click-test-2", "seed": 5}
    world.reset(start)
    first, page = world.observe(), world.page.evaluate("window.mark = 1")
    world.reset(dict(start))
    assert page == 1 and world.page.evaluate("window.mark") == 1 and world.observe() == first
    world.act(Click((500, 900)))
    world.reset(start)
    assert world.page.evaluate("window.mark === undefined") and world.observe() == first
    world.page.evaluate("window.mark = 1")
    world.reset({**start, "seed": 6})
    assert world.page.evaluate("window.mark === undefined")


def test_waiting_changes_nothing_and_strange_actions_are_named(world: MiniwobWorld) -> None:
    world.reset({"task": "enter-text", "seed": 3})
    before = world.observe()
    world.act(Wait())
    assert world.observe() == before
    with pytest.raises(WorldError, match="Launch"):
        world.act(Launch(app="Mail"))
    with pytest.raises(ValueError, match="no task"):
        world.reset({"task": "../core", "seed": 1})


def test_expressions_mean_one_element(world: MiniwobWorld) -> None:
    screens = list(MiniwobRecorder().grounding(world, 4, 0))
    assert len(screens) == 4
    for screen in screens:
        words = [item.expression.lower() for item in screen.items]
        assert len(words) == len(set(words)) >= 2, screen.uid
