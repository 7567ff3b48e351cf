"""The four actions of v2 in a real Chromium: what they do to a page, and an episode that needs them all."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from generators.devices.browser import BrowserMissing, find_chromium
from generators.execution.execute import InfrastructureFailure, execute
from generators.execution.journal import Journal
from generators.generation.tables import step_rows
from generators.policies.agent_prompt import AgentPrompt
from generators.policies.episode import run_episode
from generators.policies.policy import Decision, PastTurn, PolicyError, PolicyView, answered
from generators.tasks.task_spec import TaskSpec
from generators.tasks.world_interface import UnsupportedAction, WorldError
from generators.worlds.miniwob.miniwob_world import open_miniwob_world
from generators.worlds.static_pages.static_pages_world import WebWorld, open_web
from pipelines.derivers.base import DeriveConfig, ScreenFacts
from pipelines.derivers.navigation import navigation
from pipelines.prompts import reply_text
from pipelines.store import Store
from schemas.actions import (
    Action,
    ActionSpace,
    CallUser,
    Click,
    Finished,
    GetUrl,
    Point,
    RightClick,
    SelectOption,
    TakeNote,
    Type,
    parse_reply,
)
from schemas.tables import Steps

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("shared_chromium")]

PAGE = """<!doctype html><title>Files</title><style>
body { font: 20px sans-serif; margin: 40px } div, select, label, button { margin: 12px; padding: 8px; display: block }
[role=listbox], #menu { border: 1px solid; width: 200px } [hidden] { display: none } [role=option] { margin: 0 }
</style>
<div id="file">report.txt</div>
<div id="menu" role="menu" hidden><button id="rename" role="menuitem">Rename</button></div>
<label id="sort-label">Sort by <select id="sort"><option value="n">Name</option><option value="d">Date modified</option>
<option value="z" disabled>Size</option></select></label>
<div id="colour" role="combobox" tabindex="0">Colour: none</div>
<div id="colours" role="listbox" hidden><div role="option">Red</div><div role="option">Dark  blue</div></div>
<p id="plain">Nothing to choose here</p>
<input id="name" aria-label="New name" hidden>
<script>
const by = (id) => document.getElementById(id);
by('file').addEventListener('contextmenu', (event) => { event.preventDefault(); by('menu').hidden = false; });
by('rename').addEventListener('click', () => {
  by('name').hidden = false; by('name').focus(); by('menu').hidden = true; });
by('colour').addEventListener('click', () => { by('colours').hidden = !by('colours').hidden; });
for (const one of document.querySelectorAll('[role=option]')) one.addEventListener('click', () => {
  by('colour').textContent = `Colour: ${one.textContent}`; by('colours').hidden = true; });
by('sort').addEventListener('change', () => { document.body.dataset.sorted = by('sort').value; });
</script>"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebWorld]:
    try:
        find_chromium()
    except BrowserMissing as missing:
        pytest.skip(str(missing))
    folder = tmp_path_factory.mktemp("v2")
    (folder / "index.html").write_text(PAGE)
    with open_web(folder, "v2") as opened:
        yield opened


@pytest.fixture(autouse=True)
def _begun(world: WebWorld) -> None:
    world.reset({"page": "index.html", "seed": 0})


def at(world: WebWorld, name: str) -> Point:
    """The centre of an element of the page, in 0..1000."""
    box = world.page.locator(f"#{name}").bounding_box()
    assert box is not None, name
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    return round(x * 1000 / world.size_px[0]), round(y * 1000 / world.size_px[1])


def shows(world: WebWorld) -> dict[str, Any]:
    script = "JSON.stringify({sort: by('sort').value, sorted: document.body.dataset.sorted || '', "
    script += "colour: by('colour').textContent, menu: !by('menu').hidden})"
    found: dict[str, Any] = json.loads(world.page.evaluate(script))
    return found


def test_a_right_click_opens_the_pages_menu_and_a_click_does_not(world: WebWorld) -> None:
    world.act(Click(at(world, "file")))
    assert not shows(world)["menu"]
    world.act(RightClick(at(world, "file")))
    assert shows(world)["menu"]


