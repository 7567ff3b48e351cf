"""What a loss asks of logits, a chunk of tokens at a time.

Logits [N, V] of a thousand answer tokens are 0.6 GB at a published vocabulary, and a log-softmax with its gradient
holds five to six tensors of that size. What is asked of them is a few numbers a token: so the head is applied to a
chunk, the numbers are kept, and the backward pass makes the chunk's logits again (as in Liger's fused linear cross
entropy). The gradient is exact; that of the head's weights is summed chunk by chunk, which rounds otherwise than one
product does.

Under autocast on a GPU the factors are in 16 bits and logits in float32: rounded to 16 bits, a logit of 10 is off by up
to 0.03, and log-probabilities of one token by two ways of computing it with them.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

CHUNK_BYTES = 1 << 26
"""Of a chunk's logits in float32: 110 tokens of a published vocabulary, thousands (so mostly all) of nano's."""
GPU_CHUNK_BYTES = 1 << 28
"""The same on a GPU, whose products want more rows: 440 tokens of a published vocabulary."""

Terms = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""(logits [n, V], labels [n], which of them are coordinates [n]) → values [n, …], a token's from its own logits alone.
Called twice in training: it closes over nothing that learns."""


def head_terms(
    head: nn.Linear, states: torch.Tensor, labels: torch.Tensor, coordinate: torch.Tensor, terms: Terms
) -> torch.Tensor:
    """Hidden states [N, D] → what `terms` makes of their logits [N, …], differentiable in the states and the head."""
    chunk_bytes = GPU_CHUNK_BYTES if states.is_cuda else CHUNK_BYTES
    # 4 bytes a logit
    size = max(1, chunk_bytes // (4 * head.weight.shape[0]))
    if len(states) <= size and not _wide_product(states):
        # all at once is within the bound, and saves making logits again
        return terms(head(states), labels, coordinate)
    values: torch.Tensor = _InChunks.apply(states, head.weight, labels, coordinate, terms, size)
    return values


def head_logits(head: nn.Linear, states: torch.Tensor) -> torch.Tensor:
    """Logits [..., V] of hidden states [..., D], without a gradient."""
    if not _wide_product(states):
        plain: torch.Tensor = head(states)
        return plain
    return _logits(states.flatten(0, -2), head.weight).view(*states.shape[:-1], -1)


def _wide_product(states: torch.Tensor) -> bool:
    """Whether products of 16 bits are to be summed and kept in float32: under autocast on a GPU."""
    return states.is_cuda and torch.is_autocast_enabled("cuda")


def _logits(states: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    if not _wide_product(states):
        return functional.linear(states, weight)
    dtype = torch.get_autocast_dtype("cuda")
    return _product(states.to(dtype), weight.to(dtype).T)


def _product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """left @ right, in float32 from factors of 16 bits (on a GPU)."""
    with torch.autocast("cuda", enabled=False):
        return torch.mm(left, right, out_dtype=torch.float32)


class _InChunks(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        states: torch.Tensor,
        weight: torch.Tensor,
        labels: torch.Tensor,
        coordinate: torch.Tensor,
        terms: Terms,
        size: int,
    ) -> torch.Tensor:
        values = []
        ctx.wide = _wide_product(states)
        factor = weight.to(torch.get_autocast_dtype("cuda")) if ctx.wide else weight
        for some, *rest in zip(*(each.split(size) for each in (states, labels, coordinate)), strict=True):
            logits = _logits(some, factor)
            values.append(terms(logits, *rest))
            ctx.dtype = factor.dtype if ctx.wide else logits.dtype  # autocast is off in the backward pass
            del logits  # else two chunks' are held while the next is made
        ctx.save_for_backward(states, weight, labels, coordinate)
        ctx.terms, ctx.size = terms, size
        return torch.cat(values)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        states, weight, labels, coordinate = ctx.saved_tensors
        weight_VD = weight.to(ctx.dtype)
        grad_states = torch.empty_like(states)
        # of many chunks: summed in 16 bits, what each adds to a large sum would be rounded away
        grad_weight = torch.zeros_like(weight if ctx.wide else weight_VD) if ctx.needs_input_grad[1] else None
        for start in range(0, len(states), ctx.size):
            here = slice(start, start + ctx.size)
            some = states[here].to(ctx.dtype)
            logits = _product(some, weight_VD.T) if ctx.wide else functional.linear(some, weight_VD)
            grad = _grad_logits(ctx.terms, logits, labels[here], coordinate[here], grads[0][here]).to(ctx.dtype)
            grad_states[here] = grad @ weight_VD
            if grad_weight is not None and ctx.wide:
                grad_weight += _product(grad.T, some)
            elif grad_weight is not None:
                grad_weight.addmm_(grad.T, some)
            del logits, grad
        return grad_states, None if grad_weight is None else grad_weight.to(weight.dtype), None, None, None, None


def _grad_logits(
    terms: Terms, logits: torch.Tensor, labels: torch.Tensor, coordinate: torch.Tensor, grad: torch.Tensor
) -> torch.Tensor:
    """Gradient of a chunk's logits [n, V]; what it is computed from is free again when this returns."""
    logits.requires_grad_()
    with torch.enable_grad():
        values = terms(logits, labels, coordinate)
    return torch.autograd.grad(values, logits, grad)[0]
