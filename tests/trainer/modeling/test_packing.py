"""Samples that share a sequence: none sees another, and little of the sequence is empty."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from drawn import draw, make_rows
from hypothesis import given, settings
from hypothesis import strategies as st
from label_logits import label_logits

from trainer.modeling.model import recompute, reply_logprobs
from trainer.modeling.packing import ATTENTION, bins, fill, packed


@given(st.lists(st.integers(1, 60), max_size=80), st.integers(1, 50))
@settings(max_examples=60, deadline=None)
def test_each_sample_is_in_one_sequence_that_holds_it(lengths: list[int], size: int) -> None:
    made = bins(lengths, size)
    assert sorted(i for chosen in made for i in chosen) == list(range(len(lengths)))
    for chosen in made:
        assert sum(lengths[i] for i in chosen) <= size or len(chosen) == 1
    open_pairs = sum(sum(lengths[i] for i in chosen) * 2 <= size for chosen in made)
    assert open_pairs <= 1  # two half-empty sequences would have become one


def realistic(count: int, seed: int) -> dict[str, tuple[list[int], int]]:
    """Lengths in tokens of three corpora, and the sequence length to pack them into."""
    rng = random.Random(seed)
    nano = [rng.choice((35, 70, 140)) + rng.randint(20, 60) + rng.choice((6, 6, 30, 45)) for _ in range(count)]
    # published sizes: screens of 0.5 to 2.5 thousand image tokens, histories of a log-normal length
    large = [rng.choice((1196, 2040, 2691, 560)) + min(6000, int(rng.lognormvariate(5.6, 0.8))) for _ in range(count)]
    text = [max(8, min(2048, int(rng.lognormvariate(5, 1)))) for _ in range(count)]
    return {"nano": (nano, 2048), "large": (large, 16384), "text": (text, 4096)}


@pytest.mark.parametrize("corpus", ["nano", "large", "text"])
def test_at_least_97_percent_of_the_places_hold_a_token(corpus: str) -> None:
    lengths, size = realistic(1024, 3)[corpus]
    made = bins(lengths, size)
    assert fill(lengths, made, size) >= 0.97
    assert made == bins(list(lengths), size)


def test_packed_logits_equal_those_of_each_sample_alone(model: Any, processor: Any, rows: list[dict[str, Any]]) -> None:
    """Against one row at a time, and against the packing of plain transformers (its own block mask)."""
    tall = {**rows[1], "images": [draw({"red": (10, 20, 60, 90)}, (120, 260))]}
    blind = {**rows[3], "images": [], "messages": '[{"role": "user", "content": "scroll on"}]'}
    some = [rows[0], tall, rows[2], blind, rows[0]]
    batch = packed(processor.training_batch(some))
    assert batch.input_ids.shape == (1, sum(batch.lengths or [])) and batch.image_use == [0, 1, 2, 0]
    with torch.no_grad():
        together = label_logits(model.eval(), batch)
        for index, row in enumerate(some):
            alone = label_logits(model, processor.training_batch([row]))
            mine = together.samples == index
            assert torch.equal(together.labels[mine], alone.labels)
            torch.testing.assert_close(together.values[mine], alone.values, rtol=1e-5, atol=1e-5)
        theirs = model(**batch.model_inputs(), use_cache=False).logits  # with a cache it looks for no bounds
    torch.testing.assert_close(together.values, theirs[0, together.columns - 1], rtol=1e-4, atol=1e-4)


def test_a_sample_does_not_touch_its_neighbours(model: Any, processor: Any, rows: list[dict[str, Any]]) -> None:
    other = {**rows[1], "images": [draw({"black": (90, 9, 150, 150)})], "answer": rows[1]["answer"][:-1] + "]"}
    assert model.model.language_model.config._attn_implementation == ATTENTION
    with torch.no_grad():
        first = label_logits(model.eval(), packed(processor.training_batch([rows[0], rows[1], rows[2]])))
        second = label_logits(model, packed(processor.training_batch([rows[0], other, rows[2]])))
    for index in (0, 2):
        torch.testing.assert_close(
            first.values[first.samples == index], second.values[second.samples == index], rtol=0, atol=1e-6
        )
    assert not torch.equal(first.values[first.samples == 1], second.values[second.samples == 1])


def test_gradients_and_reply_logprobs_are_those_of_the_padded_batch(model: Any, processor: Any) -> None:
    batch = processor.training_batch(make_rows(5, seed=2))
    grads = []
    for form in (batch, packed(batch)):
        model.zero_grad()
        found = label_logits(model, form)
        torch.nn.functional.cross_entropy(found.values, found.labels).backward()
        grads.append({n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None})
    for name, grad in grads[0].items():
        torch.testing.assert_close(grads[1][name], grad, rtol=1e-4, atol=1e-6, msg=name)
    with torch.no_grad():
        padded, flat = reply_logprobs(model, batch), reply_logprobs(model, packed(batch))
    assert torch.equal(padded.mask, flat.mask)
    torch.testing.assert_close(padded.logprobs, flat.logprobs, rtol=1e-4, atol=1e-5)


def test_gradient_checkpointing_keeps_samples_apart(model: Any, processor: Any, rows: list[dict[str, Any]]) -> None:
    """The second forward pass of checkpointing gets the bounds too."""
    batch = packed(processor.training_batch(rows[:3]))
    grads = []
    for on in (False, True):
        model.train()
        recompute(model, on)
        model.zero_grad()
        label_logits(model, batch).values.square().mean().backward()
        grads.append(torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]))
    torch.testing.assert_close(grads[0], grads[1])


def test_attention_that_heeds_no_bounds_is_refused(model: Any, processor: Any, rows: list[dict[str, Any]]) -> None:
    model.set_attn_implementation("eager")
    with pytest.raises(ValueError, match="found 'eager'"):
        label_logits(model, packed(processor.training_batch(rows[:2])))
    label_logits(model, processor.training_batch(rows[:2]))


def test_bounds_of_no_length_are_refused() -> None:
    with pytest.raises(ValueError, match="max_length"):
        bins([3], 0)
    assert bins([], 8) == [] and fill([], [], 8) == 0.0
