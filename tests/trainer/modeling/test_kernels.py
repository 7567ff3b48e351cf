"""Other kernels give the same numbers, and are gone when learning is over."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch._inductor.config

from trainer.modeling.kernels import Kernels
from trainer.modeling.model import build_model, hidden_states
from trainer.modeling.packing import ATTENTION, packed


def blocks(model: Any) -> list[Any]:
    return [*model.model.visual.blocks, *model.model.language_model.layers]


@pytest.mark.slow
def test_all_blocks_are_compiled_inside_alone(model: Any) -> None:
    kernels = Kernels(model, compiled=True)
    assert all(block._compiled_call_impl is None for block in blocks(model)), "not before they are used"
    with kernels.used():
        assert len(blocks(model)) == 4 and all(block._compiled_call_impl is not None for block in blocks(model))
    assert all(block._compiled_call_impl is None for block in blocks(model))


@pytest.mark.slow
def test_compiled_blocks_learn_the_same(tiny_preset: Any, processor: Any, rows: list[dict[str, Any]]) -> None:
    # a block of either kind: each further one takes the compiler as long again and has the same code
    preset = replace(tiny_preset, shape=tiny_preset.shape.changed(layers=1, vision_depth=1))
    model = build_model(preset, processor.tokenizer, seed=1)
    batch = packed(processor.training_batch(rows[:3]))
    kernels = Kernels(model, compiled=True)

    def learned() -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        model.zero_grad()
        states = hidden_states(model, batch)
        states.square().mean().backward()
        return states.detach(), {name: one.grad for name, one in model.named_parameters() if one.grad is not None}

    plain, gradients = learned()
    # in this process: workers of the compiler's own would import torch first
    with kernels.used(), torch._inductor.config.patch(compile_threads=1):
        compiled, others = learned()
    torch.testing.assert_close(compiled, plain, rtol=1e-4, atol=1e-5)
    assert gradients.keys() == others.keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(others[name], gradient, rtol=1e-3, atol=1e-5)


def test_an_attention_that_is_not_here_is_named(model: Any) -> None:
    with pytest.raises(ValueError, match=r"attention: expected sdpa or a kernel .* found 'flash_attention_2': "):
        Kernels(model, "flash_attention_2")
    assert model.model.language_model.config._attn_implementation == ATTENTION


def test_another_attention_is_used_inside_alone(model: Any, processor: Any, rows: list[dict[str, Any]]) -> None:
    batch = processor.training_batch(rows[:2])
    with torch.no_grad():
        plain = hidden_states(model, batch)
        with Kernels(model, "eager").used():
            assert model.model.language_model.config._attn_implementation == "eager"
            other = hidden_states(model, batch)
    assert model.model.language_model.config._attn_implementation == ATTENTION
    real = batch.attention_mask.bool()
    torch.testing.assert_close(other[real], plain[real], rtol=1e-4, atol=1e-5)
