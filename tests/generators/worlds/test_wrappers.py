"""Wrappers of worlds: the identity without a rate, the same by the same seed, and nothing but what they declare."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generators.tasks.world_interface import World, WorldError
from generators.worlds.evaluators import holds
from generators.worlds.fsm.evaluate import evaluator
from generators.worlds.fsm.fsm_tasks import FsmTask, TaskMaker
from generators.worlds.fsm.interpreted import InterpretedWorld
from generators.worlds.fsm.plan import Planner
from generators.worlds.fsm.plan import perform as carry_out
from generators.worlds.fsm.sites import TEMPLATES, make_site
from generators.worlds.phone.phone_tasks import make_task
from generators.worlds.phone.phone_world import PhoneWorld
from generators.worlds.phone.plan import perform
from generators.worlds.wrappers.defects import Defective, Rates
from generators.worlds.wrappers.delay import Delayed, Slowness
from generators.worlds.wrappers.hostile import PHONE, Hostile, on_site
from generators.worlds.wrappers.wrapper import Wrapper
from schemas.action_types import Click, Type, Wait
from schemas.actions import Action
from tests.generators.worlds.phone.conftest import handset  # noqa: F401 (a fixture)

WRAPPERS: dict[str, Callable[[World, float, int], Wrapper]] = {
    "defects": lambda world, share, seed: Defective(world, Rates(share, share, share, share), seed),
    "delay": lambda world, share, seed: Delayed(world, Slowness(share, 3), seed),
    "hostile": Hostile,
}
KINDS = st.sampled_from(sorted(WRAPPERS))


@pytest.fixture(scope="module")
def task() -> FsmTask:
    return next(t for t in TaskMaker(make_site("insurance", 4)).tasks(20) if t.expected_steps >= 8)


def seen(world: World, task: FsmTask) -> list[Any]:
    """Everything that a policy and a judge of the truth get to know of a run."""
    world.reset(task.start)
    found: list[Any] = [world.observe(), world.state()]
    for action in task.path:
        world.act(action)
        found += [world.observe(), world.observe(), world.state()]
    return found


@settings(max_examples=12, deadline=None)
@given(KINDS, st.integers(0, 10**6), st.integers(0, 2))
def test_without_a_rate_it_is_the_identity_and_with_one_the_same_seed_does_the_same(
    task: FsmTask, name: str, seed: int, number: int
) -> None:
    plain = seen(InterpretedWorld(make_site), task)
    make = WRAPPERS[name]
    assert isinstance(make(InterpretedWorld(make_site), 0, seed), World)
    assert seen(make(InterpretedWorld(make_site), 0, seed), task) == plain
    share = (0.3, 0.7, 1.0)[number]
    used = make(InterpretedWorld(make_site), share, seed)
    first = seen(used, task)
    assert first == seen(make(InterpretedWorld(make_site), share, seed), task)
    assert first == seen(used, task)  # nothing of the run before is left
    if share == 1:
        assert first != plain


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4))
def test_a_delay_keeps_the_truth_and_ends(task: FsmTask, seed: int, looks: int) -> None:
    inner = InterpretedWorld(make_site)
    world = Delayed(inner, Slowness(1.0, looks), seed)
    world.reset(task.start)
    for action in task.path:
        before, late = world.observe(), 0
        world.act(action)
        while world.late:
            assert world.observe() == before
            late += 1
        assert 1 <= late <= looks and world.observe() == inner.observe()
    assert holds(task.rule, world.state())
    world.reset(task.start)
    first = world.observe()
    world.act(task.path[0])
    for _ in range(looks):
        world.act(Wait())
    assert world.observe() == inner.observe() != first


def test_every_fault_does_what_its_log_says(task: FsmTask) -> None:
    def run(rates: Rates, seed: int, actions: Sequence[Action]) -> tuple[Defective, World]:
        inner = InterpretedWorld(make_site)
        world = Defective(inner, rates, seed)
        world.reset(task.start)
        for action in actions:
            world.act(action)
        return world, inner

    path = list(task.path)
    clicks = [action for action in path if isinstance(action, Click)]
    dead, inner = run(Rates(dead_control=1.0), 0, clicks)
    start = InterpretedWorld(make_site)
    start.reset(task.start)
    assert {entry.fault for entry in dead.log} == {"dead_control"}
    assert inner.state() == start.state() and not holds(task.rule, dead.state())
    beside, _ = run(Rates(neighbour_hit=1.0), 0, clicks[:1])
    meant = next(
        p.key
        for p in start.elements()
        if p.clickable and p.box[0] <= clicks[0].box[0] <= p.box[2] and p.box[1] <= clicks[0].box[1] <= p.box[3]
    )
    assert beside.log[0].fault == "neighbour_hit" and beside.log[0].what != meant
    stale, inner = run(Rates(stale_screen=1.0), 0, clicks[:1])
    assert stale.observe() == start.observe() and stale.observe() == inner.observe()
    field = next(n for n, action in enumerate(path) if isinstance(action, Type))
    typed = path[field]
    assert isinstance(typed, Type)
    lost, inner = run(Rates(lost_key=1.0), 0, path[: field + 1])
    assert [entry.fault for entry in lost.log][-1:] == ["lost_key"]
    texts = [value for value in lost.state()["variables"].values() if isinstance(value, str)]
    assert typed.content not in texts and any(len(text) == len(typed.content) - 1 for text in texts)


def test_rates_and_worlds_are_checked() -> None:
    world = InterpretedWorld(make_site)
    with pytest.raises(ValueError, match=r"defects: lost_key: expected a share in 0..1, found 2"):
        Rates(lost_key=2)
    with pytest.raises(ValueError, match="dialog: only the phone shows one, found 'fsm'"):
        Defective(world, Rates(dialog=0.5))
    with pytest.raises(ValueError, match="delay: looks"):
        Slowness(0.5, 0)
    world.name = "pages/phone"
    with pytest.raises(ValueError, match="nothing can be planted in 'pages/phone'; expected one of phone, fsm"):
        Hostile(world, 1.0)


@pytest.mark.parametrize("kind", sorted(TEMPLATES))
def test_a_remark_on_a_site_is_shown_and_obeying_it_is_told_from_the_task(kind: str) -> None:
    maker = TaskMaker(make_site(kind, 7))
    tasks = [t for t in maker.tasks(12) if len(t.goals) == 1]
    world = Hostile(InterpretedWorld(make_site), 1.0, seed=3)
    world.guard(tasks[0].rule)
    world.reset(tasks[0].start)
    attack = world.attack
    assert attack is not None and not world.obeyed()
    assert attack.text in [element.text for element in world.observe().elements]
    goal = next(goal for goal in maker.site.goals if attack.obeyed == evaluator(goal.when))
    assert goal.id not in tasks[0].goals
    inner = world.world
    assert isinstance(inner, InterpretedWorld)
    carry_out(inner, Planner(maker.site).plan(inner.moment, goal.when, ""))
    assert world.obeyed()


@pytest.mark.parametrize("kind", sorted(TEMPLATES))
def test_whoever_does_the_task_alone_obeys_no_remark(kind: str) -> None:
    # An order, say, also fills the list of what was bought, which is another goal of the shop.
    site = make_site(kind, 5)
    for task in TaskMaker(site).tasks(10):
        world = InterpretedWorld(make_site)
        world.reset(task.start)
        before, page = world.state()["variables"], world.state()["page"]
        for action in task.path:
            world.act(action)
        asked = task.rule["conditions"]
        names = [path.removeprefix("variables.") for path, *_ in asked if path != "page"]
        may = Planner(site).changed(page, names, [wanted for path, _, wanted in asked if path == "page"])
        assert {name for name, value in world.state()["variables"].items() if value != before[name]} <= may
        attacks = [on_site(task.start, Random(number), task.rule) for number in range(4)]
        assert not [attack.text for attack in attacks if holds(attack.obeyed, world.state())], task.rule


def test_texts_of_others_name_no_variables_and_need_a_page() -> None:
    world = InterpretedWorld(make_site)
    start = {"kind": "shop", "seed": 2}
    page = make_site("shop", 2).pages[0].id
    world.reset({**start, "extras": [[page, "Is it {cart}?\n</script>"]]})
    assert "Is it (cart)? </script>" in [element.text for element in world.elements()]
    with pytest.raises(WorldError, match="extras: expected a page of"):
        world.reset({**start, "extras": [["nowhere", "Hello"]]})


@pytest.mark.parametrize("number", range(len(PHONE)))
def test_a_phone_task_is_decided_as_without_the_attack(handset: PhoneWorld, number: int) -> None:  # noqa: F811
    seed = next(s for s in range(99) if _kind(handset, s) == PHONE[number].__name__.strip("_"))
    task = make_task("clock.switch", 50)
    assert task is not None
    world = Hostile(handset, 1.0, seed)
    world.reset(task.start)
    assert world.attack is not None and not world.obeyed()
    rule = task.evaluator()
    assert not holds(rule, world.state(), world.answer)
    perform(handset, task.plan)
    assert holds(rule, world.state(), world.answer) and not world.obeyed()
    check = world.attack.obeyed["checks"][0]
    state = handset.state()
    if check["check"] == "value":
        state["data"]["settings"]["values"]["hotspot_name"] = check["is"]
    else:
        app, name = check["path"].split(".")
        items = state["data"][app][name]
        items.append({**items[0], "id": "x", **check["where"]})
    handset.reset({"snapshot": state})
    assert world.obeyed() and not holds(rule, world.state(), world.answer)


def _kind(handset: PhoneWorld, seed: int) -> str:  # noqa: F811
    world = Hostile(handset, 1.0, seed)
    task = make_task("clock.switch", 50)
    assert task is not None
    world.reset(task.start)
    assert world.attack is not None
    return world.attack.kind


def test_an_obeyed_message_is_one_that_was_answered_by_touch(handset: PhoneWorld) -> None:  # noqa: F811
    seed = next(s for s in range(99) if _kind(handset, s) == "message")
    world = Hostile(handset, 1.0, seed)
    task = make_task("clock.switch", 50)
    assert task is not None
    world.reset(task.start)
    assert world.attack is not None
    code = world.attack.obeyed["checks"][0]["where"]["text"]
    handset.call("show", "messages")
    perform(handset, (("tap", "thread:hz1"),))
    assert any(world.attack.text in element.text for element in handset.elements())
    perform(handset, (("tap", "field:text"), ("type", code), ("tap", "send")))
    assert world.obeyed()


def test_a_notice_covers_the_phone_until_it_is_closed(handset: PhoneWorld) -> None:  # noqa: F811
    world = Defective(handset, Rates(dialog=1.0), seed=1)
    world.reset({"seed": 3})
    data = world.state()["data"]
    home = {element.key for element in world.observe().elements}
    world.act(Wait())
    assert world.log[-1].fault == "dialog" and world.log[-1].what == world.state()["ui"]["dialog"]["title"]
    button = world.observe().element("dlg:yes")
    assert button is not None and "home:clock" in home
    handset.act(Click(button.centre))
    assert handset.state()["ui"]["dialog"] is None and handset.state()["data"] == data
