"""What a form of export is: who loads it, where its files lie, and the function that writes them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import pyarrow as pa

from pipelines.exports.records import Picture
from pipelines.exports.sinks import Row
from pipelines.training_data.shard_form import IMAGE, features_of
from schemas.tables import OBJECTIVES

Record = TypeVar("Record")
Rows = Mapping[str, int]
"""Split → rows of it."""
ABOUT = [
    ("sample_id", pa.string()),
    ("source", pa.string()),
    ("licence", pa.string()),
    ("objective", pa.string()),
    ("platform", pa.string()),
    ("score", pa.int32()),
]
"""Columns of `Sample.about`."""


def _none(rows: Rows) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class ExportForm(Generic[Record]):
    """A form that a trainer loads. `files` is the path of a part by `split` and `part`."""

    name: str
    loader: str
    """Who loads it, in words."""
    files: str
    row: Callable[[Record], Row]
    """What stands in the file for a record: columns, an object, or (tar) files."""
    loading: str
    """Code that loads the export, for its card; THIS FOLDER stands for the export's."""
    language: str = "python"
    notes: str = ""
    """What its users should know, for its card."""
    schema: pa.Schema | None = None
    """Of parquet files."""
    objectives: tuple[str, ...] = OBJECTIVES
    """Objectives that it can express; rows of others are left out."""
    loose_pictures: bool = False
    """Whether pictures lie as files beside the parts, instead of in them."""
    beside: Callable[[Rows], Mapping[str, str]] = _none
    """Further files of an export, name → text, by the rows of each split."""
    version: str = "1"
    """Raise it when the form writes something else from equal rows."""


def datasets_schema(columns: Sequence[tuple[str, pa.DataType]]) -> pa.Schema:
    """A parquet schema that `datasets` reads with its types, and pictures as pictures."""
    fields = [pa.field(name, kind) for name, kind in columns]
    return pa.schema(fields, metadata=features_of(fields))


IMAGES = pa.list_(IMAGE)


def images(pictures: Sequence[Picture]) -> list[dict[str, object]]:
    """Pictures as a value of the type `IMAGES`."""
    return [{"bytes": picture.data, "path": None} for picture in pictures]
