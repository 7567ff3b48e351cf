"""The phone and the sites in the judge bench: traces perform again, labels are the world's, families are held out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generators.devices.browser import BrowserMissing, find_chromium
from generators.proving.judge_bench.build import OPERATORS, is_held_out
from generators.proving.judge_bench.defects.steps import Tools
from generators.proving.judge_bench.recorders import fsm_tasks, phone_tasks
from generators.proving.judge_bench.recorders.failing_policies import fail
from generators.proving.judge_bench.recorders.performed import one_entity_apart
from generators.proving.judge_bench.trace import Trace, arrive, perform, reached
from generators.tasks.world_interface import World
from generators.worlds.fsm.fsm_tasks import TaskMaker
from generators.worlds.fsm.sites import TEMPLATES, make_site
from generators.worlds.phone.phone_tasks import FAMILIES, make_task
from generators.worlds.phone.plan import prove
from schemas.action_types import Click, Finished, Type
from schemas.actions import CallUser

PHONE = ("settings.switch", "contacts.star", "messages.send", "shop.sold_out", "calendar.ask")
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("shared_chromium")]


def opened(recorder: AbstractContextManager[Any]) -> Iterator[Any]:
    try:
        find_chromium()
    except BrowserMissing as missing:
        pytest.skip(str(missing))
    with recorder as world:
        yield world


@pytest.fixture(scope="module")
def phone() -> Iterator[tuple[World, list[Trace]]]:
    for world in opened(phone_tasks.PhoneRecorder().open()):
        seeds = range(phone_tasks.FIRST_SEED, phone_tasks.FIRST_SEED + 6)
        first = (next((t for seed in seeds if (t := phone_tasks.record_one(world, f, seed))), None) for f in PHONE)
        yield world, [trace for trace in first if trace is not None]


@pytest.fixture(scope="module")
def site() -> Iterator[tuple[World, list[Trace]]]:
    for world in opened(fsm_tasks.FsmRecorder().open()):
        makers = [TaskMaker(make_site(kind, fsm_tasks.FIRST_SEED)) for kind in ("streaming", "tickets", "survey")]
        made = (fsm_tasks.record_one(world, maker, seed) for maker in makers for seed in range(2))
        yield world, [trace for trace in made if trace is not None]


@pytest.fixture(params=("phone", "site"))
def recorded(request: pytest.FixtureRequest) -> tuple[World, list[Trace]]:
    found: tuple[World, list[Trace]] = request.getfixturevalue(request.param)
    return found


def test_a_trace_performs_again_to_the_same_pixels_and_without_its_last_action_it_fails(
    recorded: tuple[World, list[Trace]],
) -> None:
    world, traces = recorded
    assert len(traces) >= 4
    for trace in traces:
        if len(trace.moves) > 10:
            continue
        shots, end = perform(world, trace)
        assert [shot.png for shot in shots] == [shot.png for shot in trace.shots] and end == trace.end_state, trace.uid
        assert reached(end, trace.evaluator, trace.moves) and isinstance(trace.moves[-1].action, Finished)
        left_out = trace.moves[:-2]
        assert not reached(arrive(world, trace, left_out), trace.evaluator, left_out), trace.uid


def test_actions_lie_on_the_elements_they_name(recorded: tuple[World, list[Trace]]) -> None:
    for trace in recorded[1]:
        for move, shot in zip(trace.moves, trace.shots, strict=True):
            if isinstance(move.action, Click):
                assert move.box is not None and shot.element(move.key) is not None, (trace.uid, move)
                left, top, right, bottom = move.box
                assert left <= move.action.box[0] <= right and top <= move.action.box[1] <= bottom
            if isinstance(move.action, Type):
                assert shot.element(move.key) is not None and move.action.content in move.instruction


def test_operators_and_failing_policies_work_there(recorded: tuple[World, list[Trace]]) -> None:
    world, all_traces = recorded
    traces = sorted(all_traces, key=lambda trace: len(trace.moves))[:3]
    tools = Tools(world, traces, Random(1))
    for name in ("wrong_element/near", "premature_finish/late", "other_task/other_app", "near_miss"):
        made = [p for trace in traces if (p := OPERATORS[name].make(trace, tools)) is not None]
        assert made, name
        for planted in made:
            if name.startswith("premature"):
                moves = planted.trace.moves
                assert not reached(arrive(world, planted.trace, moves), planted.trace.evaluator, moves)
    failed = list(fail(world, traces, seed=2, count=1))
    assert failed and all(trace.failure for trace in failed)
    for trace in failed:
        end = arrive(world, trace, trace.moves)
        assert end == trace.end_state and not reached(end, trace.evaluator, trace.moves)


def test_a_near_miss_is_a_task_that_can_be_done_and_was_not(phone: tuple[Any, list[Trace]]) -> None:
    world, traces = phone
    trace = next(trace for trace in traces if trace.near_misses and trace.family == "phone/settings.switch")
    task = make_task("settings.switch", int(trace.start["seed"]))
    assert task is not None and task.goal == trace.goal
    other = next(other for other in phone_tasks.variants(task) if other.goal in trace.near_misses)
    assert prove(world, other) and not reached(trace.end_state, other.evaluator(), trace.moves)


def test_telling_that_it_can_not_be_done_is_a_hard_negative(phone: tuple[Any, list[Trace]]) -> None:
    by_family = {trace.family: trace for trace in phone[1]}
    sold_out = by_family["phone/shop.sold_out"]
    assert sold_out.odd == "infeasible" and isinstance(sold_out.moves[-2].action, CallUser)
    assert not reached(sold_out.end_state, sold_out.evaluator, sold_out.moves[:-2])
    assert {trace.odd for trace in phone[1] if trace is not sold_out} == {""}


def test_near_misses_of_a_site_keep_the_wording(site: tuple[World, list[Trace]]) -> None:
    near = [(trace.goal, goal) for trace in site[1] for goal in trace.near_misses]
    assert near and all(one_entity_apart(*pair) for pair in near)


def test_some_families_are_held_out() -> None:
    for families in ([f"phone/{name}" for name in FAMILIES], [f"fsm/{kind}" for kind in TEMPLATES]):
        held = sum(map(is_held_out, families))
        assert 0.25 <= held / len(families) <= 0.55


def test_expressions_mean_one_element(recorded: tuple[Any, list[Trace]]) -> None:
    world, traces = recorded
    recorder = phone_tasks.PhoneRecorder() if traces[0].world == "phone" else fsm_tasks.FsmRecorder()
    screens = list(recorder.grounding(world, 4, 0))  # type: ignore[arg-type]
    assert len(screens) >= 3
    for screen in screens:
        words = [item.expression.lower() for item in screen.items]
        assert len(words) == len(set(words)) >= 4
        for item in screen.items:
            same = [element for element in screen.shot.elements if element.name.lower() == item.place.name.lower()]
            assert same == [item.place]


def test_one_entity_apart() -> None:
    assert one_entity_apart("Delete the note Ideas for spring now", "Delete the note Gifts now")
    assert not one_entity_apart("Delete the note Ideas", "Delete the note Ideas")
    assert not one_entity_apart("Delete the note Ideas", "Delete the note Ideas and Gifts")  # nothing was changed
    assert not one_entity_apart("Call Ann and write a long letter to Bob", "Call Joe and write a long letter to Tim")


@given(st.lists(st.sampled_from("abc"), max_size=8), st.lists(st.sampled_from("abc"), max_size=8))
def test_one_entity_apart_is_symmetric_and_never_of_equals(one: list[str], two: list[str]) -> None:
    a, b = " ".join(one), " ".join(two)
    assert one_entity_apart(a, b) == one_entity_apart(b, a) and not one_entity_apart(a, a)
