"""A folder that `vesper shard` wrote: `datasets` opens its samples with their pictures, whatever lies beside them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from goldmaker import gold

from pipelines.commands import shard_directory
from pipelines.engines.run_parts import Execution
from pipelines.engines.settings import EngineSettings
from pipelines.store import Store
from pipelines.training_data.reader import ShardReader
from schemas.tables import Samples

CODE = """
import sys, json, datasets
folder, streaming = sys.argv[1], sys.argv[2] == "streaming"
names = datasets.get_dataset_split_names(folder)
rows = list(datasets.load_dataset(folder, split=names[0], streaming=streaming))
features = datasets.load_dataset(folder, split=names[0]).features
print(json.dumps([names, sorted(r["sample_id"] for r in rows), str(features["images"]), rows[0]["images"][0].size]))
"""


def plain_folder(store: Store, folder: Path) -> Path:
    """Gold as `vesper refine` writes it."""
    folder.mkdir()
    pq.write_table(store.require("gold/toy").read("samples", Samples.schema), folder / "samples.parquet")
    for picture in (store.home / "screens").glob("*/*"):
        (folder / "screens" / picture.parent.name).mkdir(parents=True, exist_ok=True)
        (folder / "screens" / picture.parent.name / picture.name).write_bytes(picture.read_bytes())
    return folder


def read(folder: Path) -> set[str]:
    reader = ShardReader.from_paths([folder], global_batch=1)
    return {row["sample_id"] for number in range(reader.batches_per_epoch) for row in reader.batch(0, number)}


@pytest.fixture
def written(tmp_path: Path) -> Path:
    given, out = plain_folder(gold(tmp_path / "home"), tmp_path / "gold"), tmp_path / "out"
    (out / ".store").mkdir(parents=True)
    (out / "shards").mkdir()
    pq.write_table(pa.table({"old": [1]}), out / "shards" / "toy-000.parquet")  # where shards once lay
    shard_directory(given, out, ("train",))
    return out


@pytest.mark.slow
def test_each_file_is_a_part_and_any_engine_packs_the_same(tmp_path: Path) -> None:
    given = plain_folder(gold(tmp_path / "home"), tmp_path / "gold")
    whole = shard_directory(given, tmp_path / "whole", ("train",))
    table = pq.read_table(given / "samples.parquet")
    (given / "samples.parquet").unlink()
    for number, name in enumerate(("samples-a", "samples-b (1)", "samples-b_(1)")):
        pq.write_table(table.slice(number * 80, 80 if number < 2 else None), given / f"{name}.parquet")
    told: dict[str, dict[str, object]] = {}
    for runner in ("in-process", "processes"):
        execution = Execution(EngineSettings(runner=runner, workers=2))
        told[runner] = shard_directory(given, tmp_path / runner, ("train",), execution=execution)
    assert told["in-process"] == told["processes"]
    assert (told["processes"]["samples"], told["processes"]["shards"]) == (whole["samples"], 3)
    assert read(tmp_path / "processes") == read(tmp_path / "whole")


@pytest.mark.parametrize("mode", ["whole", "streaming"])
def test_datasets_opens_the_folder(written: Path, tmp_path: Path, mode: str) -> None:
    pytest.importorskip("datasets")
    pq.write_table(pa.table({"note": ["mine"]}), written / "notes.parquet")
    (written / "train.json").write_text('[{"note": "mine"}]')
    (written / "picture.png").write_bytes(b"none of the samples")
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hf"), "HF_DATASETS_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(written), mode],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    names, samples, feature, size = json.loads(done.stdout.splitlines()[-1])
    assert names == ["train"] and "Image" in feature and size == [96, 64]
    assert samples == sorted(pq.read_table(written / "index.parquet")["sample_id"].to_pylist()) and len(samples) > 10


def test_the_reader_takes_the_folder_in_either_layout(written: Path, tmp_path: Path) -> None:
    assert not list((written / "shards").glob("*.parquet")), "shards of an earlier version don't stay beside the new"
    new = read(written)
    (written / "data").rename(written / "shards2")
    (written / "shards").rmdir()
    (written / "shards2").rename(written / "shards")
    assert read(written) == new and len(new) > 10
    (tmp_path / "none").mkdir()
    with pytest.raises(ValueError, match=r"expected shards \(data/\*.parquet\)"):
        ShardReader.from_paths([tmp_path / "none"])


def test_a_split_without_a_sample_is_an_error_that_says_which_there_are(tmp_path: Path) -> None:
    given = plain_folder(gold(tmp_path / "home"), tmp_path / "gold")
    samples = pq.read_table(given / "samples.parquet")
    pq.write_table(samples.filter(pa.compute.field("split") == "train"), given / "samples.parquet")
    with pytest.raises(ValueError, match=r"expected samples of the split validation or test, found train \d+; see"):
        shard_directory(given, tmp_path / "out", ("validation", "test"))


def test_the_card_says_what_the_samples_are(written: Path) -> None:
    card = (written / "README.md").read_text()
    assert card.startswith("---\nconfigs:\n") and "| `images` |" in card and "| source | toy" in card
