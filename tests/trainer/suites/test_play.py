"""`vesper play`: scripted policies and a tiny checkpoint in real worlds, and what they leave to look at."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from dagster_project.cli import main
from generators.execution.episode_film import FilmedEpisode
from generators.execution.execute import InfrastructureFailure
from generators.policies.registry import build_policy
from generators.tasks.world_interface import Observation, World
from trainer.suites.play import MOST_LOST, WORLDS, most_telling, opener, play, tasks_of

pytestmark = pytest.mark.usefixtures("shared_chromium")


def _left(folder: Path) -> tuple[dict[str, Any], int]:
    """(the episode as JSON, frames of its animation)"""
    with Image.open(folder / "episode.webp") as film:
        frames = film.n_frames  # type: ignore[attr-defined]
    Image.open(folder / "sheet.png").verify()
    return json.loads((folder / "episode.json").read_text(encoding="utf-8")), frames


def test_a_scripted_policy_solves_a_task_in_a_browser(
    has_chromium: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["play", "--policy", "scripted", "--world", "miniwob", "--task", "click-button", "--out", str(tmp_path)]
    assert main(given) == 0
    episode, frames = _left(tmp_path)
    lines = capsys.readouterr().out.splitlines()
    assert episode["verdict"] == "solved" and "miniwob_raw_reward" in episode["why"]
    assert frames == len(episode["steps"]) + 1 and episode["steps"][0]["action"].startswith("Click(box=(")
    assert lines[0].startswith("miniwob/click-button: Click on") and lines[1].startswith("  1  Click(box=(")
    assert len(lines) == len(episode["steps"]) + 3 and lines[-2].startswith("SOLVED: ")
    assert episode["steps"][0]["decide_s"] >= 0 and episode["task"]["target"] == "miniwob/click-button"


def test_one_that_runs_out_of_steps_fails(
    has_chromium: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["play", "--policy", "scripted", "--world", "fsm", "--task", "shop", "--steps", "2", "--attempts", "2"]
    assert main([*given, "--out", str(tmp_path)]) == 0
    episode, frames = _left(tmp_path)
    assert (episode["verdict"], frames, episode["ended"]) == ("failed", 3, "steps")
    assert "did not end by itself (2 steps" in episode["why"] and "does not hold" in episode["why"]
    assert "0 of 2 tasks solved" in capsys.readouterr().out


def test_a_checkpoint_plays(has_chromium: None, start: Path, tmp_path: Path) -> None:
    assert main(["play", str(start), "--world", "fsm", "--steps", "3", "--out", str(tmp_path)]) == 0
    episode, frames = _left(tmp_path)
    assert episode["verdict"] == "failed" and episode["policy"].startswith("vesper-")
    assert frames == len(episode["steps"]) + 1 and all(step["tokens"][1] > 0 for step in episode["steps"])


def test_play_ends_once_there_is_enough_and_the_telling_episode_is_shown(has_chromium: None) -> None:
    tasks = tasks_of("fsm", 3, families=["wiki"])
    done: list[str] = []
    played = play(
        tasks,
        opener(tasks[0]),
        build_policy("scripted"),
        lambda found: len(found) == 2,
        on_task=lambda task: done.append(task.task_id),
    )
    assert done == [task.task_id for task in tasks[:2]] and [one.verdict for one in played] == ["solved", "solved"]
    assert most_telling(played)["solved"] is max(played, key=lambda one: len(one.done.actions))


class _Broken:
    """A world that can't be observed any more."""

    def __init__(self, world: World) -> None:
        self.name, self.platform, self.size_px = world.name, world.platform, world.size_px
        self.reset, self.act, self.state = world.reset, world.act, world.state

    def observe(self) -> Observation:
        raise RuntimeError("the browser is gone")


@pytest.mark.parametrize("breaks", [1, 9])
def test_a_browser_that_fails_is_opened_again_and_not_for_ever(has_chromium: None, breaks: int) -> None:
    [task] = tasks_of("fsm", families=["shop"])
    opened: list[int] = []

    @contextmanager
    def open_fsm() -> Iterator[World]:
        opened.append(1)
        with opener(task)() as world:
            yield _Broken(world) if len(opened) <= breaks else world

    def go() -> list[FilmedEpisode]:
        return play([task], open_fsm, build_policy("scripted"), lambda found: bool(found))

    if breaks == 1:
        assert [one.verdict for one in go()] == ["solved"] and len(opened) == 2
    else:
        with pytest.raises(InfrastructureFailure, match="the browser is gone"):
            go()
        assert len(opened) == MOST_LOST + 1


def test_tasks_of_each_world_are_found_by_family_and_seed() -> None:
    for world in WORLDS:
        if world != "miniwob":  # whose pages tell their goal only in a browser
            [task] = tasks_of(world)
            assert tasks_of(world) == [task] and task.world == world
    [one] = tasks_of("datasette", families=["datasette/sql_count"])
    assert one.capabilities and one != tasks_of("datasette", families=["datasette/sort_products"])[0]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--policy", "scripted", "--world", "fsn"], "world: unknown 'fsn'; did you mean fsm"),
        (["--policy", "scripted", "--world", "datasette", "--task", "x"], "datasette has no family 'x'"),
        (["--policy", "scripted", "--world", "fsm", "--task", "x"], "fsm sites: unknown 'x'"),
        (["--policy", "scriptd", "--world", "fsm"], "policy: expected one of"),
        (["nowhere", "--world", "fsm"], "expected a checkpoint folder with config.json"),
        (["--world", "fsm"], "expected a checkpoint, or who acts instead"),
        (["nowhere", "--policy", "scripted", "--world", "fsm"], "found two of them"),
        (["--policy", "scripted", "--world", "fsm", "--attempts", "0"], "--attempts, --steps: expected at least 1"),
    ],
)
def test_what_there_isnt_is_told_in_a_line(
    given: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VESPER_HOME", str(tmp_path))
    assert main(["play", *given, "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err.strip()
    assert words in said and "\n" not in said
