"""Hard negatives are sound: each kind is recorded, reaches its goal, and shows the same pictures when done again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from generators.devices.browser import BrowserMissing, find_chromium
from generators.proving.judge_bench.recorders.odd_pages import OddPages, _turns
from generators.proving.judge_bench.recorders.odd_scenarios import KINDS, SCENARIOS
from generators.proving.judge_bench.recorders.odd_world import OddWorld
from generators.proving.judge_bench.trace import Trace, arrive, perform, reached
from generators.tasks.world_interface import UnsupportedAction, WorldError
from schemas.action_types import Click, Finished, Hotkey, Launch, Scroll, Type, Wait

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("shared_chromium")]
COUNTS = {"phone": 13, "desktop": 5}
"""Traces on each screen: every kind on a phone's; on a desktop's, by the same recorder, enough to see that it works."""


@pytest.fixture(scope="module")
def worlds() -> Iterator[dict[str, OddWorld]]:
    try:
        find_chromium()
    except BrowserMissing as missing:
        pytest.skip(str(missing))
    with OddPages("phone").open() as phone, OddPages("desktop").open() as desktop:
        yield {"phone": phone, "desktop": desktop}


@pytest.fixture(scope="module")
def traces(worlds: dict[str, OddWorld]) -> dict[str, list[Trace]]:
    return {kind: list(OddPages(kind).record(worlds[kind], count, 7)) for kind, count in COUNTS.items()}


def test_every_kind_has_its_turn_in_every_app() -> None:
    turns = _turns(0)
    assert sorted(turns) == sorted((app, kind) for app in SCENARIOS for kind in SCENARIOS[app])
    assert [kind for _, kind in turns[: len(KINDS)]] == list(KINDS)


def test_sound_and_equal_when_performed_again(worlds: dict[str, OddWorld], traces: dict[str, list[Trace]]) -> None:
    for kind, found in traces.items():
        assert len(found) == COUNTS[kind] and len({trace.odd for trace in found}) >= min(9, COUNTS[kind] - 1)
        for trace in found[::2]:
            shots, end = perform(worlds[kind], trace)
            assert end == trace.end_state and reached(end, trace.evaluator), trace.uid
            assert [shot.png for shot in shots] == [shot.png for shot in trace.shots], trace.uid
            assert [shot.state for shot in shots] == [shot.state for shot in trace.shots], trace.uid


def test_moves_lie_on_their_elements(traces: dict[str, list[Trace]]) -> None:
    for trace in (*traces["phone"], *traces["desktop"]):
        assert isinstance(trace.moves[-1].action, Finished) and not trace.moves[-1].odd
        assert any(move.odd for move in trace.moves), trace.uid
        assert trace.goal not in trace.near_misses
        for move, shot in zip(trace.moves, trace.shots, strict=True):
            if isinstance(move.action, Click):
                element = shot.element(move.key)
                assert element is not None and element.box == move.box
                left, top, right, bottom = element.box
                assert left <= move.action.box[0] <= right and top <= move.action.box[1] <= bottom


def test_stopping_early_or_doing_nothing_does_not_reach(
    worlds: dict[str, OddWorld], traces: dict[str, list[Trace]]
) -> None:
    for trace in traces["phone"]:
        assert not reached(arrive(worlds["phone"], trace, ()), trace.evaluator), trace.uid


def _screens(world: OddWorld, start: dict[str, object], *actions: object) -> list[bytes]:
    world.reset(start)
    pictures = [world.observe().png]
    for action in actions:
        world.act(action)  # type: ignore[arg-type]
        pictures.append(world.observe().png)
    return pictures


def test_a_banner_moves_without_an_action_and_a_message_goes(worlds: dict[str, OddWorld]) -> None:
    world = worlds["phone"]
    for anim in ("carousel", "ticker", "bars", "progress"):
        first, second = _screens(world, {"app": "notes", "seed": 3, "anim": anim, "waits": 1}, Wait())
        assert first != second, anim
    first, second = _screens(world, {"app": "notes", "seed": 3, "anim": "", "waits": 1}, Wait())
    assert first == second
    world.reset({"app": "inbox", "seed": 5, "anim": "", "waits": 1})
    bin_ = next(element for element in world.observe().elements if element.key.startswith("del:"))
    world.act(Click(bin_.centre))
    assert any(element.key == "toast:undo" for element in world.observe().elements)
    world.act(Wait())
    assert not any(element.key == "toast:undo" for element in world.observe().elements)


def test_a_secret_shows_as_dots_in_the_elements_too(worlds: dict[str, OddWorld]) -> None:
    world = worlds["desktop"]
    world.reset({"app": "account", "seed": 5, "anim": "", "waits": 1})
    field = world.observe().element("password")
    assert field is not None
    world.act(Click(field.centre))
    world.act(Type("Fjord#3"))
    after = world.observe().element("password")
    assert after is not None and after.text == "•" * 7 and world.state()["secret"] == "Fjord#3"


def test_an_effect_comes_one_step_late(worlds: dict[str, OddWorld]) -> None:
    world = worlds["phone"]
    world.reset({"app": "planner", "seed": 8, "anim": "", "waits": 1})
    before = world.observe()
    sync = before.element("sync")
    assert sync is not None
    world.act(Click(sync.centre))
    assert world.observe().png == before.png and not world.state()["synced"]
    world.act(Scroll(direction="down"))
    assert world.state()["synced"]


def test_unknown_actions_are_named(worlds: dict[str, OddWorld]) -> None:
    with pytest.raises(UnsupportedAction, match="Launch"):
        worlds["phone"].act(Launch(app="Mail"))
    with pytest.raises(WorldError, match="no key is named 'nonsense'"):
        worlds["phone"].act(Hotkey(("nonsense",)))


def test_expressions_mean_one_element(worlds: dict[str, OddWorld]) -> None:
    screens = list(OddPages("phone").grounding(worlds["phone"], 6, 0))
    assert len(screens) >= 4 and any("alike" in screen.odd.values() for screen in screens)
    for screen in screens:
        words = [item.expression.lower() for item in screen.items]
        assert len(words) == len(set(words)), screen.uid
