"""A dataset repository as the Hugging Face hub has them: the shards' own columns, for `datasets.load_dataset`."""

import pyarrow as pa

from pipelines.exports.form import ExportForm, datasets_schema, images
from pipelines.exports.records import Sample
from pipelines.training_data.shard_form import SHARD

SCHEMA = datasets_schema([*((field.name, field.type) for field in SHARD), ("score", pa.int32())])


def _row(sample: Sample) -> dict[str, object]:
    return {
        **sample.about,
        **sample.more,
        "split": sample.group.split,
        "messages": sample.turns,
        "answer": sample.answer,
        "target_boxes": sample.boxes,
        "images": images(sample.pictures),
    }


FORM = ExportForm(
    name="hub",
    loader="`datasets`, from this folder or from a hub",
    files="data/{split}-{part}.parquet",
    row=_row,
    schema=SCHEMA,
    loading='import datasets\ndata = datasets.load_dataset("THIS FOLDER", split="train")',
)
