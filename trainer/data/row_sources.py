"""Endless rows in an order of their own: what a source of training rows must do, and one of a list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import torch

from schemas.ids import digest
from trainer.modeling.batches import Row


class RowSource(Protocol):
    """Endless rows in an order that is a pure function of the position, and a name for that order.

    One that shows no picture twice says so by `pictures_come_again = False`.
    """

    def rows(self, start: int) -> Iterator[Row | None]:
        """Rows from global position `start` on, without end; None is a position that is passed over."""

    def digest(self) -> str:
        """Changes whenever the order or the content does."""


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
            source = torch.Generator().manual_seed(self._seed * 1_000_003 + epoch)
            order = torch.randperm(len(self._rows), generator=source).tolist()
            yield from (self._rows[i] for i in order[offset:])
            epoch, offset = epoch + 1, 0

    def digest(self) -> str:
        """See `RowSource`."""
        return digest([self._seed, [str(row.get("sample_id", i)) for i, row in enumerate(self._rows)]])
