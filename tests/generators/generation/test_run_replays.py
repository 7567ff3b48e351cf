"""Errors that were planted are located where they were planted, and what is told as right and as a way back is so."""

from __future__ import annotations

from dataclasses import replace

import pytest
from guided import tasks_of
from hypothesis import given, settings
from hypothesis import strategies as st

from generators.devices.browser import BrowserMissing
from generators.generation.run_replays import REFERENCE, RunReplay, located, open_for_replay, with_located_errors
from generators.policies.episode import run_episode
from generators.tasks.task_spec import TaskSpec
from generators.tasks.world_interface import World
from generators.worlds.evaluators import holds
from generators.worlds.graph import graph_tasks
from pipelines.derivers.base import DeriveConfig, IndexedElement
from pipelines.derivers.derive import screen_facts
from pipelines.derivers.trajectory import JudgedTrajectory, RunVerdict
from schemas.action_types import Click, Finished, PressBack
from schemas.actions import Action, format, parse
from schemas.tables import Screens

CONTRACTS = [*tasks_of(("shop", "forum", "calendar"), 3), *graph_tasks.tasks(1), *graph_tasks.tasks(2)]
FAILURE = RunVerdict(0, "failure", True)


def opened(contract: TaskSpec) -> World:
    with open_for_replay(contract.world) as world:  # neither of the two has anything to close
        return world


def right_way(contract: TaskSpec) -> tuple[Action, ...]:
    world = opened(contract)
    done = run_episode(world, REFERENCE.make(contract, world), contract.instruction, contract.initial_state)
    assert holds(contract.evaluator, done.end_state, done.answer)
    return done.actions


def states(contract: TaskSpec, actions: list[Action]) -> list[object]:
    """The world's truth before each action and after the last."""
    world = opened(contract)
    world.reset(contract.initial_state)
    found: list[object] = [world.state()]
    for action in actions:
        world.act(action)
        found.append(world.state())
    return found


@given(st.sampled_from(CONTRACTS), st.integers(0, 100), st.integers(0, 100))
@settings(max_examples=40, deadline=None)
def test_a_planted_error_is_located_and_its_way_back_restores_the_state(
    contract: TaskSpec, where: int, what: int
) -> None:
    way = list(right_way(contract))
    step = where % len(way)
    world = opened(contract)
    world.reset(contract.initial_state)
    for action in way[:step]:
        world.act(action)
    targets = [e for e in world.observe().elements if e.clickable]
    wrong = Click(targets[what % len(targets)].centre)
    straying = [*way[:step], wrong, Finished()]
    before, after = states(contract, straying)[step : step + 2]
    led = states(contract, way[: step + 1])[-1]
    verdict = RunReplay(opened(contract), contract, straying).verdict(FAILURE)
    if step < len(way) - 1 and after != led:
        assert verdict.first_error is not None and verdict.first_error >= step
        assert verdict.allows(0) == (verdict.first_error > 0)
    if verdict.first_error == step:
        assert verdict.right[step] == format(way[step])
    back = verdict.undo.get(step)
    if back is not None:
        assert after != before == states(contract, [*way[:step], wrong, parse(back)])[-1]


def test_what_was_right_is_never_called_wrong() -> None:
    for contract in CONTRACTS:
        verdict = RunReplay(opened(contract), contract, right_way(contract)).verdict(RunVerdict(10, "success", True))
        assert verdict.wrong == frozenset() and not verdict.right


def test_ending_too_early_is_the_error() -> None:
    contract = CONTRACTS[0]
    way = [*right_way(contract)[:1], Finished()]
    verdict = RunReplay(opened(contract), contract, way).verdict(FAILURE)
    assert verdict.wrong == {1} and verdict.right == {1: format(right_way(contract)[1])} and 1 not in verdict.undo


@pytest.mark.slow
@pytest.mark.real_parts
def test_a_page_in_a_browser_is_carried_out_again_likewise() -> None:
    start = {"world": "miniwob", "task": "click-tab-2", "seed": 2}
    contract = TaskSpec("x", "web", "miniwob", start, {"rule": "miniwob_raw_reward", "at_least": 0.9}, 3)
    try:
        with open_for_replay("miniwob") as page:
            policy = REFERENCE.make(contract, page)
            way = run_episode(page, policy, contract.instruction, contract.initial_state).actions
            # the tab that was open is opened once more: nothing is nearer after it
            straying = [way[0], Click((444, 331)), *way[1:]]
            verdict = RunReplay(page, contract, straying).verdict(RunVerdict(10, "success", True))
            back = verdict.undo[0]
            page.reset(contract.initial_state)
            before = page.state()
            for action in (straying[0], parse(back)):
                page.act(action)
            assert page.state()["reward"] == before["reward"] is None
    except BrowserMissing as error:
        pytest.skip(str(error))
    assert verdict.wrong == {1} and verdict.right == {1: format(way[1])}


def judged(contract: TaskSpec, actions: list[Action], verdict: RunVerdict) -> JudgedTrajectory:
    """The run as it would have been recorded."""
    world = opened(contract)
    world.reset(contract.initial_state)
    rows, shown = [], {}
    for step, action in enumerate(actions):
        seen = world.observe()
        shown[seen.sha256] = tuple(
            IndexedElement(k, e.box, e.role, e.name or e.text, e.text or e.name) for k, e in enumerate(seen.elements)
        )
        rows.append(
            {
                "source": "generated",
                "episode_id": "run",
                "step_index": step,
                "platform": contract.platform,
                "screenshot_sha256": seen.sha256,
                "width_px": world.size_px[0],
                "height_px": world.size_px[1],
                "action_text": format(action),
            }
        )
        world.act(action)
    return JudgedTrajectory(rows, verdict, screen_facts(rows, Screens.table([]), DeriveConfig()), shown)  # type: ignore[arg-type]


def test_only_the_same_run_is_believed() -> None:
    graph = [contract for contract in CONTRACTS if contract.world == "graph" and contract.expected_steps > 1]
    contract, other = graph[0], graph[1]
    run = judged(contract, [PressBack(), Finished()], FAILURE)
    found = located(run, contract, opened(contract))
    assert found is not None and found.verdict.first_error == 0 and found.steps == run.steps
    assert located(run, other, opened(other)) is None, "other screens come up"
    claimed = replace(run, verdict=RunVerdict(10, "success", True))
    assert located(claimed, contract, opened(contract)) is None, "the world's rule decides otherwise"
    lost = replace(run, steps=run.steps[1:])
    assert located(lost, contract, opened(contract)) is None, "a step is missing"
    runs, counts = with_located_errors([run, lost], {"run": contract}, ["graph"])
    assert [one.verdict.wrong is not None for one in runs] == [True, False]
    assert counts == {"located": 1, "not the same run again": 1}
    assert with_located_errors([run], {"run": contract}, ["fsm"])[1] == {"in no such world": 1}
    with pytest.raises(ValueError, match="did you mean graph"):
        with_located_errors([run], {"run": contract}, ["grahp"])
