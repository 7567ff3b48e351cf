"""Which rows a step trains on: one global batch for all ranks, split into the micro-batches of this one.

A global batch is a pure function of (source, place, config), whatever the number of ranks and of micro-batches: part
i of n takes every n-th of its rows, or, packed, of its sequences. Packed sequences are made of windows of rows, each
on its own, so that a place in the stream is a window's first position and a number of sequences, and nothing else.

Each of several ranks reads a share of the positions (`of_rank`), finds out how long their rows are, and tells the
others; so all know the batch. Then each row goes to the rank that trains on it.
"""

from collections.abc import Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace

import torch

from trainer.data.row_sources import ELSEWHERE, RowSource, of_rank
from trainer.modeling.batches import BadSample, Batch, Row
from trainer.modeling.packing import bins, fill, packed
from trainer.modeling.processor import Processor
from trainer.modeling.seen_pictures import SeenPictures
from trainer.runtime.exchange import Exchange
from trainer.runtime.parallel import Ranks
from trainer.settings.supervised import MidtrainConfig

AHEAD = 2
"""Steps that wait for the GPU at most."""
DECODERS = 4
"""Threads of a rank that decode the pictures of a step."""


@dataclass(frozen=True)
class StreamPosition:
    """Where a stream is: position of the next row (packed: of the window's first row), sequences of that window that
    are used up, and rows that could not become a sequence since the stream was opened."""

    position: int = 0
    taken: int = 0
    bad: int = 0


@dataclass
class StepBatches:
    """What a rank trains on in a step: its micro-batches, its rows whose picture turned out to be torn, and the place
    after it."""

    batches: list[Batch]
    torn: int
    after: StreamPosition


@dataclass(frozen=True, slots=True)
class _Position:
    """What stands at a position: a row of so many tokens, why it can't become a sequence, or None for what is passed
    over. `row` is held by its `owner` alone, and `ELSEWHERE` on others."""

    owner: int
    found: int | str | None
    row: Row


@dataclass(frozen=True, slots=True)
class _Taken:
    """Rows that can become sequences, with their lengths, and how many positions and bad rows went by."""

    rows: list[_Position]
    lengths: list[int]
    positions: int
    bad: int


