"""Which pictures of the store files name."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.store.files import StoreError

_SHA256 = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
_TEXTS = frozenset({".csv", ".html", ".journal", ".json", ".jsonl", ".md", ".sqlite", ".sqlite-wal", ".txt"})
"""Files that may name a picture in plain bytes."""
_BATCH_ROWS = 16_384


def named_screens(paths: Iterable[Path]) -> set[str]:
    """sha256 (hex) of all that could be one in tables and plain texts: a superset of the pictures they name. Raises
    `StoreError` for a file that can't be read: what it names isn't known then."""
    found: set[str] = set()
    for path in paths:
        # A file that can't be read might name any picture, so nothing may be collected.
        try:
            if path.suffix == ".parquet":
                found |= _in_table(path)
            elif path.suffix in _TEXTS:
                found |= {match.decode() for match in _SHA256.findall(path.read_bytes())}
        except (OSError, pa.ArrowException) as error:
            raise StoreError(f"{path}: can't be read, so which pictures it needs isn't known: {error}") from error
    return found


def _in_table(path: Path) -> set[str]:
    file = pq.ParquetFile(path)
    # Texts alone: the bytes of pictures in shards would take hours to look through, and name nothing.
    leaves = [file.schema.column(place) for place in range(len(file.schema))]
    texts = [leaf.path for leaf in leaves if leaf.logical_type.type == "STRING"]  # the pictures in shards aren't read
    found: set[str] = set()
    if not texts:
        return found
    for batch in file.iter_batches(_BATCH_ROWS, columns=texts):
        for column in batch.columns:
            for leaf in _leaves(column):
                # Filtered in Arrow first: most texts hold no hash, and Python sees only those that do.
                whole = pc.unique(leaf.filter(pc.match_substring_regex(leaf, "[0-9a-f]{64}")))
                for text in whole.to_pylist():
                    found |= {match.decode() for match in _SHA256.findall(text.encode())}
    return found


def _leaves(column: pa.Array) -> Iterator[pa.Array]:
    """The text leaves of a column, whatever it nests."""
    kind = column.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        yield from _leaves(column.flatten())
    elif pa.types.is_struct(kind):
        for inner in column.flatten():
            yield from _leaves(inner)
    elif pa.types.is_dictionary(kind):
        yield from _leaves(column.dictionary)
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        # Nulls would come out as Python's None, which the regular expression doesn't take.
        yield column.filter(column.is_valid())
