"""Which rows of a source belong together, whatever file they came from.

A *bucket* is a share of a source's rows, decided by a digest of what its stages compare: an episode's steps, and the
samples of one picture, are never parted. How many buckets there are follows from the number of rows alone. So the parts
that all later stages work on are the same however the native files were cut, grouped or ordered.

A digest is 16 bits; bucket k of n (a power of two) holds those whose first bits are k.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.mapping.columns import codes_of, plain, sorted_steps
from pipelines.mapping.fullest_list import is_fuller
from schemas.tables import Quarantine, Samples, Screens, Steps, Table

BUCKET_ROWS = 8_192
"""Steps and samples of a bucket, at most on average: a judge keeps that many in memory, and a bucket is what is done
anew after a change."""
DIGEST = "bucket"
"""The column of mapped tables that holds the digest."""
_BITS = 16
_CELL_BITS = 8
"""A screen that rows of many buckets show is written once for each of 256 ranges of them, not once a row."""
TABLES: dict[str, type[Table]] = {"steps": Steps, "samples": Samples, "screens": Screens, "quarantine": Quarantine}


def bucket_count(rows: int) -> int:
    """Buckets of a source of so many steps and samples: a power of two, so that a source that grows splits each bucket
    in two now and then, and moves no row otherwise."""
    # A power of two: k and 2k of the doubled count hold exactly what k held, so growth splits buckets and
    # mixes none.
    return min(1 << max(0, -(-rows // BUCKET_ROWS) - 1).bit_length(), 1 << _BITS)


def digests(name: str, table: pa.Table) -> np.ndarray:
    """The digest of each row of the table `name`: uint16 [rows]. Steps go by their episode; samples by their first
    picture, or by their id where they have none; what was quarantined by its place in the native files."""
    return _DIGESTS[name](table)


def with_digests(name: str, table: pa.Table) -> pa.Table:
    """The table in order of its rows' digests, which stand in one column more."""
    found = digests(name, table)
    # Stable, so that rows of one digest stay in the order in which they came; `_SORTED` orders them by key
    # later.
    order = np.argsort(found, kind="stable")
    rows = [plain(column).take(pa.array(order)) for column in table.columns]
    return pa.Table.from_arrays([*rows, pa.array(found[order])], schema=table.schema.append(_FIELD))


def screens_with_digests(screens: pa.Table, steps: pa.Table | None, samples: pa.Table | None) -> pa.Table:
    """Screens as `with_digests`, each once for every range of digests with a row that shows it. A screen that no row
    shows (its item was refused) is of no use to any stage, and is left out."""
    shown = _shown(steps, samples)
    # Rows of screens by their picture: those of picture p are order[starts[p]:starts[p + 1]].
    codes, names = codes_of(plain(screens["screenshot_sha256"]))
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], np.arange(len(names) + 1))
    # -1 where a row shows a picture that has no row of screens in this chunk.
    wanted = np.asarray(pc.fill_null(pc.index_in(shown["screenshot_sha256"], names), -1))
    cells = np.asarray(shown[DIGEST])[wanted >= 0]
    wanted = wanted[wanted >= 0]
    # Every screen row of a picture is repeated for each range of digests that shows it.
    many = starts[wanted + 1] - starts[wanted]
    place = np.repeat(starts[wanted], many) + _counted(many)
    cells = np.repeat(cells, many)
    by_cell = np.argsort(cells, kind="stable")
    rows = screens.combine_chunks().take(pa.array(order[place[by_cell]]))
    return rows.append_column(_FIELD, pa.array(cells[by_cell]))


def _counted(many: np.ndarray) -> np.ndarray:
    """[2, 3] → [0, 1, 0, 1, 2]"""
    return np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)


def _shown(steps: pa.Table | None, samples: pa.Table | None) -> pa.Table:
    """(screenshot_sha256, first digest of the range of a row that shows it), each once."""
    pictures, cells = [], []
    if steps is not None:
        pictures.append(plain(steps["screenshot_sha256"]))
        cells.append(_cell(digests("steps", steps)))
    if samples is not None:
        images = samples["images"].combine_chunks()
        pictures.append(images.flatten())
        owners = np.asarray(pc.list_parent_indices(images))
        cells.append(_cell(digests("samples", samples))[owners])
    columns = [
        pa.chunked_array([plain(one) for one in pictures], pa.string()),
        pa.chunked_array([pa.array(one) for one in cells], pa.uint16()),
    ]
    table = pa.Table.from_arrays(columns, ["screenshot_sha256", DIGEST])
    # Grouping without aggregates is Arrow's way to say "distinct".
    return table.filter(pc.is_valid(table["screenshot_sha256"])).group_by(table.column_names).aggregate([])


def _cell(found: np.ndarray) -> np.ndarray:
    # The low bits go: the cell is the first digest of its range, which is what filters on the digest compare
    # with.
    shift = _BITS - _CELL_BITS
    return (found >> shift << shift).astype(np.uint16)


def _hash(text: str) -> int:
    # Two bytes, read big-endian so that "the first bits" are those of the hash, on every machine.
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8"), digest_size=2).digest(), "big")


