"""Replies that share a prompt in a packed row have the figures and gradients that they have alone."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from drawn import draw

from trainer.modeling.model import freeze_vision, label_terms, reply_logprobs, reply_terms
from trainer.modeling.packing import attention_arguments
from trainer.modeling.shared_prompts import replies_laid_out, share_prompts

REPLIES = ("Click(box=(1,2))", "Scroll(start=(5,5), end=(9,9), direction='down')", "Wait()", "Type(content='ab')")


def asked(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Prompts that differ in picture, in text and in having a picture."""
    other = {**rows[0], "images": [draw({"black": (90, 9, 150, 150)})]}
    blind = {**rows[3], "images": [], "messages": '[{"role": "user", "content": "scroll on"}]'}
    return [rows[0], other, blind, rows[1]]


def gradients(model: Any) -> dict[str, torch.Tensor]:
    return {name: one.grad.clone() for name, one in model.named_parameters() if one.grad is not None}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_each_reply_is_as_it_is_alone(model: Any, processor: Any, rows: list[dict[str, Any]], seed: int) -> None:
    """In any order of prompts, and with equal prompts in rows of their own."""
    rng = random.Random(seed)
    pairs = [(rng.randrange(4), rng.randrange(4)) for _ in range(seed + 2)]
    given_rows = [dict(asked(rows)[prompt]) for prompt, _ in pairs]
    replies = [processor.answer(REPLIES[reply]) for _, reply in pairs]
    padded = processor.reply_batch(given_rows, replies)
    shared = replies_laid_out(model, processor, given_rows, replies)
    distinct = len({prompt for prompt, _ in pairs})
    lengths = {prompt: processor.prompt_length(asked(rows)[prompt]) for prompt, _ in pairs}
    assert shared.tokens == sum(lengths.values()) + sum(map(len, replies))
    assert shared.size == len(pairs) and (shared.prompts or []).count(-1) == distinct
    found = {}
    for name, batch in (("padded", padded), ("shared", shared)):
        model.zero_grad()
        made = reply_logprobs(model, batch, never=processor.never)
        (made.logprobs * made.mask).sum().backward()
        found[name] = made, gradients(model)
    one, other = found["padded"][0], found["shared"][0]
    assert torch.equal(one.mask, other.mask)
    torch.testing.assert_close(one.logprobs, other.logprobs, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(one.entropy, other.entropy, rtol=1e-4, atol=1e-5)
    largest = max(float(grad.abs().max()) for grad in found["padded"][1].values())
    for name, grad in found["padded"][1].items():
        torch.testing.assert_close(found["shared"][1].get(name, torch.zeros(())), grad, rtol=1e-3, atol=largest * 1e-5)
    model.zero_grad()


def test_labels_know_their_reply_and_what_predicts_them(model: Any, processor: Any, rows: list[dict[str, Any]]) -> None:
    given_rows = [rows[0], rows[1], rows[0]]
    replies = [processor.answer(reply) for reply in REPLIES[:3]]
    batch = replies_laid_out(model, processor, given_rows, replies)
    with torch.no_grad():
        found = label_terms(model, batch, reply_terms(processor.never))
    assert found.labels.tolist() == [token for reply in replies for token in reply]
    assert found.samples.tolist() == [place for place, reply in enumerate(replies) for _ in reply]
    before = batch.before(found.columns)
    ends = torch.tensor(batch.lengths).cumsum(0).tolist()
    firsts = [int(before[found.samples == place][0]) for place in range(3)]
    assert firsts == [ends[0] - 1, ends[2] - 1, ends[0] - 1], "the last token of its prompt predicts a reply's first"


def test_a_frozen_tower_sees_each_picture_once(model: Any, processor: Any, rows: list[dict[str, Any]]) -> None:
    replies = [processor.answer(reply) for reply in REPLIES]
    given_rows = [rows[0], rows[1], rows[0], rows[1]]
    with torch.no_grad():
        plain = reply_logprobs(model, processor.reply_batch(given_rows, replies)).logprobs
        freeze_vision(model, True)
        try:
            for _ in range(2):
                batch = replies_laid_out(model, processor, given_rows, replies, model.seen_pictures)
                assert len(batch.image_use) == 2
                torch.testing.assert_close(reply_logprobs(model, batch).logprobs, plain, rtol=1e-4, atol=1e-5)
            assert batch.pixel_values is None, "the second time its features are known"
        finally:
            freeze_vision(model, False)


def test_another_kernel_gets_no_shared_prompts(model: Any, processor: Any, rows: list[dict[str, Any]]) -> None:
    replies = [processor.answer(reply) for reply in REPLIES[:2]]
    config = model.model.language_model.config
    usual = config._attn_implementation
    prompts = processor.prompts([rows[0], rows[0]])
    shared = share_prompts(processor.pad(prompts, replies, None, left=False), prompts)
    try:
        config._attn_implementation = "flash_attention_2"
        batch = replies_laid_out(model, processor, [rows[0], rows[0]], replies)
        assert batch.prompts is None and batch.lengths is not None
        with pytest.raises(ValueError, match="expected attention by sdpa_packed"):
            attention_arguments(model, shared)
        config._attn_implementation = "eager"
        assert replies_laid_out(model, processor, [rows[0], rows[0]], replies).lengths is None
    finally:
        config._attn_implementation = usual
