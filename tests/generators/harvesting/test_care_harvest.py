"""Care episodes that are harvested: the question before the step, the answer under the goal, and only what is good."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from policy_contract import DrawnSite

from generators.harvesting import care
from generators.worlds.care.care_sites import care_site
from generators.worlds.care.care_world import CareWorld
from pipelines.derivers.derive import derive_samples
from pipelines.mapping.adapter import Raw
from pipelines.prompts import prompt_text
from pipelines.store import Store
from pipelines.unify.unify import unify_source
from schemas.tables import Screens, Steps


@contextmanager
def drawn(surface: str) -> Iterator[CareWorld]:
    yield CareWorld(DrawnSite(care_site), "web")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """All families of sites on two seeds, without a browser."""
    monkeypatch.setattr(care, "open_care", drawn)
    monkeypatch.setattr(care, "FAMILIES", tuple(name for name in care.FAMILIES if name.startswith("web")))
    found = care.harvest_care(tmp_path / "out", 2, say=lambda line: None)
    assert found.failed == 0 and found.episodes == len((tmp_path / "out/episodes.jsonl").read_text().splitlines())
    return tmp_path / "out"


def test_what_is_learned_is_to_ask_before_harm_and_to_do_what_the_user_says(folder: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "home")
    manifest = unify_source(store, "care_episodes", Raw(folder))
    steps = manifest.read("steps", Steps.schema)
    rows = steps.to_pylist()
    by_episode: dict[str, list[str]] = {}
    for row in rows:
        by_episode.setdefault(row["episode_id"], []).append(row["action_type"])
    kinds = {name.rpartition("-")[2]: types for name, types in sorted(by_episode.items()) if "projects-0" in name}
    assert kinds["no"] == ["Click", "CallUser", "Finished"]
    assert kinds["yes"][:2] == ["Click", "CallUser"] and kinds["yes"][2] == "Click" and kinds["yes"][-1] == "Finished"
    assert "CallUser" not in kinds["twin"]
    after = [row for row in rows if "projects-0-yes" in row["episode_id"]][2]
    assert "\nYou asked: " in after["instruction"] and after["instruction"].endswith("The user answered: Yes, do it.")
    samples = derive_samples(steps, manifest.read("screens", Screens.schema), licence="own", synthetic=True).to_pylist()
    asked = [one for one in samples if after["instruction"] in prompt_text(one["messages"])]
    assert any("Click" in one["answer"] for one in asked)


def test_a_run_that_did_harm_is_never_gold(folder: Path, tmp_path: Path) -> None:
    file = folder / "episodes.jsonl"
    first, *others = file.read_text().splitlines()
    harmful = {**json.loads(first), "id": "harmful", "harm": True}
    file.write_text("".join(f"{line}\n" for line in (json.dumps(harmful), *others)))
    manifest = unify_source(Store(tmp_path / "home"), "care_episodes", Raw(folder))
    assert "harmful" not in set(manifest.read("steps", Steps.schema)["episode_id"].to_pylist())
    reasons = [row["reason"] for row in manifest.read("quarantine").to_pylist()]
    assert reasons == ["harmful"]


def test_seeds_that_are_measured_on_and_full_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="seeds below 10000000"):
        care.harvest_care(tmp_path / "out", 1, 20_000_000)
    (tmp_path / "held").mkdir()
    (tmp_path / "held/x").write_text("x")
    with pytest.raises(FileExistsError, match="new or empty"):
        care.harvest_care(tmp_path / "held", 1)
