"""A checkpoint that began as a published folder looks like it: its files, and names, shards and dtypes of its weights.

What isn't changed by training is copied byte for byte (configuration, tokenizer, chat template, processors), so that
whatever loads the published folder, by whichever version of transformers, loads ours. Weights are written in the dtype
that they came in, bfloat16 for Qwen3-VL; what that rounds off lies beside them (`tensors.REMAINDER`), for the stages
that go on from there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer.modeling.published_layout import swapped
from trainer.modeling.tensors import (
    OUTPUT_EMBEDDING,
    PIECE,
    REMAINDER,
    CheckpointMismatch,
    WeightFiles,
    remainder,
    rounded,
    write_like,
)

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


def published_folder(place: str) -> Path:
    """The folder of a path or of a name on the hub, there with all of `COMPANIONS` that the name has. Raises `OSError`
    if nothing is found."""
    from transformers.utils import cached_file

    # the configuration comes last: its path gives the folder
    if not Path(place).is_dir():
        for name in COMPANIONS[1:]:
            cached_file(place, name, _raise_exceptions_for_missing_entries=False)
    return Path(str(cached_file(place, CONFIG))).parent


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
    bfloat16 rounds off of them, if anything. Raises `CheckpointMismatch` where the model has other tensors."""

    like, config = WeightFiles(source), model.config
    held = {name: one.detach() for name, one in swapped(model, model.state_dict()).items()}
    if getattr(config, "tie_word_embeddings", False) and OUTPUT_EMBEDDING not in like.tensors:
        held.pop(OUTPUT_EMBEDDING, None)
    if wrong := sorted(set(like.tensors) ^ set(held)):
        raise CheckpointMismatch(
            f"{source}: expected the tensors of a {type(model).__name__}, found {len(wrong)} missing or unknown, first "
            f"{wrong[0]!r}; save the folder with the transformers that trained it"
        )

    def pieces(name: str) -> Iterator[torch.Tensor]:
        # piece by piece, so that no tensor stands in memory a second time in float32
        return (piece.float().cpu() for piece in held[name].flatten().split(PIECE))

    like.tensors = {name: replace(info, shape=tuple(held[name].shape)) for name, info in like.tensors.items()}
    write_like(like, folder, lambda name: (rounded(piece, like.tensors[name].dtype) for piece in pieces(name)))
    left = {name: replace(info, dtype="I16") for name, info in like.tensors.items() if info.dtype == "BF16"}
    # weights that nobody trained round to themselves, and leave nothing
    if any(bool(remainder(piece).any()) for name in left for piece in pieces(name)):
        like.tensors = left
        (folder / REMAINDER).mkdir(exist_ok=True)
        write_like(like, folder / REMAINDER, lambda name: map(remainder, pieces(name)))


def put_back_remainder(folder: Path, model: Any) -> None:
    """Add to float32 weights just loaded from a folder what rounding left over of them, if the folder has that."""
    import torch

    if not (folder / REMAINDER).is_dir():
        return
    left = WeightFiles(folder / REMAINDER)
    weights = {name: one.detach() for name, one in model.named_parameters()}
    for name, held in swapped(model, weights).items():
        if name in left.tensors:
            held.view(torch.int32).add_(left.read(name))  # in place: `unrounded` of the whole would double the memory