@pytest.mark.parametrize(("place", "option"), [("sort", "Date modified"), ("sort-label", "date  modified ")])
def test_a_native_list_is_set_by_what_the_option_says(world: WebWorld, place: str, option: str) -> None:
    world.act(SelectOption(at(world, place), option))
    assert (shows(world)["sort"], shows(world)["sorted"]) == ("d", "d")


def test_a_list_of_the_pages_own_is_opened_and_its_option_clicked(world: WebWorld) -> None:
    world.act(SelectOption(at(world, "colour"), "Dark blue"))
    assert shows(world)["colour"] == "Colour: Dark  blue"
    world.act(Click(at(world, "colour")))  # it is open already
    world.act(SelectOption(at(world, "colour"), "Red"))
    assert shows(world)["colour"] == "Colour: Red"


@pytest.mark.parametrize(
    ("place", "option", "why"),
    [
        ("sort", "Kind", r"no option 'Kind' .*its options are Name, Date modified$"),
        ("sort", "Size", "no option 'Size'"),  # it can't be chosen
        ("colour", "Green", "its options are Red, Dark blue"),
        ("plain", "Red", "there is no list with options"),
    ],
)
def test_an_option_that_is_not_there_is_refused_with_those_that_are(
    world: WebWorld, place: str, option: str, why: str
) -> None:
    with pytest.raises(WorldError, match=why):
        world.act(SelectOption(at(world, place), option))
    assert (shows(world)["sort"], shows(world)["colour"]) == ("n", "Colour: none")


def test_the_address_is_said_once_and_a_note_changes_nothing(world: WebWorld) -> None:
    before = world.observe()
    world.act(TakeNote("room 12"))
    assert world.observe() == before
    world.act(GetUrl())
    assert world.observe().said == "file:///index.html"
    world.act(TakeNote("it is index.html"))
    assert world.observe().said == ""
    world.act(GetUrl())
    world.reset({"page": "index.html", "seed": 0})
    assert world.observe().said == ""


class Scripted:
    """Replies in order, read as those of a model that speaks a space."""

    name, needs_tree = "scripted", False

    def __init__(self, replies: list[str], space: ActionSpace) -> None:
        self.replies, self.space, self.prompts = replies, space, list[str]()

    def begin(self, goal: str, platform: str, seed: int) -> None:
        self.prompts.clear()

    def decide(self, view: PolicyView) -> Decision:
        self.prompts.append(AgentPrompt(space=self.space).history_text(view.past, view))
        if len(self.prompts) > len(self.replies):
            raise PolicyError("no more replies")
        reply = self.replies[len(self.prompts) - 1]
        read = parse_reply(reply, self.space)
        return Decision(reply, read.action, read.thought, read.conclusion)


def plan(world: WebWorld) -> list[Action]:
    return [
        TakeNote("the new name is notes.txt"),
        SelectOption(at(world, "sort"), "Date modified"),
        RightClick(at(world, "file")),
        Click((0, 0)),  # of the menu's entry, which shows only then
        Type("notes.txt"),
        GetUrl(),
        CallUser("file:///index.html"),
    ]


def test_an_episode_that_v2_can_do_and_v1_cannot(world: WebWorld) -> None:
    goal = "Sort by date, rename report.txt to what your note says, and tell the page's address"
    world.act(RightClick(at(world, "file")))
    menu = at(world, "rename")
    world.reset({"page": "index.html", "seed": 0})
    actions = [Click(menu) if isinstance(action, Click) else action for action in plan(world)]
    replies = [reply_text(action, "web") for action in actions]
    policy = Scripted(replies, "v2")
    done = run_episode(world, policy, goal, {"page": "index.html", "seed": 0})
    assert done.ended == "asked" and done.answer == "file:///index.html"
    assert [step.error for step in done.steps] == [""] * len(actions) and done.actions == tuple(actions)
    assert shows(world)["sorted"] == "d" and world.page.locator("#name").input_value() == "notes.txt"
    last = policy.prompts[-1].splitlines()
    assert last[0] == "1. TakeNote(content='the new name is notes.txt')"  # three steps are shown, and the note
    assert [line[:2] for line in last] == ["1.", "4.", "5.", "6."]
    assert last[-1] == "6. GetUrl() -> file:///index.html"
    narrow = run_episode(world, Scripted(replies, "v1.5"), goal, {"page": "index.html", "seed": 0})
    assert narrow.ended == "unreadable" and narrow.actions == ()
    assert shows(world)["sorted"] == ""


