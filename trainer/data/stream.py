"""The mixture as an endless stream of rows, and its shares by schedule."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING

from schemas.ids import digest
from trainer.data.row_sources import ELSEWHERE, RowSource, of_rank

if TYPE_CHECKING:
    from pipelines.store import Store
    from pipelines.store.manifest import Manifest

CHUNK = 32
"""Rows read at a time; the order of rows does not depend on the training batch."""


class MixtureSource:
    """`RowSource` over `pipelines.training_data.reader`; rows whose sample id is in `without` come as None."""

    def __init__(self, store: Store, mixture: Manifest, *, seed: int = 0, without: Sequence[str] = ()) -> None:
        from pipelines.training_data.reader import ShardReader

        self._reader = ShardReader.from_mixture(store, mixture, seed=seed, global_batch=CHUNK)
        self._without = frozenset(without)
        # a corpus smaller than a chunk has epochs of one short batch
        self._chunk = min(CHUNK, self._reader.order.rows)
        self._share = (0, 1)

    def of_rank(self, rank: int, world: int) -> MixtureSource:
        """Rows of every world-th shard: each is opened, checked and read by one rank."""
        own = copy.copy(self)
        own._share = (rank, world)
        return own

    def rows(self, start: int) -> Iterator[Mapping[str, object] | None]:
        """See `trainer.data.row_sources.RowSource`: any position is found at once."""
        first, skip = divmod(start, self._chunk)
        for number in count(first):
            epoch, index = divmod(number, self._reader.batches_per_epoch)
            # by number of the batch, so that no row before it is read
            for row in self._reader.batch_of_shards(epoch, index, *self._share)[skip:]:
                if row is None:
                    yield ELSEWHERE
                else:
                    yield None if row["sample_id"] in self._without else row
            skip = 0

    def digest(self) -> str:
        """See `trainer.data.row_sources.RowSource`."""
        return digest([self._reader.fingerprint, sorted(self._without)])


Schedule = Sequence[tuple[float, Mapping[str, float]]]
"""Phases: (share of the run, name → share of the rows)."""


class ScheduledSource:
    """`RowSource` whose mixture changes during training: each phase has its own share of each objective.

    A row is kept with a probability that makes of the shares it comes in (`counts`, rows by name) those that its phase
    asks for; the rest come as None. So the order stays a pure function of the position, and any position is found at
    once. `wanted` is how many kept rows the run takes (steps · batch size): phases end where as many of them are
    expected. After the last phase it goes on.
    """

    def __init__(
        self, source: RowSource, schedule: Schedule, counts: Mapping[str, int], wanted: int, *, seed: int = 0
    ) -> None:
        self._source, self._seed = source, seed
        self._plain = [[share, dict(sorted(weights.items()))] for share, weights in schedule]
        rows = {name: count for name, count in counts.items() if count > 0}
        if not schedule or abs(sum(share for share, _ in schedule) - 1) > 1e-6 or wanted < 1 or not rows:
            shares = [share for share, _ in schedule]
            raise ValueError(
                f"schedule: expected shares that sum to 1, rows and a run, found {shares}, "
                f"{len(rows)} kinds of rows, {wanted} wanted"
            )
        self._phases: list[tuple[float, dict[str, float]]] = []
        end, total = 0.0, sum(rows.values())
        for share, weights in schedule:
            unknown = {name for name, weight in weights.items() if weight > 0} - set(rows)
            if share < 0 or unknown or min(weights.values(), default=-1) < 0 or not sum(weights.values()):
                raise ValueError(f"schedule: expected weights >= 0 of {sorted(rows)}, not all 0, found {dict(weights)}")
            asked = {name: weights.get(name, 0.0) / sum(weights.values()) for name in rows}
            # of the objective that is asked for most, compared with what there is, every row is kept
            rarest = max(asked[name] * total / rows[name] for name in rows)
            keep = {name: asked[name] * total / rows[name] / rarest for name in rows}
            end += share * wanted * rarest  # one in `rarest` rows is kept
            self._phases.append((end, keep))

    def of_rank(self, rank: int, world: int) -> ScheduledSource:
        """See `trainer.data.row_sources.of_rank`."""
        own = copy.copy(self)
        own._source = of_rank(self._source, rank, world)
        return own

    def rows(self, start: int) -> Iterator[Mapping[str, object] | None]:
        """See `trainer.data.row_sources.RowSource`."""
        for position, row in enumerate(self._source.rows(start), start):
            if row is ELSEWHERE:
                yield row
                continue
            keep = next((keep for end, keep in self._phases if position < end), self._phases[-1][1])
            wanted = row is not None and _unit(self._seed, position) < keep.get(str(row["objective"]), 0.0)
            yield row if wanted else None

    def digest(self) -> str:
        """See `trainer.data.row_sources.RowSource`."""
        phases = [[end, sorted(keep.items())] for end, keep in self._phases]
        return digest([self._source.digest(), self._plain, phases, self._seed])


def _unit(seed: int, position: int) -> float:
    """A number in [0, 1) that depends on both (splitmix64)."""
    mask = 2**64 - 1
    # splitmix64's increment and multipliers; the seed has an odd multiplier of its own
    word = (seed * 0xD1342543DE82EF95 + (position + 1) * 0x9E3779B97F4A7C15) & mask
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & mask
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & mask
    return (word ^ (word >> 31)) / 2**64
