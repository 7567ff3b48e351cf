"""Computer as a domain by the graph: from desktop rows and tasks on an X11 desktop into the merged agent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from goldmaker import gold
from tiny_training import SHAPE

from dagster_project import definitions
from dagster_project.assets.keys import asset_key
from dagster_project.settings import deployment
from dagster_project.stages import graph
from dagster_project.stages import task_pool as task_pool_stages
from generators.generation.functional_maps import MapConfig
from generators.generation.static_task_pool import build_static
from generators.tasks import task_pool
from generators.worlds.desktop.desktop_tasks import make_task
from generators.worlds.desktop.programs import PROGRAMS
from generators.worlds.desktop.session import find_missing
from pipelines.store import Store
from pipelines.training_data.mixture import build_mixture
from pipelines.training_data.shards import build_shards
from trainer.stages import online as online_stage
from trainer.stages.run import run_stage

pytestmark = [pytest.mark.slow, pytest.mark.real_parts]

CONFIG: dict[str, Any] = {
    "shape": SHAPE,
    "domains": ["grounding", "computer"],
    "midtrain": {"max_steps": 2, "batch_size": 4, "warmup_steps": 1, "eval_steps": 0, "threads": 1},
    "offline": {
        "threads": 1,
        "updates": 1,
        "prompts": 2,
        "num_generations": 2,
        "held_out_limit": 2,
        "validation_limit": 2,
        "validation_samples": 1,
    },
    "online": {
        "updates": 1,
        "tasks_per_update": 2,
        "num_generations": 2,
        "grpo": {"max_completion_length": 8},
        "limits": {"step_factor": 0, "step_extra": 1},
    },
    "merge": {"density": 0.5, "lambda": 1.0},
    "evaluate": {"threads": 1, "grounding": 2, "navigation": 2, "max_new_tokens": 4},
}
CHECKPOINTS = ("offline_grounding", "offline_computer", "online_computer", "linear", "unified")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store with a mid-trained checkpoint, and tasks on the desktop; the settings are the environment's."""
    store = gold(tmp_path, count=15, platforms=("mobile", "web", "desktop"))
    build_shards(store, ["toy"])
    build_shards(store, ["toy"], "evaluations/heldout", splits=("test",))
    build_mixture(store)
    plain = []
    for name in ("calculator.product", "calculator.quotient", "calculator.total"):
        row = make_task(name, 7).contract().as_row()
        for derived in ("task_id", "stratum", "origin"):
            del row[derived]
        plain.append({**row, **{part: json.loads(row[part]) for part in ("initial_state", "evaluator")}})
    build_static(store, tasks=plain)
    task_pool.build_shards(store)
    for stage in ("base", "mid_trained"):
        run_stage(stage, store.home, CONFIG, progress=False)
    monkeypatch.setenv("VESPER_HOME", str(store.home))
    monkeypatch.setenv("VESPER_TRAINER", json.dumps(CONFIG))
    monkeypatch.delenv("VESPER_DEVICES", raising=False)
    return store


@pytest.mark.skipif(bool(find_missing()), reason="needs the packages of a desktop")
def test_the_graph_trains_and_merges_the_specialist_of_computers(has_chromium: None, home: Store) -> None:
    settings = deployment.load()
    loaded = definitions.build(settings, here=graph.stages(settings))
    keys = [*(f"checkpoints/{name}" for name in CHECKPOINTS), "evaluations/online_computer"]
    done = loaded.resolve_job_def("train").execute_in_process(
        instance=dg.DagsterInstance.ephemeral(), asset_selection=[asset_key(key) for key in keys]
    )
    assert done.success
    made = {key: home.require(key) for key in keys}
    acted = made["checkpoints/online_computer"]
    assert acted.counts["tasks"] == 2 and acted.counts["validation_tasks"] == 1 and not acted.counts["left_out"]
    assert acted.counts["rollouts"] == 4 and acted.counts["lost_rollouts"] == 0
    for name in ("linear", "unified"):
        merged = made[f"checkpoints/{name}"]
        specialists = {"checkpoints/offline_grounding", "checkpoints/online_computer"}
        assert specialists <= set(merged.inputs) and merged.counts["models"] == 2
    report = json.loads(made["evaluations/online_computer"].file("evaluation.json").read_text())
    assert report["summary"]["navigation/desktop"]["step"]["n"] == 2


def test_the_pool_has_tasks_of_computers_where_they_have_a_specialist(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = deployment.Deployment()
    tiny = deployment.Deployment(embedded={"size": "tiny"})
    monkeypatch.setattr(task_pool_stages, "find_base_missing", lambda: [])
    monkeypatch.delenv("VESPER_TRAINER", raising=False)
    assert task_pool_stages.maps_of(usual) == MapConfig()
    assert task_pool_stages.maps_of(tiny).page_platforms == ("phone",)
    monkeypatch.setenv("VESPER_TRAINER", json.dumps({"domains": ["web", "computer"]}))
    installed = tuple(name for name, program in PROGRAMS.items() if program.installed())
    assert task_pool_stages.maps_of(usual) == MapConfig(desktop_programs=installed)
    first_look = task_pool_stages.maps_of(tiny)
    assert first_look.page_platforms == ("phone", "desktop") and not first_look.desktop_programs
    monkeypatch.setattr(task_pool_stages, "find_base_missing", lambda: ["xvfb"])
    assert task_pool_stages.maps_of(usual) == MapConfig()


def test_a_desktop_that_lacks_its_packages_is_told_before_anything_trains(
    home: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_stage("offline_computer", home.home, CONFIG, progress=False)
    monkeypatch.setattr(online_stage, "find_base_missing", lambda: ["xvfb", "openbox"])
    told = "online_computer: tasks on the desktop need packages that are missing here: xvfb openbox; install them"
    with pytest.raises(ValueError, match=told):
        run_stage("online_computer", home.home, CONFIG, progress=False)
    monkeypatch.setattr(online_stage, "find_base_missing", lambda: [])
    monkeypatch.setattr(online_stage, "missing_packages", lambda programs: sorted({one.package for one in programs}))
    with pytest.raises(ValueError, match="packages that are missing here: galculator; install them"):
        run_stage("online_computer", home.home, CONFIG, progress=False)
    pages = {**CONFIG, "online": {**CONFIG["online"], "online_computer": {"worlds": ["pages/desktop"]}}}
    with pytest.raises(ValueError, match=r"online_computer: no task of task_pool/shards can be .*no such world here"):
        run_stage("online_computer", home.home, pages, progress=False)
