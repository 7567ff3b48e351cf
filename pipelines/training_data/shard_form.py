"""How shards look on disk: their columns, their settings, and how a file is written."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.training_data.chat_turns import MEANING, TURNS
from schemas.tables import BOX, SPLITS, Column, Samples, Table

ROW_GROUP_ROWS = 16
SHARD_BYTES = 128 * 2**20
"""Of pictures and text before compression; a shard is closed once it has this much."""
_DICTIONARY_BYTES = 64 * 2**20

IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
"""The storage type of Hugging Face's Image feature."""


class ShardIndex(Table, version=2):
    """Where each packed sample lies."""

    sample_id = Column(pa.string(), "item id of the sample")
    shard = Column(pa.string(), "file that holds it")
    row = Column(pa.int32(), "row of the file, from 0")
    row_group = Column(pa.int32(), "row group of the file, from 0")
    tokens = Column(pa.int32(), "length, counted as the table of samples says")
    objective = Column(pa.string(), "perception, vqa, grounding or navigation")
    source = Column(pa.string(), "name of the dataset")
    platform = Column(pa.string(), "mobile, web or desktop")
    split = Column(pa.string(), "train, validation or test")
    action = Column(pa.string(), "type of the action that a navigation sample answers with; empty for others")


def _feature(dtype: pa.DataType) -> dict[str, Any]:
    if dtype == IMAGE:
        return {"_type": "Image"}
    if pa.types.is_fixed_size_list(dtype):
        return {"feature": _feature(dtype.value_type), "length": dtype.list_size, "_type": "List"}
    if pa.types.is_list(dtype):
        return {"feature": _feature(dtype.value_type), "_type": "List"}
    if pa.types.is_struct(dtype):
        return {field.name: _feature(field.type) for field in dtype}
    return {"dtype": "float32" if dtype == pa.float32() else str(dtype), "_type": "Value"}


def shard_schema() -> pa.Schema:
    """`Samples` with `images` as list<struct<bytes, path>>, `messages` as typed turns with the answer as the last (see
    `chat_turns`), and the features key that `datasets` reads."""
    other = {"images": pa.list_(IMAGE), "messages": TURNS}
    # `datasets` takes its features from the metadata only where a field is nullable; nulls are excluded by `Samples`.
    fields = [pa.field(f.name, other.get(f.name, f.type)) for f in Samples.schema]
    metadata = {**(Samples.schema.metadata or {}), **features_of(fields)}
    return pa.schema(fields, metadata={**metadata, b"vesper.table": b"shard"})


def features_of(fields: Sequence[pa.Field]) -> dict[bytes, str]:
    """The metadata of a schema from which `datasets` knows what columns hold, pictures among them."""
    features = {field.name: _feature(field.type) for field in fields}
    return {b"huggingface": json.dumps({"info": {"features": features}})}


SHARD = shard_schema()
MEANINGS = {**Samples.meanings, "images": "the screenshots, encoded, in order of use", "messages": MEANING}
"""What stands in each column of a shard."""


@dataclass(frozen=True, slots=True)
class ShardConfig:
    """What enters the shards' config hash."""

    splits: tuple[str, ...] = ("train",)
    row_group_rows: int = ROW_GROUP_ROWS
    shard_bytes: int = SHARD_BYTES
    exclude_held_out_pictures: bool = True
    """Leave out of training shards what shows a picture (same bytes) that a validation or test sample shows."""

    def __post_init__(self) -> None:
        if not self.splits or set(self.splits) - set(SPLITS):
            raise ValueError(f"shards: expected splits of {SPLITS}, found {self.splits}")
        if not 1 <= self.row_group_rows <= ROW_GROUP_ROWS:
            raise ValueError(f"shards: expected row groups of 1 to {ROW_GROUP_ROWS} rows, found {self.row_group_rows}")
        # Else evaluation rows would be in shards that train.
        if "train" in self.splits and len(self.splits) > 1:
            raise ValueError(f"shards: train can't be packed together with other splits, found {self.splits}")


def write_shard(path: Path, groups: Iterable[pa.Table], config: ShardConfig) -> None:
    """A shard's file, each table a row group (or several, of `config.row_group_rows`). Groups that were read from an
    older shard keep its form."""
    # The first group tells the schema, before anything can be written.
    following = iter(groups)
    first = next(following, None)
    schema = SHARD if first is None else first.schema
    leaves = _leaves(schema)
    pictures = "images.list.element.bytes"
    with pq.ParquetWriter(
        path,
        schema,
        # Pictures are compressed already (PNG, JPEG); a second time costs and gains nothing.
        compression={leaf: "NONE" if leaf == pictures else "ZSTD" for leaf in leaves},
        use_dictionary=True,
        # Large enough for all pictures of a row group: past the limit parquet gives up the dictionary, and
        # writes a picture once a row.
        dictionary_pagesize_limit=_DICTIONARY_BYTES,
        # Those by which somebody looks for rows; of pictures they would be copies.
        write_statistics=[leaf for leaf in leaves if leaf in ("sample_id", "objective", "source", "tokens")],
        store_schema=True,
    ) as writer:
        for group in following if first is None else chain([first], following):
            writer.write_table(group, row_group_size=config.row_group_rows)


def _leaves(schema: pa.Schema) -> list[str]:
    """Paths of the parquet leaf columns of a schema."""
    sink = pa.BufferOutputStream()
    # Written empty and read back: which leaves parquet makes of nested columns is its own matter.
    pq.write_table(schema.empty_table(), sink)
    written = pq.ParquetFile(sink.getvalue()).schema
    return [written.column(i).path for i in range(len(written.names))]


assert SHARD.field("target_boxes").type == pa.list_(BOX)
