"""The scripted agent on a real phone page: what its plan reaches, and what its errors cost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from generators.policies.episode import PlayedEpisode, run_episode
from generators.policies.registry import build_policy
from generators.worlds.phone.phone_task import PhoneTask, evaluate
from generators.worlds.phone.phone_tasks import make_task
from generators.worlds.phone.phone_world import PhoneWorld, open_phone


@pytest.fixture(scope="module")
def handset() -> Iterator[PhoneWorld]:
    from generators.devices.browser import BrowserMissing, find_chromium

    try:
        find_chromium()
    except BrowserMissing as missing:
        pytest.skip(str(missing))
    with open_phone() as world:
        yield world


def task(family: str) -> PhoneTask:
    return next(made for seed in range(20) if (made := make_task(family, seed)) is not None)


def attempt(world: PhoneWorld, wanted: PhoneTask, error_rate: float = 0.0) -> tuple[PlayedEpisode, bool]:
    contract = wanted.contract()
    policy = build_policy("scripted", error_rate=error_rate).make(contract, world)
    run = run_episode(world, policy, wanted.goal, wanted.start, 0, 2 * wanted.expected_steps + 20)
    return run, evaluate(contract.evaluator, dict(run.end_state), run.answer)


@pytest.mark.parametrize("family", ["settings.slider", "notes.tick", "messages.send"])
def test_a_plan_over_elements_reaches_its_goal_by_touches(handset: PhoneWorld, family: str) -> None:
    run, reached = attempt(handset, task(family))
    assert reached and run.ended == "finished" and not any(step.error for step in run.steps)


def test_one_that_always_errs_fails(handset: PhoneWorld) -> None:
    run, reached = attempt(handset, task("messages.send"), 1.0)
    assert not reached and run.steps
