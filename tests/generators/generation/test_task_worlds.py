"""Task worlds: what is asked of targets that nobody checked, as contracts, and the truth about them."""

from __future__ import annotations

from itertools import islice
from random import Random

import pytest
from fsm_walks import path_of, walk

from generators.generation.task_worlds.registry import TASK_WORLDS, open_task_world
from generators.generation.task_worlds.task_world import Name
from generators.tasks.task_spec import TaskSpec
from generators.worlds.evaluators import holds
from generators.worlds.fsm.interpreted import InterpretedWorld
from generators.worlds.fsm.sites import make_site
from generators.worlds.fsm.transfer import asked_of, function_of, thing_of, things
from schemas.actions import Click


@pytest.fixture(scope="module")
def shop() -> list[tuple[TaskSpec, int | None]]:
    """Contracts of single ideas on a shop, with the truth about each."""
    task_world = open_task_world("fsm", 8)
    target = next(name for name in task_world.targets if "/shop/" in name)
    ideas = islice(task_world.ideas(target, Random(1)), 60)
    made = [task_world.contract([idea], Random(0)) for idea in ideas]
    return [(contract, task_world.shortest(contract)) for contract in made if contract is not None]


@pytest.mark.parametrize("name", TASK_WORLDS)  # web apps need their package to know their own pages
def test_contracts_are_whole_and_the_same_again(name: str) -> None:
    task_world = open_task_world(name, 4)
    for target in task_world.targets:
        ideas = list(islice(task_world.ideas(target, Random(5)), 6))
        assert ideas == list(islice(task_world.ideas(target, Random(5)), 6)) and ideas
        assert {idea.function for idea in ideas} <= set(task_world.functions(target))
        for idea in ideas:
            contract = task_world.contract([idea], Random(2))
            assert contract is not None and contract.target == target and contract.platform == task_world.platform
            assert TaskSpec.from_row(contract.as_row()) == contract and contract.world == name


def test_the_truth_of_a_contract_is_what_its_path_reaches(shop: list[tuple[TaskSpec, int | None]]) -> None:
    task_world = open_task_world("fsm", 8)
    feasible = [contract for contract, steps in shop if steps]
    hopeless = [contract for contract, steps in shop if steps is None]
    assert len(feasible) > 10 and len(hopeless) > 10
    for contract in feasible[:8]:
        done = walk(contract)
        assert len(done.turns) == task_world.shortest(contract) and holds(contract.evaluator, done.end_state)
        assert task_world.true(contract, done.end_state, "")
    for contract in hopeless:
        assert path_of(contract) == [] or not task_world.true(contract, walk(contract).end_state, "")


def test_doing_more_than_was_asked_is_not_true(shop: list[tuple[TaskSpec, int | None]]) -> None:
    task_world = open_task_world("fsm", 8)
    adds = [c for c, steps in shop if steps and c.capabilities == ("shop/add",)]
    one, other = next((a, b) for a in adds for b in adds if a.evaluator != b.evaluator)
    world = InterpretedWorld(make_site)
    world.reset(one.initial_state)
    home = next(element for element in world.elements() if element.role == "link")
    both = [*path_of(one), Click(home.centre), *path_of(other)]
    done = walk(one, both)
    if holds(other.evaluator, done.end_state):  # the second path may begin elsewhere
        assert holds(one.evaluator, done.end_state) and not task_world.true(one, done.end_state, "")


def test_a_goal_is_asked_of_another_site_by_what_it_names() -> None:
    site, donor = make_site("shop", 0), make_site("shop", 9001)
    have = {name for (function, _), name in things("shop", 0).items() if function == "add"}
    for goal in donor.goals:
        if function_of(goal) != "add":
            continue
        own, moved = thing_of(goal, donor), asked_of(site, donor, goal)
        assert (moved is not None) == (own in have)
        for name in sorted(have):
            swapped = asked_of(site, donor, goal, name)
            assert swapped is not None and name in swapped.texts[0]
            assert any(goal.id == swapped.id and goal.when == swapped.when for goal in site.goals)
        assert asked_of(site, donor, goal, "Flying Carpet") is None


def test_ideas_about_seen_names_say_them() -> None:
    task_world = open_task_world("fsm", 12)
    target = next(name for name in task_world.targets if "/wiki/" in name)
    ideas = list(islice(task_world.about(target, [Name("Windmill", "link")], Random(1)), 10))
    assert ideas and all("Windmill" in idea.text and idea.basis == "seen" for idea in ideas)
    assert list(task_world.about(target, [], Random(1))) == []


def test_an_unknown_ground_or_target_is_named() -> None:
    with pytest.raises(ValueError, match="found .moon."):
        open_task_world("moon", 1)
    with pytest.raises(ValueError, match="expected fsm/<kind>/<seed>, found 'fsm/shop'"):
        open_task_world("fsm", 1).functions("fsm/shop")
