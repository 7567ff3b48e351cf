"""The proposer that covers first: what it takes up next, how far a hundred proposals go, and that it must be named."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from random import Random

import pytest

from generators.generation.proposing.catalogue import Catalogue, TaskOutcome
from generators.generation.proposing.proposers import CoverageProposer, Proposal, arms
from generators.generation.round_tables import CatalogueRows
from generators.generation.task_worlds import phone_task_world
from generators.generation.task_worlds.registry import open_task_world
from generators.generation.task_worlds.task_world import TaskWorld
from trainer.proving.methods import MethodCheck

STRATA = ("easy", "easy", "easy", "medium", "medium", "hard")


@pytest.fixture(scope="module")
def task_world() -> TaskWorld:
    return open_task_world("phone", 1)


def covered(member: str, seed: int, proposals: int = 100) -> float:
    """The share of 38 functions of three apps with an executable task. Rounds of twenty, apps in turn; after each the
    catalogue learns which of its tasks can be done at all, which the world knows."""
    world, catalogue, draw = open_task_world("phone", 3, seed), Catalogue(), Random(seed)
    every = {(target, function) for target in world.targets for function in world.functions(target)}
    shown: set[tuple[str, str]] = set()
    made = 0
    while made < proposals:
        proposer = arms(world, catalogue, names=(member,))[member]
        asked: dict[tuple[str, str], Iterator[Proposal]] = {}
        outcomes: list[TaskOutcome] = []
        idle = 0
        while len(outcomes) < 20 and idle < 60:
            place = world.targets[(made + idle) % len(world.targets)], draw.choice(STRATA)
            proposal = next(asked.setdefault(place, proposer.propose(*place, draw)), None)
            if proposal is None:
                idle += 1
                continue
            idle, made = 0, made + 1
            executable = world.shortest(proposal.contract) is not None
            shown |= {(idea.target, idea.function) for idea in proposal.ideas if executable}
            outcomes.append(TaskOutcome(place[0], proposal.ideas, proposal.arm, executable, "no way to it"))
        assert outcomes, "nothing more to say"
        catalogue.learn(outcomes)
    assert len(every) == 38
    return len(shown & every) / len(every)


def run(member: str, seed: int, share: float = 1.0) -> dict[str, float]:
    """Functions with an executable task, percent."""
    return {"functions": 100 * covered(member, seed, max(1, round(100 * share)))}


CHECK = MethodCheck(
    name="proposals",
    system="OmegaUse",
    asks="of 38 functions those with an executable task after 100 proposals, percent (wanted: 95)",
    members=("static", "coverage"),
    reference="static",
    figures=("functions",),
    run=run,
)


def test_it_proposes_only_where_it_is_named(task_world: TaskWorld) -> None:
    assert "coverage" not in arms(task_world, Catalogue())
    assert set(arms(task_world, Catalogue(), names=("coverage", "static"))) == {"coverage", "static"}


def test_no_function_comes_again_before_the_others_of_its_stratum(task_world: TaskWorld) -> None:
    (target,) = task_world.targets
    proposer = arms(task_world, Catalogue(), names=("coverage",))["coverage"]
    found = [one.ideas[0].function for one in islice(proposer.propose(target, "easy", Random(0)), 30)]
    different = len(set(found))
    assert different > 3 and len(set(found[:different])) == different


def test_what_is_shown_comes_last(task_world: TaskWorld) -> None:
    (target,) = task_world.targets
    catalogue = Catalogue()

    def first(count: int) -> list[str]:
        proposer = arms(task_world, catalogue, names=("coverage",))["coverage"]
        proposals = list(islice(proposer.propose(target, "easy", Random(0)), count))
        assert all(one.contract.stratum == "easy" and one.arm == "coverage" for one in proposals)
        catalogue.learn([TaskOutcome(target, one.ideas, one.arm, True, "") for one in proposals])
        return [one.ideas[0].function for one in proposals]

    assert not set(first(2)) & set(first(2))


@pytest.mark.slow
def test_a_hundred_proposals_cover_all_but_a_twentieth(monkeypatch: pytest.MonkeyPatch) -> None:
    # forty phones instead of ten thousand: a task is made once for all proposals, and functions are the same on each
    monkeypatch.setattr(phone_task_world, "SEEDS", 40)
    assert covered("coverage", 0) >= 0.95 > 0.75 > covered("static", 0)


@pytest.fixture(scope="module")
def shop() -> TaskWorld:
    """Of twelve sites the shop alone: what its functions need is looked for on a reference site."""
    world = open_task_world("fsm", 12)
    world.targets = tuple(target for target in world.targets if target.startswith("fsm/shop/"))
    return world


def test_a_precondition_is_what_every_known_way_does_first(shop: TaskWorld, task_world: TaskWorld) -> None:
    [target], catalogue = shop.targets, Catalogue()
    needs = {function: shop.needs(target, function) for function in shop.functions(target)}
    assert {function: found for function, found in needs.items() if found} == {"shop/order": ("shop/add",)}
    assert not any(task_world.needs(at, function) for at in task_world.targets for function in task_world.functions(at))
    for shown in (set[str](), {"shop/add"}):
        catalogue.verified[target] = shown
        rows = {row["function"]: row for row in catalogue.as_rows(shop)}
        assert rows["shop/order"]["needs"] == ["shop/add"] and rows["shop/order"]["ready"] == bool(shown)
        assert rows["shop/add"]["ready"] and CatalogueRows.table(rows.values()).num_rows == len(needs)


def test_what_needs_something_comes_after_what_needs_nothing(shop: TaskWorld) -> None:
    [target] = shop.targets
    ideas = {idea.function: idea for idea in islice(shop.ideas(target, Random(0)), 200)}

    def ranked(*shown: str) -> list[str]:
        proposer = CoverageProposer(shop, Catalogue(verified={target: set(shown)}))
        return sorted(ideas, key=lambda function: proposer._rank(ideas[function]))

    first, later = ranked(), ranked("shop/add")
    assert len(first) > 3 and first[-1] == "shop/order", "by no number: it waits for something in the basket"
    assert later[-1] == "shop/add" and later.index("shop/order") < len(later) - 2
