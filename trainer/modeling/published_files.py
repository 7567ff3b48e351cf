"""A checkpoint that began as a published folder looks like it: its files, and names, shards and dtypes of its weights.

What isn't changed by training is copied byte for byte (configuration, tokenizer, chat template, processors), so that
whatever loads the published folder, by whichever version of transformers, loads ours. Weights are written in the dtype
that they came in, bfloat16 for Qwen3-VL; what that rounds off lies beside them (`tensors.REMAINDER`), for the stages
that go on from there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer.modeling import tensors
from trainer.modeling.published_layout import as_named, swapped

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

CONFIG, PIXELS, TOKENIZER = "config.json", "preprocessor_config.json", "tokenizer_config.json"
COMPANIONS = (
    *(CONFIG, "generation_config.json", PIXELS, "video_preprocessor_config.json", "processor_config.json"),
    *("tokenizer.json", TOKENIZER, "vocab.json", "merges.txt", "added_tokens.json"),
    *("special_tokens_map.json", "chat_template.json", "chat_template.jinja"),
)
"""All that stands beside the weights of a published Qwen3-VL and says how they are used."""
TRAINED = ("qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe")
"""`model_type` of what can be a base."""
HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
"""`owner/name`. A folder of that path wins."""


def published_folder(place: str) -> Path:
    """The folder of a path or of a name on the hub, there with all of `COMPANIONS` that the name has. Raises `OSError`
    if nothing is found."""
    from transformers.utils import cached_file

    # the configuration comes last: its path gives the folder
    if not Path(place).is_dir():
        for name in COMPANIONS[1:]:
            cached_file(place, name, _raise_exceptions_for_missing_entries=False)
    return Path(str(cached_file(place, CONFIG))).parent


def usable_weights(named: str) -> Path:
    """The folder of the weights that are named by a path, or by `owner/name` on the hub (downloaded unless `HF_HOME`
    has them). Raises `ValueError`, in one line, for what can't be trained: no folder of safetensors, adapters without
    their base, another architecture, quantised weights."""
    folder = Path(named)
    if HUB_NAME.fullmatch(named) and not folder.exists():
        folder = _downloaded(named)
    if not (folder / CONFIG).is_file():
        raise ValueError(
            f"weights: expected the folder of a checkpoint ({CONFIG} in it), found {named!r}{_instead(folder)}"
        )
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        kind = config["model_type"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"weights {named}: {CONFIG}: expected the configuration of a model as JSON: {error}") from None
    if kind not in TRAINED:
        raise ValueError(f"weights {named}: expected a model of type {', '.join(TRAINED)}, found {kind!r:.60}")
    # what is packed into 8 or 4 bits has no gradient, and would go out as something else
    if packed := config.get("quantization_config"):
        raise ValueError(
            f"weights {named}: expected bfloat16 or float32, found {packed.get('quant_method')!r:.40} quantisation; "
            "take the folder that it was made from"
        )
    return folder


def _downloaded(name: str) -> Path:
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, allow_patterns=[*COMPANIONS, "*.safetensors", tensors.INDEX]))
    except OSError as error:  # what the hub's own errors are, too
        why = str(error).splitlines()[0]
        raise ValueError(f"weights: expected a folder or a name on the hub, found {name!r}: {why}") from error


def _instead(folder: Path) -> str:
    """What a folder without a configuration is, for those who took it for a checkpoint."""
    if (adapter := folder / "adapter_config.json").is_file():
        base = json.loads(adapter.read_text(encoding="utf-8")).get("base_model_name_or_path")
        return f": adapters (LoRA) of {base!r:.120}; merge them into it first (peft's merge_and_unload)"
    if folder.suffix == ".gguf" or (folder.is_dir() and any(folder.glob("*.gguf"))):
        return ": GGUF, which is quantised for llama.cpp; take the safetensors that it was made from"
    return ""


def copy_companions(source: Path, folder: Path, images: Any) -> None:
    """Copy what stands beside the weights. Files change only where they have to: configurations that transformers 5
    alone reads get the words of 4.57, and `preprocessor_config.json` has the pixels of `images`, as trained."""
    changes: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
        CONFIG: _model_of_both,
        TOKENIZER: _tokenizer_of_both,
        PIXELS: partial(_pixels_of_both, images=images),
    }
    for name in COMPANIONS:
        there = (source / name).is_file()
        data = (source / name).read_bytes() if there else b"{}"
        if name in changes:
            plain = json.loads(data)
            changed = changes[name](plain)
            # unchanged files keep their bytes, whatever their layout
            data = data if changed == plain else json.dumps(changed, indent=2, ensure_ascii=False).encode() + b"\n"
        if there or name == PIXELS:
            (folder / name).write_bytes(data)


def _model_of_both(config: dict[str, Any]) -> dict[str, Any]:
    """A configuration as transformers 5 writes it (`rope_parameters`, `num_local_experts`) with 4.57's words for the
    same beside; one of 4.57 as it is, since 5 reads that."""
    text = dict(config.get("text_config") or {})
    rope = text.get("rope_parameters")
    if not rope:
        return config
    text.setdefault("rope_theta", rope["rope_theta"])
    text.setdefault("rope_scaling", {key: value for key, value in rope.items() if key != "rope_theta"})
    text["tie_word_embeddings"] = config.get("tie_word_embeddings", False)  # 5 reads the top level alone, 4.57 this one
    if "num_local_experts" in text:
        text.setdefault("num_experts", text["num_local_experts"])
    return {**config, "text_config": text}


def _tokenizer_of_both(plain: dict[str, Any]) -> dict[str, Any]:
    """The general class by the name that both know, and control tokens in the list that both read."""
    changed = dict(plain)
    if plain.get("tokenizer_class") == "TokenizersBackend":
        changed["tokenizer_class"] = "PreTrainedTokenizerFast"
    if isinstance(plain.get("extra_special_tokens"), list):
        changed["additional_special_tokens"] = changed.pop("extra_special_tokens")
    return changed


def _pixels_of_both(plain: dict[str, Any], images: Any) -> dict[str, Any]:
    """With the sizes and scales of `images`; what they don't say stays. The class without torchvision has a name of its
    own in 5 only, and 4.57's reads sizes by the older keys."""
    least, most = images.size["shortest_edge"], images.size["longest_edge"]
    wanted: dict[str, Any] = {"size": {"shortest_edge": least, "longest_edge": most}}
    wanted |= {key: getattr(images, key) for key in ("patch_size", "temporal_patch_size", "merge_size")}
    wanted |= {key: list(getattr(images, key)) for key in ("image_mean", "image_std")}
    named = plain.get("image_processor_type", "Qwen2VLImageProcessorPil")
    wanted["image_processor_type"] = named.replace("Pil", "Fast")
    if {**plain, **wanted} == plain:
        return plain
    return {"processor_class": "Qwen3VLProcessor", **plain, **wanted, "min_pixels": least, "max_pixels": most}


