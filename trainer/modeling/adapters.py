"""LoRA: low-rank adapters that learn in place of a decoder's weights, by peft, whatever engine trains."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from trainer.modeling.model import train_only
from trainer.settings.supervised import LoraSettings

if TYPE_CHECKING:
    from peft import LoraConfig
    from transformers import PreTrainedModel

PREFIX = "lora_"
"""How the names of adapters' parameters begin."""
SAVED = "base_model.model."
"""What peft's own folders put before the names of a model's modules."""


def add_adapters(model: PreTrainedModel, settings: LoraSettings, seed: int = 0) -> None:
    """Put adapters of rank `settings.rank` on the linear modules that `settings.modules` names, in place; they change
    nothing yet. Raises `ValueError` where it names none."""
    from peft import inject_adapter_in_model

    # adapters begin with random numbers, which mustn't shift those of the run
    state = torch.get_rng_state()
    try:
        torch.manual_seed(seed)
        inject_adapter_in_model(_config(settings), model)
    finally:
        torch.set_rng_state(state)


def only_adapters(model: PreTrainedModel) -> None:
    """Let nothing but the adapters of a model learn, if it has some."""
    if any(PREFIX in name for name, _ in model.named_parameters()):
        train_only(model, PREFIX)


def save_adapters(folder: Path, model: PreTrainedModel, settings: LoraSettings) -> None:
    """The adapters as a folder that peft and vLLM load over the base."""
    from safetensors.torch import save_file

    config = _config(settings)
    config.inference_mode = True
    config.save_pretrained(str(folder))
    # keys sorted, so that equal adapters have equal bytes
    plain = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
    (folder / "adapter_config.json").write_text(json.dumps(plain, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    named = {
        # peft leaves the adapter's own name out of its folders
        f"{SAVED}{name.replace('.default.', '.')}": weight.detach().contiguous()
        for name, weight in model.named_parameters()
        if PREFIX in name
    }
    save_file(named, folder / "adapter_model.safetensors", {"format": "pt"})


def take_off_adapters(model: PreTrainedModel, settings: LoraSettings, folder: Path | None = None) -> None:
    """The model with what its adapters learned in its weights; they are put into the folder as they were, if given."""
    if folder is not None:
        save_adapters(folder, model, settings)
    merge_adapters(model)


def merge_adapters(model: PreTrainedModel) -> None:
    """Add what the adapters learned to the weights below them, and take them off."""
    from peft.tuners.lora import LoraLayer

    # a list, since modules are replaced while it is walked
    for name, module in list(model.named_modules()):
        if isinstance(module, LoraLayer):
            module.merge()  # type: ignore[operator]  # of the kind of its module
            parent, _, own = name.rpartition(".")
            setattr(model.get_submodule(parent), own, module.get_base_layer())
    model.requires_grad_(True)


def _config(settings: LoraSettings) -> LoraConfig:
    from peft import LoraConfig

    return LoraConfig(
        r=settings.rank, lora_alpha=settings.alpha, lora_dropout=settings.dropout, target_modules=settings.modules
    )
