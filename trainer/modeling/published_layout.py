"""How weights lie in published folders and in servers, where transformers holds them otherwise.

The experts of a Qwen3-VL mixture are published as `[E, H, 2I]` (gate and up) and `[E, I, H]` (down), E experts of
width I over hidden states of width H. transformers 5 holds both with the last two dimensions swapped, swaps them as it
loads a folder, and doesn't swap them back as it saves one: vLLM and transformers 4 then refuse the folder, or read
nonsense where the two dimensions are equal. What leaves this project goes through here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

SWAPPED = {"qwen3_vl_moe": re.compile(r"\.mlp\.experts\.(?:gate_up_proj|down_proj)$")}
"""Model type → names of the tensors whose last two dimensions are published the other way round."""


def swapped(model: PreTrainedModel, weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Weights by name as published, from those that a model of transformers holds, or back: it is its own inverse.
    Views, no copies."""
    pattern = SWAPPED.get(model.config.model_type)
    if pattern is None:
        return dict(weights)
    return {name: one.transpose(1, 2) if pattern.search(name) else one for name, one in weights.items()}


def save_weights(folder: Path, model: PreTrainedModel, weights: Mapping[str, torch.Tensor] | None = None) -> None:
    """`save_pretrained` in the published layout, of a model's own weights or of others of its form."""
    if model.config.model_type not in SWAPPED:
        model.save_pretrained(folder, state_dict=None if weights is None else dict(weights))
        return
    published = swapped(model, model.state_dict() if weights is None else weights)
    with _saved_as_given(model):
        model.save_pretrained(folder, state_dict={name: one.contiguous() for name, one in published.items()})


def loaded_as_published(model: PreTrainedModel) -> None:
    """Put right what `from_pretrained` leaves: of a tensor whose two dimensions are equal it can't see that they are
    swapped, and takes it as it is."""
    import torch

    pattern = SWAPPED.get(model.config.model_type)
    if pattern is None:
        return
    with torch.no_grad():
        for name, one in model.named_parameters():
            if pattern.search(name) and one.shape[1] == one.shape[2] and not one.is_meta:
                # a clone, since the source is a view of the target
                one.copy_(one.transpose(1, 2).clone())


@contextmanager
def _saved_as_given(model: Any) -> Iterator[None]:
    """Without transformers' own conversions, which would swap the dimensions again."""
    before = getattr(model, "_weight_conversions", None)
    model._weight_conversions = []
    try:
        yield
    finally:
        model._weight_conversions = before
