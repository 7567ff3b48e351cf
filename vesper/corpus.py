"""Rows of a version of an asset: as Arrow, in pandas, as a data set of `datasets`, or one by one.

Pictures and chats are handed out in one form wherever a row lies: `images` as encoded bytes, though a table of samples
holds the digests of screens; `messages` as turns with the answer as the last, though such a table holds the prompt as
JSON. Only `arrow`, `batches` and `pandas` give the columns as they are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from pipelines.extras import telling_extras
from pipelines.store import Manifest
from pipelines.training_data.chat_turns import TURNS, trained_turns
from pipelines.training_data.shard_form import IMAGE
from schemas.settings import nearest

if TYPE_CHECKING:
    import datasets
    import pandas

Names = str | Sequence[str] | None
"""A value of a column, several of them, or None for all."""
Row = dict[str, object]
BATCH_ROWS = 64
"""Rows that are read at a time where they come one by one: at a megabyte of pictures each, these are 64 MB."""
SHARD = "shard"
"""Table of packed samples: their pictures lie in it."""
TABLES = (SHARD, "samples", "tasks", "steps")
"""Which table of an asset is meant where none is named: the first of these that it has."""


class Rows:
    """Rows of one committed version, read whenever they are asked for: nothing of them is kept or copied to disk."""

    def __init__(
        self, manifest: Manifest, table: str, filters: Mapping[str, Names], screen: Callable[[str], bytes]
    ) -> None:
        """`filters`: column → what it may be; `screen`: digest of a picture → its bytes. Raises `ValueError` for a
        table, a column or a value that isn't there."""
        self.asset, self.version, self.table = manifest.asset, manifest.version, _table_of(manifest, table)
        self._screen = screen
        self._files = ds.dataset([str(path) for path in manifest.paths(self.table)], format="parquet")
        self._filter = self._where(filters)

    def __repr__(self) -> str:
        return f"<{len(self)} rows of {self.table} of {self.asset}@{self.version}>"

    def __len__(self) -> int:
        return int(self._files.count_rows(filter=self._filter))

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self._files.schema.names)

    def arrow(self, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows as stored, in memory."""
        return self._files.to_table(columns=self._known(columns), filter=self._filter)

    def batches(self, columns: Sequence[str] | None = None, rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """The same in pieces of at most `rows` rows, for what is larger than memory."""
        found = self._files.to_batches(columns=self._known(columns), filter=self._filter, batch_size=rows)
        return (batch for batch in found if batch.num_rows)

    def pandas(self, columns: Sequence[str] | None = None) -> pandas.DataFrame:
        """All rows as stored, as a data frame. Raises `MissingExtra` without pandas."""
        with telling_extras():
            import pandas  # noqa: F401  Arrow would say only that it is missing, and not how to come by it
        return self.arrow(columns).to_pandas()

    def __iter__(self) -> Iterator[Row]:
        """Rows as dicts, pictures and chats as the module says; in memory are those of one batch."""
        for batch in self.batches():
            yield from self._handed_out(batch.to_pylist())

    def dataset(self) -> datasets.Dataset:
        """All rows as a data set in memory, `images` as pictures that are decoded when they are looked at. Raises
        `MissingExtra` without `datasets`."""
        with telling_extras():
            from datasets import Dataset, DatasetInfo
        schema = self._stated()
        tables = [
            pa.Table.from_pylist([_encoded(row) for row in self._handed_out(batch.to_pylist())], schema)
            for batch in self.batches()
        ]
        return Dataset(pa.concat_tables(tables or [schema.empty_table()]), DatasetInfo(features=self._features(schema)))

    def stream(self) -> datasets.IterableDataset:
        """The same one by one, for what is larger than memory."""
        with telling_extras():
            from datasets import IterableDataset
        return IterableDataset.from_generator(self.__iter__, features=self._features(self._stated()))

    def _features(self, schema: pa.Schema) -> datasets.Features:
        from datasets import Features, Image, List  # whoever calls has imported it

        features = Features.from_arrow_schema(schema)
        return Features({**features, "images": List(Image())}) if "images" in features else features

    def _stated(self) -> pa.Schema:
        """The schema of a data set's rows. What the shards' metadata tell `datasets` is left out: it describes the
        columns as stored."""
        fields = {field.name: field.type for field in self._files.schema}
        if "images" in fields:
            fields["images"] = pa.list_(IMAGE)
        if "messages" in fields and pa.types.is_string(fields["messages"]):
            fields["messages"] = TURNS
        return pa.schema(list(fields.items()))

    def _handed_out(self, rows: Iterable[dict[str, Any]]) -> Iterator[Row]:
        for row in rows:
            if "images" in row:
                row["images"] = [
                    picture["bytes"] if isinstance(picture, dict) else self._screen(picture)
                    for picture in row["images"]
                ]
            if isinstance(row.get("messages"), str):
                row["messages"] = trained_turns(row["messages"], row["answer"])
            yield row

    def _known(self, columns: Sequence[str] | None) -> list[str] | None:
        for name in columns or ():
            self._require(name)
        return None if columns is None else list(columns)

    def _require(self, column: str) -> None:
        if column not in self.columns:
            raise ValueError(f"{self.asset}: {self.table} has no column {column!r}; {nearest(column, self.columns)}")

    def _where(self, filters: Mapping[str, Names]) -> pc.Expression | None:
        where = None
        for column, given in filters.items():
            if given is None:
                continue
            self._require(column)
            values = [given] if isinstance(given, str) else list(given)
            known = pc.unique(self._files.to_table(columns=[column])[column]).drop_null().to_pylist()
            for value in values:
                if value not in known:  # no rows would look like an answer, and mostly it is a word misspelt
                    raise ValueError(
                        f"{self.asset}@{self.version}: no row has the {column} {value!r}; {nearest(str(value), known)}"
                    )
            one = pc.field(column).isin(values)
            where = one if where is None else where & one
        return where


def _encoded(row: Row) -> Row:
    """Pictures as the storage of `datasets` has them."""
    pictures = row.get("images")
    return {**row, "images": [{"bytes": one} for one in pictures]} if isinstance(pictures, list) else row


def _table_of(manifest: Manifest, table: str) -> str:
    there = sorted({entry.table for entry in (*manifest.files, *manifest.side_files) if entry.table})
    found = table or next((name for name in TABLES if name in there), "")
    if found not in there:
        if not there:
            raise ValueError(f"{manifest.asset}@{manifest.version}: expected an asset with tables, found none in it")
        stated = nearest(table, there) if table else f"name one with table=: {', '.join(there)}"
        raise ValueError(f"{manifest.asset}@{manifest.version}: no table {table!r}; {stated}")
    return found
