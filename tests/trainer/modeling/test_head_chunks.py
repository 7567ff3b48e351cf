"""Losses from logits that are made a chunk of tokens at a time: the same numbers and gradients, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from drawn import make_rows
from torch import nn
from two_ranks import on_two_ranks

from bench.training import head_memory
from trainer.midtrain.loss import token_losses
from trainer.modeling import head_chunks
from trainer.modeling.model import build_model, reply_logprobs
from trainer.modeling.packing import packed
from trainer.modeling.sharding import sharded
from trainer.runtime.parallel import launched

pytestmark = pytest.mark.slow

Found = tuple[torch.Tensor, dict[str, Any]]


def gradients(model: Any, values: torch.Tensor) -> Found:
    """The values, and each parameter's gradient of a sum that weighs every value otherwise."""
    model.zero_grad()
    (values * torch.linspace(-1, 2, values.numel()).view(values.shape)).sum().backward()
    return values.detach(), {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


def same(found: Found, expected: Found) -> None:
    torch.testing.assert_close(found[0], expected[0], rtol=0, atol=1e-6)
    assert found[1].keys() == expected[1].keys() and "model.language_model.embed_tokens.weight" in found[1]
    for name, grad in expected[1].items():
        torch.testing.assert_close(found[1][name], grad, rtol=1e-5, atol=1e-5, msg=name)


def replies(model: Any, processor: Any) -> torch.Tensor:
    found = reply_logprobs(model, packed(processor.training_batch(make_rows(5, seed=2))), 0.7, never=processor.never)
    return torch.stack([found.logprobs, found.entropy])


def coordinates(model: Any, processor: Any) -> torch.Tensor:
    return token_losses(model, processor, processor.training_batch(make_rows(5, seed=2)), sigma=20.0)[0]


@pytest.mark.parametrize("values", [replies, coordinates])
@pytest.mark.parametrize("bf16", [False, True])
def test_chunks_give_the_values_and_gradients_of_the_whole(
    model: Any, processor: Any, monkeypatch: pytest.MonkeyPatch, values: Callable[..., torch.Tensor], bf16: bool
) -> None:
    """The last chunk is smaller than the others. Under autocast the second pass computes in bfloat16 as the first."""
    sizes: list[int] = []
    plain = head_chunks._grad_logits

    def spied(terms: head_chunks.Terms, logits: torch.Tensor, *given: torch.Tensor) -> torch.Tensor:
        sizes.append(len(logits))
        return plain(terms, logits, *given)

    monkeypatch.setattr(head_chunks, "_grad_logits", spied)
    found = []
    for tokens in (1000, 7):
        monkeypatch.setattr(head_chunks, "CHUNK_BYTES", 4 * tokens * model.lm_head.weight.shape[0])
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            made = values(model, processor)
        found.append(gradients(model, made))
    assert set(sizes[:-1]) == {7} and 0 < sizes[-1] < 7  # all at once needs no second pass
    if not bf16:
        same(found[1], found[0])
        return
    torch.testing.assert_close(found[1][0], found[0][0], rtol=0, atol=1e-6)
    for name, grad in found[0][1].items():
        assert float((found[1][1][name] - grad).norm()) <= 0.02 * float(grad.norm()) + 1e-6, name


def test_a_head_that_does_not_learn_hands_gradients_on(monkeypatch: pytest.MonkeyPatch) -> None:
    head = nn.Linear(4, 50, bias=False).requires_grad_(False)
    states = torch.randn(9, 4, requires_grad=True)
    given = torch.arange(9), torch.zeros(9, dtype=torch.bool)

    def chosen(logits: torch.Tensor, labels: torch.Tensor, _coordinate: torch.Tensor) -> torch.Tensor:
        return torch.log_softmax(logits, -1).gather(1, labels[:, None])[:, 0]

    (expected,) = torch.autograd.grad(head_chunks.head_terms(head, states, *given, chosen).sum(), states)
    monkeypatch.setattr(head_chunks, "CHUNK_BYTES", 4 * 50 * 4)
    head_chunks.head_terms(head, states, *given, chosen).sum().backward()
    torch.testing.assert_close(states.grad, expected)
    assert head.weight.grad is None


def test_a_thousand_tokens_of_a_published_vocabulary_fit_in_800_megabytes() -> None:
    """Forward and backward; all logits at once take 3.3 GB."""
    assert head_memory()["mib"] * 2**20 <= 0.8e9


def on_a_rank(folder: Path, tiny: Any, processor: Any) -> None:
    torch.set_num_threads(1)
    with launched() as group:
        model = build_model(tiny, processor.tokenizer, seed=1)
        head_chunks.CHUNK_BYTES = 4 * 7 * model.lm_head.weight.shape[0]
        parted: Any = sharded(model, group)
        found = gradients(parted, replies(parted, processor))
        whole = found[0], {name: grad.full_tensor() for name, grad in found[1].items()}
        if group.first:
            torch.save(whole, folder / "found.pt")


def test_a_model_in_parts_gives_the_same(tmp_path: Path, model: Any, processor: Any, tiny_preset: Any) -> None:
    on_two_ranks(on_a_rank, tmp_path, tiny_preset, processor)
    same(torch.load(tmp_path / "found.pt", weights_only=True), gradients(model, replies(model, processor)))
