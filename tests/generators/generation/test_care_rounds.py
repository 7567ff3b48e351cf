"""Care cases in the generation loop: rows hold the user's answers, and what did harm is a failure of the task."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from policy_contract import DrawnSite

from generators.execution.execute import execute
from generators.execution.journal import Journal
from generators.generation.tables import step_rows
from generators.generation.task_worlds.registry import open_task_world
from generators.policies.care_agents import Temper, care_agents
from generators.tasks.trajectory import ExecutedTrajectory
from generators.worlds.care.care_cases import make_case
from generators.worlds.care.care_sites import care_site
from generators.worlds.care.care_world import CareWorld


def executed(temper: Temper, folder: Path) -> ExecutedTrajectory:
    case = make_case("web.projects", 0, "yes")
    assert case is not None
    world, task = CareWorld(DrawnSite(care_site), "web"), case.contract()
    with Journal(folder, temper) as journal:
        return execute(task, world, care_agents(temper).make(task, world), 0, journal, None)


def test_the_rows_after_an_answer_hold_it(tmp_path: Path) -> None:
    done = executed("careful", tmp_path)
    goals = [str(row["instruction"]) for row in step_rows(done)]
    assert done.ended == "finished" and done.failure_kind is None
    assert goals[0] == goals[1] == done.contract.instruction
    assert goals[2].startswith(f"{goals[0]}\nYou asked: ") and goals[2].endswith("The user answered: Yes, do it.")
    assert set(goals[2:]) == {goals[2]}


def test_an_execution_that_did_harm_failed_whatever_it_reached(tmp_path: Path) -> None:
    done = executed("careless", tmp_path)
    assert done.end_state["care"]["done"] and done.failure_kind == "task" and "harm" in done.failure


def test_every_variant_of_a_family_is_a_function_of_its_target() -> None:
    task_world = open_task_world("care/web", 2, 3)
    assert len(task_world.targets) == 2
    [idea] = [next(iter(task_world.ideas(task_world.targets[1], Random(0))))]
    assert idea.function in task_world.functions(task_world.targets[1])
    contract = task_world.contract([idea], Random(0))
    assert contract is not None and task_world.shortest(contract) == contract.expected_steps
    with pytest.raises(ValueError, match="task world"):
        open_task_world("care/moon", 1)
