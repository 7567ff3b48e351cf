"""The index of all shards in as little memory as a choice among its rows needs: 36 bytes a row."""

import hashlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

CODED = ("shard", "objective", "source", "platform", "action")
"""Texts that many rows share: a row has the number of its value."""
_NUMBERS = ("tokens", "row", "row_group")
COLUMNS = ["sample_id", *CODED, *_NUMBERS]


def seeded_hashes(sample_ids: Iterable[str], seed: int) -> np.ndarray:
    """hash(sample_id, seed), uint64 [n]."""
    # A separator that no id holds, so that (1, "1a") and (11, "a") are two.
    prefix = f"{seed}\x1f".encode()
    words = [hashlib.blake2b(prefix + name.encode(), digest_size=8).digest() for name in sample_ids]
    # Big-endian as the bytes are written, so the numbers order as the digests do, on any machine.
    return np.frombuffer(b"".join(words), ">u8").astype(np.uint64)


@dataclass(frozen=True)
class IndexColumns:
    """Rows of `ShardIndex` as numpy columns, all of one length."""

    hashes: np.ndarray
    """hash(sample_id, seed): uint64."""
    heads: np.ndarray
    """The first four bytes of the sample ids, which order rows of equal hashes: uint32."""
    tokens: np.ndarray
    row: np.ndarray
    row_group: np.ndarray
    codes: dict[str, np.ndarray]
    """Column of `CODED` → number of each row's value."""
    names: dict[str, list[str]]
    """Column of `CODED` → its values."""

    def __len__(self) -> int:
        return len(self.tokens)

    @classmethod
    def of(cls, tables: Iterable[pa.Table], seed: int, without: Collection[str] = frozenset()) -> "IndexColumns":
        """Tables of `ShardIndex`, without the rows of some samples. One table after another is looked at, so that
        `tables` may read them on the way."""
        names: dict[str, dict[str, int]] = {name: {} for name in CODED}
        parts = [_columns(table, seed, without, names) for table in tables]
        whole = {name: np.concatenate([part.pop(name) for part in parts] or [_NOTHING]) for name in _ALL}
        return cls(
            hashes=whole["hashes"],
            heads=whole["heads"],
            tokens=whole["tokens"],
            row=whole["row"],
            row_group=whole["row_group"],
            codes={name: whole[name] for name in CODED},
            names={name: list(found) for name, found in names.items()},
        )

    def is_of(self, column: str, value: str) -> np.ndarray:
        """Which rows have a value of a column of `CODED`: bool."""
        found = self.names[column]
        # -1 is no number of a value: nothing matches a name that doesn't occur.
        return self.codes[column] == (found.index(value) if value in found else -1)

    def order(self) -> np.ndarray:
        """Rows in the order of their hashes, which places in files have no say in."""
        # lexsort takes its last key first: by hash, then by the beginnings of ids.
        return np.lexsort((self.heads, self.hashes))


_NOTHING = np.zeros(0, np.int64)
_ALL = ("hashes", "heads", *_NUMBERS, *CODED)


def _columns(
    table: pa.Table, seed: int, without: Collection[str], names: dict[str, dict[str, int]]
) -> dict[str, np.ndarray]:
    """The columns of one table; values that are new are added to `names`."""
    ids = table["sample_id"].to_pylist()
    if without:
        stays = [place for place, name in enumerate(ids) if name not in without]
        table, ids = table.take(pa.array(stays, pa.int64())), [ids[place] for place in stays]
    # Four bytes suffice to order the few rows whose 64-bit hashes are equal.
    heads = b"".join(name.encode()[:4].ljust(4, b"\0") for name in ids)
    found = {"hashes": seeded_hashes(ids, seed), "heads": np.frombuffer(heads, ">u4").astype(np.uint32)}
    found |= {name: table[name].to_numpy().astype(np.int32) for name in _NUMBERS}
    for name in CODED:
        coded = pc.dictionary_encode(table[name].combine_chunks())
        numbers = [names[name].setdefault(value, len(names[name])) for value in coded.dictionary.to_pylist()]
        # Shards can be many thousands; values of the other columns are few.
        kind = np.int32 if name == "shard" else np.int16
        found[name] = np.array(numbers, kind)[np.asarray(coded.indices)]
    return found
