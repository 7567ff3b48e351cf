"""Executions without a browser: a FSM contract done (or not) in the interpreter, as a trajectory with its elements."""

from __future__ import annotations

import json
from random import Random

from generators.generation.task_worlds.fsm_task_world import site_of
from generators.tasks.task_spec import TaskSpec
from generators.tasks.trajectory import ExecutedTrajectory, ExecutedTurn
from generators.worlds.fsm.fsm_tasks import TaskMaker
from generators.worlds.fsm.interpreted import InterpretedWorld
from generators.worlds.fsm.sites import make_site
from generators.worlds.fsm.spec import Goal
from schemas.actions import Action, Click
from schemas.ids import digest


def path_of(contract: TaskSpec) -> list[Action]:
    """The planner's path to a contract's conditions; clicks that lead nowhere in particular where there is none."""
    conditions = contract.evaluator["conditions"]
    atoms = [
        (path.removeprefix("variables."), operator, value)
        for path, operator, value in conditions
        if path.startswith("variables.")
    ]
    page = next((value for path, _, value in conditions if path == "page"), "")
    site = site_of(contract.target)
    known = all(name in site.variable for name, _, _ in atoms)
    task = TaskMaker(site).joined([Goal("asked", tuple(atoms), ("",), page)], Random(0)) if known else None
    return list(task.path) if task else []


def walk(contract: TaskSpec, actions: list[Action] | None = None, seed: int = 0) -> ExecutedTrajectory:
    """Carry actions out (the planner's path unless told; a look around where there is none)."""
    world = InterpretedWorld(make_site)
    world.reset(contract.initial_state)
    rng, turns = Random(seed), list[ExecutedTurn]()
    chosen = path_of(contract) if actions is None else actions
    for number in range(len(chosen) or 5):
        elements = world.elements()
        action = chosen[number] if chosen else Click(rng.choice([p for p in elements if p.clickable]).centre)
        turns.append(_turn(world, action))
        world.act(action)
    return ExecutedTrajectory(
        contract, "walker", "none", seed, tuple(turns), _turn(world, None), world.state(), "", "finished"
    )


def _turn(world: InterpretedWorld, action: Action | None) -> ExecutedTurn:
    elements = tuple(element.as_element() for element in world.elements())
    return ExecutedTurn(digest(json.dumps(elements, default=str)), world.size_px, elements, "", action)
