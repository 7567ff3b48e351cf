"""The mixture as an endless stream of rows, and the part of the training screens that is kept for validation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from schemas.ids import digest

if TYPE_CHECKING:
    from pipelines.manifest import Manifest
    from pipelines.store import Store

CHUNK = 32
"""Rows read at a time; the order of rows does not depend on the training batch."""


class MixtureSource:
    """`RowSource` over `pipelines.reader`; rows whose sample id is in `without` come as None."""

    def __init__(self, store: Store, mixture: Manifest, *, seed: int = 0, without: Sequence[str] = ()) -> None:
        from pipelines.reader import Reader

        self._reader = Reader.from_mixture(store, mixture, seed=seed, global_batch=CHUNK)
        self._without = frozenset(without)
        # a corpus smaller than a chunk has epochs of one short batch
        self._chunk = min(CHUNK, self._reader.order.rows)

    def rows(self, start: int) -> Iterator[Mapping[str, Any] | None]:
        """See `trainer.midtrain.RowSource`: any position is found at once."""
        first, skip = divmod(start, self._chunk)
        for number in count(first):
            epoch, index = divmod(number, self._reader.batches_per_epoch)
            for row in self._reader.batch(epoch, index)[skip:]:
                yield None if row["sample_id"] in self._without else row
            skip = 0

    def digest(self) -> str:
        """See `trainer.midtrain.RowSource`."""
        return digest([self._reader.fingerprint, sorted(self._without)])


def cluster_of(row: Mapping[str, Any]) -> str:
    """The episode or screen that a sample was derived from (its own id if it names no parent)."""
    first = str((row.get("parents") or [f"sample:{row['sample_id']}"])[0])
    return f"episode:{first[len('step:') :].rpartition('/')[0]}" if first.startswith("step:") else first


def set_aside(rows: Sequence[Mapping[str, Any]], share: float) -> list[Mapping[str, Any]]:
    """About `share` of the rows for validation: whole episodes and screens, each by its own hash.

    The same rows for every stage, so what stops RL was not trained on before either.
    """
    limit = int(share * 2**64)
    chosen = {name for name in {cluster_of(row) for row in rows} if int(digest(["validation", name])[:16], 16) < limit}
    return [row for row in rows if cluster_of(row) in chosen]
