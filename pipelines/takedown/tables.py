"""Which rows of which tables mean something that was taken down, and the tables without them.

A row means it if a text of it, or of a list in it, is one of the names (`TakenDown.names`, with or without the version
of a repair), if its source and episode are one (or its trajectory, which is a generated episode), or if its provenance
names the native record. Columns are never listed by table: one that comes later is looked at like the others.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.takedown.withdrawn import REASON, TakenDown
from pipelines.training_data.chat_turns import with_prompts
from schemas.ids import GENERATED_SOURCE, texts_within

_ID_COLUMNS = (
    "source",
    "episode_id",
    "trajectory_id",
    "screenshot_sha256",
    "sample_id",
    "task_id",
    "images",
    "parents",
    "provenance",
    "instruction",
    "step_instruction",
    "answer",
    "thought",
    "conclusion",
    "messages",
    "text",
)
_PLACE = tuple(rf'"{name}":"(?P<x>(?:[^"\\]|\\.)*)"' for name in ("file", "locator"))
_RECORD = r'"record":"(?P<record>(?:[^"\\]|\\.)*)"'


@dataclass
class SearchTerms:
    """What to look for in one store."""

    names: pa.Array
    records: dict[str, set[str]]
    """Source → JSON strings of native ids."""
    places: dict[str, set[str]]
    """Source → file NUL locator."""
    nameless: dict[str, set[str]]
    """The same of records without a native id."""

    @classmethod
    def of(cls, taken: TakenDown, *, shown: bool) -> "SearchTerms":
        """`shown`: whether a row that shows a removed picture goes too; else only where a list named the picture."""
        # A picture that only went along takes no other rows with it while names are still being found.
        names = taken.episodes | taken.samples | (taken.screens if shown else taken.asked_screens)
        records = {source: {_inner(name) for name in found} for source, found in taken.records.items()}
        places = {source: {"\0".join(place) for place in found} for source, found in taken.places.items()}
        nameless = {
            source: {"\0".join(map(_inner, place)) for place in found} for source, found in taken.nameless.items()
        }
        return cls(pa.array(sorted(names), pa.string()), records, places, nameless)


def _inner(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def matches(table: pa.Table, terms: SearchTerms) -> np.ndarray:
    """Which rows mean something that was taken down: bool [rows]."""
    hit = np.zeros(table.num_rows, bool)
    for name in table.column_names:
        hit |= _in_column(table[name], terms)
    columns = set(table.column_names)
    if {"source", "episode_id"} <= columns:
        hit |= _isin(pc.binary_join_element_wise(table["source"], table["episode_id"], "/"), _episodes(terms.names))
    if "trajectory_id" in columns:  # a row about an execution has no source: all of them are generated
        hit |= _isin(pc.binary_join_element_wise(GENERATED_SOURCE, table["trajectory_id"], "/"), _episodes(terms.names))
    if "source" in columns:
        hit |= _by_record(table, columns, terms)
    return hit


def _episodes(names: pa.Array) -> pa.Array:
    episodes = names.filter(pc.starts_with(names, "episode:"))
    return pc.utf8_slice_codeunits(episodes, len("episode:"))


def _isin(column: object, wanted: pa.Array) -> np.ndarray:
    found = pc.fill_null(pc.is_in(column, wanted), False)
    whole = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
    return np.asarray(whole.to_numpy(zero_copy_only=False), bool)


def _in_column(column: pa.ChunkedArray, terms: SearchTerms) -> np.ndarray:
    """Texts, lists of texts, and the paths of pictures in shards."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _meant(column, terms)
    if pa.types.is_list(kind) and (pa.types.is_string(kind.value_type) or _is_picture(kind.value_type)):
        whole = column.combine_chunks()
        values = whole.flatten()
        if pa.types.is_struct(values.type):
            # Pictures in shards are named by their hash; the ending goes.
            values = pc.replace_substring_regex(values.field("path"), r"\.[a-z]+$", "")
        owners = pc.list_parent_indices(whole).to_numpy(zero_copy_only=False)
        hit = np.zeros(len(column), bool)
        hit[owners[_meant(values, terms)]] = True
        return hit
    return np.zeros(len(column), bool)


def _is_picture(kind: pa.DataType) -> bool:
    return pa.types.is_struct(kind) and kind.get_field_index("path") >= 0


def _meant(values: object, terms: SearchTerms) -> np.ndarray:
    # Versions and single steps stand for the item and the episode that were taken down.
    cut = pc.replace_substring_regex(values, r"@r\d+$", "")
    cut = pc.replace_substring_regex(cut, r"^step:(.*)/\d+$", r"episode:\1")
    return _isin(pc.replace_substring_regex(cut, "^sample:", ""), terms.names)


def _by_record(table: pa.Table, columns: set[str], terms: SearchTerms) -> np.ndarray:
    """By the native record that a row came from: its id, or for a quarantined one its place."""
    hit = np.zeros(table.num_rows, bool)
    for source in {*terms.records, *terms.places, *terms.nameless}:
        mine = _isin(table["source"], pa.array([source]))
        if not mine.any():
            continue
        records = pa.array(sorted(terms.records.get(source, ())), pa.string())
        for column in {"provenance", "native"} & columns:
            text = table[column].combine_chunks()
            found = pc.extract_regex(text, _RECORD).field("record")
            hit |= mine & _isin(found, records)
        if "provenance" in columns and terms.nameless.get(source):
            text = table["provenance"].combine_chunks()
            parts = [pc.struct_field(pc.extract_regex(text, form), "x") for form in _PLACE]
            found = pc.binary_join_element_wise(*parts, "\0")
            # Only rows without a native id: the place alone would also meet rows that moved there since.
            unnamed = np.asarray(pc.match_substring(text, '"record":null').to_numpy(zero_copy_only=False), bool)
            hit |= mine & unnamed & _isin(found, pa.array(sorted(terms.nameless[source]), pa.string()))
        if {"file", "record", "reason"} <= columns:
            places = pc.binary_join_element_wise(table["file"], table["record"], "\0")
            ours = _isin(table["reason"], pa.array([REASON]))  # what the ingest left in a record's place
            hit |= mine & ~ours & _isin(places, pa.array(sorted(terms.places.get(source, ())), pa.string()))
    return hit


def id_rows(path: Path) -> pa.Table | None:
    """The columns of a table that tell what its rows are; None if it has no ids."""
    file = pq.ParquetFile(path)
    kinds = dict(zip(file.schema_arrow.names, file.schema_arrow.types, strict=True))
    if not kinds.keys() & {"episode_id", "trajectory_id", "sample_id", "task_id"}:
        return None
    return with_prompts(file.read([name for name in _ID_COLUMNS if name in kinds and not _holds_bytes(kinds[name])]))


def _holds_bytes(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) and _is_picture(kind.value_type)


def texts_of(row: Mapping[str, Any]) -> Iterator[str]:
    """All texts of a row, those within JSON too."""
    for name in ("instruction", "step_instruction", "answer", "thought", "conclusion", "text"):
        if row.get(name):
            yield row[name]
    if row.get("messages"):
        yield from texts_within(json.loads(row["messages"]))
