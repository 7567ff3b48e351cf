"""The tasks of the world suites: held-out seeds, families in turn, the same ones every time."""

from __future__ import annotations

import pytest

from generators.devices.browser import BrowserMissing
from generators.policies.policy import Decision, PolicyView
from generators.policies.policy_maker import PolicyMaker
from generators.worlds.app_tasks import work_of, works
from schemas.action_types import Finished, Wait
from schemas.actions import format
from trainer.proving.staircase.tasks import MOST_EPISODES, SPLIT_SEEDS
from trainer.suites.world_tasks import FIRST_SEED, contracts, pool
from trainer.suites.worlds import task_cluster, world_success


@pytest.mark.parametrize("world", ["phone", "fsm", "desktop"])
def test_families_in_turn_with_seeds_that_nothing_trains_on(world: str) -> None:
    made = contracts(world, 3)
    assert contracts(world, 3) == made and contracts(world, 2) == made[:2]
    assert len({one.target for one in made}) > 1 and {one.world for one in made} == {world}
    assert all(one.initial_state.get("seed", FIRST_SEED) >= FIRST_SEED for one in made)
    assert max(SPLIT_SEEDS.values()) + MOST_EPISODES < FIRST_SEED
    assert {one.task_id for one in contracts(world, 1, seed=1)}.isdisjoint(one.task_id for one in made)


def test_a_desktop_suite_has_no_task_that_the_generation_loop_may_have_trained_on() -> None:
    made = contracts("desktop", 60)
    assert [one for one in made if work_of(one)] == [] and len({one.target for one in made}) >= 3, "programs"
    known = [work.contract for work in works("desktop", 3)]
    assert all(work_of(one) for one in known), "they are found again by their ids"


def test_what_there_isnt_is_told() -> None:
    for words, given in {
        "expected one of miniwob, phone, fsm, desktop, care, care/phone, care/web, found 'moon'": ("moon", 1),
        "suite fsm: expected 1 or more episodes": ("fsm", 0),
    }.items():
        with pytest.raises(ValueError, match=words):
            contracts(*given)
    with pytest.raises(ValueError, match="fsm sites: unknown 'moon'; known are admin, bank"):
        contracts("fsm", 1, only=["moon"])
    with pytest.raises(ValueError, match="expected a style of full, nano"):
        pool("huge")


class Idle:
    """Waits once, then claims that it is done."""

    name, needs_tree = "idle", False

    def begin(self, goal: str, platform: str, seed: int) -> None: ...

    def decide(self, view: PolicyView) -> Decision:
        assert view.size_px == (320, 416)  # two pixels a CSS pixel
        action = Finished() if view.past else Wait()
        return Decision(format(action), action)


def test_miniwob_pages_tell_their_goal_and_reward_no_claim() -> None:
    try:
        made = contracts("miniwob", 2, only=["click-button"])
    except BrowserMissing as missing:
        pytest.skip(str(missing))
    assert all("button" in one.instruction for one in made) and len({one.task_id for one in made}) == 2
    assert {task_cluster(one) for one in made} == {"miniwob/click-button"}
    summary = world_success(PolicyMaker("idle", lambda contract, world: Idle()), made, pool("nano", 1))["summary"]
    assert summary["claimed"]["mean"] == 1.0 and summary["success"]["mean"] == 0.0 and summary["tasks"] == 1
