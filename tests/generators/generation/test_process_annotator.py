"""False successes are refused for what they did on the way, and the verifier takes that for a gate."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import islice

import pytest

from generators.generation.annotators import OutcomeVote, TreeEvidence
from generators.generation.process_annotator import ProcessAnnotator, operations_of
from generators.generation.verify import Verifier, VerifyConfig, decide
from generators.proving.false_successes import FALSE_KINDS, ClaimedSuccess, DrawnScreens, claimed_successes
from generators.tasks.task_spec import TaskSpec
from generators.worlds.fsm.fsm_tasks import TaskMaker
from generators.worlds.fsm.sites import make_site
from quality.evidence.process import RequiredOperation

SCREENS = DrawnScreens()


def tasks(kinds: tuple[str, ...], each: int, seed: int = 2) -> list[TaskSpec]:
    return [task.contract() for kind in kinds for task in islice(TaskMaker(make_site(kind, seed)).tasks(4), each)]


@cache
def runs() -> tuple[ClaimedSuccess, ...]:
    kinds = ("sound", *FALSE_KINDS)
    return tuple(claimed_successes(tasks(("admin", "bank", "issues", "recipes", "shop", "tickets"), 4), kinds, 0))


def test_false_successes_are_refused_and_true_ones_are_not() -> None:
    annotator, last_screen = ProcessAnnotator(SCREENS), TreeEvidence(SCREENS)
    refused, of, fooled = Counter[bool](), Counter[bool](), 0
    for run in runs():
        assert run.true == (run.kind == "sound")
        of[run.true] += 1
        refused[run.true] += annotator.vote(run.done).outcome not in ("completed", None)
        fooled += not run.true and last_screen.vote(run.done).outcome == "completed"
    assert of[False] >= 80 and of[True] >= 20
    assert refused[False] >= 0.95 * of[False] and refused[True] <= 0.03 * of[True]
    # the planted runs do look right: without the process many of them pass
    assert fooled >= 0.3 * of[False]


def test_the_gate_refuses_what_all_others_take_for_done() -> None:
    done = OutcomeVote("world", "completed", "the end state is right", 1.0)
    tree = OutcomeVote("tree", "completed", "all was met", 0.9)
    gate = OutcomeVote("process", "partial", "never done: 'Send'", 1.0)
    outcome, verified, reason = decide([done, tree, gate], VerifyConfig())
    assert (outcome, verified) == ("partial", False) and reason == "process: never done: 'Send'"
    assert decide([done, tree, replace(gate, confidence=0.3)], VerifyConfig())[1]
    assert decide([done, tree, replace(gate, outcome="completed")], VerifyConfig())[1]
    assert decide([done, tree, replace(gate, outcome=None)], VerifyConfig())[1]


def test_a_verifier_without_the_worlds_rule_is_not_fooled() -> None:
    verifier = Verifier([TreeEvidence(SCREENS), ProcessAnnotator(SCREENS)], VerifyConfig(least_share=0.1))
    sound = [run for run in runs() if run.true]
    verified = [verifier.verify(run.done).verified for run in sound]
    assert sum(verified) >= 0.6 * len(sound)  # the tree knows nothing to look for in some goals
    assert sum(verifier.verify(run.done).verified for run in runs() if not run.true) <= 0.05 * len(runs())


def test_a_task_lists_its_own_operations() -> None:
    [task] = tasks(("shop",), 1)
    listed = replace(task, evaluator={**task.evaluator, "process": [{"label": "Sort by price"}]})
    assert operations_of(listed) == (RequiredOperation("Sort by price"),)
    run = next(one for one in runs() if one.true)
    vote = ProcessAnnotator(SCREENS).vote(replace(run.done, contract=listed))
    assert vote.outcome == "failed" and "Sort by price" in vote.reason and vote.confidence == 1
    with pytest.raises(ValueError, match="expected process to be a list"):
        operations_of(replace(task, evaluator={**task.evaluator, "process": "Sort"}))
