"""TRL's SFTTrainer: conversational `messages` with typed parts, and `images`."""

from collections.abc import Sequence

import pyarrow as pa

from pipelines.exports.form import ABOUT, IMAGES, ExportForm, datasets_schema, images
from pipelines.exports.records import Sample, unmarked
from pipelines.training_data.chat_turns import Turn

TYPED_TURNS = pa.list_(
    pa.struct([("role", pa.string()), ("content", pa.list_(pa.struct([("type", pa.string()), ("text", pa.string())])))])
)
"""Turns with parts that have no place of their picture: TRL fills pictures in, in order."""
SCHEMA = datasets_schema([("messages", TYPED_TURNS), ("images", IMAGES), *ABOUT])


def typed_turns(turns: Sequence[Turn]) -> list[dict[str, object]]:
    """Turns as a value of `TYPED_TURNS`, their texts without control tokens."""
    return [
        {
            "role": turn["role"],
            "content": [
                {"type": part["type"], "text": part["text"] and unmarked(part["text"], ())} for part in turn["content"]
            ],
        }
        for turn in turns
    ]


def _row(sample: Sample) -> dict[str, object]:
    return {"messages": typed_turns(sample.turns), "images": images(sample.pictures), **sample.about}


FORM = ExportForm(
    name="trl",
    loader="TRL (`SFTTrainer` with a processor)",
    files="data/{split}-{part}.parquet",
    row=_row,
    schema=SCHEMA,
    loading="import datasets\nfrom trl import SFTConfig, SFTTrainer\n"
    'data = datasets.load_dataset("THIS FOLDER", split="train")\n'
    "SFTTrainer(model, train_dataset=data, processing_class=processor, args=SFTConfig(max_length=None))",
    version="2",
)
