"""The mixture as an endless stream of rows, and the part of the training screens that is kept for validation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from schemas.ids import digest

if TYPE_CHECKING:
    from pipelines.manifest import Manifest
    from pipelines.store import Store

CHUNK = 32
"""Rows read at a time; the order of rows does not depend on the training batch."""


class MixtureSource:
    """`RowSource` over `pipelines.reader`; rows named in `without` are passed over (they still count as positions)."""

    def __init__(self, store: Store, mixture: Manifest, *, seed: int = 0, without: Sequence[str] = ()) -> None:
        from pipelines.reader import Reader

        self._reader = Reader.from_mixture(store, mixture, seed=seed, global_batch=CHUNK)
        self._without = frozenset(without)

    def rows(self, start: int) -> Iterator[Mapping[str, Any]]:
        """See `trainer.midtrain.RowSource`. Positions count rows given out, so a stream is found again by replaying

        ids only: pictures of rows before `start` are not decoded twice within a chunk.
        """
        given = 0
        for number in _count():
            epoch, index = divmod(number, self._reader.batches_per_epoch)
            for row in self._reader.batch(epoch, index):
                if row["sample_id"] in self._without:
                    continue
                if given >= start:
                    yield row
                given += 1

    def digest(self) -> str:
        """See `trainer.midtrain.RowSource`."""
        return digest([self._reader.fingerprint, sorted(self._without)])


def _count() -> Iterator[int]:
    number = 0
    while True:
        yield number
        number += 1
