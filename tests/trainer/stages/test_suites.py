"""Suites as assets: the graph plays them, the standings become stale and take them, the next round is steered by it."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import native_benchmarks as native
import pytest
from dagster._core.definitions.data_version import CachingStaleStatusResolver
from dagster._core.loader import LoadingContextForTest

from dagster_project import definitions
from dagster_project.assets.keys import asset_key
from dagster_project.settings import deployment
from dagster_project.stages import graph
from dagster_project.stages.stage import StageWork
from generators.generation import steering
from pipelines.store import PartSpec, PartWriter, Store
from pipelines.store.manifest import Check, Manifest
from trainer.settings.domains import DOMAINS
from trainer.stages import suites as stage
from trainer.stages.suites import AGENT, build_suite, suite_settings
from trainer.suites import leaderboard

pytestmark = pytest.mark.slow

FSM, STANDINGS = "suites/fsm", "leaderboard/standings"


def _commit(store: Store, asset: str, files: dict[str, bytes], **more: Any) -> Manifest:
    def write(out: PartWriter) -> None:
        for name, data in files.items():
            out.path(name).write_bytes(data)

    spec = PartSpec("a", str(more))
    counts = more.pop("counts", {})
    with store.build(asset, code_version="1", parts=[spec], **more) as build:
        build.run_part(spec, write)
        return build.commit(counts=counts, checks=[Check("there", True, "1", "1")])


@pytest.fixture
def home(processor: Any, tiny_preset: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store with a tiny merged agent, and its held-out evaluation."""
    from trainer.modeling.checkpoint import lineage, save_checkpoint
    from trainer.modeling.model import build_model

    short = processor.apart()
    short.preset = replace(tiny_preset, max_answer_tokens=12)  # it has learned nothing, and would ramble to any length
    model = build_model(short.preset, short.tokenizer, seed=1)
    save_checkpoint(tmp_path / "model", model, short, lineage("unified", short.preset))
    store = Store(tmp_path / "home")
    files = {f"model/{path.name}": path.read_bytes() for path in (tmp_path / "model").iterdir()}
    agent = _commit(store, AGENT, files)
    _commit(
        store, steering.EVALUATION, {"a.json": b"{}"}, inputs={AGENT: agent.version}, counts={"navigation step": 0.9}
    )
    (store.home / "incoming").mkdir()
    monkeypatch.setenv("VESPER_HOME", str(store.home))
    monkeypatch.setenv("VESPER_TRAINER", json.dumps({"suites": {"limit": 2}}))
    return store


def test_the_graph_plays_a_suite_and_the_standings_and_the_next_round_take_it(has_chromium: None, home: Store) -> None:
    settings = deployment.load()
    loaded = definitions.build(settings, here=graph.stages(settings))
    instance = dg.DagsterInstance.ephemeral()

    def run(job: str, key: str) -> Manifest:
        chosen = [asset_key(key)]
        done = loaded.resolve_job_def(job).execute_in_process(instance=instance, asset_selection=chosen)
        assert done.success
        return home.require(key)

    def is_stale() -> bool:
        found = CachingStaleStatusResolver(instance, loaded.resolve_asset_graph(), LoadingContextForTest(instance))
        return found.get_status(asset_key(STANDINGS)).name == "STALE"

    before = run("train", STANDINGS)  # though no suite was ever run
    assert before.rows("rows") == 0 and not is_stale()
    unsteered = steering.evaluations_now(home)
    assert unsteered is not None and sum(unsteered["attempts"].values()) == 0
    suite = run("evaluate_suites", FSM)
    assert suite.counts["n"] == 2 and suite.counts["low"] <= suite.counts["success"] <= suite.counts["high"]
    assert not list((home.home / "cache" / "training").glob("suites-*")), "journals of a finished run"
    event = instance.get_latest_materialization_event(asset_key(FSM))
    assert event is not None and event.asset_materialization is not None
    shown = event.asset_materialization.metadata
    assert {"quality: success", "yield: counted", "cost: actions", "cost: seconds"} <= set(shown)
    assert shown["dagster/row_count"].value == 2 and "data:image/png" in str(shown["figures"].value)

    assert is_stale()
    [row] = run("train", STANDINGS).read("rows").to_pylist()
    assert not is_stale()
    assert (row["suite"], row["evaluation"], row["version"]) == ("fsm", FSM, suite.version) and row["current"]
    assert row["checkpoint_version"] == home.require(AGENT).version and home.require(STANDINGS).inputs[FSM]

    steered = steering.evaluations_now(home)
    assert steered is not None and sum(steered["attempts"].values()) == 2
    assert steered["inputs"][FSM] == suite.version and steered["digest"] != unsteered["digest"]
    assert run("evaluate_suites", FSM).version == suite.version, "equal inputs: no work"

    report = json.loads(suite.file(leaderboard.REPORT).read_text())
    records = [json.loads(line) for line in suite.file(leaderboard.RECORDS).read_text().splitlines()]
    leaderboard.record(home, {**report, "records": records})  # the same by `vesper eval --record`
    assert {row["evaluation"].partition("/")[0] for row in run("train", STANDINGS).read("rows").to_pylist()} == {
        "suites",
        "leaderboard",
    }
    again = steering.evaluations_now(home)
    assert again is not None and again["attempts"] == steered["attempts"], "an attempt counts once"


