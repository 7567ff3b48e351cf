"""Which rows a step trains on: one global batch for all ranks, split into the micro-batches of this one.

A global batch is a pure function of (source, place, config), whatever the number of ranks and of micro-batches: part
i of n takes every n-th of its rows, or, packed, of its sequences. Packed sequences are made of windows of rows, each
on its own, so that a place in the stream is a window's first position and a number of sequences, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from trainer.data.row_sources import RowSource
from trainer.modeling.batches import BadSample, Batch, Row
from trainer.modeling.packing import bins, fill, packed
from trainer.modeling.processor import Processor
from trainer.modeling.seen_pictures import SeenPictures
from trainer.runtime.parallel import Ranks
from trainer.settings.supervised import MidtrainConfig

AHEAD = 2
"""Steps that wait for the GPU at most."""


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


class GlobalBatches:
    """Steps of this rank. As many bad rows in a row as a batch has (at least 64) are an error. `seen`: the pictures
    that a frozen tower has seen."""

    def __init__(
        self,
        source: RowSource,
        processor: Processor,
        config: MidtrainConfig,
        group: Ranks,
        place: StreamPosition,
        seen: SeenPictures | None = None,
    ) -> None:
        self._seen = seen
        self._rows = source.rows(place.position)
        self._processor, self._config, self._group = processor, config, group
        self._position, self._taken, self._bad = place.position, place.taken, place.bad
        self._limit = max(64, config.batch_size)
        self._window: list[list[Row]] = []
        self._window_rows = self._window_bad = 0
        self.fill = 1.0
        """Share of the places of the last window's sequences that hold a token."""

    def next(self) -> StepBatches:
        """The next step; a micro-batch that no row is left for is an empty one."""
        config, group = self._config, self._group
        wanted = range(config.batch_size)
        whole = [self._sequence() for _ in wanted] if config.packing else [[self._row()] for _ in wanted]
        parts = group.world * config.gradient_accumulation_steps
        made = []
        torn = 0
        for micro in range(config.gradient_accumulation_steps):
            mine = [row for rows in whole[micro * group.world + group.rank :: parts] for row in rows]
            batch, lost = self._batch(mine)
            made.append(batch)
            torn += lost
        return StepBatches(made, torn, StreamPosition(self._position, self._taken, self._bad))

    def _batch(self, rows: list[Row]) -> tuple[Batch, int]:
        """(batch, rows that turned out to be torn)."""
        processor, spans = self._processor, self._config.spans
        try:
            batch = processor.training_batch(rows, spans, self._seen) if rows else processor.empty_batch()
            good = rows
        except BadSample:
            good = [row for row in rows if self._whole(row)]
            batch = processor.training_batch(good, spans, self._seen) if good else processor.empty_batch()
        if self._config.packing or self._config.padding_free:
            batch = packed(batch)
        return (processor.with_picture(batch) if self._group.world > 1 else batch), len(rows) - len(good)

    def _whole(self, row: Row) -> bool:
        try:
            self._processor.prompt(row)
        except BadSample:
            return False
        return True

    def _row(self) -> Row:
        """The next row that can become a sequence, as far as its header shows."""
        bad_run = 0
        while True:
            row = next(self._rows)
            self._position += 1
            if row is None:
                continue
            try:
                self._processor.length(row)
            except BadSample:
                self._bad, bad_run = self._bad + 1, bad_run + 1
                if bad_run >= self._limit:
                    raise
                continue
            return row

    # packed sequences

    def _sequence(self) -> list[Row]:
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

    def _read_window(self) -> list[list[Row]]:
        """Sequences of the window that begins at `position`, in an order of its own."""
        rows: list[Row] = []
        lengths: list[int] = []
        bad_run = 0
        self._window_rows = self._window_bad = 0
        while len(rows) < self._config.packing_window:
            row = next(self._rows)
            self._window_rows += 1
            if row is None:
                continue
            try:
                lengths.append(self._processor.length(row))
            except BadSample:
                self._window_bad, bad_run = self._window_bad + 1, bad_run + 1
                if bad_run >= self._limit:
                    raise
                continue
            rows.append(row)
            bad_run = 0
        made = bins(lengths, self._config.max_length)
        self.fill = fill(lengths, made, self._config.max_length)
        # sequences are opened by their longest sample: unshuffled, long samples would come first
        source = torch.Generator().manual_seed(self._config.seed * 1_000_003 + self._position)
        order: list[int] = torch.randperm(len(made), generator=source).tolist()
        return [[rows[index] for index in made[place]] for place in order]


def ahead(batches: GlobalBatches, count: int) -> Iterator[StepBatches]:
    """`count` steps, made by a thread up to `AHEAD` before a GPU computes them."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1, "batches") as pool:
        waiting = [pool.submit(batches.next) for _ in range(min(AHEAD, count))]
        for index in range(count):
            found = waiting.pop(0).result()
            if index + AHEAD < count:
                waiting.append(pool.submit(batches.next))
            yield found
