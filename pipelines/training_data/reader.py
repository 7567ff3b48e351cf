"""Reads a mixture of shards in an order that is a pure function of (seed, epoch, offset).

Blocks (row groups) are shuffled, then rows within windows of some thousand; both by hashes, so any position of any
epoch is found without replaying what came before. A global batch is the same rows for any number of ranks and
workers: ranks take every world-th row of it, workers only fetch ahead. State is a small JSON: epoch and index.

    reader = Reader.from_mixture(store, seed=0, global_batch=32, rank=0, world=1)
    for batch in reader:                      # endless; batch is a list of row dicts with `images` as bytes
        state = reader.state_dict()           # resume anywhere, as often as you like: load_state_dict(state)
"""

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pipelines.store import Manifest, Store
from pipelines.training_data.mixture import ASSET, Mixture, shards_of
from pipelines.training_data.shard_files import ShardError, ShardFiles, ShardRows, shard_paths
from schemas.ids import digest

Row = dict[str, Any]
Transform = Callable[[Row], Any]
WINDOW = 1024
BAD_LIMIT = 100
_TRIES = 16


class BadSamples(RuntimeError):
    """More bad rows than the limit allows; names the last ones and why."""


class RowLocation(NamedTuple):
    """Where a row lies: place of its shard in the list, row group, row within the shard."""

    shard: int
    row_group: int
    row: int


def permutation(count: int, *key: object) -> np.ndarray:
    """A permutation of range(count) that depends on the key only: argsort of splitmix64 words, int64 [count].

    Written out, because the streams of numpy's generators may change from version to version.
    """
    start = np.uint64(int(digest([str(part) for part in key])[:16], 16))
    # splitmix64 is defined modulo 2**64, so overflowing is part of it.
    with np.errstate(over="ignore"):
        words = start + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        words ^= words >> np.uint64(31)
    return np.argsort(words, kind="stable")