def save_like(source: Path, folder: Path, model: PreTrainedModel) -> None:
    """Write a model's weights with the names, files and dtypes that `source` has, in the published layout, and what
    bfloat16 rounds off of them, if anything. What the source holds and its class passes over (heads that predict
    several tokens ahead) goes along as it is. Raises `CheckpointMismatch` where the model has other tensors."""

    like, config = tensors.WeightFiles(source), model.config
    held = {name: one.detach() for name, one in swapped(model, model.state_dict()).items()}
    if getattr(config, "tie_word_embeddings", False) and tensors.OUTPUT_EMBEDDING not in like.tensors:
        held.pop(tensors.OUTPUT_EMBEDDING, None)
    held = as_named(held, like.tensors)
    passed_over = re.compile("|".join(getattr(model, "_keys_to_ignore_on_load_unexpected", None) or ["(?!)"]))
    along = {name for name in like.tensors if name not in held and passed_over.search(name)}
    if wrong := sorted((set(like.tensors) ^ set(held)) - along):
        raise tensors.CheckpointMismatch(
            f"{source}: expected the tensors of a {type(model).__name__}, found {len(wrong)} missing or unknown, first "
            f"{wrong[0]!r}; save the folder with the transformers that trained it"
        )

    def pieces(name: str) -> Iterator[torch.Tensor]:
        # piece by piece, so that no tensor stands in memory a second time in float32
        return (piece.float().cpu() for piece in held[name].flatten().split(tensors.PIECE))

    def written(name: str) -> Iterator[torch.Tensor]:
        return (
            like.pieces(name)
            if name in along
            else (tensors.rounded(one, like.tensors[name].dtype) for one in pieces(name))
        )

    like.tensors = {
        name: info if name in along else replace(info, shape=tuple(held[name].shape))
        for name, info in like.tensors.items()
    }
    tensors.write_like(like, folder, written)
    left = {
        name: replace(info, dtype="I16")
        for name, info in like.tensors.items()
        if info.dtype == "BF16" and name not in along
    }
    # weights that nobody trained round to themselves, and leave nothing
    if any(bool(tensors.remainder(piece).any()) for name in left for piece in pieces(name)):
        like.tensors = left
        (folder / tensors.REMAINDER).mkdir(exist_ok=True)
        tensors.write_like(like, folder / tensors.REMAINDER, lambda name: map(tensors.remainder, pieces(name)))


def put_back_remainder(folder: Path, model: Any) -> None:
    """Add to float32 weights just loaded from a folder what rounding left over of them, if the folder has that."""
    import torch

    if not (folder / tensors.REMAINDER).is_dir():
        return
    left = tensors.WeightFiles(folder / tensors.REMAINDER)
    weights = {name: one.detach() for name, one in model.named_parameters()}
    for name, held in as_named(swapped(model, weights), left.tensors).items():
        if name in left.tensors:
            held.view(torch.int32).add_(left.read(name))  # in place: `unrounded` of the whole would double the memory
