"""The arithmetic of linear and TIES merges on flat fp32 pieces of a tensor (docs/method.md §8), and what is counted on
the way.

A tensor never has to be in memory as a whole: a trim first finds its edge by counting (`cut_for`, two passes), then
cuts the pieces one after another (`Trim`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import torch


@dataclass(frozen=True)
class TensorReport:
    """One tensor's merge. Shares are of all `count` elements.

    `kept` is the share of experts' elements that were trimmed in and are non-zero, one number per expert; `conflicts`
    the share where kept entries had both signs; `delta_norm` the L2 norm of result − base; `expert_norms` that of
    each expert's full delta.
    """

    name: str
    count: int
    kept: tuple[float, ...]
    conflicts: float
    delta_norm: float
    expert_norms: tuple[float, ...]


@dataclass
class TensorTally:
    """Sums over the pieces of a tensor, towards its report."""

    experts: int
    count: int = 0
    kept: list[int] = field(init=False)
    conflicts: int = 0
    moved: float = 0.0
    squares: list[float] = field(init=False)

    def __post_init__(self) -> None:
        self.kept, self.squares = [0] * self.experts, [0.0] * self.experts

    def add(
        self,
        base: torch.Tensor,
        merged: torch.Tensor,
        deltas: Sequence[torch.Tensor],
        kept: Sequence[torch.Tensor],
        conflicts: torch.Tensor,
    ) -> None:
        """One piece: all tensors flat and of one length."""
        self.count += base.numel()
        self.conflicts += int(conflicts.sum())
        self.moved += _square(merged - base)
        for place, (delta, part) in enumerate(zip(deltas, kept, strict=True)):
            self.kept[place] += int((part != 0).sum())
            self.squares[place] += _square(delta)

    def report(self, name: str) -> TensorReport:
        """What came together."""
        whole = max(self.count, 1)
        return TensorReport(
            name=name,
            count=self.count,
            kept=tuple(kept / whole for kept in self.kept),
            conflicts=self.conflicts / whole,
            delta_norm=math.sqrt(self.moved),
            expert_norms=tuple(math.sqrt(square) for square in self.squares),
        )


def _square(piece: torch.Tensor) -> float:
    import torch

    # in double: a sum of billions of small squares
    return float(torch.linalg.vector_norm(piece, dtype=torch.float64)) ** 2 if piece.numel() else 0.0


@dataclass(frozen=True)
class TrimCut:
    """Which entries a trim keeps: those of a magnitude above `edge`, and the first `ties` of that very magnitude."""

    edge: float
    ties: int = 0


KEEP_ALL, KEEP_NONE = TrimCut(-1.0), TrimCut(math.inf)


def cut_for(deltas: Callable[[], Iterable[torch.Tensor]], count: int, density: float) -> TrimCut:
    """The cut that keeps the k = int(density · count) largest magnitudes of the fp32 pieces that `deltas()` yields.

    As in mergekit, a density above 0 keeps one at least. Exact, by counting: the bits of a non-negative float order as
    its value does, so the edge's upper half comes of one pass and its lower half of another.
    """
    import numpy as np

    # int and not round, as mergekit does it: another k would be another merge.
    k = max(int(density * count), density > 0)
    if density >= 1.0 or k >= count:
        return KEEP_ALL
    if k == 0:
        return KEEP_NONE
    upper = np.zeros(1 << 16, np.int64)  # how many magnitudes begin with these 16 bits
    for delta in deltas():
        upper += np.bincount(_bits(delta) >> 16, minlength=1 << 16)
    high, room = _reached(upper, k)
    lower = np.zeros(1 << 16, np.int64)  # of those at the edge, how many end with these
    for delta in deltas():
        bits = _bits(delta)
        lower += np.bincount(bits[bits >> 16 == high] & 0xFFFF, minlength=1 << 16)
    low, ties = _reached(lower, room)
    return TrimCut(float(np.uint32(high << 16 | low).view(np.float32)), ties)


def _bits(delta: torch.Tensor) -> np.ndarray:
    return delta.abs().numpy().view("uint32")


def _reached(histogram: np.ndarray, k: int) -> tuple[int, int]:
    """The bin in which the k-th largest lies, and which one of the bin's it is, from 1."""
    import numpy as np

    from_top = np.cumsum(histogram[::-1])
    # the first bin, from the top, with which k are reached
    place = int(np.searchsorted(from_top, k))
    return len(histogram) - 1 - place, k - int(from_top[place] - histogram[::-1][place])


