"""Four ranks read the shards of a store once between them, and train on the rows that one process would."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import pyarrow.parquet as pq
import pytest
import torch
from goldmaker import gold
from two_ranks import on_ranks

from pipelines.store import Store
from pipelines.store.files import file_sha256
from pipelines.training_data import shard_files
from pipelines.training_data.mixture import build_mixture
from pipelines.training_data.shard_form import ShardConfig
from pipelines.training_data.shards import build_shards
from trainer.data.rows import light_rows
from trainer.data.stream import MixtureSource
from trainer.midtrain.global_batch import GlobalBatches, StreamPosition
from trainer.midtrain.schedule import scheduled
from trainer.modeling.processor import Processor
from trainer.modeling.tokenizer import train_tokenizer
from trainer.presets import image_processor
from trainer.runtime.parallel import Ranks, launched
from trainer.settings.supervised import MidtrainConfig

pytestmark = pytest.mark.real_parts

CONFIG = MidtrainConfig(batch_size=8, threads=1, max_length=400, packing_window=40)
FORMS: dict[str, dict[str, Any]] = {
    "rows": {},
    "packed": {"packing": True, "batch_size": 4},
    "scheduled": {"schedule": ((1.0, {"grounding": 0.7, "navigation": 0.3}),)},
}
STEPS = 4


def batches(home: Path, preset: Any, form: str, group: Ranks) -> list[list[int]]:
    """Label ids of the samples that this rank trains on in some steps, a list a sample."""
    store = Store(home)
    mixture = store.require("mid_training/mixture")
    config = CONFIG.changed(**FORMS[form])
    rows = light_rows(store.require("mid_training/shards"))
    source = scheduled(MixtureSource(store, mixture, seed=3), config, rows)
    processor = Processor(train_tokenizer([row["answer"] for row in rows], 1400), image_processor(preset), preset)
    stream = GlobalBatches(source, processor, config, group, StreamPosition())
    found = []
    for step in [stream.next() for _ in range(STEPS)]:
        (batch,) = step.batches
        for labels in batch.labels[0].split(batch.lengths or []):
            if (labels != -100).any():
                found.append(labels[labels != -100].tolist())
    return found


class CountedFile(shard_files._File):
    """Notes each row group that is read, and its bytes."""

    read: ClassVar[list[tuple[str, int, int]]] = []

    def __init__(self, path: Path, columns: Any) -> None:
        super().__init__(path, columns)
        self.path = path

    def group(self, number: int) -> Any:
        size = pq.read_metadata(self.path).row_group(number).total_byte_size
        self.read.append((self.path.name, number, size))
        return super().group(number)


def counted(home: Path, preset: Any, form: str, group: Ranks) -> dict[str, Any]:
    """The samples that a rank trains on, the row groups that it reads, and the files that it holds to their digests."""
    checked: list[str] = []

    def digest_of(path: Path) -> str:
        checked.append(path.name)
        return file_sha256(path)

    CountedFile.read.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shard_files, "_File", CountedFile)
        patch.setattr(shard_files, "file_sha256", digest_of)
        samples = batches(home, preset, form, group)
    return {"samples": samples, "read": list(CountedFile.read), "checked": checked}


def on_a_rank(home: Path, preset: Any, out: Path) -> None:
    """What each of four processes does."""
    torch.set_num_threads(1)
    with launched() as group:
        found = {form: counted(home, preset, form, group) for form in FORMS}
    (out / f"{group.rank}.json").write_text(json.dumps(found))


@pytest.fixture(scope="module")
def four_ranks(tmp_path_factory: pytest.TempPathFactory, small: Any) -> tuple[Path, list[dict[str, Any]]]:
    folder = tmp_path_factory.mktemp("four")
    store = gold(folder / "home", count=20, parts=2)
    build_shards(store, ["toy"], config=ShardConfig(row_group_rows=8, shard_bytes=10_000))
    build_mixture(store)
    on_ranks(4, on_a_rank, folder / "home", small, folder)
    return folder / "home", [json.loads((folder / f"{rank}.json").read_text()) for rank in range(4)]


@pytest.mark.parametrize("form", FORMS)
def test_each_byte_is_read_by_one_rank_and_each_row_trained_on_by_one(
    form: str, four_ranks: tuple[Path, list[dict[str, Any]]], small: Any
) -> None:
    home, told = four_ranks
    alone = counted(home, small, form, Ranks())
    found = [rank[form] for rank in told]
    assert len({name for name, _, _ in alone["read"]}) >= 8  # each rank has shards of its own
    read = sorted(tuple(one) for rank in found for one in rank["read"])
    assert read == sorted(alone["read"]) and len(set(read)) == len(read)
    assert sum(size for _, _, size in read) == sum(size for _, _, size in alone["read"])
    assert sorted(name for rank in found for name in rank["checked"]) == sorted(alone["checked"])
    assert all(rank["read"] and rank["samples"] for rank in found)
    assert sorted(ids for rank in found for ids in rank["samples"]) == sorted(alone["samples"])
