"""The lines on an asset's page, run as a reader runs them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import goldmaker
import pytest
from exports_made import build_export

from dagster_project.assets.copy_lines import copy_lines
from dagster_project.stages.stage import GraphStage
from pipelines.exports.forms import CORPUS
from pipelines.store import PartSpec, Store
from pipelines.store.manifest import Manifest
from pipelines.training_data.shards import build_shards


def stage(manifest: Manifest, table: str | None, form: str | None = None) -> GraphStage:
    """`form`: of the corpus, where it is an export."""
    of, own = CORPUS[form] if form else None, ("file",)
    return GraphStage(
        manifest.asset, (), "build_corpus", lambda work: manifest, "a toy", own, "1", table=table, form=of
    )


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


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A store with shards, from which exports are made."""
    store = goldmaker.gold(tmp_path_factory.mktemp("store") / "home", count=6, parts=2)
    build_shards(store, ["toy"])
    return store


@pytest.mark.parametrize("form", [name for name in CORPUS if CORPUS[name].language == "python"])
def test_the_lines_of_an_export_open_all_of_its_rows(corpus: Store, form: str) -> None:
    pytest.importorskip({"trl": "trl", "webdataset": "webdataset"}.get(form, "datasets"))
    manifest = build_export(corpus, form)
    loading, _, training = copy_lines(stage(manifest, None, form), manifest).partition("SFTTrainer(model")
    found = run(f"{loading}```" if training else loading)
    rows = found["data"] if "data" in found else list(found["rows"])
    assert len(rows) == manifest.counts["rows"] > 0


@pytest.mark.parametrize("form", [name for name in CORPUS if CORPUS[name].language == "bash"])
def test_the_command_lines_of_an_export_name_its_files(corpus: Store, form: str) -> None:
    manifest = build_export(corpus, form)
    [lines] = re.findall(r"```sh\n(.*?)```", copy_lines(stage(manifest, None, form), manifest), re.DOTALL)
    shown = 'python() { echo "$@"; }; swift() { echo "$@"; }; llamafactory-cli() { ls dataset_info.json; echo "$@"; }\n'
    told = subprocess.run(
        ["bash", "-ec", shown + lines], cwd=manifest.directory, capture_output=True, text=True, check=True
    )
    names = [name for name in re.split(r"[\s,=\[\]]+", told.stdout) if "data/train-" in name]
    parts = {e.path for e in manifest.files if "/data/train-" in e.path}
    assert {Path(manifest.directory, name).relative_to(manifest.folder).as_posix() for name in names} == parts or (
        form == "llama-factory" and str(manifest.directory) in told.stdout
    )


def test_what_only_vesper_reads_has_no_lines(tmp_path: Path) -> None:
    store, spec = Store(tmp_path), PartSpec("all", "a")
    with store.build("staircase/toy", code_version="1", parts=[spec]) as build:
        build.run_part(spec, lambda out: out.bytes("a.txt", b"x"))
        manifest = build.commit()
    assert copy_lines(stage(manifest, None), manifest) == ""
