"""The merge methods on whole tensors: each tensor is one piece (`trainer.merging.merge_methods` takes many)."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from trainer.merging.merge_methods import TensorReport, TensorTally, Trim, cut_for, linear_piece, ties_piece


def trim(delta: torch.Tensor, density: float) -> torch.Tensor:
    """Keep the k = int(density · n) entries of largest magnitude (one at least, if density > 0), zero the rest."""
    flat = delta.reshape(-1)
    return Trim(cut_for(lambda: [flat], flat.numel(), density))(flat).reshape(delta.shape)


def merge_ties(
    base: torch.Tensor,
    experts: Sequence[torch.Tensor],
    *,
    density: Sequence[float],
    weight: Sequence[float],
    normalize: bool = True,
    lam: float = 1.0,
    name: str = "",
) -> tuple[torch.Tensor, TensorReport]:
    """TIES of one tensor, see `ties_piece`; all tensors fp32 of one shape."""
    start, tally = base.reshape(-1), TensorTally(len(experts))
    flat = [expert.reshape(-1) for expert in experts]
    trims = [Trim(cut_for(lambda e=e: [e - start], start.numel(), d)) for e, d in zip(flat, density, strict=True)]  # type: ignore[misc]
    merged = ties_piece(start, flat, trims, weight, normalize, lam, tally)
    return merged.reshape(base.shape), tally.report(name)


def merge_linear(
    base: torch.Tensor, experts: Sequence[torch.Tensor], *, weight: Sequence[float], name: str = ""
) -> tuple[torch.Tensor, TensorReport]:
    """Linear merge of one tensor, see `linear_piece`; all tensors fp32 of one shape."""
    tally = TensorTally(len(experts))
    merged = linear_piece(base.reshape(-1), [expert.reshape(-1) for expert in experts], weight, tally)
    return merged.reshape(base.shape), tally.report(name)
