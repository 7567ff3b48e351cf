"""Real interfaces as grounds: their tasks are found again by id, and a guide follows their plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from random import Random

import pytest

from generators.generation.task_worlds.task_world import open_ground
from generators.policies.oracles.intent_oracle import PATIENCE, Intent, IntentGuide
from generators.tasks.task_spec import Contract
from generators.tasks.world_interface import ScreenElement, WorldError
from generators.worlds.app_tasks import APPS, work_of
from schemas.actions import Action, CallUser, Click, Wait


def drawn(app: str, count: int = 3) -> list[Contract]:
    if app != "desktop":
        pytest.importorskip({"django_admin": "django", "dagster_ui": "dagster"}.get(app, app))
    ground = open_ground(app, 9)
    ideas = islice(ground.ideas(ground.targets[0], Random(2)), count)
    return [contract for idea in ideas if (contract := ground.contract([idea], Random(0))) is not None]


@pytest.mark.parametrize("app", APPS)
def test_tasks_are_found_again_by_their_contract(app: str) -> None:
    ground, contracts = open_ground(app, 9), drawn(app)
    assert contracts
    for contract in contracts:
        again = Contract.from_row(contract.as_row())
        work = work_of(again)
        assert work is not None and len(work.plan) == ground.shortest(again) == contract.expected_steps
        assert not ground.true(again, {}, "") and again.world == app
    other = replace(contracts[0], instruction="Do something that nobody wrote")
    assert ground.shortest(other) is None
    assert work_of(other) is None


BUTTON = ScreenElement((100, 100, 200, 200), "button", "Save", "Save", "k")
TASK = Contract(
    "Save it", "web", "t", {"world": "x"}, {"rule": "state_conditions", "conditions": [["saved", "eq", True]]}, 1
)


def act(intent: Intent, places: Sequence[ScreenElement]) -> Action:
    if intent[0] == "answer":
        return CallUser(intent[1])
    found = [place for place in places if (place.role, place.name) == intent[1:]]
    if not found:
        raise WorldError(f"no {intent[1]} named {intent[2]!r}")
    return Click(found[0].centre)


def test_the_guide_waits_for_what_comes_late_and_gives_up_on_what_never_does() -> None:
    guide = IntentGuide(lambda _: (("click", "button", "Save"),), act)
    guide.begin(TASK)
    assert guide.next((), {}, None).action == Wait()
    advice = guide.next((BUTTON,), {}, Wait())
    assert (advice.action, advice.role, advice.name) == (Click((150, 150)), "button", "Save")
    assert guide.next((BUTTON,), {"saved": False}, advice.action).action == Wait()
    assert guide.next((BUTTON,), {"saved": True}, Wait()).done
    guide.begin(TASK)
    said = [guide.next((), {}, None) for _ in range(PATIENCE + 3)]
    assert said[-1].gave_up and "no button named 'Save'" in said[-1].reason


def test_the_guide_ends_with_the_plan_s_answer() -> None:
    guide = IntentGuide(lambda _: (("click", "button", "Save"), ("answer", "42")), act)
    guide.begin(TASK)
    guide.next((BUTTON,), {}, None)
    advice = guide.next((BUTTON,), {}, Click((150, 150)))
    assert advice.done and advice.action == CallUser("42")
