"""Scaled dot-product attention by the kernel that is fast where it runs.

PyTorch's fused kernel for CPUs takes about ten times as long backwards in bfloat16 as two matrix products do (76 and
9 ms for 32 · 5 heads of 144 tokens of width 32 on two cores with AMX), which was half the time of a training step of
the nano preset. So where a gradient is wanted in a half-width type on a CPU, attention is written out.

On a GPU in a half-width type, sequences of several lengths that lie in one row go through one call of PyTorch's flash
kernel (`lengths_fit_one_kernel`): one call a sequence would need their lengths on the CPU, which waits for the GPU in
every layer. Sequences of one length form a batch, for which cuDNN has the fastest kernels: mid-training of the 2b on an
H200 is 11 % faster by them than by the flash kernel, which is written for the generation before.
"""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

LARGEST = 64 * 2**20
"""Attention weights (numbers) that are kept for the way back; where there are more, the fused kernel saves memory."""
FASTEST = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
"""Kernels of a GPU, the fastest first; one that can't do what is asked is passed over."""
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
        with _preferred(query):
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
    # what goes in is in `dtype` already
    with torch.autocast("cpu", enabled=False):
        # [B, H, T, T]
        # the query is scaled and not the scores: T · D products instead of T · T
        scores = (query * (query.shape[-1] ** -0.5 if scale is None else scale)).to(dtype) @ key.to(dtype).mT
        if causal:
            scores = scores.masked_fill(_later(*scores.shape[-2:]), MASKED)
        if mask is not None:
            seen = mask.dtype == torch.bool
            # an added mask may hold -inf; a row of nothing else would be nan
            scores = scores.masked_fill(~mask, MASKED) if seen else scores + mask.clamp(MASKED).to(dtype)
        return torch.softmax(scores, -1) @ value.to(dtype)  # [B, H, T, D]


def _preferred(query: torch.Tensor) -> AbstractContextManager[None]:
    """PyTorch's kernels in the order in which they are fast there, where that isn't its own."""
    return sdpa_kernel(FASTEST, set_priority=True) if lengths_fit_one_kernel(query) else nullcontext()


def lengths_fit_one_kernel(query: torch.Tensor) -> bool:
    """Whether `attention_in_row` can compute where and in what `query` would be: on a CUDA GPU, in 16 bits."""
    return query.device.type == "cuda" and _dtype(query) in (torch.bfloat16, torch.float16)


def attention_in_row(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bounds: tuple[torch.Tensor, torch.Tensor],
    longest: tuple[int, int],
    *,
    causal: bool,
    scale: float | None = None,
) -> torch.Tensor:
    """Attention within each of the sequences that lie one after another in a row, [T, H, D] → [T, H, D].

    `bounds` (int32, on the device): 0 and the end of each, of queries and of keys; `longest`: tokens of the longest, or
    more. Where a sequence has more keys than queries, its queries are the last of them. Where
    `lengths_fit_one_kernel`."""
    # With it comes the compiler, which doubles the CPU that torch's import takes; only a GPU comes here.
    from torch.nn.attention.varlen import varlen_attn

    dtype = _dtype(query)
    found = varlen_attn(
        query.to(dtype),
        key.to(dtype),
        value.to(dtype),
        *bounds,
        *longest,
        scale=scale,
        # no bound to the left; to the right up to the query itself, or none
        window_size=(-1, 0) if causal else (-1, -1),
        enable_gqa=query.shape[1] != key.shape[1],
    )
    assert isinstance(found, torch.Tensor)  # no more is asked for
    return found


def slow_when_fused(query: torch.Tensor, key: torch.Tensor) -> bool:
    """Whether the fused kernel's way back is the slow one, and the weights are few enough to be kept."""
    wanted = torch.is_grad_enabled() and (query.requires_grad or key.requires_grad)
    # [B, H, T, T]
    weights = query.shape[0] * query.shape[1] * query.shape[2] * key.shape[2]
    half = _dtype(query) in (torch.bfloat16, torch.float16)
    return wanted and half and query.device.type == "cpu" and query.shape[1] == key.shape[1] and weights <= LARGEST


def _dtype(query: torch.Tensor) -> torch.dtype:
    """What the fused kernel would compute in: under autocast, that of autocast."""
    kind = query.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else query.dtype


def _later(queries: int, keys: int) -> torch.Tensor:
    """[queries, keys], True where a key comes after the query."""
    return torch.ones(queries, keys, dtype=torch.bool).triu(1)
