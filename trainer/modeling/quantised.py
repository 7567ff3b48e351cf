"""QLoRA's base: a decoder whose linear weights lie in 4 bits while adapters learn above them (Dettmers et al., 2023).

The adapters are then merged into the weights as they were, never into those of 4 bits: what quantising rounds off is
lost for training alone, and the checkpoint is like any other. By bitsandbytes, through transformers; on a GPU, or on a
CPU that its own kernels know, slowly.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from trainer.modeling.adapters import PREFIX
from trainer.modeling.model import speed_up
from trainer.modeling.published_layout import loaded_as_published
from trainer.runtime.parallel import ranks
from trainer.runtime.precision import in_bf16

if TYPE_CHECKING:
    from transformers import PreTrainedModel

WHOLE = ["model.visual", "lm_head"]
"""What keeps its bits: the tower reads small text, the head's rounding is felt in every token."""


def load_in_four_bits(folder: str | Path, device: str | torch.device, *, bf16: bool | None = None) -> Any:
    """The model of a checkpoint folder, its decoder's linear weights in NF4 with scales quantised once more; products
    are in bfloat16 where `bf16` says so (None: on a GPU). Raises `ValueError` without bitsandbytes, and on several
    ranks."""
    if importlib.util.find_spec("bitsandbytes") is None:
        raise ValueError(
            "lora.quantisation nf4: expected the package bitsandbytes (0.46 or newer), found none; pip install "
            "bitsandbytes, or set lora.quantisation none"
        )
    if ranks().world > 1:
        raise ValueError(f"lora.quantisation nf4: expected one process, found {ranks().world} ranks")
    # here: transformers and its quantisers take a second, which only this asks for
    from transformers import AutoModelForImageTextToText, BitsAndBytesConfig

    kind = torch.device(device).type
    model = AutoModelForImageTextToText.from_pretrained(
        str(folder),
        dtype=torch.float32,
        quantization_config=BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=torch.bfloat16 if in_bf16(bf16, kind) else torch.float32,
            llm_int8_skip_modules=WHOLE,
        ),
        device_map={"": str(device)},
    )
    loaded_as_published(model)
    # transformers' trainer looks for adapters by this word; ours are put into the model, not around it
    model._hf_peft_config_loaded = True
    made: Any = speed_up(model)
    return made.eval()


def quantised(model: object) -> bool:
    """Whether a model is one of `load_in_four_bits`."""
    return bool(getattr(model, "is_quantized", False))


@torch.no_grad()
def move_adapters(source: PreTrainedModel, target: PreTrainedModel) -> None:
    """What the adapters of one model have learned into those of another, which has the same ones."""
    learned = {name: weight for name, weight in source.named_parameters() if PREFIX in name}
    for name, weight in target.named_parameters():
        if PREFIX in name:
            weight.copy_(learned[name].to(weight.device, weight.dtype))
