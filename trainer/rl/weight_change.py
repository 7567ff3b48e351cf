"""How far training moved a policy's weights."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import torch

from trainer.modeling.tensors import layer_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def in_memory(tensors: Iterable[tuple[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """Copies by name, in the machine's memory whatever device they come from."""
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors}


def weight_delta(model: PreTrainedModel, start: Mapping[str, torch.Tensor]) -> dict[str, object]:
    """Relative weight change ‖θ − θ_0‖ / ‖θ_0‖ over all parameters and by layer, and its norm; `start` by name."""
    squares: dict[str, list[float]] = {}
    for name, tensor in model.named_parameters():
        pair = squares.setdefault(layer_of(name), [0.0, 0.0])
        # in double: squares of such small changes, summed over all weights, would drown in float32
        pair[0] += float((tensor.detach().to(start[name].device) - start[name]).double().pow(2).sum())
        pair[1] += float(start[name].double().pow(2).sum())
    moved, whole = (math.fsum(pair[i] for pair in squares.values()) for i in (0, 1))
    layers = {name: math.sqrt(pair[0] / pair[1]) if pair[1] else 0.0 for name, pair in sorted(squares.items())}
    return {"relative": math.sqrt(moved / whole), "norm": math.sqrt(moved), "layers": layers}
