"""Exports read by the peers' own loaders: what comes out equals the rows, in texts, order of turns and pixels."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path

import pytest
from corpusmaker import commit
from goldmaker import gold

from generators.tasks.pool_export import export_pool
from pipelines.exports.choose import choose, read
from pipelines.exports.corpus import export_corpus
from pipelines.exports.filters import Filters
from pipelines.exports.forms import CORPUS
from pipelines.exports.records import MARKS, marked, unmarked
from pipelines.prompts import navigation_text
from pipelines.store import Store
from pipelines.store.images import open_image
from pipelines.training_data.shards import build_shards
from schemas.tables import Tasks

PYTHON = os.environ.get("VESPER_PEERS_PYTHON", "")
READER = Path(__file__).parents[2] / "bench" / "exports_read.py"
MODULES = {
    "trl": "trl",
    "ms-swift": "swift",
    "llama-factory": "llamafactory",
    "verl": "verl",
    "webdataset": "webdataset",
    "pool-trl": "trl",
    "pool-verl": "verl",
}
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PYTHON, reason="$VESPER_PEERS_PYTHON names no interpreter (bench/peers_env.py makes one)"),
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A packed corpus, and a pool with a task that begins from a screen and one that doesn't."""
    store = gold(tmp_path_factory.mktemp("peers") / "home", count=4)
    build_shards(store, ["toy"])
    shown = store.require("unified/toy").read("screens")["screenshot_sha256"][0].as_py()
    common = {"platform": "web", "target": "fsm/x", "capabilities": [], "evaluator": '{"rule":"x"}', "parents": []}
    common |= {"expected_steps": 2, "stratum": "easy", "origin": "dynamic"}
    states = {"a": json.dumps({"source": "toy", "screenshot_sha256": shown}), "b": '{"world":"fsm"}'}
    rows = [
        {**common, "task_id": name * 32, "instruction": f"Go to <image> {name}", "initial_state": state}
        for name, state in states.items()
    ]
    commit(store, "task_pool/shards", {}, {"tasks": Tasks.table(rows)})
    return store


def read_by(peer: str, folder: Path, tmp_path: Path) -> list[list]:
    if subprocess.run([PYTHON, "-c", f"import {MODULES[peer]}"], capture_output=True, check=False).returncode:
        pytest.skip(f"$VESPER_PEERS_PYTHON has no {MODULES[peer]}")
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(tmp_path / "hf")}
    environment = {**os.environ, **offline, "MODELSCOPE_CACHE": str(tmp_path / "ms"), "PYTHONPATH": ""}
    out = tmp_path / "rows.jsonl"
    command = [PYTHON, str(READER), peer, str(folder), str(out)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in out.read_text().split("\n")[:-1]]


def pixels(data: bytes) -> str:
    return hashlib.sha256(open_image(data).tobytes()).hexdigest()


@pytest.mark.parametrize("peer", ["trl", "ms-swift", "llama-factory", "verl", "webdataset"])
def test_a_peer_reads_the_corpus_as_it_is(store: Store, tmp_path: Path, peer: str) -> None:
    shards = store.require("mid_training/shards")
    export_corpus(store, shards, peer, tmp_path / "out")
    expected = []
    for sample in read(choose(store, shards, Filters(), CORPUS[peer].objectives)):
        said = [[turn["role"], marked(turn)] for turn in sample.turns]
        if peer == "verl":
            said[-1] = ["ground_truth", sample.answer]
        expected.append([said, [pixels(picture.data) for picture in sample.pictures]])
    found = read_by(peer, tmp_path / "out", tmp_path)
    assert found == expected and len(found) > 30


@pytest.mark.parametrize("peer", ["trl", "verl"])
def test_a_peer_reads_the_pool_as_it_is(store: Store, tmp_path: Path, peer: str) -> None:
    export_pool(store, store.require("task_pool/shards"), peer, tmp_path / "out")
    for found, name in zip(read_by(f"pool-{peer}", tmp_path / "out", tmp_path), "ab", strict=True):
        asked = navigation_text(f"Go to <image> {name}", (), thinking=True)
        escaped = unmarked(asked, MARKS) if peer == "verl" else asked
        assert found[0][0] == ["user", escaped + ("<image>" if name == "a" else "")]
        assert len(found[1]) == (name == "a")
