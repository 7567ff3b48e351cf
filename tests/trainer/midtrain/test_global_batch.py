"""The rows of a step are a pure function of the place in the stream, for any number of ranks and micro-batches."""

from __future__ import annotations

from itertools import islice
from threading import Barrier, current_thread
from typing import Any

import pytest
import torch
from drawn import make_rows
from threaded_ranks import in_threads

from trainer.data.row_sources import ListSource
from trainer.midtrain.global_batch import GlobalBatches, StepBatches, StreamPosition, ahead
from trainer.modeling import processor as processing
from trainer.modeling.batches import BadSample, Batch
from trainer.runtime.exchange import Exchange
from trainer.runtime.parallel import Ranks
from trainer.settings.supervised import MidtrainConfig

CONFIG = MidtrainConfig(batch_size=4, threads=1, max_length=200, packing_window=9)


def stream(
    processor: Any,
    rows: Any,
    config: MidtrainConfig,
    place: StreamPosition | None = None,
) -> GlobalBatches:
    return GlobalBatches(ListSource(rows, 7), processor, config, Ranks(), place or StreamPosition())


def on_ranks(processor: Any, rows: Any, config: MidtrainConfig, world: int, count: int) -> list[list[StepBatches]]:
    """Steps of each rank."""

    def on_a_rank(group: Ranks, exchange: Exchange) -> list[StepBatches]:
        source, place = ListSource(rows, 7), StreamPosition()
        batches = GlobalBatches(source, processor.apart(), config, group, place, exchange=exchange)
        return [batches.next() for _ in range(count)]

    return in_threads(world, on_a_rank)


def answers(batches: list[Batch]) -> list[tuple[int, ...]]:
    """Label ids of every sample, sorted."""
    found: list[tuple[int, ...]] = []
    for batch in batches:
        labels = batch.labels if batch.lengths is None else batch.labels[0].split(batch.lengths)
        found += [tuple(row[row != -100].tolist()) for row in labels]
    return sorted(ids for ids in found if ids)


@pytest.mark.slow
@pytest.mark.parametrize("packing", [False, True])
def test_any_place_is_taken_up_and_any_split_has_the_same_rows(processor: Any, packing: bool) -> None:
    rows = make_rows(14, seed=9)
    rows[3] = {**rows[3], "images": [b"broken"]}
    rows[5] = {**rows[5], "images": [rows[5]["images"][0][:100]]}  # whole header, torn body
    config = CONFIG.changed(packing=packing)
    source = stream(processor, rows, config)
    whole: list[StepBatches] = [source.next() for _ in range(9)]
    assert whole[-1].after.bad > 1 and sum(step.torn for step in whole) > 0
    for start in (1, 3, 8):
        resumed = stream(processor, rows, config, whole[start - 1].after)
        for step in whole[start:]:
            again = resumed.next()
            assert again.after == step.after
            assert torch.equal(again.batches[0].input_ids, step.batches[0].input_ids)
    for world, parts in ((2, 1), (3, 2), (1, 4), (5, 1)):
        split = config.changed(gradient_accumulation_steps=parts)
        for step, *mine in zip(whole, *on_ranks(processor, rows, split, world, len(whole)), strict=True):
            assert all(len(one.batches) == parts and one.after == step.after for one in mine)
            assert answers([batch for one in mine for batch in one.batches]) == answers(step.batches)
            assert sum(one.torn for one in mine) == step.torn
            if world > 1:  # each runs the vision tower, also one without a row left
                assert all(batch.pixel_values is not None for one in mine for batch in one.batches)


def test_packing_shuffles_sequences_loses_no_row_and_fills_them(processor: Any) -> None:
    rows = make_rows(40, seed=2)
    config = CONFIG.changed(packing=True, packing_window=40, max_length=400, batch_size=1)
    source = stream(processor, rows, config)
    seen: list[Batch] = []
    while source.next().after.position == 0:
        pass
    again = stream(processor, rows, config)
    for step in iter(again.next, None):
        if step.after.position:
            break
        seen += step.batches
    assert answers(seen) == answers([processor.training_batch(rows)])
    assert max(batch.tokens for batch in seen) <= 400 and source.fill >= 0.9
    longest = [max(batch.lengths or [0]) for batch in seen]
    assert longest != sorted(longest, reverse=True)


def test_a_batch_without_padding_has_the_rows_of_one_with(processor: Any) -> None:
    rows = make_rows(8)
    flat, padded = (
        stream(processor, rows, CONFIG.changed(padding_free=free)).next().batches[0] for free in (True, False)
    )
    assert flat.lengths == padded.attention_mask.sum(1).tolist() and answers([flat]) == answers([padded])
    assert flat.input_ids.numel() == padded.tokens < padded.input_ids.numel()


def test_a_thread_ahead_makes_the_same_steps_and_hands_errors_on(processor: Any) -> None:
    rows = make_rows(8)
    plain, other = stream(processor, rows, CONFIG), stream(processor, rows, CONFIG)
    for step, same in zip([plain.next() for _ in range(4)], ahead(other, 4), strict=True):
        assert step.after == same.after and torch.equal(step.batches[0].input_ids, same.batches[0].input_ids)
    broken = stream(processor, [{**rows[0], "images": []}], CONFIG)
    with pytest.raises(BadSample):
        next(islice(ahead(broken, 2), 1))


def test_a_row_is_measured_by_one_rank_and_an_error_of_one_ends_all(processor: Any) -> None:
    rows = make_rows(12)  # three steps
    measured: list[list[str]] = [[], [], []]

    def on_a_rank(group: Ranks, exchange: Exchange) -> int:
        own = processor.apart()
        plain, mine = own.length, measured[group.rank]

        def length(row: dict[str, Any]) -> int:
            mine.append(row["sample_id"])
            if group.first and len(mine) == 5:
                raise OSError("the disk is gone")
            return int(plain(row))

        own.length = length
        batches = GlobalBatches(ListSource(rows, 7), own, CONFIG, group, StreamPosition(), exchange=exchange)
        for _ in range(3):
            batches.next()
        seen = len(mine)
        with pytest.raises(OSError, match="the disk is gone"):
            batches.next()
        return seen

    assert in_threads(3, on_a_rank) == [4, 4, 4]
    assert sorted(name for names in measured for name in names[:4]) == sorted(row["sample_id"] for row in rows)


def test_pictures_of_a_step_are_decoded_at_the_same_time(processor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads must be decoding for either to go on; a torn picture is counted as without threads."""
    rows = make_rows(8, seed=4)
    rows[5] = {**rows[5], "images": [rows[5]["images"][0][:100]]}
    expected = list(islice(iter(stream(processor.apart(), rows, CONFIG).next, None), 2))
    meeting, plain = Barrier(2, timeout=30), processing.open_image
    names: set[str] = set()

    def opened(data: bytes) -> Any:
        if len(names) < 2:
            names.add(current_thread().name)
            meeting.wait()
        return plain(data)

    monkeypatch.setattr(processing, "open_image", opened)
    made = list(ahead(stream(processor.apart(), rows, CONFIG), 2))
    assert len(names) == 2 and all(name.startswith("pictures") for name in names)
    for step, same in zip(made, expected, strict=True):
        assert step.torn == same.torn and torch.equal(step.batches[0].pixel_values, same.batches[0].pixel_values)
    assert sum(step.torn for step in made) == 1
