"""Exports read by the peers' own loaders: what comes out equals the rows, in texts, order of turns and pixels."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from corpusmaker import commit
from exports_made import export_corpus, export_pool
from exports_read import PEERS
from goldmaker import gold
from tiny_published import published_tokenizer

from pipelines.exports.choose import choose, read
from pipelines.exports.filters import Filters
from pipelines.exports.forms import CORPUS
from pipelines.exports.records import MARKS, marked, unmarked
from pipelines.prompts import navigation_text
from pipelines.store import Store
from pipelines.store.images import open_image
from pipelines.training_data.shards import build_shards
from schemas.tables import Tasks

PYTHON = os.environ.get("VESPER_PEERS_PYTHON", sys.executable)
"""Ours has TRL and WebDataset; the others' pins contradict ours (`python bench/peers_env.py --exports FOLDER`)."""
READER = Path(__file__).parents[1] / "support" / "exports_read.py"
MODULES = {
    "trl": "trl",
    "ms-swift": "swift",
    "llama-factory": "llamafactory",
    "verl": "verl",
    "webdataset": "webdataset",
    "pool-trl": "trl",
    "pool-verl": "verl",
}
pytestmark = pytest.mark.slow
TEMPLATE = (
    "{% for turn in messages %}<|im_start|>{{ turn['role'] }}\n{% for part in turn['content'] %}"
    "{% if part['type'] == 'image' %}<|image_pad|>{% else %}{{ part['text'] }}{% endif %}{% endfor %}<|im_end|>\n"
    "{% endfor %}"
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A packed corpus, and a pool with a task that a recording gave and one of a world."""
    store = gold(tmp_path_factory.mktemp("peers") / "home", count=4)
    build_shards(store, ["toy"])
    common = {"platform": "web", "target": "fsm/x", "capabilities": [], "evaluator": '{"rule":"x"}'}
    common |= {"parents": ["episode:toy/e0000"]}
    common |= {"expected_steps": 2, "stratum": "easy", "origin": "dynamic"}
    states = {"a": "{}", "b": '{"world":"fsm"}'}
    rows = [
        {**common, "task_id": name * 32, "instruction": f"Go to <image> {name}", "initial_state": state}
        for name, state in states.items()
    ]
    dynamic = commit(store, "task_pool/dynamic", {"gold/toy": store.require("gold/toy").version})
    commit(store, "task_pool/shards", {dynamic.asset: dynamic.version}, {"tasks": Tasks.table(rows)})
    return store


def read_by(peer: str, folder: Path, tmp_path: Path) -> list[list]:
    if sys.executable == PYTHON:  # what we have ourselves is asked in this process: a start of TRL takes seconds
        pytest.importorskip(MODULES[peer], reason=f"$VESPER_PEERS_PYTHON may name one that has {MODULES[peer]}")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
            return [json.loads(json.dumps(row)) for row in PEERS[peer](folder)]
    if subprocess.run([PYTHON, "-c", f"import {MODULES[peer]}"], capture_output=True, check=False).returncode:
        pytest.skip(f"{PYTHON} has no {MODULES[peer]}; $VESPER_PEERS_PYTHON may name an interpreter that has")
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(tmp_path / "hf")}
    environment = {**os.environ, **offline, "MODELSCOPE_CACHE": str(tmp_path / "ms"), "PYTHONPATH": ""}
    out = tmp_path / "rows.jsonl"
    command = [PYTHON, str(READER), peer, str(folder), str(out)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in out.read_text().split("\n")[:-1]]


@pytest.mark.parametrize("what", ["shards", "export"])
def test_the_vision_collator_of_trl_takes_shards_and_export(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    pytest.importorskip("trl", reason="the extra dev installs TRL")
    from datasets import load_dataset
    from transformers import LlavaProcessor
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
    from trl.data_utils import is_conversational
    from trl.trainer.sft_trainer import DataCollatorForVisionLanguageModeling

    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    shards = store.require("mid_training/shards")
    export_corpus(store, shards, "trl", tmp_path / "out")
    files = shards.paths("shard") if what == "shards" else sorted((tmp_path / "out/data").glob("*.parquet"))
    names = [str(path) for path in files]
    rows = load_dataset("parquet", data_files=names, split="train", cache_dir=str(tmp_path / "cache"))
    side = {"height": 28, "width": 28}
    processor = LlavaProcessor(
        CLIPImageProcessorPil(size=side, crop_size=side),
        published_tokenizer(),
        patch_size=14,
        vision_feature_select_strategy="default",
        chat_template=TEMPLATE,
        image_token="<|image_pad|>",
        num_additional_image_tokens=1,
    )
    some = [rows[place] for place in range(4)]
    assert all(is_conversational(row) for row in some)
    said = [(row["messages"][0]["content"][0]["text"], row["messages"][-1]["content"][0]["text"]) for row in some]
    batch = DataCollatorForVisionLanguageModeling(processor)(some)
    pad = "<|image_pad|>" * 4
    for ids, (asked, answer) in zip(batch["input_ids"], said, strict=True):
        text = processor.tokenizer.decode(ids).partition("<|endoftext|>")[0]
        assert text == f"<|im_start|>user\n{asked}{pad}<|im_end|>\n<|im_start|>assistant\n{answer}<|im_end|>\n"
    assert batch["pixel_values"].shape[0] == 4 and batch["labels"].shape == batch["input_ids"].shape


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
