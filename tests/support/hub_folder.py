"""A tiny checkpoint in just the files that a hub has of the published presets: bfloat16 in shards, the configuration as
transformers 4.57 wrote it, tokenizer and processor files with keys that no code here writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from tiny_published import write_tiny

from trainer.modeling.tokenizer import END, PAD, SPECIAL

COMPANIONS = (
    "config.json",
    "generation_config.json",
    "preprocessor_config.json",
    "video_preprocessor_config.json",
    "chat_template.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.json",
    "merges.txt",
)
TEMPLATE = (
    "{%- if messages[0].role == 'system' %}{{- '<|im_start|>system\\n' }}{%- if messages[0].content is string %}"
    "{{- messages[0].content }}{%- else %}{%- for part in messages[0].content %}{%- if 'text' in part %}"
    "{{- part.text }}{%- endif %}{%- endfor %}{%- endif %}{{- '<|im_end|>\\n' }}{%- endif %}"
    "{%- for message in messages %}{%- if message.role == 'user' %}{{- '<|im_start|>user\\n' }}"
    "{%- if message.content is string %}{{- message.content }}{%- else %}{%- for part in message.content %}"
    "{%- if part.type == 'image' or 'image' in part or 'image_url' in part %}"
    "{{- '<|vision_start|><|image_pad|><|vision_end|>' }}{%- elif 'text' in part %}{{- part.text }}{%- endif %}"
    "{%- endfor %}{%- endif %}{{- '<|im_end|>\\n' }}{%- elif message.role == 'assistant' %}"
    "{{- '<|im_start|>assistant\\n' }}{%- if message.content is string %}{{- message.content }}{%- else %}"
    "{%- for part in message.content %}{%- if 'text' in part %}{{- part.text }}{%- endif %}{%- endfor %}{%- endif %}"
    "{{- '<|im_end|>\\n' }}{%- endif %}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
)
"""What Qwen3-VL's template does with system, user and assistant turns: parts in their order, none moved or added."""
PIXELS = {"longest_edge": 96 * 128, "shortest_edge": 32 * 32}


def write_hub(folder: Path, kind: str, *, moe_width: int = 24, shards: int = 2) -> Path:
    """`kind` as in `tiny_published`; `moe_width`: of an expert."""
    write_tiny(folder, kind, moe_width)
    for path in folder.glob("*.json*"):
        if path.name != "config.json":
            path.unlink()
    _weights(folder, shards)
    _tokenizer(folder)
    _configuration(folder)
    images = {
        "size": PIXELS,
        "patch_size": 16,
        "temporal_patch_size": 2,
        "merge_size": 2,
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
        "processor_class": "Qwen3VLProcessor",
        "image_processor_type": "Qwen2VLImageProcessorFast",
    }
    video = images | {"video_processor_type": "Qwen3VLVideoProcessor", "fps": 2, "max_frames": 768}
    del video["image_processor_type"]
    _write(folder / "preprocessor_config.json", images)
    _write(folder / "video_preprocessor_config.json", video)
    _write(folder / "chat_template.json", {"chat_template": TEMPLATE})
    ids = json.loads((folder / "tokenizer_config.json").read_text())["added_tokens_decoder"]
    end, pad = (next(int(i) for i, one in ids.items() if one["content"] == token) for token in (END, PAD))
    _write(folder / "generation_config.json", {"eos_token_id": [end, pad], "pad_token_id": pad, "top_k": 20})
    return folder


def hub_weights(folder: Path) -> dict[str, torch.Tensor]:
    """All tensors of a folder by name, whatever files they are in."""
    return {name: one for path in sorted(folder.glob("*.safetensors")) for name, one in load_file(path).items()}


def _write(path: Path, plain: Any) -> None:
    path.write_text(json.dumps(plain, indent=4), encoding="utf-8")  # no newline at the end, as in the hub's own


def _weights(folder: Path, shards: int) -> None:
    weights = {name: one.to(torch.bfloat16) for name, one in load_file(folder / "model.safetensors").items()}
    if "linear_attn" in " ".join(weights):  # Qwen3.5 has a head that predicts ahead, which transformers passes over
        weights["mtp.fc.weight"] = torch.randn(64, 128, dtype=torch.bfloat16)
    if shards == 1:
        save_file(weights, folder / "model.safetensors", {"format": "pt"})
        return
    (folder / "model.safetensors").unlink()
    placed = {
        name: f"model-{place % shards + 1:05}-of-{shards:05}.safetensors" for place, name in enumerate(sorted(weights))
    }
    for file in sorted(set(placed.values())):
        save_file({name: weights[name] for name in placed if placed[name] == file}, folder / file, {"format": "pt"})
    size = sum(one.nbytes for one in weights.values())
    _write(folder / "model.safetensors.index.json", {"metadata": {"total_size": size}, "weight_map": placed})


def _configuration(folder: Path) -> None:
    """transformers 4.57 keeps the rotary base beside `rope_scaling`, and the precision in the text's part."""
    plain = json.loads((folder / "config.json").read_text())
    plain.pop("dtype", None)
    text = plain["text_config"]
    text["tie_word_embeddings"] = plain["tie_word_embeddings"]
    if "num_local_experts" in text:
        text["num_experts"] = text.pop("num_local_experts")
    rope = text.pop("rope_parameters")
    text |= {"rope_theta": rope.pop("rope_theta"), "rope_scaling": rope, "dtype": "bfloat16"}
    for key in ("dtype", "rope_parameters"):
        plain["vision_config"].pop(key, None)
    _write(folder / "config.json", plain | {"transformers_version": "4.57.0.dev0"})


def _tokenizer(folder: Path) -> None:
    from tokenizers import pre_tokenizers
    from transformers import Qwen2Tokenizer

    merges = [("C", "l"), ("i", "c"), ("Cl", "ic"), ("Clic", "k"), ("a", "c"), ("b", "o"), ("bo", "x"), ("Ċ", "Ċ")]
    tokens = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *(a + b for a, b in merges)]
    vocabulary = {token: place for place, token in enumerate(tokens)}
    kind: Any = Qwen2Tokenizer
    made = kind(vocab=vocabulary, merges=merges, unk_token=None, eos_token=END, pad_token=PAD)
    made.add_tokens(list(SPECIAL), special_tokens=True)
    made.backend_tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "vocab.json").write_text(json.dumps(vocabulary, ensure_ascii=False), encoding="utf-8")
    (folder / "merges.txt").write_text("\n".join(" ".join(one) for one in merges), encoding="utf-8")
    flags = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
    others = [token for token in SPECIAL if token not in (END, PAD)]
    plain = {
        "additional_special_tokens": others,
        "add_bos_token": False,
        "add_prefix_space": False,
        "added_tokens_decoder": {
            str(made.convert_tokens_to_ids(token)): {"content": token, **flags} for token in SPECIAL
        },
        "bos_token": None,
        "chat_template": TEMPLATE,
        "clean_up_tokenization_spaces": False,
        "eos_token": END,
        "errors": "replace",
        "model_max_length": 262144,
        "pad_token": PAD,
        "split_special_tokens": False,
        "tokenizer_class": "Qwen2Tokenizer",
        "unk_token": None,
    }
    _write(folder / "tokenizer_config.json", plain)