def _hashes(column: pa.Array) -> np.ndarray:
    # Hash each distinct text once: a chunk repeats an episode's id at every step.
    codes, values = codes_of(plain(column))
    return np.array([_hash(text) for text in values.to_pylist()], np.uint16)[codes]


def _of_samples(table: pa.Table) -> np.ndarray:
    # A sample without a picture (a text question) has nothing to be compared by, and is spread by its own id.
    first = pc.list_slice(table["images"].combine_chunks(), 0, 1)
    alone = pc.equal(pc.fill_null(pc.list_value_length(first), 0), 0)
    picture = pc.replace_with_mask(plain(table["sample_id"]), pc.invert(alone), first.flatten())
    return _hashes(picture)


def _of_quarantine(table: pa.Table) -> np.ndarray:
    return _hashes(pc.binary_join_element_wise(plain(table["file"]), plain(table["record"]), "\0"))


_FIELD = pa.field(DIGEST, pa.uint16(), nullable=False)
_DIGESTS: dict[str, Callable[[pa.Table], np.ndarray]] = {
    "steps": lambda table: _hashes(table["episode_id"]),
    "samples": _of_samples,
    "quarantine": _of_quarantine,
}


class MappedRows:
    """Rows of some buckets out of the mapped tables of a source."""

    def __init__(self, paths: Mapping[str, Sequence[Path]], first: int, past: int, count: int) -> None:
        """`paths`: table → its files, which hold a column of digests; buckets `first` to `past` - 1 of `count`."""
        # Low bits of a digest, below those that are the number of its bucket.
        shift = _BITS - (count - 1).bit_length()
        low, high = first << shift, (past << shift) - 1
        # Screens are filed under the first digest of their cell, which may lie below the first bucket asked
        # for.
        cell = (1 << _BITS - _CELL_BITS) - 1
        self._screens = one_row_a_picture(_read(paths.get("screens", ()), low & ~cell, high))
        found = {name: _read(files, low, high) for name, files in paths.items() if name != "screens"}
        self._tables = {name: _by_bucket(name, table, shift) for name, table in found.items() if table is not None}

    def tables(self, bucket: int) -> dict[str, pa.Table]:
        """The tables of one bucket, each in the order of its key; one without rows is missing."""
        found = {name: buckets[bucket] for name, buckets in self._tables.items() if bucket in buckets}
        if self._screens is not None:
            shown = _shown(found.get("steps"), found.get("samples"))["screenshot_sha256"]
            found["screens"] = self._screens.filter(pc.is_in(self._screens["screenshot_sha256"], shown))
        return {name: table for name, table in found.items() if table.num_rows}


def _by_bucket(name: str, table: pa.Table, shift: int) -> dict[int, pa.Table]:
    """The rows of each bucket, sorted."""
    buckets = np.asarray(table[DIGEST]).astype(np.int64) >> shift
    order = np.argsort(buckets, kind="stable")
    schema = TABLES[name].schema
    rows = pa.Table.from_arrays([plain(table[field.name]).take(pa.array(order)) for field in schema], schema=schema)
    # Digests are sorted, so each bucket is one run, and ends where the number changes.
    ends = [*np.flatnonzero(np.diff(buckets[order])).tolist(), len(order) - 1] if len(order) else []
    found, start = {}, 0
    for end in ends:
        found[int(buckets[order[end]])] = _SORTED[name](rows.slice(start, end + 1 - start))
        start = end + 1
    return found


def _read(paths: Iterable[Path], low: int, high: int) -> pa.Table | None:
    """Rows with a digest from `low` to `high`, of all files in order; row groups of others aren't read."""
    within = (pc.field(DIGEST) >= low) & (pc.field(DIGEST) <= high)
    tables = [pq.read_table(path, filters=within) for path in paths]
    return pa.concat_tables(tables) if tables else None


def one_row_a_picture(screens: pa.Table | None) -> pa.Table | None:
    """Screens in order of their pictures. Where records list different elements of one picture the fullest list stands
    (`fullest_list`), never the one that was read first."""
    if screens is None:
        return None
    names = plain(screens["screenshot_sha256"])
    order = np.asarray(pc.sort_indices(names))
    codes = codes_of(names)[0][order]
    # Pictures are sorted: each is a run, and most runs are one row, which needs no comparison of lists.
    new = np.flatnonzero(np.diff(codes, prepend=-1))
    ends = np.append(new[1:], len(codes))
    chosen = order[new]
    for group in np.flatnonzero(ends - new > 1).tolist():
        chosen[group] = _fullest(screens, order[new[group] : ends[group]])
    rows = screens.combine_chunks().take(pa.array(chosen)).select(Screens.schema.names)
    return rows.cast(Screens.schema)


def _fullest(screens: pa.Table, places: np.ndarray) -> int:
    listed = screens["elements"].take(pa.array(places)).to_pylist()
    best = 0
    for place, elements in enumerate(listed):
        # Which of two lists is fuller is a total order, so the result doesn't depend on the order of files.
        if is_fuller(elements, listed[best]):
            best = place
    return int(places[best])


_SORTED: dict[str, Callable[[pa.Table], pa.Table]] = {
    "steps": sorted_steps,
    "samples": lambda table: table.sort_by("sample_id"),
    "quarantine": lambda table: table.sort_by([(name, "ascending") for name in Quarantine.schema.names]),
}
