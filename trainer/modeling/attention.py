"""Scaled dot-product attention by the kernel that is fast where it runs.

PyTorch's fused kernel for CPUs takes about ten times as long backwards in bfloat16 as two matrix products do (76 and
9 ms for 32 · 5 heads of 144 tokens of width 32 on two cores with AMX), which was half the time of a training step of
the nano preset. So where a gradient is wanted in a half-width type on a CPU, attention is written out.
"""

from __future__ import annotations

import torch
from torch.nn import functional

LARGEST = 64 * 2**20
"""Attention weights (numbers) that are kept for the way back; where there are more, the fused kernel saves memory."""
MASKED = -1e4
"""Finite, so that a row in which all is masked has no nan."""


def attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None = None,
    *,
    causal: bool = False,
    scale: float | None = None,
    dropout: float = 0.0,
) -> torch.Tensor:
    """softmax(q·kᵀ·scale + mask)·v, [B, H, T, D] → [B, H, T, D]; `mask` bool (True: seen) or added, as in
    `scaled_dot_product_attention`; without `scale` it is 1/√D. Fewer heads of keys than of queries are shared.
    """
    if dropout or not slow_when_fused(query, key):
        return functional.scaled_dot_product_attention(
            query,
            key,
            value,
            mask,
            dropout_p=dropout,
            is_causal=causal,
            scale=scale,
            enable_gqa=query.shape[1] != key.shape[1],
        )
    dtype = _dtype(query)
    with torch.autocast("cpu", enabled=False):
        # [B, H, T, T]
        scores = (query * (query.shape[-1] ** -0.5 if scale is None else scale)).to(dtype) @ key.to(dtype).mT
        if causal:
            scores = scores.masked_fill(_later(*scores.shape[-2:]), MASKED)
        if mask is not None:
            seen = mask.dtype == torch.bool
            scores = scores.masked_fill(~mask, MASKED) if seen else scores + mask.clamp(MASKED).to(dtype)
        return torch.softmax(scores, -1) @ value.to(dtype)  # [B, H, T, D]


def slow_when_fused(query: torch.Tensor, key: torch.Tensor) -> bool:
    """Whether the fused kernel's way back is the slow one, and the weights are few enough to be kept."""
    wanted = torch.is_grad_enabled() and (query.requires_grad or key.requires_grad)
    weights = query.shape[0] * query.shape[1] * query.shape[2] * key.shape[2]
    half = _dtype(query) in (torch.bfloat16, torch.float16)
    return wanted and half and query.device.type == "cpu" and query.shape[1] == key.shape[1] and weights <= LARGEST


def _dtype(query: torch.Tensor) -> torch.dtype:
    """What the fused kernel would compute in: under autocast, that of autocast."""
    return torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else query.dtype


def _later(queries: int, keys: int) -> torch.Tensor:
    """[queries, keys], True where a key comes after the query."""
    return torch.ones(queries, keys, dtype=torch.bool).triu(1)
