"""A store from one's own code: corpus, pool, checkpoints and items."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import corpusmaker
import numpy as np
import pytest
from made_once import made_once

import vesper
from pipelines.store import StoreError
from trainer.presets import NANO_BASE


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with shards of two sources, a task, and checkpoints."""

    def make() -> str:
        folder = tmp_path_factory.mktemp("vesper")
        store = corpusmaker.build_all(folder / "home", folder / "raw")
        corpusmaker.light_tasks(store, "aitz")
        files = {f"model/{path.name}": path.read_bytes() for path in NANO_BASE.iterdir()}
        shards = store.require("mid_training/shards")
        corpusmaker.commit(store, "checkpoints/base", {shards.asset: shards.version}, files=files)
        return str(store.home)

    return Path(made_once(tmp_path_factory, "vesper_home", make))


@pytest.fixture(scope="module")
def store(home: Path) -> vesper.Store:
    """The same, opened."""
    return vesper.open(home)


@pytest.mark.slow
def test_rows_are_the_same_by_arrow_pandas_iteration_and_datasets(store: vesper.Store) -> None:
    corpus = store.corpus()
    ids = corpus.arrow(["sample_id"])["sample_id"].to_pylist()
    assert len(ids) == len(corpus) == len(set(ids)) > 0
    assert corpus.pandas()["sample_id"].tolist() == ids
    assert [row["sample_id"] for row in corpus] == ids
    assert corpus.dataset()["sample_id"][:] == ids
    assert [row["sample_id"] for row in corpus.stream()] == ids
    assert sum(batch.num_rows for batch in corpus.batches(rows=2)) == len(ids)


def test_pictures_and_chats_have_one_form_in_shards_and_in_tables_of_samples(store: vesper.Store) -> None:
    packed = {row["sample_id"]: row for row in store.corpus(source="aitz")}
    gold = {row["sample_id"]: row for row in store.corpus("gold/aitz", split="train")}
    stored = {row["sample_id"]: row for row in store.corpus("gold/aitz").arrow().to_pylist()}
    assert packed.keys() <= gold.keys()
    for name, row in packed.items():
        assert row["images"] == gold[name]["images"]
        assert [hashlib.sha256(data).hexdigest() for data in row["images"]] == stored[name]["images"]
        first, last = row["messages"][0], row["messages"][-1]
        asked = json.loads(stored[name]["messages"])[0]["content"]
        assert [part["type"] for part in first["content"]] == [part["type"] for part in asked]
        assert first["content"][0]["text"] == asked[0]["text"]
        assert (last["role"], last["content"][0]["text"]) == ("assistant", row["answer"])


def test_a_data_set_has_decoded_pictures_and_conversations(store: vesper.Store) -> None:
    for made in (store.corpus().dataset(), store.corpus("gold/screenqa").dataset()):
        row = made[0]
        assert np.asarray(row["images"][0]).ndim == 3
        assert [turn["role"] for turn in row["messages"]] == ["user", "assistant"]


def test_rows_are_chosen_by_their_columns_and_words_misspelt_are_told(store: vesper.Store) -> None:
    whole = store.corpus()
    kept = [r for r in whole if r["source"] == "aitz" and r["objective"] in ("grounding", "navigation")]
    chosen = store.corpus(source="aitz", objective=["grounding", "navigation"])
    assert 0 < len(chosen) == len(kept) < len(whole)
    with pytest.raises(ValueError, match="no row has the source 'aitx'; did you mean aitz?"):
        store.corpus(source="aitx")
    with pytest.raises(ValueError, match="no table 'stepz'; did you mean steps"):
        store.corpus("gold/aitz", table="stepz")
    with pytest.raises(ValueError, match="has no column 'objective'"):
        store.corpus("gold/aitz", table="steps", objective="vqa")
    with pytest.raises(StoreError, match="did you mean gold/aitz"):
        store.corpus("gold/aitx")


def test_an_older_version_is_named_by_its_beginning(store: vesper.Store) -> None:
    current = store.corpus()
    assert store.corpus(f"@{current.version[:6]}").version == current.version
    with pytest.raises(StoreError, match="no committed version of that name"):
        store.corpus("@00000000")


def test_the_pool_has_the_tasks_of_online_training(store: vesper.Store) -> None:
    assert [task["instruction"] for task in store.pool(stratum="easy")] == ["open the cart"]
    assert len(store.pool().dataset()) == 1


def test_assets_are_listed_with_their_rows(store: vesper.Store) -> None:
    found = {asset.name: asset for asset in store.assets()}
    assert found["mid_training/shards"].rows["shard"] == len(store.corpus())
    assert all(asset.checks_passed for asset in found.values())


def test_a_checkpoint_tells_its_lineage_and_one_that_is_no_model_is_told(store: vesper.Store) -> None:
    found = store.checkpoint("unified")
    assert {one["name"] for one in found.lineage["datasets"]} == {"aitz", "screenqa", "rico"}  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match=r"expected a model with config.json"):
        _ = found.path
    with pytest.raises(StoreError, match="did you mean checkpoints/unified"):
        store.checkpoint("unifed")


def test_a_checkpoint_has_a_card_with_its_data_and_their_licences(store: vesper.Store) -> None:
    found = store.checkpoint("base")
    assert f"# checkpoints/base, a GUI agent\n\nOf {store.home}." in found.card
    assert f'from_pretrained("{found.path}")' in found.card
    assert "| aitz | Apache-2.0 |" in found.card


def test_a_checkpoint_is_a_folder_that_transformers_loads(store: vesper.Store) -> None:
    found = store.checkpoint("base")
    assert (found.path / "model.safetensors").read_bytes() == (NANO_BASE / "model.safetensors").read_bytes()
    assert found.load().config.model_type == "qwen3_vl"


def test_an_item_is_explained_as_the_command_does(store: vesper.Store) -> None:
    name = next(iter(store.corpus(source="aitz")))["sample_id"]
    answer = store.explain(f"sample:{name}")
    assert (answer["item"], answer["source"]) == (f"sample:{name}", "aitz")
    assert answer["shards"]


def test_a_folder_without_a_store_is_told(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected a store"):
        vesper.open(tmp_path)


def test_opened_without_a_folder_it_is_the_home_of_the_environment(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VESPER_HOME", str(home))
    assert vesper.open().home == home.resolve()


def test_the_page_of_the_api_runs_as_it_stands(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VESPER_HOME", str(home))
    text = (Path(__file__).parents[2] / "docs" / "api.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    # of this small store: the checkpoint that is a whole model, and a step that it has
    code = code.replace('"unified")', '"base")').replace("aitz/5020101251009000000/3", "aitz/1/4")
    code = code.replace('platform="web"', 'platform=["web"]')
    exec(compile(code, "docs/api.md", "exec"), {})
