"""How weights lie in published folders and in servers, where transformers holds them otherwise.

The experts of a Qwen3-VL mixture are published as `[E, H, 2I]` (gate and up) and `[E, I, H]` (down), E experts of
width I over hidden states of width H. transformers 5 holds both with the last two dimensions swapped, swaps them as it
loads a folder, and doesn't swap them back as it saves one: vLLM and transformers 4 then refuse the folder, or read
nonsense where the two dimensions are equal. What leaves this project goes through here.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping
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


def as_named(weights: Mapping[str, torch.Tensor], names: Container[str]) -> dict[str, torch.Tensor]:
    """Experts as transformers holds those of Qwen3.5, [E, 2I, H] and [E, H, I], by the names that a folder has: one
    tensor of all, or, where the folder lacks that, one of each expert's gate, up and down. Views, no copies."""
    found: dict[str, torch.Tensor] = {}
    for name, one in weights.items():
        block, _, part = name.rpartition(".experts.")
        if not block or name in names:
            found[name] = one
            continue
        for expert, own in enumerate(one):
            parts = {"gate_proj": own[: len(own) // 2], "up_proj": own[len(own) // 2 :]}
            for word, piece in (parts if part == "gate_up_proj" else {part: own}).items():
                found[f"{block}.experts.{expert}.{word}.weight"] = piece
    return found


def save_weights(folder: Path, model: PreTrainedModel, weights: Mapping[str, torch.Tensor] | None = None) -> None:
    """`save_pretrained` in the published layout, of a model's own weights or of others of its form."""
    if model.config.model_type not in (*SWAPPED, "qwen3_5_moe"):  # of whose experts transformers would write each alone
        model.save_pretrained(folder, state_dict=None if weights is None else dict(weights))
        return
    published = swapped(model, model.state_dict() if weights is None else weights)
    with _saved_as_given(model):
        model.save_pretrained(folder, state_dict={name: one.contiguous() for name, one in published.items()})


def loaded_as_published(model: PreTrainedModel, told: Mapping[str, Iterable[str]] | None = None) -> PreTrainedModel:
    """Put right what `from_pretrained` leaves: of a tensor whose two dimensions are equal it can't see that they are
    swapped, and takes it as it is. Raises `ValueError` where it `told` that tensors are missing: it goes on with random
    numbers in their place."""
    import torch

    if missing := sorted(told["missing_keys"] if told else ()):
        name = model.config.name_or_path
        raise ValueError(
            f"{name}: {len(missing)} tensors of a {type(model).__name__} are missing, first {missing[0]!r}"
        )
    pattern = SWAPPED.get(model.config.model_type)
    with torch.no_grad():
        for name, one in model.named_parameters():
            if pattern and pattern.search(name) and one.shape[1] == one.shape[2] and not one.is_meta:
                # a clone, since the source is a view of the target
                one.copy_(one.transpose(1, 2).clone())
    return model


@contextmanager
def _saved_as_given(model: Any) -> Iterator[None]:
    """Without transformers' own conversions, which would swap the dimensions again."""
    before = getattr(model, "_weight_conversions", None)
    model._weight_conversions = []
    try:
        yield
    finally:
        model._weight_conversions = before
