"""The explorer finds nearly all of sites that it knows nothing about, within its budget, and notes what it did."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fsm_coverage import coverage

from generators.environments.fsm.interpreted import InterpretedWorld
from generators.environments.fsm.sites import make_site
from generators.environments.world import Place
from generators.policies.exploration import Exploration, ExplorationError, fingerprint
from generators.policies.explorer import Explorer, worth_typing
from schemas.actions import parse


class Blind(InterpretedWorld):
    """A world whose truth nobody may ask for."""

    def state(self) -> dict[str, Any]:
        raise AssertionError("an explorer must not look at the state")

    def observe(self) -> Any:
        from generators.environments.world import Observation

        return Observation(repr(self.places()).encode(), self.places())


@pytest.fixture(scope="module")
def explored() -> tuple[Blind, Exploration]:
    world = Blind(make_site)
    return world, Explorer(budget=1500).explore(world, [{"kind": "bank", "seed": 9}])


def test_it_finds_at_least_95_percent_of_states_and_edges(explored: tuple[Blind, Exploration]) -> None:
    found = [coverage(make_site("bank", 9), explored[0].fired)]
    for kind in ("tickets", "insurance"):
        world = Blind(make_site)
        Explorer(budget=1500).explore(world, [{"kind": kind, "seed": 9}])
        found.append(coverage(make_site(kind, 9), world.fired))
    assert sum(c.state_share for c in found) / len(found) >= 0.95
    assert sum(c.edge_share for c in found) / len(found) >= 0.95


def test_its_episodes_can_be_done_again_and_its_graph_is_plain_json(explored: tuple[Blind, Exploration]) -> None:
    world, exploration = explored
    assert exploration.actions == sum(len(actions) for _, actions in exploration.episodes) <= 1500
    again = InterpretedWorld(make_site)
    for start, actions in exploration.episodes:
        again.reset(exploration.starts[start])
        for action in actions:
            again.act(parse(action))
    assert again.fired == world.fired
    text = exploration.to_json()
    assert Exploration.from_plain(json.loads(text)).to_json() == text
    with pytest.raises(ExplorationError, match="expected"):
        Exploration.from_plain({"nodes": [{}]})


def test_ways_lead_to_their_screens(explored: tuple[Blind, Exploration]) -> None:
    world, exploration = InterpretedWorld(make_site), explored[1]
    for screen in exploration.screens[::7]:
        world.reset(exploration.starts[screen.start])
        for action in screen.way:
            world.act(parse(action))
        assert [(p.role, p.name) for p in world.places()] == [(p.role, p.name) for p in screen.places]


def test_the_same_seed_explores_the_same_and_the_budget_holds() -> None:
    texts = [
        Explorer(budget=150, seed=4).explore(InterpretedWorld(make_site), [{"kind": "shop", "seed": 1}])
        for _ in range(2)
    ]
    assert texts[0].to_json() == texts[1].to_json() and texts[0].actions == 150
    with pytest.raises(ValueError, match="budget"):
        Explorer(budget=0)


def test_fingerprints_mask_numbers_and_own_words_but_not_standing() -> None:
    def place(role: str, name: str, text: str) -> Place:
        return Place((0, 0, 10, 10), role, text, name, "")

    assert fingerprint([place("link", "Cart (1)", "")]) == fingerprint([place("link", "Cart (7)", "")])
    assert fingerprint([place("link", "Cart (0)", "")]) != fingerprint([place("link", "Cart (7)", "")])
    assert fingerprint([place("checkbox", "Terms", "✓")]) != fingerprint([place("checkbox", "Terms", "")])
    mine = [fingerprint([place("textbox", "Name", word)], [word]) for word in ("Mira", "Otto")]
    assert mine[0] == mine[1] != fingerprint([place("textbox", "Name", "")])


def test_it_types_by_label_and_what_is_quoted() -> None:
    from random import Random

    shown = [Place((0, 0, 1, 1), "text", 'Use the code "SPRING10" today', "", "")]
    texts = worth_typing("Your email", shown, Random(0))
    assert "@" in texts[0] and texts[1:] == ["SPRING10"]
