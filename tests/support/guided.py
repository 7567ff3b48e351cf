"""Tasks of sites without a browser, as contracts, and runs of scripted agents on them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from generators.policies.episode import PlayedEpisode, run_episode
from generators.policies.oracles.fsm_oracle import FsmOracle
from generators.policies.oracles.oracle import Oracle
from generators.policies.oracles.plan_oracles import RecordedStep
from generators.policies.scripted_agent import ScriptedAgent
from generators.tasks.task_spec import TaskSpec
from generators.worlds.fsm.evaluate import holds
from generators.worlds.fsm.fsm_tasks import FsmTask, TaskMaker
from generators.worlds.fsm.interpreted import InterpretedWorld
from generators.worlds.fsm.sites import make_site


def contract_of(task: FsmTask) -> TaskSpec:
    start = {"world": "fsm", **task.start}
    return TaskSpec(task.instruction, "web", task.target, start, task.rule, task.expected_steps, task.capabilities)


@cache
def _tasks(kind: str, each: int) -> tuple[TaskSpec, ...]:
    return tuple(contract_of(task) for task in TaskMaker(make_site(kind, 1)).tasks(each))


def tasks_of(kinds: Iterable[str], each: int) -> list[TaskSpec]:
    """The first tasks of the site of seed 1 of each kind."""
    return [contract for kind in kinds for contract in _tasks(kind, each)]


def run_scripted(
    contract: TaskSpec, oracle: Oracle | None = None, seed: int = 0, **options: Any
) -> tuple[PlayedEpisode, bool]:
    """(episode, whether it reached the goal by the world's truth)."""
    world = InterpretedWorld(make_site)
    agent = ScriptedAgent(oracle or FsmOracle(), contract, world.state, **options)
    episode = run_episode(
        world, agent, contract.instruction, contract.initial_state, seed, 2 * contract.expected_steps + 8
    )
    return episode, holds(episode.end_state, contract.evaluator)


def recorded(task: FsmTask) -> list[RecordedStep]:
    """A task's path with the element under every click."""
    world = InterpretedWorld(make_site)
    world.reset(task.start)
    steps = []
    for action in task.path:
        element = next((p for p in world.elements() if p.clickable and p.centre == getattr(action, "box", None)), None)
        steps.append(RecordedStep(action, element.role if element else "", element.name if element else ""))
        world.act(action)
    return steps
