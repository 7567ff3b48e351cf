"""What a probe trains on, row by row: a pure function of (rows, shares, seed, tokens).

Rows come in the order of a hash, objectives in turn by how far each is behind its share. So two variants that have
most rows in common train on most of the same rows in the same order, and differ in little but what they differ in.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np

from pipelines.training_data.index_columns import seeded_hashes
from schemas.tables import OBJECTIVES
from trainer.worth.pools import PoolRow
from trainer.worth.variants import Variant

Length = Callable[[PoolRow], int | None]
"""Tokens of a row's prompt and answer; None for one that can't become a sequence."""


@dataclass(frozen=True)
class Plan:
    """Rows in training order, whole batches of them, and their tokens."""

    rows: tuple[PoolRow, ...]
    tokens: int

    @property
    def digests(self) -> list[str]:
        """Of the content of its rows, in order."""
        return [one.digest for one in self.rows]

    @property
    def distinct(self) -> int:
        """Different rows among them."""
        return len(set(self.digests))


def plan(variant: Variant, seed: int, tokens: int, batch_size: int, length: Length) -> Plan:
    """Rows of a variant until they hold `tokens`, the last batch filled; rows come again once all have come.

    Objectives get their shares of the tokens, those without rows nothing. A variant without rows has an empty plan.
    Raises `ValueError` if no row of the variant can become a sequence.
    """
    if not variant.pool:
        return Plan((), 0)
    queues = {
        name: _queue([one for one in variant.pool if one.row["objective"] == name], seed, length) for name in OBJECTIVES
    }
    # a queue of one epoch, to find out whether any row can become a sequence
    shares = {name: share for name, share in variant.shares.items() if share > 0 and any(True for _ in queues[name](1))}
    if not shares:
        raise ValueError(
            f"{variant.name}: expected rows that fit the model of an objective with a share above 0 "
            f"({dict(variant.shares)}), found {len(variant.pool)} rows and none of these"
        )
    taking = {name: queues[name](0) for name in shares}
    taken: Counter[str] = Counter()
    rows: list[PoolRow] = []
    # whole batches: a part of one would be another step
    while sum(taken.values()) < tokens or len(rows) % batch_size:
        # the one furthest behind its share; the order of OBJECTIVES decides between equals
        behind = min(shares, key=lambda name: (taken[name] / shares[name], OBJECTIVES.index(name)))
        one, size = next(taking[behind])
        rows.append(one)
        taken[behind] += size
    return Plan(tuple(rows), sum(taken.values()))


def _queue(rows: Sequence[PoolRow], seed: int, length: Length) -> Callable[[int], Iterator[tuple[PoolRow, int]]]:
    """The usable rows with their lengths, in the order of a hash, another in each epoch: without end, or for as many
    epochs as are asked for (0: without end)."""
    names = [one.row["sample_id"] for one in rows]

    def taken(epochs: int) -> Iterator[tuple[PoolRow, int]]:
        for epoch in range(epochs) if epochs else count():
            # a prime, so that (seed, epoch) pairs seldom share an order
            hashes = seeded_hashes(names, seed * 1_000_003 + epoch)
            # by hash, then by name where hashes are equal
            for place in np.lexsort((np.asarray(names, dtype=str), hashes)):
                if (size := length(rows[place])) is not None:
                    yield rows[place], size

    return taken