class GlobalBatches:
    """Steps of this rank. As many bad rows in a row as a batch has (at least 64) are an error, on all ranks. `seen`:
    the pictures that a frozen tower has seen; `exchange`: by which the ranks talk (made here, unless given)."""

    def __init__(
        self,
        source: RowSource,
        processor: Processor,
        config: MidtrainConfig,
        group: Ranks,
        place: StreamPosition,
        seen: SeenPictures | None = None,
        exchange: Exchange | None = None,
    ) -> None:
        self._seen = seen
        self._rows = of_rank(source, group.rank, group.world).rows(place.position)
        self._processor, self._config, self._group = processor, config, group
        self._exchange = exchange or Exchange(group)
        self._position, self._taken, self._bad = place.position, place.taken, place.bad
        self._limit = max(64, config.batch_size)
        self._window: list[list[_Position]] = []
        self._window_rows = self._window_bad = 0
        self.fill = 1.0
        """Share of the places of the last window's sequences that hold a token."""
        self.decoders: Executor | None = None
        """What decodes pictures of a step at the same time; None: one after another."""

    def next(self) -> StepBatches:
        """The next step; a micro-batch that no row is left for is an empty one."""
        config = self._config
        if config.packing:
            mine = self._own([self._sequence() for _ in range(config.batch_size)])
        else:
            taken = self._take(config.batch_size)
            self._position, self._bad = self._position + taken.positions, self._bad + taken.bad
            mine = self._own([[one] for one in taken.rows])
        made = []
        torn = 0
        # every n-th sequence, so that no micro-batch gets all the long ones of an ordered window
        for micro in range(config.gradient_accumulation_steps):
            rows = [row for sequence in mine[micro :: config.gradient_accumulation_steps] for row in sequence]
            batch, lost = self._batch(rows)
            made.append(batch)
            torn += lost
        return StepBatches(made, torn, StreamPosition(self._position, self._taken, self._bad))

    def _own(self, whole: list[list[_Position]]) -> list[list[Row]]:
        """Every world-th sequence of a global batch, its rows fetched from the ranks that read them."""
        rank, world = self._group.rank, self._group.world
        # the rows this rank has read, by the rank that trains on them
        given = [
            [one.row for sequence in whole[to::world] for one in sequence if one.owner == rank] for to in range(world)
        ]
        # a receiver walks the same list in the same order, so rows need no labels on the way
        fetched = [iter(rows) for rows in self._exchange.dealt(given)]
        return [[next(fetched[one.owner]) for one in sequence] for sequence in whole[rank::world]]

    def _batch(self, rows: list[Row]) -> tuple[Batch, int]:
        """(batch, rows that turned out to be torn)."""
        processor, spans = self._processor, self._config.spans
        if self.decoders is not None:
            processor.decode(
                [data for row in rows for data in row.get("images") or () if isinstance(data, bytes)], self.decoders
            )
        try:
            batch = processor.training_batch(rows, spans, self._seen) if rows else processor.empty_batch()
            good = rows
        # a header promised what doesn't decode: find the torn rows one by one and leave them out
        except BadSample:
            good = [row for row in rows if self._whole(row)]
            batch = processor.training_batch(good, spans, self._seen) if good else processor.empty_batch()
        if self._config.packing or self._config.padding_free:
            batch = packed(batch)
        # every rank has to run the tower, as a model in parts is gathered by all or none
        return (processor.with_picture(batch) if self._group.world > 1 else batch), len(rows) - len(good)

    def _whole(self, row: Row) -> bool:
        try:
            self._processor.prompt(row)
        except BadSample:
            return False
        return True

    def _take(self, count: int) -> _Taken:
        """The next rows that can become sequences, as far as their headers show."""
        rows: list[_Position] = []
        lengths: list[int] = []
        positions = bad = bad_run = 0
        while len(rows) < count:
            for one in self._read(count - len(rows)):
                positions += 1
                if isinstance(one.found, int):
                    rows.append(one)
                    lengths.append(one.found)
                    bad_run = 0
                elif one.found is not None:
                    # a few bad rows are passed over and counted; a long run
                    # of them means the source is broken
                    bad, bad_run = bad + 1, bad_run + 1
                    if bad_run >= self._limit:
                        raise BadSample(one.found)
        return _Taken(rows, lengths, positions, bad)

    def _read(self, count: int) -> list[_Position]:
        """The next positions, this rank's share of them read here. An error of any rank is raised on all."""
        held: dict[int, Row] = {}
        found: dict[int, int | str | None] = {}
        failed: Exception | None = None
        try:
            for offset in range(count):
                row = next(self._rows)
                if row is not ELSEWHERE:
                    held[offset], found[offset] = row or ELSEWHERE, None if row is None else self._length(row)
        # any error: a rank that raised by itself would leave the others waiting in the exchange
        except Exception as error:
            failed = error
        reports: list[tuple[Mapping[int, int | str | None], Exception | None]] = self._exchange.told((found, failed))
        if failures := [one for one in (failed, *(theirs for _, theirs in reports)) if one is not None]:
            raise failures[0]
        owners = {offset: owner for owner, (share, _) in enumerate(reports) for offset in share}
        return [
            _Position(owners[offset], reports[owners[offset]][0][offset], held.get(offset, ELSEWHERE))
            for offset in range(count)
        ]

    def _length(self, row: Row) -> int | str:
        try:
            return self._processor.length(row)
        except BadSample as error:
            return str(error)

    # packed sequences

    def _sequence(self) -> list[_Position]:
        """The samples of the next sequence."""
        if not self._window:
            self._window = self._read_window()
        while self._taken >= len(self._window):
            self._position += self._window_rows
            self._bad += self._window_bad
            self._taken = 0
            self._window = self._read_window()
        self._taken += 1
        return self._window[self._taken - 1]

    def _read_window(self) -> list[list[_Position]]:
        """Sequences of the window that begins at `position`, in an order of its own."""
        taken = self._take(self._config.packing_window)
        self._window_rows, self._window_bad = taken.positions, taken.bad
        made = bins(taken.lengths, self._config.max_length)
        self.fill = fill(taken.lengths, made, self._config.max_length)
        # sequences are opened by their longest sample: unshuffled, long samples would come first
        # a large prime keeps the generators of neighbouring seeds and positions apart
        source = torch.Generator().manual_seed(self._config.seed * 1_000_003 + self._position)
        order: list[int] = torch.randperm(len(made), generator=source).tolist()
        return [[taken.rows[index] for index in made[place]] for place in order]


def ahead(batches: GlobalBatches, count: int, device: torch.device | None = None) -> Iterator[StepBatches]:
    """`count` steps, made by a thread up to `AHEAD` before a GPU computes them, their pictures decoded by others and,
    with the `device`, copied there meanwhile."""
    stream = None if device is None or device.type != "cuda" else torch.cuda.Stream(device)

    def made() -> StepBatches:
        given = batches.next()
        return given if stream is None else _uploaded(given, stream)

    # one thread for the batches, since the stream has one place;
    # several for pictures, whose decoding dominates
    with ThreadPoolExecutor(DECODERS, "pictures") as batches.decoders, ThreadPoolExecutor(1, "batches") as pool:
        waiting = [pool.submit(made) for _ in range(min(AHEAD, count))]
        for index in range(count):
            found = waiting.pop(0).result()
            if index + AHEAD < count:
                waiting.append(pool.submit(made))
            for batch in found.batches if stream is not None else ():
                if batch.pixel_values is not None:  # else its memory might be given away while it is still read
                    batch.pixel_values.record_stream(torch.cuda.current_stream(device))
            yield found


def _uploaded(given: StepBatches, stream: torch.cuda.Stream) -> StepBatches:
    """With the pictures, which are nearly all of a batch, on the GPU: on a stream of their own a copy doesn't wait for
    what the GPU has been told to compute."""
    with torch.cuda.stream(stream):
        there = [
            batch if batch.pixel_values is None else replace(batch, pixel_values=batch.pixel_values.to(stream.device))
            for batch in given.batches
        ]
    # handed over only when the copy is done
    stream.synchronize()
    return replace(given, batches=there)