class Trim:
    """Cuts the pieces of one delta, in their order; ties keep the lowest index."""

    def __init__(self, cut: TrimCut) -> None:
        self._edge, self._ties = cut.edge, cut.ties

    def __call__(self, delta: torch.Tensor) -> torch.Tensor:
        """The piece with what isn't kept set to 0."""
        import torch

        # a magnitude is never below 0: KEEP_ALL
        if self._edge < 0:
            return delta
        size = delta.abs()
        keep = size > self._edge
        if self._ties:
            # in the order of the tensor, so the lowest index is kept
            tied = (size == self._edge).nonzero()[: self._ties, 0]
            keep[tied] = True
            self._ties -= len(tied)
        return torch.where(keep, delta, 0.0)


def ties_piece(
    base: torch.Tensor,
    experts: Sequence[torch.Tensor],
    trims: Sequence[Trim],
    weight: Sequence[float],
    normalize: bool,
    lam: float,
    tally: TensorTally,
) -> torch.Tensor:
    """TIES of one flat piece (arXiv 2306.01708 in mergekit's form), fp32 in and out.

    δ_i = θ_i − θ_0, trimmed, times w_i; the elected sign is that of the sum, zero counting as +; the entries that agree
    are summed and, under `normalize`, divided by the sum of their w_i (0 → 1); · `lam`, + θ_0.
    """
    import torch

    deltas = [expert - base for expert in experts]
    # each [n], as all tensors here
    weighted = [trim(delta) * w for trim, delta, w in zip(trims, deltas, weight, strict=True)]
    summed = torch.zeros_like(base)
    positive = torch.zeros(base.shape, dtype=torch.bool)
    negative = torch.zeros(base.shape, dtype=torch.bool)
    for delta in weighted:
        summed += delta
        positive |= delta > 0
        negative |= delta < 0
    upward = summed >= 0  # the elected sign of each entry
    # an entry that was trimmed away is 0, and agrees with neither sign
    agrees = [torch.where(upward, delta > 0, delta < 0) for delta in weighted]
    agreed, share = torch.zeros_like(base), torch.zeros_like(base)
    voters = torch.zeros(base.shape, dtype=torch.int16)  # how many experts agree with it
    for delta, w, mask in zip(weighted, weight, agrees, strict=True):
        agreed += torch.where(mask, delta, 0.0)
        share += mask * float(w)
        voters += mask
    if normalize:
        agreed /= torch.where(share == 0, 1.0, share)
    merged = base + lam * agreed
    for expert, w, mask in zip(experts, weight, agrees, strict=True):
        if lam == 1.0 and (normalize or w == 1.0):  # a coefficient of exactly 1: θ_0 + δ_i is θ_i, without rounding
            merged = torch.where(mask & (voters == 1), expert, merged)
    tally.add(base, merged, deltas, weighted, positive & negative)
    return merged


def linear_piece(
    base: torch.Tensor, experts: Sequence[torch.Tensor], weight: Sequence[float], tally: TensorTally
) -> torch.Tensor:
    """Σ w_i θ_i of one flat piece in fp32; the weights are expected to sum to 1; `base` is for the tally."""
    import torch

    merged = torch.zeros_like(base)
    for expert, w in zip(experts, weight, strict=True):
        merged += expert * w
    # All deltas kept: a linear merge trims nothing.
    deltas = [expert - base for expert in experts]
    positive = torch.zeros(base.shape, dtype=torch.bool)
    negative = torch.zeros(base.shape, dtype=torch.bool)
    for delta, w in zip(deltas, weight, strict=True):
        positive |= delta * w > 0
        negative |= delta * w < 0
    tally.add(base, merged, deltas, deltas, positive & negative)
    return merged
