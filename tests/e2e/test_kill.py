"""SIGKILL in the middle of seven stages, at every kind of moment: a rerun takes up what is done, to the same bytes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from goldmaker import gold as toy_gold
from killable import STAGES, TRAINER, run_and_kill

from pipelines.store import Store
from pipelines.store.files import file_sha256
from pipelines.store.manifest import Manifest

pytestmark = pytest.mark.slow

CHAIN = ("mapped/aitz", "unified/aitz", "verdicts/aitz", "gold/aitz", "mid_training/shards")
POINTS = ("half a file", "no marker", "no manifest", "no pointer")


@pytest.fixture(scope="module")
def undisturbed(tiny_home: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home in which nothing was ever killed."""
    home = tmp_path_factory.mktemp("undisturbed")
    shutil.copytree(tiny_home("aitz") / "raw" / "aitz", home / "raw" / "aitz")
    for stage in CHAIN:
        assert STAGES[stage](home).checks_passed
    return home


def _before(stage: str, undisturbed: Path, home: Path) -> None:
    """A home as it is when the stage begins: what comes before it, done."""
    shutil.copytree(undisturbed / "raw", home / "raw")
    for done in CHAIN[: CHAIN.index(stage)]:
        shutil.copytree(undisturbed / "assets" / done, home / "assets" / done)
    if stage != CHAIN[0]:
        shutil.copytree(undisturbed / "screens", home / "screens")


def _same(again: Manifest, whole: Manifest) -> None:
    """The same manifest, the same pointer, and on disk the bytes that the manifest names."""
    assert again.data_version == whole.data_version and again.checks_passed
    assert [(entry.path, entry.sha256) for entry in again.files] == [(e.path, e.sha256) for e in whole.files]
    beside = [[entry.path for entry in one.side_files if "/runs/" not in entry.path] for one in (again, whole)]
    assert beside[0] == beside[1]  # the events for TensorBoard are named after the moment
    for entry in again.files:
        assert file_sha256(again.root / entry.path) == entry.sha256
    assert again.files and (again.root / "current.json").read_text() == (whole.root / "current.json").read_text()
    assert not (again.root / "lock.json").exists()


def _markers(home: Path, stage: str) -> dict[str, int]:
    return {p.name: p.stat().st_mtime_ns for p in (home / "assets" / stage / "parts").glob("[!.]*.json")}


@pytest.mark.parametrize(
    ("stage", "point"),
    [
        *(("mapped/aitz", point) for point in POINTS),
        *(("unified/aitz", point) for point in POINTS),
        *(("gold/aitz", point) for point in POINTS),
        ("mid_training/shards", "no marker"),
        ("mid_training/shards", "no pointer"),
        ("verdicts/aitz", "half a file"),
    ],
)
def test_a_killed_stage_resumes_to_the_same_bytes(stage: str, point: str, undisturbed: Path, tmp_path: Path) -> None:
    home = tmp_path / "killed"
    _before(stage, undisturbed, home)
    run_and_kill(stage, point, home, tmp_path / "scratch")
    store, whole = Store(home), Store(undisturbed).require(stage)
    assert store.current(stage) is None, "what was killed must not be current"
    done = _markers(home, stage)
    assert len(done) == {"half a file": 1, "no marker": 1}.get(point, len(_markers(undisturbed, stage)))
    again = STAGES[stage](home)
    _same(again, whole)
    assert {name: _markers(home, stage)[name] for name in done} == done, "a finished part is not done anew"
    if stage == "mapped/aitz":
        assert _files(home / "screens") == _files(undisturbed / "screens")
    later = STAGES[stage](home)
    assert later.to_json() == again.to_json() and {**_markers(home, stage), **done} == _markers(home, stage)


def _files(folder: Path) -> dict[str, str]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {p.relative_to(folder).as_posix(): file_sha256(p) for p in found if not p.name.startswith(".put-")}


def test_a_killed_generator_leaves_no_half_data_and_makes_the_same_again(
    tiny_home: Callable[..., Path], tmp_path: Path
) -> None:
    whole = Store(tiny_home("rico")).require("raw/rico")
    run_and_kill("raw/rico", "third picture", tmp_path / "home", tmp_path / "scratch")
    assert Store(tmp_path / "home").current("raw/rico") is None and not (tmp_path / "home/raw/rico").exists()
    again = STAGES["raw/rico"](tmp_path / "home")
    _same(again, whole)
    assert _files(tmp_path / "home/raw/rico") == _files(tiny_home("rico") / "raw/rico")


def test_mid_training_killed_between_saves_ends_with_the_same_weights(tmp_path: Path) -> None:
    from pipelines.training_data.mixture import build_mixture
    from pipelines.training_data.shards import build_shards
    from trainer.stages.run import run_stage

    store = toy_gold(tmp_path / "whole", count=20, parts=2)
    build_shards(store, ["toy"])
    build_mixture(store)
    run_stage("base", store.home, TRAINER, progress=False)
    shutil.copytree(store.home, tmp_path / "killed")
    run_and_kill("checkpoints/mid_trained", "step 5", tmp_path / "killed", tmp_path / "scratch")  # saved at 3
    assert Store(tmp_path / "killed").current("checkpoints/mid_trained") is None
    events: list[Any] = []
    again = STAGES["checkpoints/mid_trained"](tmp_path / "killed", events.append)
    assert [event["step"] for event in events if event["kind"] == "step"] == [4, 5, 6, 7, 8]
    _same(again, STAGES["checkpoints/mid_trained"](tmp_path / "whole"))
