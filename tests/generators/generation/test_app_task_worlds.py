"""Real interfaces as task worlds: their tasks are found again by id, and an oracle follows their plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from random import Random

import pytest

from generators.generation.task_worlds.registry import open_task_world
from generators.policies.oracles.intent_oracle import PATIENCE, Intent, IntentOracle
from generators.tasks.task_spec import TaskSpec
from generators.tasks.world_interface import ScreenElement, WorldError
from generators.worlds.app_tasks import APPS, work_of
from schemas.actions import Action, CallUser, Click, Wait


def drawn(app: str, count: int = 3) -> list[TaskSpec]:
    if app != "desktop":
        pytest.importorskip({"django_admin": "django", "dagster_ui": "dagster"}.get(app, app))
    task_world = open_task_world(app, 9)
    ideas = islice(task_world.ideas(task_world.targets[0], Random(2)), count)
    return [contract for idea in ideas if (contract := task_world.contract([idea], Random(0))) is not None]


@pytest.mark.parametrize("app", APPS)
def test_tasks_are_found_again_by_their_contract(app: str) -> None:
    task_world, contracts = open_task_world(app, 9), drawn(app)
    assert contracts
    for contract in contracts:
        again = TaskSpec.from_row(contract.as_row())
        work = work_of(again)
        assert work is not None and len(work.plan) == task_world.shortest(again) == contract.expected_steps
        assert not task_world.true(again, {}, "") and again.world == app
    other = replace(contracts[0], instruction="Do something that nobody wrote")
    assert task_world.shortest(other) is None
    assert work_of(other) is None


BUTTON = ScreenElement((100, 100, 200, 200), "button", "Save", "Save", "k")
TASK = TaskSpec(
    "Save it", "web", "t", {"world": "x"}, {"rule": "state_conditions", "conditions": [["saved", "eq", True]]}, 1
)


def act(intent: Intent, elements: Sequence[ScreenElement]) -> Action:
    if intent[0] == "answer":
        return CallUser(intent[1])
    found = [element for element in elements if (element.role, element.name) == intent[1:]]
    if not found:
        raise WorldError(f"no {intent[1]} named {intent[2]!r}")
    return Click(found[0].centre)


def test_the_oracle_waits_for_what_comes_late_and_gives_up_on_what_never_does() -> None:
    oracle = IntentOracle(lambda _: (("click", "button", "Save"),), act)
    oracle.begin(TASK)
    assert oracle.next((), {}, None).action == Wait()
    advice = oracle.next((BUTTON,), {}, Wait())
    assert (advice.action, advice.role, advice.name) == (Click((150, 150)), "button", "Save")
    assert oracle.next((BUTTON,), {"saved": False}, advice.action).action == Wait()
    assert oracle.next((BUTTON,), {"saved": True}, Wait()).done
    oracle.begin(TASK)
    said = [oracle.next((), {}, None) for _ in range(PATIENCE + 3)]
    assert said[-1].gave_up and "no button named 'Save'" in said[-1].reason


def test_the_oracle_ends_with_the_plan_s_answer() -> None:
    oracle = IntentOracle(lambda _: (("click", "button", "Save"), ("answer", "42")), act)
    oracle.begin(TASK)
    oracle.next((BUTTON,), {}, None)
    advice = oracle.next((BUTTON,), {}, Click((150, 150)))
    assert advice.done and advice.action == CallUser("42")
