"""Pages that others wrote: a few small ones of our own stand in for them, and the real ones where they are at hand."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from generators.browser import BrowserMissing, find_chromium
from generators.environments.world import UnsupportedAction, WorldError
from generators.judge_bench.recorders.web_pages import MOST_MOVES, WebPages, group_of
from generators.judge_bench.recorders.web_pages_oracle import Oracle
from generators.judge_bench.recorders.web_pages_words import joined, text_for
from generators.judge_bench.recorders.web_pages_world import WebWorld
from generators.judge_bench.trace import GroundingScreen, Trace, arrive, perform, reached
from schemas.action_types import (
    Click,
    Drag,
    Finished,
    Hotkey,
    Hover,
    Launch,
    PressBack,
    PressEnter,
    Scroll,
    Type,
    Wait,
)
from schemas.ids import digest

# ruff: noqa: E501  (the pages below)
ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.usefixtures("shared_chromium")
HEAD = """<!doctype html><html><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 16px sans-serif; margin: 0 }} nav, main {{ padding: 12px }} nav a {{ margin-right: 24px }} label {{ display: block; margin: 14px 0 }}
.pulse {{ width: 40px; height: 40px; background: red; animation: pulse .3s infinite alternate }} @keyframes pulse {{ to {{ margin-left: 300px }} }}
.menu {{ display: none }} .menu.show {{ display: block }} .far {{ margin-top: 1500px }} button {{ margin: 8px; padding: 8px }}
</style></head><body><nav><a href="index.html">Home</a><a href="form-plain.html">Plain form</a><a href="./lists.html">Lists</a>
<a href="sub/deep.html">Deep page</a><a href="../secret.html">Way out</a><a href="https://example.org/">Far away</a></nav><main>"""
INDEX = """<h1>Start</h1><p id="when"></p><p id="chance"></p><div class="pulse"></div>
<button aria-expanded="false" data-bs-toggle="collapse" data-bs-target="#more" onclick="flip(this, 'more')">More about us</button>
<div id="more" class="collapse menu">We sell lamps.</div>
<button aria-expanded="false" data-bs-toggle="collapse" data-bs-target="#less" onclick="flip(this, 'less')">Opening hours</button>
<div id="less" class="collapse menu">From nine to five.</div>
<div role="tablist"><button role="tab" class="tab active" onclick="tab(this)">Overview</button>
<button role="tab" class="tab" onclick="tab(this)">Details</button><button role="tab" class="tab" onclick="tab(this)">Reviews</button></div>
<p><button title="Delete it" id="icon"><svg width="16" height="16"><circle cx="8" cy="8" r="7"/></svg></button></p>
<p class="far"><label><input type="checkbox"> Keep me posted</label></p>
<script>
function flip(b, id) { b.setAttribute('aria-expanded', document.getElementById(id).classList.toggle('show')); }
function tab(b) { document.querySelectorAll('.tab').forEach((x) => x.classList.toggle('active', x === b)); }
document.getElementById('when').textContent = 'It is ' + new Date().toString();
document.getElementById('chance').textContent = 'Number ' + Math.random();
let n = 0; setInterval(() => { document.querySelector('h1').textContent = 'Start ' + n++; }, 70);
localStorage.seen = 1 + Number(localStorage.seen || 0); document.documentElement.dataset.seen = localStorage.seen;
</script></main></body></html>"""
FORM = """<h1>Your order</h1><form action="lists.html"><label>Full name <input name="a" type="text"></label>
<label>City <input name="b" value="Nowhere"></label><label>Amount <input type="number" name="c"></label>
<label><input type="checkbox" name="d"> Gift wrap</label><label><input type="checkbox" checked> Newsletter</label>
<label><input type="radio" name="s" checked> By train</label><label><input type="radio" name="s"> By ship</label>
<button type="submit">Send order</button></form></main></body></html>"""
LISTS = """<h1>Lists</h1><table><tr><td>Apples</td><td><button>Remove</button></td></tr><tr><td>Pears</td><td><button>Remove</button></td></tr>
<tr><td>Plums</td><td><button>Remove</button></td></tr></table><a href="form-plain.html">A card <button>Inner button</button></a>
<input type="search" placeholder="Find fruit"></main></body></html>"""


def write_pages(folder: Path) -> Path:
    """Four small pages, and beside the folder one that no link may reach."""
    pages = folder / "pages"
    (pages / "sub").mkdir(parents=True)
    for name, body in (("index", INDEX), ("form-plain", FORM), ("lists", LISTS)):
        (pages / f"{name}.html").write_text(HEAD.format(title=name) + body, encoding="utf-8")
    (pages / "sub" / "deep.html").write_text('<h1>Deep</h1><a href="..">Up</a>', encoding="utf-8")
    (folder / "secret.html").write_text("<h1>Secret</h1>", encoding="utf-8")
    return pages


@pytest.fixture(scope="module")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> WebPages:
    return WebPages(write_pages(tmp_path_factory.mktemp("web")), "small")


@pytest.fixture(scope="module")
def world(recorder: WebPages) -> Iterator[WebWorld]:
    try:
        find_chromium()
    except BrowserMissing as missing:
        pytest.skip(str(missing))
    with recorder.open() as opened:
        yield opened


@pytest.fixture(scope="module")
def traces(recorder: WebPages, world: WebWorld) -> list[Trace]:
    return list(recorder.record(world, 9, 3))


def press(world: WebWorld, name: str) -> None:
    """Click the control of this name."""
    seen = next(seen for seen in world.see() if name in (seen.name, seen.label) and seen.clickable)
    place = world.place(seen)
    assert place is not None
    world.act(Click(place.centre))


def begin(world: WebWorld, page: str = "index.html") -> None:
    world.reset({"page": page, "seed": 0})


def test_the_same_page_looks_the_same_on_every_visit(world: WebWorld) -> None:
    shots = []
    for _ in range(2):
        begin(world)
        shots.append(world.observe())
    assert shots[0].png == shots[1].png and shots[0].state == shots[1].state == digest(world.state())
    assert world.state()["theme"]["data-seen"] == "1"  # nothing is kept from the visit before
    assert "Wed Jan 01 2025" in world.page.inner_text("#when")
    world.act(Wait())
    later = world.observe()
    assert later.png != shots[0].png  # the page's own clock runs when it is let


def test_links_stay_in_the_folder(world: WebWorld) -> None:
    begin(world)
    for name in ("Way out", "Far away"):
        before = world.state()["blocked"]
        press(world, name)
        assert world.state()["page"] == "index.html" and world.state()["blocked"] == before + 1
    press(world, "Deep page")
    assert world.state()["page"] == "sub/deep.html"
    press(world, "Up")  # a folder stands for its index
    assert world.state()["page"] == "index.html"
    for _ in range(4):
        world.act(PressBack())  # not farther back than the start
    assert world.state()["page"] == "index.html"
    world.act(Launch(url="lists.html"))
    world.act(Launch(url=(world.folder.parent / "secret.html").as_uri()))
    assert world.state()["page"] == "lists.html"
    world.act(Hotkey(("alt", "left")))
    assert world.state()["page"] == "index.html"
    with pytest.raises(WorldError, match=r"no page '\.\./secret\.html'"):
        begin(world, "../secret.html")
    with pytest.raises(UnsupportedAction, match="no action Drag"):
        world.act(Drag((1, 1), (9, 9)))
    with pytest.raises(WorldError, match="no key is named 'nonsense'"):
        world.act(Hotkey(("ctrl", "nonsense")))


def test_a_script_that_leaves_the_folder_is_stopped(world: WebWorld) -> None:
    begin(world)
    secret = (world.folder.parent / "secret.html").as_uri()
    world.page.evaluate("url => { document.body.onclick = () => { location.href = url; }; }", secret)
    with pytest.raises(WorldError):
        world.act(Click((900, 900)))
        world.act(Wait())
    assert "Secret" not in world.page.content()
    begin(world)
    assert world.state()["page"] == "index.html"


def test_state_tells_what_was_done(world: WebWorld) -> None:
    begin(world)
    at = {seen.label: seen.key for seen in world.see(everything=True)}
    press(world, "Opening hours")
    press(world, "Reviews")
    state = world.state()
    assert state["expanded"][at["Opening hours"]] is True and state["expanded"][at["More about us"]] is False
    assert state["active"] == {at["Reviews"]: True} and state["shown"] == {"#less": True}
    world.act(Scroll(direction="down"))
    assert world.state()["scroll"] == 400
    world.act(Scroll(direction="up"))
    world.act(Scroll(direction="up"))
    assert world.state()["scroll"] == 0
    world.act(Hover((500, 500)))
    world.act(Finished())
    assert not any("." in key for part in ("values", "checked", "expanded") for key in world.state()[part])


def test_a_form_is_sent_as_it_was_filled(world: WebWorld) -> None:
    begin(world, "form-plain.html")
    at = {seen.label: seen.key for seen in world.see()}
    press(world, "City")
    world.act(Hotkey(("ctrl", "a")))
    world.act(Type("Porto"))
    press(world, "Gift wrap")
    state = world.state()
    assert (
        state["values"][at["City"]] == "Porto" and state["checked"][at["Gift wrap"]] is True and state["sent"] is None
    )
    press(world, "City")
    world.act(PressEnter())
    state = world.state()
    assert state["page"] == "lists.html" and state["sent"]["values"][at["City"]] == "Porto"
    assert state["sent"]["values"][at["Gift wrap"]] is True


def test_traces_reach_their_goals_and_can_be_performed_again(world: WebWorld, traces: list[Trace]) -> None:
    assert len(traces) == 9 and len({trace.uid for trace in traces}) == 9
    assert {trace.family for trace in traces} >= {"small/index", "small/form", "small/lists"}
    for trace in traces:
        assert 2 <= len(trace.moves) <= MOST_MOVES and isinstance(trace.moves[-1].action, Finished)
        assert reached(trace.end_state, trace.evaluator) and "{" not in trace.goal + "".join(trace.near_misses)
        for move, shot in zip(trace.moves, trace.shots, strict=True):
            if isinstance(move.action, Click):
                place = shot.place(move.key)
                assert place is not None and place.box == move.box
                left, top, right, bottom = place.box
                assert left <= move.action.box[0] <= right and top <= move.action.box[1] <= bottom
    for trace in traces[::3]:
        shots, end = perform(world, trace)
        assert [shot.sha256 for shot in shots] == [shot.sha256 for shot in trace.shots] and end == trace.end_state


def test_stopping_early_does_not_reach_the_goal(world: WebWorld, traces: list[Trace]) -> None:
    for trace in traces[:4]:
        assert not reached(arrive(world, trace, []), trace.evaluator), trace.uid
        assert not reached(arrive(world, trace, trace.moves[:-2]), trace.evaluator), trace.uid


def test_near_misses_and_thoughts(traces: list[Trace]) -> None:
    near = [trace for trace in traces if trace.near_misses]
    assert len(near) >= 4
    for trace in near:
        assert trace.goal not in trace.near_misses and len(set(trace.near_misses)) == len(trace.near_misses)
    for trace in traces:
        thoughts = [bool(move.thought) for move in trace.moves]
        assert all(thoughts) or not any(thoughts)


def test_the_same_seed_gives_the_same_traces(recorder: WebPages, world: WebWorld, traces: list[Trace]) -> None:
    again = list(WebPages(recorder.folder, "small").record(world, 2, 3))
    assert again == traces[:2]
    assert [trace.goal for trace in WebPages(recorder.folder, "small").record(world, 2, 4)] != [t.goal for t in again]


def test_a_page_that_changes_by_itself_is_left_out(tmp_path: Path, world: WebWorld) -> None:
    recorder = WebPages(write_pages(tmp_path), "unsteady")
    with recorder.open() as other:
        visits = iter(range(1000))
        other.page.context.expose_function("visit", lambda: next(visits))
        other.page.context.add_init_script(
            "addEventListener('load', async () => { const p = document.createElement('p'); p.textContent = 'Visit ' + await visit(); document.body.prepend(p); })"
        )
        assert not list(recorder.record(other, 2, 0))
    losses = recorder.losses.plain()
    assert sum(found["the first screen"] for found in losses["unsteady"].values()) == len(recorder.unsteady)
    assert recorder.unsteady and "left_out" not in losses
    why = "it looks different the second time"
    assert sum(reasons.get(why, 0) for reasons in losses["dropped"].values()) >= 3


def expect_sound(world: WebWorld, screen: GroundingScreen) -> None:
    """Every expression is unlike the others, and the centre of its element hits it."""
    said = [item.expression for item in screen.items]
    assert len(said) >= 8 and len(set(said)) == len(said) and set(screen.odd) <= set(range(len(said)))
    for item in screen.items:
        assert screen.shot.place(item.place.key) == item.place


def test_grounding_screens(recorder: WebPages, world: WebWorld) -> None:
    screens = list(recorder.grounding(world, 6, 1))
    assert len(screens) == 6
    for screen in screens:
        expect_sound(world, screen)
    odd = {kind for screen in screens for kind in screen.odd.values()}
    assert {"tiny_icon", "alike"} <= odd
    said = [item.expression for screen in screens for item in screen.items]
    assert any("Delete it" in text for text in said) and any("Plums" in text for text in said)
    assert not any("Remove" in text for text in said)  # three buttons of that name: told apart by what is beside


def test_a_link_around_a_button_is_not_told_by_its_centre(world: WebWorld) -> None:
    begin(world, "lists.html")
    links = [seen for seen in world.see() if seen.tag == "a" and seen.raw["inside"] == ""]
    outer = next(seen for seen in links if seen.name.startswith("A card"))
    inner = next(seen for seen in world.see() if seen.name == "Inner button")
    place = world.place(inner)
    assert place is not None and inner.raw["inside"] == outer.key
    assert world.page.evaluate("([k, x, y]) => vesperLands(k, x, y)", [inner.key, *world.pixel(place.centre)])
    assert not world.page.evaluate("([k, x, y]) => vesperLands(k, x, y)", [outer.key, *world.pixel(place.centre)])


def test_a_name_that_stands_twice_is_not_clicked(world: WebWorld) -> None:
    begin(world, "lists.html")
    twin = next(seen for seen in world.see() if seen.name == "Remove")
    with pytest.raises(WorldError, match="name of several elements"):
        Oracle(world, Random(0)).click(twin.key)


def test_words() -> None:
    assert group_of("form-elements.html") == "form" and group_of("marketing/hero.html") == "marketing"
    assert joined(["open a", "tick b"], 0) == "Open a, then tick b."
    assert joined(["open a", "tick b", "pick c"], 1) == "First open a; after that tick b; after that pick c."
    assert text_for("Zip code", "text", Random(1)).isdigit() and "@" in text_for("Email", "text", Random(1))


def test_a_folder_without_pages_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected a folder of html pages, found none"):
        WebPages(tmp_path / "none")


def test_the_script_says_what_is_missing(tmp_path: Path) -> None:
    script = str(ROOT / "deploy" / "get_pages.sh")
    bare = {"PATH": str(tmp_path)}
    for tool in (
        "bash",
        "find",
        "wc",
        "tr",
        "cat",
        "ls",
        "grep",
        "tar",
        "mktemp",
        "rm",
        "mkdir",
        "mv",
        "dirname",
        "gzip",
    ):
        found = next((Path(part, tool) for part in os.defpath.split(":") if Path(part, tool).exists()), None)
        if found:
            (tmp_path / tool).symlink_to(found)
    missing = subprocess.run(["bash", script, str(tmp_path / "out")], env=bare, capture_output=True, text=True)
    assert missing.returncode == 0 and "npm isn't installed" in missing.stderr and not (tmp_path / "out").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine", encoding="utf-8")
    mine = subprocess.run(["bash", script, str(tmp_path / "mine")], env=bare, capture_output=True, text=True)
    assert mine.returncode == 2 and (tmp_path / "mine" / "notes.txt").exists()


def _packed(folder: Path, pages: int) -> Path:
    package = folder / "package"
    (package / "dist").mkdir(parents=True)
    (package / "package.json").write_text('{"name": "@tabler/preview",\n "version": "1.2.0"}', encoding="utf-8")
    for number in range(pages):
        (package / "dist" / f"p{number}.html").write_text("<h1>x</h1>", encoding="utf-8")
    subprocess.run(["tar", "-czf", str(folder / "p.tgz"), "-C", str(folder), "package"], check=True)
    return folder / "p.tgz"


@pytest.mark.parametrize(("pages", "ends"), [(100, 0), (3, 1)])
def test_the_script_unpacks_and_counts(tmp_path: Path, pages: int, ends: int) -> None:
    archive, out = _packed(tmp_path, pages), tmp_path / "home" / "pages" / "tabler"
    env = {**os.environ, "VESPER_PAGES_ARCHIVE": str(archive), "VESPER_HOME": str(tmp_path / "home")}
    if subprocess.run(["bash", "-c", "command -v npm"], capture_output=True).returncode:
        pytest.skip("npm isn't installed")
    done = subprocess.run(["bash", str(ROOT / "deploy" / "get_pages.sh")], env=env, capture_output=True, text=True)
    assert done.returncode == ends, done.stderr
    assert (out / "p0.html").exists() == (ends == 0)
    if ends == 0:
        again = subprocess.run(["bash", str(ROOT / "deploy" / "get_pages.sh")], env=env, capture_output=True, text=True)
        assert "is there already" in again.stdout


def test_the_real_pages() -> None:
    named = os.environ.get("VESPER_PAGES")
    folder = Path(named) if named else ROOT / ".vesper" / "pages" / "tabler"
    if not folder.is_dir():
        pytest.skip(f"no pages in {folder}: get them with deploy/get_pages.sh, or name their folder in VESPER_PAGES")
    try:
        find_chromium()
    except BrowserMissing as missing:
        pytest.skip(str(missing))
    recorder = WebPages(folder)
    with recorder.open() as world:
        found = list(recorder.record(world, 4, 11))
        screens = list(recorder.grounding(world, 2, 11))
        assert len(found) == 4 and len(screens) == 2
        assert len({trace.family for trace in found}) == 4
        for trace in found:
            assert reached(trace.end_state, trace.evaluator) and not reached(arrive(world, trace, []), trace.evaluator)
        for screen in screens:
            expect_sound(world, screen)
