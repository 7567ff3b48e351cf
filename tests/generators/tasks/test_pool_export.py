"""Exports of the task pool: what a policy is asked, the first screen where there is one, and the rule beside it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from corpusmaker import commit
from exports_made import allowed, export_pool
from goldmaker import gold

from generators.generation.dynamic_task_pool import build_dynamic
from generators.tasks.pool_export import POOL, pool_export
from generators.tasks.task_pool import STATIC, PoolConfig, build_shards, pool_row, tasks_table
from pipelines.exports.asset import build_asset
from pipelines.exports.filters import Filters
from pipelines.exports.folder import write_folder
from pipelines.prompts import messages, navigation_text
from pipelines.store import Manifest, Store
from pipelines.training_data.chat_turns import trained_turns


def of_world(number: int, **state: object) -> dict[str, object]:
    return {
        "instruction": f"open <image> number {number}",
        "platform": "web",
        "target": f"{state['world']}/tabs",
        "capabilities": ["Click"],
        "initial_state": state,
        "evaluator": {"rule": "equals", "value": number},
        "expected_steps": 3,
        "parents": [],
    }


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, Manifest]:
    """A task inferred from a recording of a source that has an adapter, and two of worlds."""
    store = gold(tmp_path_factory.mktemp("pool") / "home", "aitw", count=1)
    build_dynamic(store, ["aitw"])
    config = PoolConfig()
    worlds = [pool_row(of_world(n, world=name, seed=5), "static", config) for n, name in ((1, "fsm"), (2, "miniwob"))]
    commit(store, STATIC, {}, {"tasks": tasks_table(worlds)})
    return store, build_shards(store)


@pytest.mark.parametrize("form", POOL)
def test_every_task_comes_with_its_prompt_and_its_rule(pool: tuple[Store, Manifest], tmp_path: Path, form: str) -> None:
    export_pool(*pool, form, tmp_path / "out")
    rows = pq.read_table(tmp_path / "out/data/train-00000.parquet").to_pylist()
    tasks = pool[1].read("tasks").sort_by("task_id").to_pylist()
    first = pool[0].require("gold/aitw").read("steps").to_pylist()[0]["screenshot_sha256"]
    shown = [[hashlib.sha256(image["bytes"]).hexdigest() for image in row["images"]] for row in rows]
    assert shown == [[first] if task["origin"] == "dynamic" else [] for task in tasks] and len(tasks) == 3
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
    assert "| aitw | CC-BY-4.0 | 1 |" in licences and "| fsm | own | 1 |" in licences


@pytest.mark.parametrize("parent", ["episode:aitw/1", "episode:generated/1"])
def test_a_recorded_task_keeps_its_source_in_a_world_and_a_generated_one_is_our_own(
    pool: tuple[Store, Manifest], tmp_path: Path, parent: str
) -> None:
    row = pool_row(of_world(3, world="fsm", seed=9) | {"parents": [parent]}, "dynamic", PoolConfig())
    made = commit(pool[0], "task_pool/other", {}, {"tasks": tasks_table([row])})
    [group] = export_pool(pool[0], made, "hub", tmp_path / "out")
    assert (group.source, group.licence) == (("aitw", "CC-BY-4.0") if "aitw" in parent else ("fsm", "own"))
    with pytest.raises(ValueError, match=f"task_pool/other: source {group.source}: not here; leave it out by source"):
        write_folder(tmp_path / "no", pool_export(pool[0], made, "hub"), refuses=lambda licence: "not here")
    assert not (tmp_path / "no").exists()


def test_filters_leave_tasks_of_a_source_or_licence(pool: tuple[Store, Manifest], tmp_path: Path) -> None:
    groups = export_pool(*pool, "hub", tmp_path / "out", Filters(licence=("own",), source=("miniwob", "aitw")))
    assert {group.source for group in groups} == {"miniwob"}
    with pytest.raises(ValueError, match="expected any of aitw, fsm, miniwob, found 'x'"):
        export_pool(*pool, "hub", tmp_path / "none", Filters(source=("x",)))
    with pytest.raises(ValueError, match="objective: expected source, licence, platform for a pool, found objective"):
        export_pool(*pool, "hub", tmp_path / "none", Filters(objective=("vqa",)))
    assert json.loads((tmp_path / "out/.export/plan.json").read_text())["kind"] == "pool"


@pytest.mark.parametrize("form", POOL)
def test_as_an_asset_it_holds_the_same_rows_and_is_made_once(
    pool: tuple[Store, Manifest], tmp_path: Path, form: str
) -> None:
    store, tasks = pool
    asset = f"exports/pool_{form}"
    made = build_asset(store, asset, pool_export(store, tasks, form), refuses=allowed)
    export_pool(store, tasks, form, tmp_path / "out")
    [path] = (made.directory / "data").iterdir()
    assert path.read_bytes() == (tmp_path / "out/data/train-00000.parquet").read_bytes()
    card = (made.directory / "README.md").read_text()
    assert card == (tmp_path / "out/README.md").read_text() and made.counts == {"rows": 3, "files": 1}
    assert build_asset(store, asset, pool_export(store, tasks, form), refuses=allowed).version == made.version
    fewer = build_asset(store, asset, pool_export(store, tasks, form, Filters(source=("fsm",))), refuses=allowed)
    assert fewer.version != made.version and fewer.counts["rows"] == 1 and fewer.inputs == {tasks.asset: tasks.version}
