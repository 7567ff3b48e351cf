"""What the sensor of new native files takes for a change, and for one that is over."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import dagster as dg
import pytest

from dagster_project import definitions
from dagster_project.automation import new_files
from dagster_project.settings import deployment
from pipelines.raw.unpacked import FOLDER


class Ticks:
    """The sensor `new_raw_files`, tick after tick."""

    def __init__(self) -> None:
        self._sensor = definitions.build(deployment.load()).resolve_sensor_def("new_raw_files")
        self.cursor: str | None = None
        self.reason = ""

    def __call__(self) -> list[str]:
        """Run keys that a tick asks for."""
        context = dg.build_sensor_context(cursor=self.cursor, instance=dg.DagsterInstance.ephemeral())
        tick = self._sensor.evaluate_tick(context)
        self.cursor, self.reason = tick.cursor, tick.skip_message or ""
        return [str(request.run_key) for request in tick.run_requests or []]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VESPER_HOME", str(tmp_path))
    made = tmp_path / "incoming" / "aitw"
    made.mkdir(parents=True)
    return made


def _old(path: Path) -> None:
    long_ago = time.time() - new_files.LEFT_AFTER_S - 60
    os.utime(path, (long_ago, long_ago))


@pytest.mark.parametrize(
    "name",
    [
        ".b.tfrecord.part",
        "deep/.b.tfrecord.part",
        "b.zip.part",
        ".cache/huggingface/download/abc.def.incomplete",
        f"{FOLDER}/0123/state/b.tfrecord",
    ],
)
def test_a_pull_under_way_is_waited_for_however_still_the_rest_lies(name: str, folder: Path) -> None:
    tick = Ticks()
    (folder / "a.tfrecord").write_bytes(b"x")
    arriving = folder / name
    arriving.parent.mkdir(parents=True, exist_ok=True)
    arriving.write_bytes(b"x")
    assert [tick(), tick(), tick()] == [[], [], []]
    assert tick.reason == f"still changing: aitw ({name} comes in)"
    arriving.rename(folder / "b.tfrecord")
    assert tick() == [], "a copy may be under way: look twice"
    assert len(tick()) == 1 and tick() == []


def test_what_a_killed_pull_left_is_told_and_blocks_for_an_hour_only(folder: Path) -> None:
    tick = Ticks()
    (folder / "a.tfrecord").write_bytes(b"x")
    left = folder / ".b.tfrecord.part"
    left.write_bytes(b"x")
    assert [tick(), tick()] == [[], []]
    _old(left)
    assert tick() == [] and len(tick()) == 1
    assert tick() == []
    assert tick.reason == "no native files have changed; aitw: a pull left .b.tfrecord.part unfinished"
    left.write_bytes(b"xy")  # the pull goes on
    assert tick() == [] and "comes in" in tick.reason
    left.unlink()
    assert [tick(), tick()] == [[], []], "what lies there was refreshed already"


def test_lists_that_a_pull_keeps_hold_up_nothing(folder: Path) -> None:
    tick = Ticks()
    (folder / "a.tfrecord").write_bytes(b"x")
    (folder / FOLDER / "0123").mkdir(parents=True)
    (folder / FOLDER / "0123" / "state.whole").write_text("[]")
    assert tick() == [] and len(tick()) == 1


def test_files_that_come_back_are_refreshed_again(folder: Path) -> None:
    """The run of the state before them made gold of other files."""
    tick, keys = Ticks(), []
    good, bad = folder / "a.tfrecord", folder / "bad.tfrecord"
    good.write_bytes(b"x")
    for change in (lambda: None, lambda: bad.write_bytes(b"?"), bad.unlink):
        change()
        assert tick() == []
        keys += tick()
    assert len(set(keys)) == 3, "Dagster starts one run a key"
    assert keys[0].rpartition("-")[0] == keys[2].rpartition("-")[0], "the same state"


def test_a_folder_that_was_away_is_asked_for_anew(folder: Path) -> None:
    """What ran meanwhile registered other data, and Dagster starts one run a key."""
    tick = Ticks()
    (folder / "a.tfrecord").write_bytes(b"x")
    assert tick() == []
    [first] = tick()
    away = folder.rename(folder.with_name("unmounted"))
    assert tick() == []
    away.rename(folder)
    assert tick() == []
    [second] = tick()
    assert first.rpartition("-")[0] == second.rpartition("-")[0] and first != second


def test_a_tick_whose_cursor_was_lost_asks_by_the_same_key(folder: Path) -> None:
    tick = Ticks()
    (folder / "a.tfrecord").write_bytes(b"x")
    tick()
    before = tick.cursor
    asked = tick()
    tick.cursor = before  # the daemon died before it kept the new one
    assert tick() == asked and len(asked) == 1


def test_the_cursor_of_an_older_version_is_read(folder: Path) -> None:
    tick = Ticks()
    (folder / "a.tfrecord").write_bytes(b"x")
    mark = new_files.folder_state(folder, time.time()).mark
    tick.cursor = json.dumps({"aitw": {"seen": mark, "done": mark}})
    assert tick() == []
    tick.cursor = json.dumps({"aitw": {"seen": mark, "done": "other"}})
    assert tick() == [f"aitw-{mark}-1"]


def test_a_file_that_goes_while_the_folder_is_read_is_no_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "a.tfrecord").write_bytes(b"x")
    found = [folder / "a.tfrecord", folder / ".gone.part"]
    monkeypatch.setattr(Path, "rglob", lambda self, pattern: iter(found))
    state = new_files.folder_state(folder, time.time())
    assert state.mark and not state.arriving