def test_what_the_page_said_survives_a_crash_and_stands_in_the_rows_that_train(world: WebWorld, tmp_path: Path) -> None:
    start = {"page": "index.html", "seed": 0}
    contract = TaskSpec("Tell the address", "web", "v2", start, {"rule": "told"}, 4)
    actions = [TakeNote("tell it"), GetUrl(), Click((1, 1)), CallUser("file:///index.html")]
    policy, store = Scripted([reply_text(action, "web") for action in actions], "v2"), Store(tmp_path / "home")
    with Journal(tmp_path) as journal:
        policy.replies = policy.replies[:2]  # then its server is gone
        with pytest.raises(InfrastructureFailure):
            execute(contract, world, policy, 1, journal, store)
    with Journal(tmp_path) as journal:
        policy.replies = [reply_text(action, "web") for action in actions[2:]]
        done = execute(contract, world, policy, 1, journal, store)
    assert done.resumed == 1 and done.actions == tuple(actions)
    assert policy.prompts[0].splitlines()[-1] == "2. GetUrl() -> file:///index.html"
    assert [turn.said for turn in done.turns] == ["", "", "file:///index.html", ""]
    rows = Steps.table(step_rows(done, "success")).to_pylist()
    sizes = {row["screenshot_sha256"]: world.size_px for row in rows}
    trained = [made.text for made in navigation(rows, ScreenFacts(sizes, {}, DeriveConfig()))]
    assert "2. GetUrl() -> file:///index.html\n3. Click" in trained[3]
    assert "GetUrl() ->" in trained[2] and "->" not in trained[1]


def test_a_prompt_names_the_four_under_v2_only(world: WebWorld) -> None:
    view = PolicyView("do it", world.observe().png, world.size_px, "web")
    said = {space: str(AgentPrompt(space=space).messages(view)[0]["content"]) for space in ("v1.5", "v2")}  # type: ignore[arg-type]
    for name in ("RightClick(", "SelectOption(", "GetUrl(", "TakeNote("):
        assert name in said["v2"] and name not in said["v1.5"]
    phone = AgentPrompt(space="v2").messages(PolicyView("do it", view.png, view.size_px, "mobile"))[0]["content"]
    assert "TakeNote(" in str(phone) and "RightClick(" not in str(phone)


def test_a_site_without_menus_refuses_what_it_has_not() -> None:
    from generators.worlds.fsm.interpreted import InterpretedWorld
    from generators.worlds.fsm.sites import make_site

    site = InterpretedWorld(make_site)
    site.reset({"kind": "shop", "seed": 0})
    site.act(TakeNote("kept"))
    with pytest.raises(UnsupportedAction, match="RightClick"):
        site.act(RightClick((1, 1)))


def test_a_screen_answers_the_action_before_it_if_that_one_asked() -> None:
    asked, clicked = PastTurn(GetUrl(), answer=""), PastTurn(Click((1, 1)))
    assert answered((clicked, asked), "a") == (clicked, replace(asked, answer="a"))
    assert answered((asked, clicked), "a") == (asked, clicked)  # a screen that came late
    assert answered((asked,), "") == (asked,) and answered((), "a") == ()


def test_where_the_pages_lie_is_no_part_of_the_address(world: WebWorld, tmp_path: Path) -> None:
    world.act(GetUrl())
    assert str(world.folder) not in world.observe().said


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_list_of_miniwob_is_chosen_from_in_two_steps(seed: int) -> None:
    pytest.importorskip("miniwob")
    with open_miniwob_world() as world:
        world.reset({"task": "choose-list", "seed": seed})
        wanted = re.match(r"Select (.+) from the list", world.utterance()[0])
        place = {element.role: element.centre for element in world.observe().elements}
        assert wanted is not None
        actions = (SelectOption(place["combobox"], wanted[1]), Click(place["button"]), Finished())
        policy = Scripted([reply_text(action, "web") for action in actions], "v2")
        done = run_episode(world, policy, wanted[0], {"task": "choose-list", "seed": seed})
    assert done.end_state["solved"] and len(done.actions) == 3
