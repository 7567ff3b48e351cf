"""Attention written out equals the fused kernel, forwards and backwards, wherever it takes its place."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from trainer.modeling.attention import attention, slow_when_fused

SHAPE = (3, 2, 17, 8)


def _tensors(dtype: torch.dtype, shape: tuple[int, ...] = SHAPE) -> list[torch.Tensor]:
    made = torch.Generator().manual_seed(1)
    return [torch.randn(shape, generator=made).to(dtype).requires_grad_() for _ in range(3)]


def _with_gradients(out: torch.Tensor, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    made = torch.Generator().manual_seed(2)
    return [out, *torch.autograd.grad((out.float() * torch.randn(out.shape, generator=made)).sum(), tensors)]


def _mask(kind: str) -> torch.Tensor | None:
    seen = torch.rand(3, 1, 17, 17, generator=torch.Generator().manual_seed(3)) < 0.7
    seen |= torch.eye(17, dtype=torch.bool)
    if kind == "bool":
        return seen
    return torch.where(seen, 0.0, -1e4).to(torch.bfloat16) if kind == "added" else None


@pytest.mark.parametrize("kind", ["none", "bool", "added", "causal"])
def test_written_out_it_equals_the_fused_kernel_in_fp32(kind: str) -> None:
    mask, causal = _mask(kind), kind == "causal"
    exact, half = _tensors(torch.float32), _tensors(torch.bfloat16)
    assert slow_when_fused(half[0], half[1])
    assert not slow_when_fused(exact[0], exact[1])
    added = None if mask is None or mask.dtype == torch.bool else mask.float()
    fused = functional.scaled_dot_product_attention(
        *exact, mask if added is None else added, is_causal=causal, scale=0.4
    )
    found = attention(*half, mask, causal=causal, scale=0.4)
    for ours, theirs in zip(_with_gradients(found, half), _with_gradients(fused, exact), strict=True):
        assert ours.dtype == torch.bfloat16
        assert float((ours.float() - theirs).detach().norm() / theirs.detach().norm()) < 0.02


def test_what_is_wholly_masked_has_no_nan_and_gives_nothing_away() -> None:
    half = _tensors(torch.bfloat16)
    seen = torch.ones(3, 1, 17, 17, dtype=torch.bool)
    seen[0, :, 5] = False
    seen[1, :, :, 9:] = False
    added = torch.zeros(seen.shape).masked_fill(~seen, float("-inf"))
    assert torch.equal(attention(*half, added), attention(*half, seen))
    found = _with_gradients(attention(*half, seen), half)
    assert all(torch.isfinite(tensor).all() for tensor in found)
    assert not found[3][1, :, 9:].any()  # no gradient for values that nobody sees


def test_under_autocast_it_computes_in_the_half_width_type() -> None:
    exact = _tensors(torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        assert slow_when_fused(exact[0], exact[1])
        assert attention(*exact).dtype == torch.bfloat16
    with torch.no_grad():
        assert not slow_when_fused(*(tensor.bfloat16() for tensor in exact[:2]))


def test_fewer_heads_of_keys_are_shared() -> None:
    query, key, value = _tensors(torch.float32, (2, 4, 5, 8))
    few = attention(query, key[:, :2], value[:, :2])
    shared = [tensor[:, :2].repeat_interleave(2, 1) for tensor in (key, value)]
    torch.testing.assert_close(few, attention(query, *shared))
