"""The stages: which tasks of a pool they use, and that a checkpoint comes out of a store."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from choice_world import ChoiceWorld, task

from generators.generation.static_task_pool import build_static
from generators.tasks.task_pool import build_shards
from generators.tasks.task_spec import FINAL_KEYFRAME
from generators.worlds.registry import WORLDS, WorldKind
from pipelines.store import PartSpec, Store, StoreError
from trainer.presets import preset
from trainer.stages.assets import STAGES, checkpoint_folder, inputs_of
from trainer.stages.context import Context
from trainer.stages.online import online, online_config, runnable_tasks, split_tasks
from trainer.stages.run import run_stage, stage_function
from trainer.stages.settings import stage_settings

CONFIG: dict[str, Any] = {
    "online": {
        "worlds": ["choice"],
        "updates": 2,
        "tasks_per_update": 2,
        "grpo": {"max_completion_length": 24},
        "limits": {"step_factor": 1, "step_extra": 0},
        "online_web": {"num_generations": 3},
    }
}


def test_tasks_that_cant_run_here_are_counted() -> None:
    tasks = [task(n, n) for n in range(1, 6)]
    odd = [
        replace(tasks[0], platform="mobile"),
        replace(tasks[0], initial_state={"episode": "e"}),
        replace(tasks[0], evaluator={"rule": FINAL_KEYFRAME}),
    ]
    rows = [one.as_row() for one in (*tasks, *odd)]
    usable, left_out = runnable_tasks(rows, ("web", "desktop"), ("choice",))
    assert sorted(usable, key=lambda one: one.target) == tasks
    assert left_out == {"other platform": 1, "no such world here": 1, "no rule decides it": 1}


@pytest.mark.parametrize(("count", "share", "expected"), [(10, 0.2, 2), (1, 0.5, 0), (2, 0.01, 1), (3, 0.99, 2)])
def test_validation_is_a_share_and_leaves_something_to_train_on(count: int, share: float, expected: int) -> None:
    tasks = [task(1, number) for number in range(count)]
    train, validation = split_tasks(tasks, share, 0)
    assert len(validation) == expected and sorted([*train, *validation], key=lambda t: t.task_id) == sorted(
        tasks, key=lambda t: t.task_id
    )
    assert (train, validation) == split_tasks(tasks[::-1], share, 0)


def test_a_stage_makes_a_checkpoint_of_the_task_pool(
    start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def opened(**options: Any) -> Iterator[ChoiceWorld]:
        yield ChoiceWorld(**options)

    monkeypatch.setitem(WORLDS, "choice", WorldKind("web", opened))
    store = Store(tmp_path)
    with pytest.raises(StoreError, match="checkpoints/offline_web: nothing committed"):
        run_stage("online_web", tmp_path, CONFIG)
    _commit_checkpoint(store, "checkpoints/offline_web", start)
    with pytest.raises(StoreError, match="task_pool/shards: nothing committed"):
        run_stage("online_web", tmp_path, CONFIG)
    plain = []
    for number in range(8):
        row = task(1 + number % 2, number).as_row()
        for name in ("task_id", "stratum", "origin"):
            del row[name]
        plain.append({**row, **{name: json.loads(row[name]) for name in ("initial_state", "evaluator")}})
    build_static(store, tasks=plain)
    build_shards(store)
    made = run_stage("online_web", tmp_path, CONFIG, progress=False)
    assert made.checks_passed, made.checks
    assert made.counts["tasks"] == 6 and made.counts["validation_tasks"] == 2 and made.counts["updates"] == 2
    assert made.counts["rollouts"] + made.counts["replayed"] == 2 * 2 * 3 and made.counts["lost_rollouts"] == 0
    folder = checkpoint_folder(made)
    lineage = json.loads((folder / "lineage.json").read_text())
    assert lineage["stage"] == "online_web" and lineage["parents"] == made.inputs
    assert set(made.inputs) == {"checkpoints/offline_web", "task_pool/shards"}
    assert json.loads((folder / "online_rl.json").read_text())["updates"] == 2
    assert made.file("rollout.png").read_bytes().startswith(b"\x89PNG")
    assert [entry.path.split("/")[1] for entry in made.side_files if "tfevents" in entry.path] == ["runs"]
    events: list[dict[str, Any]] = []
    assert run_stage("online_web", tmp_path, CONFIG, events.append).version == made.version and events[-1]["skipped"]
    mobile = {"online": {**CONFIG["online"], "worlds": ["pages/phone"]}}
    _commit_checkpoint(store, "checkpoints/offline_mobile", start)
    with pytest.raises(ValueError, match=r"online_mobile: no task of task_pool/shards .*'other platform': 8"):
        run_stage("online_mobile", tmp_path, mobile)


@pytest.mark.parametrize(("name", "expected"), [("nano", (2, 4)), ("2b", (10, 20)), ("30b-a3b", (10, 20))])
def test_strata_edges_are_those_of_the_checkpoint(name: str, expected: tuple[int, int], tmp_path: Path) -> None:
    store = Store(tmp_path / "home")
    (tmp_path / "preset.json").write_text(json.dumps(preset(name).plain()))
    (tmp_path / "config.json").write_text("{}")
    _commit_checkpoint(store, "checkpoints/offline_web", tmp_path)
    inputs = {"checkpoints/offline_web": store.require("checkpoints/offline_web")}

    def edges(config: dict[str, Any]) -> tuple[int, int]:
        chosen = stage_settings("online_web", config)
        return online_config(Context(store, "online_web", chosen, inputs, print, tmp_path, False)).edges

    assert edges({}) == edges({"preset": "8b"}) == expected, "whatever preset the configuration names"
    assert edges({"online": {"edges": [3, 6]}}) == (3, 6)


def _commit_checkpoint(store: Store, asset: str, source: Path) -> None:
    def write(out: Any) -> dict[str, Any]:
        for path in sorted(path for path in source.iterdir() if path.is_file()):
            shutil.copyfile(path, out.path(f"model/{path.name}"))
        return {}

    spec = PartSpec("checkpoint", asset)
    with store.build(asset, code_version="1", parts=[spec]) as build:
        build.run_part(spec, write)
        build.commit(counts={}, checks=[])


def test_the_merge_reads_the_online_specialists_unless_others_are_named() -> None:
    assert {"online_mobile", "evaluations/online_web"} <= set(STAGES) and stage_function("online_web") is online
    assert inputs_of("unified") == (
        "checkpoints/mid_trained",
        "checkpoints/offline_grounding",
        "checkpoints/online_mobile",
        "checkpoints/online_web",
        "mid_training/shards",
    )
    named = {"merge": {"specialists": ["offline_web", "offline_mobile"]}}
    chosen = stage_settings("unified", named)
    assert inputs_of("unified", chosen) == (
        "checkpoints/mid_trained",
        "checkpoints/offline_web",
        "checkpoints/offline_mobile",
        "mid_training/shards",
    )
    assert inputs_of("linear", chosen) == inputs_of("unified", chosen)[:-1]
    with pytest.raises(ValueError, match="merge.specialists.0: expected offline_grounding.*, found 'base'"):
        stage_settings("linear", {"merge": {"specialists": ["base"]}})
    given = {"online": {"updates": 3, "online_web": {"updates": 5}}}
    own = stage_settings("online_web", given).of_stage("online_web")["online"]
    assert own["updates"] == 5 and own["workers"] == 2 and "online_mobile" not in own
