"""`episodes/unified`: the agent at play as an asset, shown on its own page and on the checkpoint's."""

from __future__ import annotations

import base64
import io
import json
import re
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from PIL import Image

from dagster_project import definitions
from dagster_project.assets.keys import asset_key
from dagster_project.pictures import episode_pictures
from dagster_project.settings import deployment
from dagster_project.stages import graph
from generators.policies.registry import build_policy
from pipelines.store import PartSpec, PartWriter, Store
from pipelines.store.manifest import Check
from trainer.stages import play_episodes as stage
from trainer.stages.episodes import AGENT, ASSET, BOTH, PLAYED
from trainer.stages.play_episodes import build_episodes

pytestmark = pytest.mark.slow

SETTINGS = {"episodes": {"world": "fsm", "attempts": 2}}


@pytest.fixture
def home(start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store with a tiny agent that has learned nothing about worlds."""
    store = Store(tmp_path / "home")

    def write(out: PartWriter) -> None:
        for path in start.iterdir():
            out.path(f"model/{path.name}").write_bytes(path.read_bytes())

    spec = PartSpec("a", "1")
    with store.build(AGENT, code_version="1", parts=[spec]) as build:
        build.run_part(spec, write)
        build.commit(checks=[Check("there", True, "1", "1")])
    monkeypatch.setenv("VESPER_HOME", str(store.home))
    monkeypatch.setenv("VESPER_TRAINER", json.dumps(SETTINGS))
    return store


def test_what_a_weak_agent_does_is_shown_as_it_is_on_both_pages(has_chromium: None, home: Store) -> None:
    settings = deployment.load()
    loaded = definitions.build(settings, here=graph.stages(settings))
    instance = dg.DagsterInstance.ephemeral()
    job = loaded.resolve_job_def("train")
    assert job.execute_in_process(instance=instance, asset_selection=[asset_key(ASSET)]).success
    made = home.require(ASSET)
    assert made.inputs == {AGENT: home.require(AGENT).version}
    assert (made.counts["records"], made.counts["solved"], made.counts["failed"]) == (2, 0, 2)
    assert {check.name: check.passed for check in made.checks} == {PLAYED.name: True, BOTH.name: False}
    assert made.checks_passed, "that no task was solved is a warning"

    [(verdict, (film, plain))] = episode_pictures.shown(made).items()
    assert verdict == plain["verdict"] == "failed" and "decide_s" not in plain["steps"][0]
    with Image.open(io.BytesIO(film)) as opened:
        assert opened.n_frames == len(plain["steps"]) + 1  # type: ignore[attr-defined]
    event = instance.get_latest_materialization_event(asset_key(ASSET))
    assert event is not None and event.asset_materialization is not None
    [seen] = instance.fetch_observations(asset_key(AGENT), limit=5).records
    observed = seen.asset_observation
    assert observed is not None and observed.description == f"{ASSET}, version {made.version}"
    for shown in (event.asset_materialization.metadata, observed.metadata):
        found = re.search(r"data:image/webp;base64,([A-Za-z0-9+/=]+)\)", str(shown["failed"].value))
        assert found is not None and base64.b64decode(found[1]) == film

    assert build_episodes(home, SETTINGS).version == made.version, "equal inputs: no work"
    assert build_episodes(home, {"episodes": {"world": "fsm", "attempts": 1}}).version != made.version


def test_play_ends_with_one_solved_and_one_failed(
    has_chromium: None, home: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scripted policy in the agent's place: it errs at a rate at which one of its episodes fails."""
    policies = build_policy("scripted", error_rate=0.12)
    monkeypatch.setattr(stage, "checkpoint_policies", lambda folder, **more: policies)
    told: list[Any] = []
    made = build_episodes(home, {"episodes": {"world": "fsm", "attempts": 12}}, told.append)
    verdicts = [event["verdict"] for event in told]
    assert set(verdicts) == {"solved", "failed"} and verdicts.count(verdicts[-1]) == 1, "no more than is needed"
    assert set(episode_pictures.shown(made)) == {"solved", "failed"} and made.counts["records"] == len(verdicts) < 12

    def files() -> dict[str, str]:
        made = build_episodes(home, {"episodes": {"world": "fsm", "attempts": 12}})
        return {
            entry.path.rpartition("/")[2]: entry.sha256 for entry in made.files if entry.path.startswith(made.version)
        }

    before = files()
    monkeypatch.setattr(stage, "CODE_VERSION", "another")  # made anew: equal bytes
    assert files() == before
