"""The lines on an asset's page, run as a reader runs them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import goldmaker
import pytest

from dagster_project.assets.copy_lines import copy_lines
from dagster_project.stages.stage import GraphStage
from pipelines.store import PartSpec, Store
from pipelines.store.manifest import Manifest
from pipelines.training_data.shards import build_shards


def stage(manifest: Manifest, table: str | None) -> GraphStage:
    return GraphStage(manifest.asset, (), "build_corpus", lambda work: manifest, "a toy", ("file",), "1", table=table)


def run(text: str) -> dict[str, Any]:
    """What the Python lines bind."""
    found: dict[str, Any] = {}
    [python] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(python, found)
    return found


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")


def test_gold_and_shards_open_as_datasets(tmp_path: Path) -> None:
    store = goldmaker.gold(tmp_path / "home", count=6, parts=2)
    gold = store.require("gold/toy")
    lines = copy_lines(stage(gold, "samples"), gold)
    opened = run(lines)
    assert len(opened["samples"]) == gold.rows("samples") > 0 and len(opened["steps"]) == gold.rows("steps")
    assert f"vesper promote {gold.asset} --list" in lines
    shards = build_shards(store, ["toy"])
    samples = run(copy_lines(stage(shards, "index"), shards))["samples"]
    assert sorted(samples["sample_id"]) == sorted(shards.read("index")["sample_id"].to_pylist())
    assert all(samples[0]["images"])


def test_a_checkpoints_lines_name_the_folder_of_its_model_and_its_asset(tmp_path: Path) -> None:
    store, spec = Store(tmp_path), PartSpec("all", "a")
    with store.build("checkpoints/toy", code_version="1", parts=[spec]) as build:
        build.run_part(spec, lambda out: out.bytes("model/config.json", b"{}"))
        manifest = build.commit()
    lines = copy_lines(stage(manifest, None), manifest)
    [folder] = re.findall(r'from_pretrained\("(.*)"\)', lines)
    assert (Path(folder) / "config.json").is_file() and f"vllm serve {folder}" in lines
    assert f"vesper serve checkpoints/toy@{manifest.version[:8]}" in lines


def test_what_only_vesper_reads_has_no_lines(tmp_path: Path) -> None:
    store, spec = Store(tmp_path), PartSpec("all", "a")
    with store.build("staircase/toy", code_version="1", parts=[spec]) as build:
        build.run_part(spec, lambda out: out.bytes("a.txt", b"x"))
        manifest = build.commit()
    assert copy_lines(stage(manifest, None), manifest) == ""
