"""Exports of the task pool: what a policy is asked, the first screen where there is one, and the rule beside it."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from corpusmaker import commit
from goldmaker import picture

from generators.tasks.pool_export import POOL, export_pool
from pipelines.exports.filters import Filters
from pipelines.prompts import messages, navigation_text
from pipelines.store import Manifest, Store
from pipelines.training_data.chat_turns import trained_turns
from schemas.ids import canonical_json
from schemas.tables import Tasks


def task(number: int, state: dict[str, object], target: str) -> dict[str, object]:
    return {
        "task_id": f"{number:032x}",
        "instruction": f"open <image> number {number}",
        "platform": ("web", "mobile")[number % 2],
        "target": target,
        "capabilities": ["Click"],
        "initial_state": canonical_json(state),
        "evaluator": canonical_json({"rule": "equals", "value": number}),
        "expected_steps": 3,
        "stratum": "easy",
        "origin": "dynamic" if "source" in state else "static",
        "parents": [],
    }


@pytest.fixture
def pool(tmp_path: Path) -> tuple[Store, Manifest]:
    """A task that begins from a recorded screen, and two of worlds."""
    store = Store(tmp_path / "home")
    shown = store.put_screen(picture(3)).sha256
    rows = [
        task(1, {"source": "aitw", "episode": "e1", "screenshot_sha256": shown}, "Settings"),
        task(2, {"world": "fsm", "seed": 5}, "fsm/tabs"),
        task(3, {"world": "miniwob", "seed": 6}, "miniwob/click-button"),
    ]
    return store, commit(store, "task_pool/shards", {}, {"tasks": Tasks.table(rows)})


@pytest.mark.parametrize("form", POOL)
def test_every_task_comes_with_its_prompt_and_its_rule(pool: tuple[Store, Manifest], tmp_path: Path, form: str) -> None:
    export_pool(*pool, form, tmp_path / "out")
    rows = pq.read_table(tmp_path / "out/data/train-00000.parquet").to_pylist()
    tasks = pool[1].read("tasks").to_pylist()
    assert [len(row["images"]) for row in rows] == [1, 0, 0] and rows[0]["images"][0]["bytes"] == picture(3)
    for row, expected in zip(rows, tasks, strict=True):
        about = row["extra_info"] if form == "verl" else row
        assert {name: about[name] for name in expected} == expected
        asked = navigation_text(expected["instruction"], (), thinking=True)
        if form == "trl":
            [turn] = trained_turns(messages("navigation", asked, len(row["images"])), "")[:-1]
            plain = [{"type": part["type"], "text": part["text"]} for part in turn["content"]]
            assert row["prompt"] == [{"role": "user", "content": plain}]
        if form == "verl":
            said = asked.replace("<image>", "< image>") + "<image>" * len(row["images"])
            assert row["prompt"] == [{"role": "user", "content": said}]
            assert row["reward_model"] == {"style": "rule", "ground_truth": expected["evaluator"]}
    licences = (tmp_path / "out/LICENSES.md").read_text()
    assert "| aitw |" in licences and "| fsm | own | 1 |" in licences


def test_filters_leave_tasks_of_a_source_or_licence(pool: tuple[Store, Manifest], tmp_path: Path) -> None:
    groups = export_pool(*pool, "hub", tmp_path / "out", Filters(licence=("own",), platform=("mobile",)))
    assert {group.source for group in groups} == {"miniwob"}
    with pytest.raises(ValueError, match="expected any of aitw, fsm, miniwob, found 'x'"):
        export_pool(*pool, "hub", tmp_path / "none", Filters(source=("x",)))
    with pytest.raises(ValueError, match="--objective: expected source, licence or platform"):
        export_pool(*pool, "hub", tmp_path / "none", Filters(objective=("vqa",)))
    assert json.loads((tmp_path / "out/.export/plan.json").read_text())["kind"] == "pool"
