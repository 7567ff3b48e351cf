"""`vesper export` as its user runs it: what it writes, what it says of mistakes, and a push to a stand-in hub."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from corpusmaker import build_checkpoints, commit, light_source, light_tasks
from hub import go_online
from hub_uploads import HubTakingUploads, serve_uploads

from dagster_project import cli
from pipelines.exports.push import push
from pipelines.store import Store
from pipelines.training_data.mixture import build_mixture
from pipelines.training_data.shards import build_shards

LOAD = """
import json, sys, datasets, huggingface_hub
from pathlib import Path
data = datasets.load_dataset(sys.argv[1], split="train")
model = Path(huggingface_hub.snapshot_download(sys.argv[2]))
weights = (model / "model.safetensors").read_bytes().decode()
print(json.dumps([len(data), data[0]["messages"][-1]["role"], data[0]["images"][0].size, weights]))
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source with verdicts, shards, a mixture, tasks, and checkpoints with an evaluation."""
    folder = tmp_path_factory.mktemp("store")
    store = Store(folder / "home")
    light_source(store, folder / "raw", "toy", 1)
    commit(store, "hygiene/duplicates", {}, {"displaced": displaced()})
    build_shards(store, ["toy"])
    build_mixture(store)
    light_tasks(store, "toy")
    build_checkpoints(store)
    made = store.require("checkpoints/unified")
    files = {"model/config.json": b"{}", "model/model.safetensors": b"w" * 2000, "model/README.md": b"theirs"}
    commit(store, "checkpoints/unified", made.inputs, files=files)
    version = store.require("checkpoints/unified").version
    commit(
        store, "evaluations/unified", {"checkpoints/unified": version}, counts={"grounding hit": 0.625, "samples": 8}
    )
    return store.home


def displaced() -> object:
    from quality.duplicates.dedup import DISPLACED

    return DISPLACED.empty_table()


def export(home: Path, *words: str | Path) -> int:
    return cli.main(["export", *map(str, words), "--store", str(home)])


def test_each_kind_is_written_with_card_and_licences(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert export(home, "corpus", "--to", "trl", "--objective", "vqa", "--score", "9", tmp_path / "corpus") == 0
    assert export(home, "pool", "--to", "verl", tmp_path / "pool") == 0
    assert export(home, "checkpoint", "--to", "hub", "--asset", "unified", tmp_path / "model") == 0
    said = capsys.readouterr().out
    assert "rows of mid_training/shards@" in said and "1 rows of task_pool/shards@" in said
    card = (tmp_path / "corpus/README.md").read_text()
    assert "| objective | vqa" in card and "grounding" not in card and "| `gold/toy` |" in card
    model = (tmp_path / "model/README.md").read_text()
    assert "| grounding hit | 0.6250 |" in model and "pipeline_tag: image-text-to-text" in model
    assert "| toy | MIT |" in (tmp_path / "model/LICENSES.md").read_text()
    assert (tmp_path / "model/model.safetensors").read_bytes() == b"w" * 2000


def test_a_version_is_named_by_its_beginning(home: Path, tmp_path: Path) -> None:
    version = Store(home).require("mid_training/shards").version
    assert export(home, "corpus", "--to", "webdataset", "--asset", f"@{version[:6]}", tmp_path / "out") == 0
    assert json.loads((tmp_path / "out/.export/plan.json").read_text())["version"] == version


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("pool", "--to", "ms-swift"),
            "trl, verl, hub for a pool, found 'ms-swift' (it is there for a corpus)",
        ),
        (("corpus", "--to", "tlr"), "found 'tlr' (did you mean trl?)"),
        (("corpus", "--to", "trl", "--push", "a/b"), "--push: expected --to hub"),
        (("corpus", "--to", "trl", "--platform", "tv"), "platform.0: expected mobile, web or desktop, found 'tv'"),
        (("corpus", "--to", "trl", "--source", "x"), "source: expected any of toy, found 'x'"),
        (
            ("corpus", "--to", "trl", "--licence", "GPL*"),
            "found none; it holds source toy; licence MIT",
        ),
        (("pool", "--to", "trl", "--source", "x"), "task_pool/shards: source: expected any of "),
        (("pool", "--to", "trl", "--score", "0"), "score: expected source, licence, platform for a pool, found score"),
        (("checkpoint", "--to", "hub", "--source", "x"), "source: expected no filter for a checkpoint, which is whole"),
        (("corpus", "--to", "trl", "--asset", "@ffff"), "expected one of"),
        (("corpus", "--to", "trl", "--asset", "gold/toy"), "gold/toy: expected packed samples or tasks, found none"),
    ],
)
def test_mistakes_are_named(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    assert export(home, *words, tmp_path / "out") == 2
    [line] = capsys.readouterr().err.splitlines()
    assert said in line and not (tmp_path / "out/data").exists()


def test_what_the_licence_policy_refuses_is_not_exported(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = tmp_path / "deployment.yaml"
    settings.write_text("licences: {deny: [MIT]}\n")
    monkeypatch.setenv("VESPER_DEPLOYMENT", str(settings))
    for kind, form, instead in (("corpus", "trl", "leave it out by source"), ("checkpoint", "hub", "train it without")):
        assert export(home, kind, "--to", form, tmp_path / "out") == 2
        said = capsys.readouterr().err
        assert f"source toy: licence 'MIT' is denied by the deployment's policy; {instead}" in said
    assert not (tmp_path / "out").exists()
    other = tmp_path / "other.yaml"
    other.write_text("licences: {deny: ['*NC*']}\n")
    monkeypatch.setenv("VESPER_DEPLOYMENT", str(other))
    assert export(home, "corpus", "--to", "trl", tmp_path / "out") == 0


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("http://127.0.0.1:1", "Connection refused"),
        ("", "Request URL is missing an 'http://' or 'https://' protocol"),
        ("http://127.0.0.1:x", "Invalid port"),
    ],
)
def test_a_hub_that_cannot_be_reached_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str, said: str
) -> None:
    go_online(monkeypatch)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
    (tmp_path / "README.md").write_text("a card")
    with pytest.raises(ValueError, match="--push acme/gui: expected .* to take the export, found: ") as found:
        push(tmp_path, "acme/gui", "dataset")
    assert said in str(found.value) and len(str(found.value).splitlines()) == 1


def test_a_push_puts_the_export_on_a_hub_where_it_is_loaded(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hub = HubTakingUploads()
    with serve_uploads(hub) as url:
        go_online(monkeypatch)
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", url)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)
        monkeypatch.setenv("HF_TOKEN", "hf_test")
        assert export(home, "corpus", "--to", "hub", "--push", "acme/gui", tmp_path / "corpus") == 0
        files = hub.repositories["acme/gui"][-1][1]
        ours = {name for name in files if not name.startswith(".git")}
        assert ours == {"README.md", "LICENSES.md", "data/train-00000.parquet"}
        assert export(home, "checkpoint", "--to", "hub", "--push", "acme/agent", tmp_path / "model") == 0
        assert {"config.json", "model.safetensors", "README.md"} <= set(hub.repositories["acme/agent"][-1][1])
        assert [one["visibility"] for one in hub.made] == ["private", "private"]

        # as somebody else who has nothing of ours: a process of its own, since `datasets` reads its settings once
        environment = {**os.environ, "HF_ENDPOINT": url, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "0"}
        environment |= {"HF_DATASETS_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
        command = [sys.executable, "-c", LOAD, "acme/gui", "acme/agent"]
        loaded = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200, check=False)
        assert loaded.returncode == 0, loaded.stderr
        rows, role, size, weights = json.loads(loaded.stdout.splitlines()[-1])
        assert rows > 20 and role == "assistant" and size == [96, 64] and weights == "w" * 2000

        hub.refuses = "you may not write here"
        capsys.readouterr()
        assert export(home, "corpus", "--to", "hub", "--push", "acme/other", tmp_path / "corpus") == 2
        [line] = capsys.readouterr().err.splitlines()
        assert "--push acme/other: expected" in line
