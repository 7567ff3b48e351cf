"""The specs of all templates are sound, broken ones are refused by name, the machine keeps its promises on any walk."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generators.tasks.world_interface import WorldError
from generators.worlds.fsm.check import checked, problems, unreached
from generators.worlds.fsm.interpreted import InterpretedWorld
from generators.worlds.fsm.machine import Machine, legal
from generators.worlds.fsm.sites import TEMPLATES, make_site
from generators.worlds.fsm.spec import Edge, SitePage, SiteSpec
from schemas.action_types import Click, PressBack, PressEnter, Scroll, Type
from schemas.actions import Action


def changed(site: SiteSpec, page: str, element: str, edges: tuple[Edge, ...]) -> SiteSpec:
    """The site with other edges on one element."""

    def one(found: SitePage) -> SitePage:
        if found.id != page:
            return found
        return replace(found, elements=tuple(replace(e, edges=edges) if e.id == element else e for e in found.elements))

    return replace(site, pages=tuple(one(found) for found in site.pages))


def test_every_template_and_seed_is_sound_and_of_the_promised_size() -> None:
    sites = [make_site(kind, seed) for kind in sorted(TEMPLATES) for seed in range(3)]
    assert len(sites) >= 30 and len(TEMPLATES) >= 10
    for site in sites:
        assert problems(site) == [], site.target
        assert 10 <= len(site.pages) <= 40, site.target
        assert site.goals
    assert len({site.plain()["name"] + site.theme.accent + site.theme.menu for site in sites}) > 20


@pytest.mark.parametrize("kind", ["bank", "recipes", "survey"])
def test_every_state_and_edge_can_be_reached(kind: str) -> None:
    assert unreached(make_site(kind, 5)) == (set(), set())


def test_a_site_is_a_pure_function_of_its_seed() -> None:
    assert TEMPLATES["shop"](7) == TEMPLATES["shop"](7)
    assert TEMPLATES["shop"](7).plain() != TEMPLATES["shop"](8).plain()
    with pytest.raises(ValueError, match="expected a kind"):
        make_site("casino", 0)


def test_broken_specs_are_refused_by_name() -> None:
    site = make_site("bank", 0)
    dangling = changed(site, "home", "button-log-in", (Edge((), (), "nowhere"),))
    assert any("leads to no page 'nowhere'" in line for line in problems(dangling))
    twice = changed(site, "home", "button-log-in", (Edge((), (), "accounts"), Edge((), (), "branches")))
    assert any("same guard" in line for line in problems(twice))
    unknown = changed(site, "home", "button-log-in", (Edge((("gold", "eq", True),), (), "accounts"),))
    assert any("no variable 'gold'" in line for line in problems(unknown))
    locked = changed(
        site, "home", "button-log-in", (Edge((("s_user", "eq", "x"), ("s_user", "eq", "y")), (), "accounts"),)
    )
    assert problems(locked) == []
    pages, edges = unreached(locked)
    assert {"accounts", "paid", "cards"} <= pages and ("home", "button-log-in", 0) in edges
    with pytest.raises(ValueError, match="fsm/bank/0"):
        checked(locked)


@settings(max_examples=20, deadline=None)
@given(kind=st.sampled_from(sorted(TEMPLATES)), seed=st.integers(0, 50), walk=st.integers(0, 10**6))
def test_walks_stay_within_the_spec_and_repeat_exactly(kind: str, seed: int, walk: int) -> None:
    site = make_site(kind, seed)
    edges = set(site.edges())
    ends = []
    for _ in range(2):
        rng, world = Random(walk), InterpretedWorld(make_site)
        world.reset({"kind": kind, "seed": seed})
        for _ in range(25):
            elements = [place for place in world.elements() if place.clickable]
            click = [Click(rng.choice(elements).centre)] * 5
            actions: list[Action] = [*click, Type("Mira"), PressBack(), PressEnter(), Scroll(direction="down")]
            world.act(rng.choice(actions))
            state = world.state()
            assert state["page"] in site.page
            assert all(legal(site, name, value) for name, value in state["variables"].items())
        assert set(world.fired) <= edges
        ends.append((world.state(), world.observe().png))
    assert ends[0] == ends[1]


def test_page_variables_are_forgotten_and_back_goes_back() -> None:
    world = InterpretedWorld(make_site)
    world.reset({"kind": "bank", "seed": 0})
    field = next(place for place in world.elements() if place.role == "textbox")
    world.act(Click(field.centre))
    world.act(Type("12"))
    world.act(Type("34\n"))
    assert world.state()["variables"]["s_user"] == "1234 "
    world.act(Click(field.centre))
    world.act(Type("9"))
    assert world.state()["variables"]["s_user"] == "9"
    first = world.state()["history"]
    world.act(Click(next(p for p in world.elements() if p.name == "Branches").centre))
    assert world.state()["page"] == "branches" and world.state()["history"] != first
    world.act(PressBack())
    assert world.state() == {"page": "home", "variables": dict(make_site("bank", 0).initial), "history": first}


def test_snapshots_are_checked() -> None:
    machine = Machine(make_site("shop", 0))
    assert machine.start("cart", {"cart": 3}).page == "cart"
    for page, variables in (("cellar", {}), ("cart", {"gold": 1}), ("cart", {"cart": 99}), ("cart", {"coupon": "yes"})):
        with pytest.raises(WorldError, match="fsm/shop/0"):
            machine.start(page, variables)
