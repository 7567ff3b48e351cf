"""Endless rows in an order of their own: what a source of training rows must do, and one of a list."""

from collections.abc import Iterator, Sequence
from typing import Protocol

import torch

from schemas.ids import digest
from trainer.modeling.batches import Row

ELSEWHERE: Row = {}
"""A position whose row another rank reads (told by identity)."""


class RowSource(Protocol):
    """Endless rows in an order that is a pure function of the position, and a name for that order.

    One that shows no picture twice says so by `pictures_come_again = False`. One that can read a rank's share alone
    has a method `of_rank(rank, world)`, which gives the source of that share (see the function `of_rank`).
    """

    def rows(self, start: int) -> Iterator[Row | None]:
        """Rows from global position `start` on, without end; None is a position that is passed over."""

    def digest(self) -> str:
        """Changes whenever the order or the content does."""


def of_rank(source: RowSource, rank: int, world: int) -> RowSource:
    """The same positions, of which each is read by one of `world` ranks: on all others it is `ELSEWHERE`."""
    if world == 1:
        return source
    own = getattr(source, "of_rank", None)
    return own(rank, world) if own is not None else _Dealt(source, rank, world)


class _Dealt:
    """Every world-th row of a source that makes its rows from what each rank has anyway."""

    def __init__(self, source: RowSource, rank: int, world: int) -> None:
        self._source, self._rank, self._world = source, rank, world

    def rows(self, start: int) -> Iterator[Row | None]:
        for position, row in enumerate(self._source.rows(start), start):
            yield row if position % self._world == self._rank else ELSEWHERE

    def digest(self) -> str:
        return self._source.digest()


class ListSource:
    """Rows of a list, shuffled anew each epoch by (seed, epoch)."""

    def __init__(self, rows: Sequence[Row], seed: int = 0) -> None:
        if not rows:
            raise ValueError("ListSource: expected rows, found none")
        self._rows, self._seed = rows, seed

    def rows(self, start: int) -> Iterator[Row | None]:
        """See `RowSource`."""
        epoch, offset = divmod(start, len(self._rows))
        while True:
            # a prime, so that (seed, epoch) pairs seldom share an order
            source = torch.Generator().manual_seed(self._seed * 1_000_003 + epoch)
            order = torch.randperm(len(self._rows), generator=source).tolist()
            yield from (self._rows[i] for i in order[offset:])
            epoch, offset = epoch + 1, 0

    def digest(self) -> str:
        """See `RowSource`."""
        return digest([self._seed, [str(row.get("sample_id", i)) for i, row in enumerate(self._rows)]])