class Order:
    """Position within an epoch → entry, for all repeats of all chosen rows.

    A repeat of a row lies in a block of its own, so that the shuffle of blocks carries it away from its twin.
    """

    def __init__(self, shards: Sequence[ShardRows], seed: int, window: int) -> None:
        if window < 1:
            raise ValueError(f"reader: expected a window of at least 1 row, found {window}")
        self.seed, self.window = seed, window
        columns = [
            np.stack([np.full(len(s.rows), place), s.row_groups, s.rows, s.repeats], axis=1)
            for place, s in enumerate(shards)
        ]
        flat = np.concatenate([*columns, np.zeros((0, 4), np.int64)]).astype(np.int64)
        # The n-th pass holds the rows that are seen more than n times.
        passes = [flat[flat[:, 3] > number] for number in range(int(flat[:, 3].max(initial=0)))]
        self._entries = np.concatenate([p[:, :3] for p in passes] or [np.zeros((0, 3), np.int64)])
        # Pass, shard and row group of each row: where one of them changes, a new block begins.
        marks = np.concatenate(
            [np.column_stack([np.full(len(p), n), p[:, :2]]) for n, p in enumerate(passes)] or [flat[:, :3]]
        )
        new = np.ones(len(marks), bool)
        new[1:] = (marks[1:] != marks[:-1]).any(axis=1)
        self._starts = np.flatnonzero(new)
        self._sizes = np.diff(np.append(self._starts, len(marks)))
        self.rows = len(marks)
        self._epochs: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self._windows: dict[tuple[int, int], np.ndarray] = {}

    def at(self, epoch: int, position: int) -> RowLocation:
        """The entry at a position of an epoch; costs the same wherever it is."""
        return self.between(epoch, position, position + 1)[0]

    def between(self, epoch: int, start: int, stop: int) -> list[RowLocation]:
        """The entries at positions [start, stop) of an epoch, 0 <= start < stop <= `rows`; all are found at once."""
        # All windows that the range touches.
        numbers = range(start // self.window, (stop - 1) // self.window + 1)
        places = np.concatenate(
            [
                number * self.window
                + self._window(epoch, number)[max(start - number * self.window, 0) : stop - number * self.window]
                for number in numbers
            ]
        )
        blocks, ends = self._blocks(epoch)
        # The block in whose range of shuffled positions a place falls.
        found = np.searchsorted(ends, places, side="right")
        chosen = blocks[found]
        # Back from shuffled positions to the block's own rows.
        lines = self._starts[chosen] + places - (ends[found] - self._sizes[chosen])
        return [RowLocation(*line) for line in self._entries[lines].tolist()]

    def _blocks(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        known = self._epochs.get(epoch)
        if known is None:
            blocks = permutation(len(self._starts), "blocks", self.seed, epoch)
            known = (blocks, np.cumsum(self._sizes[blocks]))
            # Two epochs, as readers that fetch ahead stand in the next one already.
            self._epochs = {epoch: known, **dict(list(self._epochs.items())[:1])}  # this epoch and the one before
        return known

    def _window(self, epoch: int, number: int) -> np.ndarray:
        known = self._windows.get((epoch, number))
        if known is None:
            # The last window may be short.
            size = min(self.window, self.rows - number * self.window)
            known = permutation(size, "window", self.seed, epoch, number)
            self._windows = {(epoch, number): known, **dict(list(self._windows.items())[:3])}
        return known


def sniff(row: Row) -> Row:
    """The default transform: every picture must at least have a readable header."""
    from PIL import Image

    for data in row["images"]:
        with Image.open(io.BytesIO(data)) as image:
            if min(image.size) < 1:
                raise ValueError("a picture without pixels")
    return row


class ShardReader:
    """Batches of rows from shards; see the module's docstring. Not to be iterated by two threads at once."""

    def __init__(
        self,
        shards: Sequence[ShardRows],
        *,
        seed: int = 0,
        global_batch: int = 32,
        rank: int = 0,
        world: int = 1,
        workers: int = 0,
        window: int = WINDOW,
        transform: Transform = sniff,
        bad_limit: int = BAD_LIMIT,
        columns: Sequence[str] | None = None,
        verify: bool = True,
    ) -> None:
        """`global_batch` rows a step over all ranks; `workers` threads fetch ahead (0: none); `transform` turns a row
        into what a batch holds and raises ValueError or OSError on a bad one; `bad_limit` bad rows are replaced by
        others and counted, one more raises `BadSamples`. Raises `ValueError` for a batch that ranks can't share.
        """
        if world < 1 or not 0 <= rank < world:
            raise ValueError(f"reader: expected 0 <= rank < world, found rank {rank} of {world}")
        if global_batch < 1 or global_batch % world:
            raise ValueError(f"reader: global_batch {global_batch} can't be shared evenly by {world} ranks")
        # By name: the order must not depend on where the files lie.
        self.shards = sorted(shards, key=lambda shard: shard.name)
        self.order = Order(self.shards, seed, window)
        if not self.order.rows:
            raise ValueError("reader: the mixture holds no rows")
        # A single process may take a short batch; ranks would have unequal shares.
        if self.order.rows < global_batch and world > 1:
            raise ValueError(f"reader: {self.order.rows} rows are fewer than one global batch of {global_batch}")
        self.seed, self.global_batch, self.rank, self.world, self.workers = seed, global_batch, rank, world, workers
        self.bad: dict[str, str] = {}
        self._bad_limit = bad_limit
        self._transform = transform
        self._files = ShardFiles(self.shards, columns=columns, verify=verify)
        self._epoch = self._index = 0

    @classmethod
    def from_mixture(cls, store: Store, mixture: Manifest | str = ASSET, **options: Any) -> "ShardReader":
        """The current mixture of a store (or the one given). Raises `StoreError` if there is none."""
        manifest = store.require(mixture) if isinstance(mixture, str) else mixture
        rows = manifest.read("mixture", Mixture.schema).to_pylist()
        paths = shards_of(store, manifest, [row["shard"] for row in rows])
        shards = [
            ShardRows(path, row["sha256"], row["rows"], row["repeats"], row["row_groups"])
            for path, row in zip(paths, rows, strict=True)
        ]
        return cls(shards, **options)

    @classmethod
    def from_paths(cls, paths: Sequence[str | Path], **options: Any) -> "ShardReader":
        """Plain shard files, or folders that `vesper shard` wrote, every row once. Raises `ValueError` naming a file
        that isn't a shard, or a folder without any."""
        return cls([ShardRows.whole(file) for path in paths for file in shard_paths(Path(path))], **options)

    @property
    def batches_per_epoch(self) -> int:
        """Full global batches of an epoch; the rest is left for other epochs' orders. At least 1."""
        return max(self.order.rows // self.global_batch, 1)

    def rows(self, epoch: int, index: int) -> list[RowLocation]:
        """The whole global batch as places in the shards: the pure function that ranks and workers can't change."""
        if not 0 <= index < self.batches_per_epoch or epoch < 0:
            raise ValueError(
                f"reader: expected epoch >= 0 and 0 <= index < {self.batches_per_epoch}, found {epoch}, {index}"
            )
        start = index * self.global_batch
        return self.order.between(epoch, start, min(start + self.global_batch, self.order.rows))

    def batch(self, epoch: int, index: int) -> list[Any]:
        """This rank's rows of a global batch, transformed. Random access: no state is read or changed."""
        start = index * self.global_batch
        # Every world-th row: the global batch is the same however many ranks share it.
        rows = self._files.rows(self.rows(epoch, index)[self.rank :: self.world])
        # all are read, then all opened: kinder to caches
        return [self._good(epoch, start + self.rank + place * self.world, row) for place, row in enumerate(rows)]

    def batch_of_shards(self, epoch: int, index: int, part: int, of: int) -> list[Any | None]:
        """All rows of a global batch, transformed, whichever rank this is; None for those of other shards than every
        `of`-th from `part` on, which stay unopened. Random access, as `batch` is."""
        places = self.rows(epoch, index)
        mine = [number for number, place in enumerate(places) if place.shard % of == part]
        found: list[Any | None] = [None] * len(places)
        for number, row in zip(mine, self._files.rows([places[number] for number in mine]), strict=True):
            found[number] = self._good(epoch, index * self.global_batch + number, row)
        return found

    def _good(self, epoch: int, position: int, row: Row) -> Any:
        """The row transformed; if it is bad, the nearest good one by a fixed rule, so every rank picks the same."""
        for attempt in range(_TRIES):
            if attempt:
                # Far apart, so that a damaged row group isn't met again at once.
                step = max(self.order.rows // _TRIES, 1)
                row = self._files.row(*self.order.at(epoch, (position + attempt * step) % self.order.rows))
            try:
                return self._transform(row)
            except (ValueError, OSError) as error:
                self._note(row["sample_id"], f"{type(error).__name__}: {error}")
        # Not just bad rows: a transform that refuses everything would otherwise go on for ever.
        raise BadSamples(f"reader: {_TRIES} rows in a row are bad, the last: {list(self.bad.items())[-1]}")

    def _note(self, name: str, reason: str) -> None:
        self.bad[name] = reason[:200]
        if len(self.bad) > self._bad_limit:
            last = "; ".join(f"{n}: {r}" for n, r in list(self.bad.items())[-3:])
            raise BadSamples(f"reader: {len(self.bad)} bad samples, limit {self._bad_limit}; the last: {last}")

    def __iter__(self) -> Iterator[list[Any]]:
        """Batches from the state on, epoch after epoch without end. State counts what was delivered."""
        if self.workers == 0:
            # State moves before the batch is handed out: whoever saves after it goes on with the next one.
            while True:
                batch = self.batch(self._epoch, self._index)
                self._step()
                yield batch
        with ThreadPoolExecutor(self.workers, thread_name_prefix="vesper-reader") as pool:
            ahead: list[Future[list[Any]]] = []
            upcoming = self._following(self._epoch, self._index)
            try:
                while True:
                    # Two batches a worker: one is being made while the other waits to be taken.
                    while len(ahead) < 2 * self.workers:
                        ahead.append(pool.submit(self.batch, *next(upcoming)))
                    batch = ahead.pop(0).result()
                    self._step()
                    yield batch
            finally:
                for future in ahead:
                    future.cancel()

    def _following(self, epoch: int, index: int) -> Iterator[tuple[int, int]]:
        while True:
            yield epoch, index
            epoch, index = (epoch, index + 1) if index + 1 < self.batches_per_epoch else (epoch + 1, 0)

    def _step(self) -> None:
        # The generator yields where it stands first.
        following = self._following(self._epoch, self._index)
        next(following)
        self._epoch, self._index = next(following)

    @property
    def fingerprint(self) -> str:
        """What the order depends on: equal fingerprints, equal batches."""
        # Rank, world and workers aren't part of it: any number of them reads the same order.
        return digest([[s.digest() for s in self.shards], self.seed, self.global_batch, self.order.window])

    def state_dict(self) -> dict[str, object]:
        """Where reading stands, as plain JSON: valid for any number of ranks and workers."""
        return {"epoch": self._epoch, "index": self._index, "fingerprint": self.fingerprint, "bad": dict(self.bad)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there at once (nothing is replayed). Raises `ValueError` if the state is of another order."""
        if state.get("fingerprint") != self.fingerprint:
            raise ValueError("reader state: made with other shards, seed, global_batch or window; start a new epoch")
        if not 0 <= state["index"] < self.batches_per_epoch or state["epoch"] < 0:
            raise ValueError(f"reader state: index {state['index']} is not one of {self.batches_per_epoch} batches")
        self._epoch, self._index, self.bad = int(state["epoch"]), int(state["index"]), dict(state.get("bad", {}))


__all__ = ["BadSamples", "Order", "RowLocation", "ShardError", "ShardReader", "ShardRows", "permutation", "sniff"]
