"""Real Chromium against the interpreter: the same places, states and edges on any walk; snapshots, addresses, files."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from generators.devices.browser import BrowserMissing, find_chromium
from generators.tasks.world_interface import UnsupportedAction, World, WorldError
from generators.worlds.fsm.evaluate import holds
from generators.worlds.fsm.fsm_tasks import TaskMaker
from generators.worlds.fsm.fsm_world import FsmWorld, open_fsm
from generators.worlds.fsm.interpreted import InterpretedWorld
from generators.worlds.fsm.sites import TEMPLATES, make_site
from schemas import action_types
from schemas.actions import Action

TEXTS = ("Mira", "a@b.co", "ü😀'\"<b>{cart}", "x\ny\tz", "2026-12-01", "  ")
CHORDS = (("ctrl", "a"), ("backspace",), ("alt", "left"), ("ctrl", "z"), ("tab",), ("enter",), ("delete",), ("left",))


@pytest.fixture(scope="module")
def chromium() -> Iterator[FsmWorld]:
    try:
        find_chromium()
    except BrowserMissing as missing:
        pytest.skip(str(missing))
    with open_fsm() as world:
        yield world


def draw(rng: Random, world: InterpretedWorld, host: str) -> Action:
    """An action as a restless user would do it."""
    clickable = [element for element in world.elements() if element.clickable]
    anything = (rng.randint(0, 1000), rng.randint(0, 1000))
    found: Action = rng.choice(
        [action_types.Click(rng.choice(clickable).centre)] * 9
        + [action_types.Type(rng.choice(TEXTS))] * 3
        + [
            action_types.Scroll(direction=rng.choice(("down", "up"))),
            action_types.PressBack(),
            action_types.PressEnter(),
            action_types.Wait(),
            action_types.Click(anything),
            action_types.Hover(anything),
        ]
        + [action_types.DoubleClick(rng.choice(clickable).centre), action_types.Hotkey(rng.choice(CHORDS))]
        + [
            action_types.Launch(url=f"https://{host}/{rng.choice(('', 'help', 'cart', 'home', 'pay'))}"),
            action_types.Launch(url="https://other.example/"),
        ]
    )
    return found


@pytest.mark.parametrize(("kind", "seed"), [("shop", 11), ("bank", 12), ("calendar", 13), ("wiki", 15)])
def test_browser_and_interpreter_agree_on_every_step(chromium: FsmWorld, kind: str, seed: int) -> None:
    rng, double = Random(f"{kind}/{seed}"), InterpretedWorld(make_site)
    start = {"kind": kind, "seed": seed}
    before = len(chromium.fired)
    chromium.reset(start)
    double.reset(start)
    for number in range(35):
        assert chromium.elements() == double.elements(), number
        assert chromium.state() == double.state(), number
        action = draw(rng, double, make_site(kind, seed).host)
        chromium.act(action)
        double.act(action)
    assert chromium.fired[before:] == double.fired


def test_it_is_a_world_that_resets_to_any_snapshot(chromium: FsmWorld) -> None:
    assert isinstance(chromium, World) and isinstance(InterpretedWorld(make_site), World)
    site = make_site("shop", 3)
    start = {"kind": "shop", "seed": 3, "page": "cart", "variables": {"cart": 2, "has0": True}}
    chromium.reset(start)
    first = chromium.observe()
    assert chromium.state()["variables"]["cart"] == 2 and chromium.state()["page"] == "cart"
    assert first.png.startswith(b"\x89PNG") and any(p.name == site.page["item0"].title for p in first.elements)
    chromium.act(action_types.Click(next(p for p in first.elements if p.key == "nav-home").centre))
    assert chromium.observe().state != first.state
    chromium.reset(start)
    assert chromium.observe() == first
    with pytest.raises(WorldError, match="can't be"):
        chromium.reset({"kind": "shop", "seed": 3, "variables": {"cart": -1}})


def page_with_choices() -> tuple[dict[str, object], str]:
    """A start on a page that has a combobox, and the combobox."""
    for kind in TEMPLATES:
        for page in make_site(kind, 3).pages:
            if found := next((e for e in page.elements if e.kind == "combobox" and not e.shown), None):
                return {"kind": kind, "seed": 3, "page": page.id}, found.id
    raise AssertionError("no site has a list to choose from")


def test_an_option_is_chosen_by_what_it_says_and_an_address_leads_back(chromium: FsmWorld) -> None:
    start, key = page_with_choices()
    seen = []
    for world in (chromium, InterpretedWorld(make_site)):
        world.reset(start)
        [box] = [element for element in world.elements() if element.key == key]
        world.act(action_types.Click(box.centre))
        options = [element.name for element in world.elements() if element.role == "option"]
        assert len(options) > 1
        world.reset(start)
        for option in (options[1], f" {options[0].upper()}", options[0]):
            world.act(action_types.SelectOption(box.centre, option))
            [shown] = [element for element in world.elements() if element.key == key]
            assert shown.text.casefold() == option.strip().casefold()
            assert not [element for element in world.elements() if element.role == "option"]
        for point, option in ((box.centre, "No such option"), ((1, 999), options[0])):
            with pytest.raises(WorldError, match="SelectOption: no option"):
                world.act(action_types.SelectOption(point, option))
        seen.append((world.state(), world.elements()))
        world.reset({**start, "page": ""})
        home = world.state()["page"]
        world.act(action_types.GetUrl())
        said = world.observe().said
        assert said in (f"https://{(host := make_site(str(start['kind']), 3).host)}/", f"https://{host}/{home}")
        world.reset(start)
        assert world.observe().said == ""
        world.act(action_types.Launch(url=said))
        assert world.state()["page"] == home
    assert seen[0] == seen[1]


def test_what_a_web_page_lacks_is_unsupported(chromium: FsmWorld) -> None:
    chromium.reset({"kind": "shop", "seed": 3})
    for world in (chromium, InterpretedWorld(make_site)):
        world.reset({"kind": "shop", "seed": 3})
        with pytest.raises(UnsupportedAction, match="Drag"):
            world.act(action_types.Drag((1, 1), (2, 2)))
        with pytest.raises(WorldError, match="no key is named 'nonsense'"):
            world.act(action_types.Hotkey(("ctrl", "nonsense")))


def test_keys_mean_the_same_by_each_of_their_names(chromium: FsmWorld) -> None:
    double = InterpretedWorld(make_site)
    worlds = (chromium, double)
    for world in worlds:
        world.reset({"kind": "shop", "seed": 3})
        world.act(action_types.Launch(url=f"https://{make_site('shop', 3).host}/help"))
    field = next(element for element in double.elements() if element.role == "textbox")
    keys = (("F5",), ("space",), ("x",), ("Control", "A"), ("del",), ("Alt", "ArrowLeft"))
    seen = []
    for action in (action_types.Click(field.centre), action_types.Type("Is it red?"), *map(action_types.Hotkey, keys)):
        for world in worlds:
            world.act(action)
        assert chromium.state() == double.state() and chromium.elements() == double.elements(), action
        seen.append(next((element.text for element in double.elements() if element.key == field.key), None))
    assert seen[1:] == [*["Is it red?"] * 5, "Ask us anything", None]


def test_pages_without_an_address_open_home(chromium: FsmWorld) -> None:
    site = make_site("shop", 3)
    chromium.reset({"kind": "shop", "seed": 3})
    for path, page in (("help", "help"), ("pay", "home"), ("cart", "cart"), ("%2e%2e/etc", "home")):
        chromium.act(action_types.Launch(url=f"https://{site.host}/{path}"))
        assert chromium.state()["page"] == page


def test_paths_of_tasks_reach_their_goals_in_the_browser_and_not_where_an_edge_is_broken(chromium: FsmWorld) -> None:
    maker = TaskMaker(make_site("forum", 2))
    tasks = list(maker.tasks(5, seed=1))
    assert len(tasks) == 5
    for task in tasks:
        chromium.reset(task.start)
        assert not holds(chromium.state(), task.rule)
        for action in task.path:
            chromium.act(action)
        assert holds(chromium.state(), task.rule), task.instruction
