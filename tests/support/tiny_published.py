"""Checkpoints as a hub holds those of the published presets, tiny and with random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from trainer.modeling.published import published_config
from trainer.modeling.tokenizer import SPECIAL

KINDS = {"dense": "2b", "moe": "30b-a3b"}
QWEN3_5, QWEN3_5_MOE = "qwen3.5", "qwen3.5-moe"


def published_tokenizer() -> Any:
    """Byte-level BPE in which every digit is a token of its own, and a tag is several."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("C", "l"), ("i", "c"), ("Cl", "ic"), ("Clic", "k"), ("a", "c"), ("t", "i"), ("b", "o"), ("bo", "x")]
    vocabulary = {token: i for i, token in enumerate([*alphabet, *(a + b for a, b in merges)])}
    plain = Tokenizer(models.BPE(vocabulary, merges))
    pieces = pre_tokenizers.Split(Regex(r"\p{N}|\p{L}+|[^\p{L}\p{N}]+"), "isolated")
    plain.pre_tokenizer = pre_tokenizers.Sequence([pieces, pre_tokenizers.ByteLevel(False, True, False)])
    plain.decoder = decoders.ByteLevel()
    plain.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    return PreTrainedTokenizerFast(tokenizer_object=plain, eos_token="<|im_end|>", pad_token="<|endoftext|>")


def write_tiny(folder: Path, kind: str, moe_width: int = 24) -> Path:
    """A random checkpoint as a hub folder holds it: config, safetensors, tokenizer. The experts of a mixture are
    `moe_width` wide, and lie as they are published: [E, H, 2I] and [E, I, H], in Qwen3.5 [E, 2I, H] and [E, H, I]."""
    from transformers import AutoModelForImageTextToText

    tokenizer = published_tokenizer()
    config: Any = (
        published_config(KINDS[kind], tokenizer) if kind in KINDS else _qwen3_5_config(tokenizer, kind == QWEN3_5_MOE)
    )
    small = {
        "hidden_size": 64,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 96,
        "vocab_size": 512,
        "head_dim": 16,
        "pad_token_id": tokenizer.pad_token_id,
    }
    experts = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": moe_width}
    for key, value in (small | (experts if "moe" in kind else {})).items():
        setattr(config.text_config, key, value)
    config.text_config.rope_parameters |= {"mrope_section": [4, 2, 2] if kind in KINDS else [2, 1, 1]}
    for key, value in {
        "depth": 2,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_heads": 2,
        "out_hidden_size": 64,
        "deepstack_visual_indexes": [0],
        "num_position_embeddings": 64,
    }.items():
        setattr(config.vision_config, key, value)
    torch.manual_seed(0)
    model = AutoModelForImageTextToText.from_config(config)
    model.save_pretrained(folder)
    if kind == "moe":
        _as_published(folder / "model.safetensors")
    if kind == QWEN3_5_MOE:
        _experts_together(folder / "model.safetensors", model)
    tokenizer.save_pretrained(folder)
    return folder


def _qwen3_5_config(tokenizer: Any, mixture: bool) -> Any:
    """Of Qwen3.5: three of four layers have linear attention."""
    from transformers import Qwen3_5Config, Qwen3_5MoeConfig

    ids = tokenizer.convert_tokens_to_ids
    sizes = {
        "layer_types": ["linear_attention", "full_attention", "linear_attention"],
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
        "num_hidden_layers": 3,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 1e6,
            "partial_rotary_factor": 0.5,
            "mrope_section": [2, 1, 1],
            "mrope_interleaved": True,
        },
    }
    return (Qwen3_5MoeConfig if mixture else Qwen3_5Config)(
        text_config=sizes,
        image_token_id=ids("<|image_pad|>"),
        video_token_id=ids("<|video_pad|>"),
        vision_start_token_id=ids("<|vision_start|>"),
        vision_end_token_id=ids("<|vision_end|>"),
        tie_word_embeddings=True,
    )


def _as_published(path: Path) -> None:
    """transformers writes experts as it holds them."""
    from safetensors.torch import load_file, save_file

    weights = load_file(path)
    for name in weights:
        if name.endswith((".mlp.experts.gate_up_proj", ".mlp.experts.down_proj")):
            weights[name] = weights[name].transpose(1, 2).contiguous()
    save_file(weights, path, {"format": "pt"})


def _experts_together(path: Path, model: Any) -> None:
    """transformers writes one tensor an expert where the published folders of Qwen3.5 have one of all."""
    from safetensors.torch import load_file, save_file

    weights = {name: one for name, one in load_file(path).items() if ".mlp.experts." not in name}
    weights |= {name: one.detach() for name, one in model.named_parameters() if ".mlp.experts." in name}
    save_file(weights, path, {"format": "pt"})
