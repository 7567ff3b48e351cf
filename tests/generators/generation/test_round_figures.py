"""A round's figures: what is said by the world's truth is said of the tasks that a rule decides."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fsm_walks import walk

from generators.generation.annotators import Outcome
from generators.generation.proposing.catalogue import Catalogue
from generators.generation.proposing.proposers import Proposal, arms
from generators.generation.proposing.task_bank import TaskBank, propose
from generators.generation.round_figures import figures
from generators.generation.task_worlds.registry import open_task_world
from generators.generation.verify import TrajectoryVerdict
from generators.tasks.task_spec import VOTES, TaskSpec
from generators.tasks.trajectory import ExecutedTrajectory
from quality.evidence.embedding import EMBEDDED, Embedder

STATES = {"fsm": {"page": "home", "variables": {}, "data": {}}, "phone": {"apps": {}}, "desktop": {"files": {}}}


def by_votes(name: str) -> ExecutedTrajectory:
    """An execution of a task that a model has proposed."""
    task_world = open_task_world(name, 4)
    target = task_world.targets[0]
    words = "Look at the first thing that is there"
    contract = TaskSpec(words, task_world.platform, target, task_world.start(target), {"rule": VOTES}, 3, (), "dynamic")
    return ExecutedTrajectory(contract, "m", "", 0, (), None, STATES[name], "", "finished")


def verdict(done: ExecutedTrajectory, verified: bool) -> TrajectoryVerdict:
    outcome: Outcome = "completed" if verified else "failed"
    return TrajectoryVerdict(done.trajectory_id, verified, outcome, "votes", None if verified else "task")


@pytest.mark.parametrize("name", STATES)
def test_of_a_task_without_a_rule_the_world_is_asked_nothing(name: str) -> None:
    done = by_votes(name)
    proposals = {done.contract.task_id: Proposal(done.contract, "openai")}
    found = figures(open_task_world(name, 4), proposals, [done], [verdict(done, True)])
    assert found["executed"] == found["verified"] == found["yield"] == found["yield of openai"] == 1
    assert (found["with a rule"], found["verified with a rule"], found["false positives"], found["missed"]) == (0,) * 4
    assert found["feasible"] is found["policy success"] is found["true yield"] is None


def test_shares_by_the_worlds_truth_are_of_the_tasks_with_a_rule() -> None:
    task_world = open_task_world("fsm", 4)
    bank = TaskBank(Embedder(EMBEDDED), 0.9)
    proposed = propose(task_world, Catalogue(), bank, {"easy": 6}, 0, arms(task_world, Catalogue())).proposals
    feasible = [p for p in proposed if task_world.shortest(p.contract)]
    right, cut = (walk(p.contract) for p in feasible[:2])
    cut = replace(cut, end_state={})  # nothing was done, whatever its verdict says
    model = by_votes("fsm")
    lost = replace(model, contract=replace(model.contract, instruction="Look elsewhere"), failure_kind="infrastructure")
    runs = [right, cut, model, lost]
    proposals = {p.contract.task_id: p for p in proposed}
    proposals |= {run.contract.task_id: Proposal(run.contract, "openai") for run in (model, lost)}
    verdicts = [
        verdict(right, False),
        verdict(cut, True),
        verdict(model, True),
        replace(verdict(lost, False), failure_kind="infrastructure"),
    ]
    found = figures(task_world, proposals, runs, verdicts)
    assert (found["trajectories"], found["executed"], found["verified"]) == (4, 3, 2)
    assert (found["with a rule"], found["verified with a rule"]) == (2, 1)
    assert (found["feasible"], found["policy success"], found["true yield"]) == (1.0, 0.5, 0.5)
    assert (found["false positives"], found["missed"]) == (1, 1)
    assert found["yield of openai"] == 1 and found["yield of static"] == 0.5
