"""Natural errors are real: the screens are those of the run, and the world's state says that it failed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from generators.devices.browser import BrowserMissing, find_chromium
from generators.policies.policy import Decision, Policy, PolicyView
from generators.proving.judge_bench.recorders.failing_policies import KINDS, fail, follow
from generators.proving.judge_bench.recorders.odd_pages import OddPages
from generators.proving.judge_bench.recorders.odd_world import OddWorld
from generators.proving.judge_bench.trace import Trace, perform, reached
from schemas.action_types import Click, Finished, Wait
from schemas.actions import Action, format

pytestmark = pytest.mark.slow


class Hand:
    """A policy made of a function."""

    needs_tree = False

    def __init__(self, name: str, choose: Callable[[PolicyView], Action | None]) -> None:
        self.name = name
        self.choose = choose

    def begin(self, goal: str, platform: str, seed: int) -> None:
        pass

    def decide(self, view: PolicyView) -> Decision:
        action = self.choose(view)
        return Decision(format(action) if action else "", action)


@pytest.fixture(scope="module")
def world() -> Iterator[OddWorld]:
    try:
        find_chromium()
    except BrowserMissing as missing:
        pytest.skip(str(missing))
    with OddPages("phone").open() as found:
        yield found


@pytest.fixture(scope="module")
def traces(world: OddWorld) -> list[Trace]:
    return list(OddPages("phone").record(world, 13, 0))


@pytest.fixture(scope="module")
def failures(world: OddWorld, traces: list[Trace]) -> list[Trace]:
    return list(fail(world, traces, 1, 8))


def test_a_hand_is_a_policy() -> None:
    assert isinstance(Hand("none", lambda view: None), Policy)


def test_every_kind_comes_up(failures: list[Trace]) -> None:
    assert len(failures) == 8
    assert set(KINDS) <= {trace.failure for trace in failures} <= {*KINDS, "several"}


def test_they_fail_by_state_and_claim_success(world: OddWorld, failures: list[Trace]) -> None:
    for trace in failures:
        shots, end = perform(world, trace)
        assert end == trace.end_state and not reached(end, trace.evaluator), trace.uid
        assert [shot.png for shot in shots] == [shot.png for shot in trace.shots], trace.uid
        assert isinstance(trace.moves[-1].action, Finished) and not trace.odd and not trace.near_misses
        assert not any(move.odd for move in trace.moves)
        for _ in range(3):
            world.act(Wait())
            assert not reached(world.state(), trace.evaluator), f"{trace.uid} only had to wait"


def test_the_same_seed_gives_the_same_failures(world: OddWorld, traces: list[Trace], failures: list[Trace]) -> None:
    again = list(fail(world, traces, 1, 4))
    assert again == failures[:4]
    assert [trace.uid for trace in fail(world, traces, 2, 4)] != [trace.uid for trace in again]


def test_a_policy_from_outside_sees_the_screen_and_its_past(world: OddWorld, traces: list[Trace]) -> None:
    trace = next(trace for trace in traces if len(trace.moves) > 3)
    pictures: list[bytes] = []

    def right(view: PolicyView) -> Action | None:
        pictures.append(view.png)
        assert view.goal == trace.goal and len(view.past) == len(pictures) - 1 and not view.elements
        return trace.moves[len(view.past)].action

    run = follow(world, trace, Hand("right", right))
    assert pictures == [shot.png for shot in trace.shots]
    assert run.failed("right") is None  # it reached the goal: nothing to show as a failure
    clicks = [(move.key, move.box) for move in run.moves if isinstance(move.action, Click)]
    assert clicks == [(move.key, move.box) for move in trace.moves if isinstance(move.action, Click)]


def test_failures_of_a_policy_bear_its_name(world: OddWorld, traces: list[Trace]) -> None:
    def corner(view: PolicyView) -> Action | None:
        return Click((990, 990)) if len(view.past) < 2 else None

    found = list(fail(world, traces[:3], 0, 3, Hand("corner", corner)))
    assert [trace.failure for trace in found] == ["corner"] * 3
    assert all(
        len(trace.moves) == 3 and trace.uid.startswith(one.uid) for trace, one in zip(found, traces, strict=False)
    )
