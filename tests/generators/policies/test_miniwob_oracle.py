"""MiniWoB++ pages are guided as other worlds are: the scripted agent does their tasks, by the page that is open."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from generators.policies.episode import run_episode
from generators.policies.oracles.miniwob_oracle import MiniwobOracle
from generators.policies.registry import build_policy, oracle_for
from generators.tasks.task_spec import TaskSpec
from generators.worlds.evaluators import holds
from generators.worlds.fsm.interpreted import InterpretedWorld
from generators.worlds.fsm.sites import make_site
from generators.worlds.miniwob.miniwob_world import MiniwobWorld, open_miniwob_world
from generators.worlds.wrappers.wrapper import Wrapper


@pytest.fixture(scope="module")
def page(has_chromium: None) -> Iterator[MiniwobWorld]:
    with open_miniwob_world() as world:
        yield world


def contract_of(page: MiniwobWorld, task: str, seed: int = 5) -> TaskSpec:
    """The task that a page sets; it stays open."""
    start = {"world": "miniwob", "task": task, "seed": seed}
    page.reset(start)
    rule = {"rule": "miniwob_raw_reward", "at_least": 0.99}
    return TaskSpec(page.utterance()[0], "web", f"miniwob/{task}", start, rule, 5, (task,))


@pytest.mark.parametrize("task", ["click-link", "click-checkboxes", "enter-text", "email-inbox-reply"])
def test_the_scripted_agent_does_a_pages_task(page: MiniwobWorld, task: str) -> None:
    contract = contract_of(page, task)
    wrapped = Wrapper(page)
    run = run_episode(
        wrapped, build_policy("scripted").make(contract, wrapped), contract.instruction, contract.initial_state, 0, 20
    )
    assert run.ended == "finished" and holds(contract.evaluator, run.end_state, run.answer)


def test_a_page_must_be_open_here_and_have_a_rule(page: MiniwobWorld) -> None:
    contract = contract_of(page, "click-link")
    assert isinstance(oracle_for(contract, world=page), MiniwobOracle)
    with pytest.raises(ValueError, match="open in this process; found a InterpretedWorld"):
        oracle_for(contract, world=InterpretedWorld(make_site))
    with pytest.raises(ValueError, match="nothing guides the rule 'miniwob_raw_reward'"):
        oracle_for(contract)
    unruled = contract_of(page, "use-slider")
    with pytest.raises(ValueError, match="no rule for the task 'use-slider'"):
        oracle_for(unruled, world=page).begin(unruled)