def test_a_benchmark_is_in_the_graph_once_its_files_are_here(home: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = deployment.load()
    absent = graph.stages(settings)
    worlds = {"suites/miniwob", "suites/phone", "suites/care", FSM}
    assert {key for key in absent if key.startswith("suites/")} == worlds
    with monkeypatch.context() as told:
        told.setenv("VESPER_TRAINER", json.dumps({"domains": list(DOMAINS)}))
        four = graph.stages(settings)
    assert set(four) - set(absent) == {"suites/desktop"} and "suites/desktop" in four[STANDINGS].deps
    assert "desktop" in four["suites/desktop"].needs and "browser" not in four["suites/desktop"].needs
    assert absent[FSM].deps == (AGENT,) and {"suites/phone", FSM} <= set(absent[STANDINGS].deps)
    shown = {spec.key.to_user_string(): spec for spec in definitions.build(settings).resolve_all_asset_specs()}
    assert "no checkpoint is evaluated on it" in (shown["raw/screenspot_v2"].description or "")
    native.screenspot_v2(home.home / "incoming/screenspot_v2")
    (home.home / "incoming/aitz").mkdir()
    stages = graph.stages(settings)
    assert set(stages) - set(absent) >= {"suites/screenspot_v2", "suites/aitz"}
    assert stages["suites/aitz"].deps == (AGENT, "unified/aitz")
    assert "suites/android_control_high" not in stages, "drawn data is no benchmark"
    assert set(stages[STANDINGS].deps) - set(absent[STANDINGS].deps) == {"suites/screenspot_v2", "suites/aitz"}

    work = StageWork(home, settings)
    raw = stages["raw/screenspot_v2"].run(work)
    made = stages["suites/screenspot_v2"].run(work)
    assert made.checks_passed and made.counts["n"] == 2 and 0 <= made.counts["accuracy"] <= 1
    assert made.inputs == {AGENT: home.require(AGENT).version, raw.asset: raw.version}
    assert [row["suite"] for row in leaderboard.build_standings(home).read("rows").to_pylist()] == ["screenspot_v2"]
    shutil.rmtree(home.home / "incoming/screenspot_v2")
    with pytest.raises(ValueError, match="expected native files of ScreenSpot-V2"):
        build_suite(home, "screenspot_v2", {"suites": {"seed": 1}})


def test_episodes_that_devices_lost_are_tried_again(home: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = {"why": "infrastructure: the browser is gone", "steps": 0}
    monkeypatch.setattr(stage, "run_suite", lambda *_: {"records": [lost, *[{"why": "", "steps": 1}] * 8]})
    with pytest.raises(RuntimeError, match=r"at most 10% of 9 episodes lost to devices, found 1 .*browser is gone"):
        build_suite(home, "fsm")
    assert home.current(FSM) is None


def test_a_suites_settings_are_its_own(tmp_path: Path) -> None:
    given = {"device": "cuda", "suites": {"limit": 5, "temperature": 1, "miniwob": {"limit": None, "attempts": 8}}}
    assert suite_settings("miniwob", given) == {
        "limit": None,
        "seed": 0,
        "attempts": 8,
        "temperature": 1,
        "workers": 1,
        "device": "cuda",
    }
    assert suite_settings("screenspot", given) == {"limit": 5, "seed": 0, "device": "cuda"}, "what changes its figures"
    bad: dict[str, dict[str, Any]] = {
        r"suites: unknown 'moon'": {"moon": {}},
        r"suites.fsm: unknown 'episodes'": {"fsm": {"episodes": 3}},
        "suites.limit: expected a whole number, 1 or more .*, found 0": {"limit": 0},
        "suites.fsm.temperature: expected a number, 0 or more .*, found -1": {"fsm": {"temperature": -1}},
    }
    for words, said in bad.items():
        with pytest.raises(ValueError, match=words):
            suite_settings("fsm", {"suites": said})
    with pytest.raises(ValueError, match="suite latent: expected one of worlds, grounding, steps"):
        build_suite(Store(tmp_path), "latent")
