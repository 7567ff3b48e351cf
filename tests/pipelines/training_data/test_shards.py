"""Shards: every gold sample once with its picture, readable without us, and only changed parts are rewritten."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from goldmaker import commit_gold, gold
from turns import prompt

from pipelines.store import Store, StoreError
from pipelines.training_data.shard_form import ShardConfig, ShardIndex
from pipelines.training_data.shards import build_shards
from schemas.tables import Samples


def rows(manifest) -> list[dict]:
    return [row for path in manifest.paths("shard") for row in pq.read_table(path).to_pylist()]


def test_each_training_sample_is_packed_once_with_its_own_picture(tmp_path: Path) -> None:
    store = gold(tmp_path)
    manifest = build_shards(store, ["toy"])
    samples = {r["sample_id"]: r for r in store.require("gold/toy").read("samples").to_pylist()}
    packed = rows(manifest)
    assert manifest.checks_passed
    assert sorted(r["sample_id"] for r in packed) == sorted(n for n, r in samples.items() if r["split"] == "train")
    for row in packed:
        assert [hashlib.sha256(image["bytes"]).hexdigest() for image in row["images"]] == samples[row["sample_id"]][
            "images"
        ]
        sample = samples[row["sample_id"]]
        assert {**row, "images": sample["images"], "messages": prompt(row["messages"])} == sample
        assert row["messages"][-1]["role"] == "assistant"
        assert row["messages"][-1]["content"] == [{"type": "text", "text": row["answer"], "image_index": None}]


@pytest.mark.slow
def test_index_points_at_the_row_and_its_row_group(tmp_path: Path) -> None:
    manifest = build_shards(gold(tmp_path), ["toy"])
    index = manifest.read("index", ShardIndex.schema)
    for entry in index.to_pylist():
        file = pq.ParquetFile(manifest.file(entry["shard"]))
        before = sum(file.metadata.row_group(g).num_rows for g in range(entry["row_group"]))
        row = file.read_row_group(entry["row_group"]).slice(entry["row"] - before, 1).to_pylist()[0]
        assert row["sample_id"] == entry["sample_id"] and row["tokens"] == entry["tokens"]
    for path in manifest.paths("shard"):
        metadata = pq.ParquetFile(path).metadata
        assert all(metadata.row_group(g).num_rows <= 16 for g in range(metadata.num_row_groups))


def test_a_picture_is_stored_once_a_row_group(tmp_path: Path) -> None:
    manifest = build_shards(gold(tmp_path), ["toy"])
    [path] = manifest.paths("shard")
    metadata = pq.ParquetFile(path).metadata
    column = [i for i in range(metadata.num_columns) if metadata.schema.column(i).path == "images.list.element.bytes"][
        0
    ]
    stored = sum(metadata.row_group(g).column(column).total_compressed_size for g in range(metadata.num_row_groups))
    loose = sum(len(row["images"][0]["bytes"]) for row in rows(manifest))
    assert stored < loose / 3


@pytest.mark.slow
def test_plain_datasets_shows_pictures(tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    manifest = build_shards(gold(tmp_path), ["toy"])
    code = (
        "import sys, json, datasets\n"
        "d = datasets.load_dataset('parquet', data_files=sys.argv[1:], split='train')\n"
        "r = d[0]\n"
        "print(json.dumps([len(d), type(r['images'][0]).__mro__[1].__module__, r['images'][0].size, r['sample_id'],"
        " str(d.features['images']), r['messages'], str(d.features['messages'])]))\n"
    )
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hf"), "HF_DATASETS_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, manifest.paths("shard"))],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    count, module, size, sample, feature, turns, form = json.loads(done.stdout.splitlines()[-1])
    assert count == manifest.rows("index") and module.startswith("PIL") and size == [96, 64]
    assert sample in manifest.read("index")["sample_id"].to_pylist() and "Image" in feature
    packed = next(row for row in rows(manifest) if row["sample_id"] == sample)
    assert turns == packed["messages"] and "'image_index': Value('int32')" in form


def test_held_out_shards_hold_the_test_split_only(tmp_path: Path) -> None:
    store = gold(tmp_path)
    train = build_shards(store, ["toy"])
    test = build_shards(store, ["toy"], asset="evaluations/heldout", splits=("test",))
    assert {r["split"] for r in rows(test)} == {"test"} and {r["split"] for r in rows(train)} == {"train"}
    whole = store.require("gold/toy").rows("samples")
    assert train.rows("index") + test.rows("index") == whole


def test_what_shows_a_held_out_picture_never_trains_even_across_sources(tmp_path: Path) -> None:
    store = gold(tmp_path)
    table = store.require("gold/toy").read("samples")
    leak = next(r for r in table.to_pylist() if r["split"] == "test")
    copy = {**leak, "split": "train", "source": "other", "sample_id": "f" * 32}
    commit_gold(
        store, "other", pa.table({"episode_id": []}, pa.schema([("episode_id", pa.string())])), Samples.table([copy])
    )
    manifest = build_shards(store, ["toy", "other"])
    assert copy["sample_id"] not in manifest.read("index")["sample_id"].to_pylist()
    assert manifest.counts["held_out_picture"] == 1


def test_samples_without_pictures_are_left_out_and_counted(tmp_path: Path) -> None:
    store = gold(tmp_path)
    table = store.require("gold/toy").read("samples").to_pylist()
    table[0]["images"] = []
    table[0]["split"] = "train"
    commit_gold(store, "toy", store.require("gold/toy").read("steps"), Samples.table(table))
    manifest = build_shards(store, ["toy"])
    assert manifest.counts["without_picture"] == 1 and manifest.checks_passed


@pytest.mark.slow
def test_a_rerun_does_nothing_and_a_changed_part_rewrites_only_itself(tmp_path: Path) -> None:
    store = gold(tmp_path, parts=3)
    first = build_shards(store, ["toy"])
    assert build_shards(store, ["toy"]).files == first.files
    gold(store, "more", count=3, seed=9)
    second = build_shards(store, ["toy", "more"])
    assert {e.path for e in first.files} < {e.path for e in second.files}
    fresh = Store(tmp_path / "fresh")
    gold(fresh, parts=3)
    gold(fresh, "more", count=3, seed=9)
    assert build_shards(fresh, ["toy", "more"]).data_version == second.data_version


def test_large_parts_are_cut_into_several_shards(tmp_path: Path) -> None:
    store = gold(tmp_path)
    whole = build_shards(store, ["toy"])
    cut = build_shards(store, ["toy"], config=ShardConfig(shard_bytes=60_000))
    assert len(cut.paths("shard")) > 2
    assert sorted(r["sample_id"] for r in rows(cut)) == sorted(r["sample_id"] for r in rows(whole))


def test_a_damaged_or_missing_picture_stops_the_stage_by_name(tmp_path: Path) -> None:
    store = gold(tmp_path)
    sha = next(r for r in store.require("gold/toy").read("samples").to_pylist() if r["split"] == "train")["images"][0]
    path = store.screen_path(sha)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(StoreError, match=sha):
        build_shards(store, ["toy"])
    path.unlink()
    with pytest.raises(StoreError, match=sha):
        build_shards(store, ["toy"])


@pytest.mark.parametrize("splits", [(), ("training",), ("train", "test")])
def test_bad_splits_are_refused(splits: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="splits|train"):
        ShardConfig(splits=splits)


def test_no_training_data_is_a_failed_check_and_nothing_becomes_current(tmp_path: Path) -> None:
    store = gold(tmp_path)
    table = store.require("gold/toy").read("samples")
    held = Samples.table([row for row in table.to_pylist() if row["split"] == "test"])
    commit_gold(store, "toy", store.require("gold/toy").read("steps"), held)
    manifest = build_shards(store, ["toy"])
    assert not manifest.checks_passed and store.current("mid_training/shards") is None


def test_without_a_held_out_split_the_shards_are_empty_and_warn(tmp_path: Path) -> None:
    store = Store(tmp_path)
    gold(store, count=2)
    manifest = build_shards(store, ["toy"], splits=("validation",), asset="evaluations/heldout")
    [said] = [check for check in manifest.checks if not check.passed]
    assert (said.name, said.blocking) == ("there is something to evaluate on", False)
    assert said.found == f"0 of 0 samples of validation among {manifest.counts['gold_samples']} of gold"
    assert manifest.counts["other_split"] == manifest.counts["gold_samples"] > 0
    held_out = store.require("evaluations/heldout").read("index", ShardIndex.schema)
    assert held_out.num_rows == 0 == len(manifest.paths("shard"))


def test_held_out_samples_that_are_all_left_out_are_a_failed_check(tmp_path: Path) -> None:
    store = gold(tmp_path)
    table = store.require("gold/toy").read("samples").to_pylist()
    blind = [{**row, "images": []} if row["split"] == "test" else row for row in table]
    commit_gold(store, "toy", store.require("gold/toy").read("steps"), Samples.table(blind))
    manifest = build_shards(store, ["toy"], "evaluations/heldout", ("test",))
    assert manifest.counts["without_picture"] > 0 == manifest.rows("index")
    assert not manifest.checks_passed and store.current("evaluations/heldout") is None
