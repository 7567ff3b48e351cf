"""Pages that others wrote: a few small ones of our own stand in for them, and the real ones where they are at hand."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from static_site import begin, write_pages

from generators.devices.browser import BrowserMissing, find_chromium
from generators.proving.judge_bench.recorders.web_pages import MOST_MOVES, WebPages, group_of
from generators.proving.judge_bench.recorders.web_pages_oracle import WebPageOracle
from generators.proving.judge_bench.recorders.web_pages_words import joined, text_for
from generators.proving.judge_bench.trace import GroundingScreen, Trace, arrive, perform, reached
from generators.tasks.world_interface import WorldError
from generators.worlds.static_pages.static_pages_world import WebWorld
from schemas.action_types import Click, Finished

ROOT = Path(__file__).parents[4]
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("shared_chromium")]


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


def test_traces_reach_their_goals_and_can_be_performed_again(world: WebWorld, traces: list[Trace]) -> None:
    assert len(traces) == 9 and len({trace.uid for trace in traces}) == 9
    assert {trace.family for trace in traces} >= {"small/index", "small/form", "small/lists"}
    for trace in traces:
        assert 2 <= len(trace.moves) <= MOST_MOVES and isinstance(trace.moves[-1].action, Finished)
        assert reached(trace.end_state, trace.evaluator) and "{" not in trace.goal + "".join(trace.near_misses)
        for move, shot in zip(trace.moves, trace.shots, strict=True):
            if isinstance(move.action, Click):
                place = shot.element(move.key)
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
            "addEventListener('load', async () => { const p = document.createElement('p');"
            " p.textContent = 'Visit ' + await visit(); document.body.prepend(p); })"
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
        assert screen.shot.element(item.place.key) == item.place


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


def test_a_name_that_stands_twice_is_not_clicked(world: WebWorld) -> None:
    begin(world, "lists.html")
    twin = next(seen for seen in world.see() if seen.name == "Remove")
    with pytest.raises(WorldError, match="name of several elements"):
        WebPageOracle(world, Random(0)).click(twin.key)


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
        found = list(recorder.record(world, 2, 11))
        screens = list(recorder.grounding(world, 1, 11))
        assert len(found) == 2 and len(screens) == 1
        assert len({trace.family for trace in found}) == 2
        for trace in found:
            assert reached(trace.end_state, trace.evaluator) and not reached(arrive(world, trace, []), trace.evaluator)
        for screen in screens:
            expect_sound(world, screen)
