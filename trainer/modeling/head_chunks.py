"""What a loss asks of logits, a chunk of tokens at a time.

Logits [N, V] of a thousand answer tokens are 0.6 GB at a published vocabulary, and a log-softmax with its gradient
holds five to six tensors of that size. What is asked of them is a few numbers a token: so the head is applied to a
chunk, the numbers are kept, and the backward pass makes the chunk's logits again (as in Liger's fused linear cross
entropy). The gradient is exact; that of the head's weights is summed chunk by chunk, which rounds otherwise than one
product does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

CHUNK_BYTES = 1 << 26
"""Of a chunk's logits in float32: 110 tokens of a published vocabulary, thousands (so mostly all) of nano's."""

Terms = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""(logits [n, V], labels [n], which of them are coordinates [n]) → values [n, …], a token's from its own logits alone.
Called twice in training: it closes over nothing that learns."""


def head_terms(
    head: nn.Linear, states: torch.Tensor, labels: torch.Tensor, coordinate: torch.Tensor, terms: Terms
) -> torch.Tensor:
    """Hidden states [N, D] → what `terms` makes of their logits [N, …], differentiable in the states and the head."""
    size = max(1, CHUNK_BYTES // (4 * head.weight.shape[0]))
    if len(states) <= size:  # all at once is within the bound, and saves making logits again
        return terms(head(states), labels, coordinate)
    made: torch.Tensor = _InChunks.apply(states, head.weight, labels, coordinate, terms, size)
    return made


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
        made = []
        for some, *told in zip(*(each.split(size) for each in (states, labels, coordinate)), strict=True):
            logits = functional.linear(some, weight)
            made.append(terms(logits, *told))
            ctx.dtype = logits.dtype  # autocast's, where it is on; it is off in the backward pass
            del logits  # else two chunks' are held while the next is made
        ctx.save_for_backward(states, weight, labels, coordinate)
        ctx.terms, ctx.size = terms, size
        return torch.cat(made)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        states, weight, labels, coordinate = ctx.saved_tensors
        weight_VD = weight.to(ctx.dtype)
        grad_states = torch.empty_like(states)
        grad_weight = torch.zeros_like(weight_VD) if ctx.needs_input_grad[1] else None
        for start in range(0, len(states), ctx.size):
            here = slice(start, start + ctx.size)
            some = states[here].to(ctx.dtype)
            logits = functional.linear(some, weight_VD)
            grad = _grad_logits(ctx.terms, logits, labels[here], coordinate[here], grads[0][here])
            grad_states[here] = grad @ weight_VD
            if grad_weight is not None:
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
