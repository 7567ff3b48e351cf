"""The published Qwen3-VL sizes: their weights by name or from a folder, or random weights of their shapes.

`load_base("8b")` loads what the hub calls Qwen/Qwen3-VL-8B-Instruct (its tokenizer writes numbers digit by digit, so
`Processor.numbers` is None); `load_base("8b", folder)` the same from a disk. `random_base` needs neither: for speed
and memory only the shapes count.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from trainer.modeling.checkpoint import quiet
from trainer.modeling.model import load_model, reduce_layers, speed_up
from trainer.modeling.processor import Processor
from trainer.modeling.published_files import published_folder
from trainer.modeling.tokenizer import IMAGE, SPECIAL, VIDEO, VISION_END, VISION_START
from trainer.presets import PUBLISHED, Preset, image_processor, preset

ALSO = {
    "Qwen3VLForConditionalGeneration": "Qwen3_5ForConditionalGeneration",
    "Qwen3VLMoeForConditionalGeneration": "Qwen3_5MoeForConditionalGeneration",
}
"""Architecture of a preset → another one whose weights train under its settings (Qwen3.5 and 3.6)."""


def load_base(name: str | Preset, source: str | Path | None = None, layers: int | None = None) -> tuple[Any, Processor]:
    """(model in float32, processor) of a published preset, from `source` (a hub name or a folder; the preset's own by
    default).

    `layers` keeps the first decoder layers only; saved, it isn't in the published form. Raises `ValueError` if the
    preset is built from scratch, if the weights are of another architecture, or if tokenizer and model don't belong
    together; `OSError` if nothing is found there.
    """
    from transformers import AutoTokenizer

    wanted = preset(name) if isinstance(name, str) else name
    if not wanted.source:
        raise ValueError(f"preset {wanted.name}: is built from scratch and has no published base; see build_model")
    place = str(source or wanted.source)
    tokenizer: Any = AutoTokenizer.from_pretrained(place)
    # before weights of many gigabytes are read; some call an unknown token by the name of a known one
    if missing := [token for token in SPECIAL if token not in tokenizer.get_vocab()]:
        raise ValueError(f"preset {wanted.name}: the tokenizer lacks {', '.join(missing)}")
    with quiet():
        model = load_model(place, layers=layers)
    if (found := type(model).__name__) not in (wanted.architecture, ALSO.get(wanted.architecture)):
        raise ValueError(f"preset {wanted.name}: expected a {wanted.architecture}, found a {found}")
    wanted = replace(wanted, architecture=found)
    _same_tokens(model.config, tokenizer, wanted.name)
    images, vision = image_processor(wanted), model.config.vision_config
    for theirs, mine in (
        (vision.patch_size, images.patch_size),
        (vision.spatial_merge_size, images.merge_size),
        (vision.temporal_patch_size, images.temporal_patch_size),
    ):
        if theirs != mine:
            raise ValueError(
                f"preset {wanted.name}: expected pictures in patches of {images.patch_size} px, merged "
                f"{images.merge_size} x {images.merge_size}, the model has {vision.patch_size} and "
                f"{vision.spatial_merge_size}"
            )
    # a model without its last layers isn't the published one, and has none of its files
    source = None if layers else published_folder(place)
    return model, Processor(tokenizer, images, wanted, source=source)


def _same_tokens(config: Any, tokenizer: Any, name: str) -> None:
    found = tokenizer.convert_tokens_to_ids(IMAGE)
    if found != config.image_token_id:
        raise ValueError(f"preset {name}: {IMAGE} is {found} to the tokenizer and {config.image_token_id} to the model")
    if len(tokenizer) > config.text_config.vocab_size:
        raise ValueError(f"preset {name}: {len(tokenizer)} tokens, the model has {config.text_config.vocab_size}")


def published_config(name: str, tokenizer: Any = None, layers: int | None = None) -> object:
    """The configuration of a published size, written out here; with a tokenizer, its control ids."""
    from transformers import Qwen3VLConfig, Qwen3VLMoeConfig

    sizes = PUBLISHED[preset(name).name]
    kind: Any = Qwen3VLMoeConfig if "num_experts" in sizes["text"] else Qwen3VLConfig
    rope = {"rope_type": "default", "rope_theta": 5_000_000.0, "mrope_section": [24, 20, 20], "mrope_interleaved": True}
    config = kind(
        text_config={
            "vocab_size": 151_936,
            "head_dim": 128,
            "max_position_embeddings": 262_144,
            "rope_parameters": rope,
            **sizes["text"],
        },
        vision_config={
            "patch_size": 16,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "num_heads": 16,
            "num_position_embeddings": 2304,
            "out_hidden_size": sizes["text"]["hidden_size"],
            **sizes["vision"],
        },
        tie_word_embeddings=sizes["tied"],
    )
    if tokenizer is not None:
        ids = tokenizer.convert_tokens_to_ids
        config.image_token_id, config.video_token_id = ids(IMAGE), ids(VIDEO)
        config.vision_start_token_id, config.vision_end_token_id = ids(VISION_START), ids(VISION_END)
    if layers is not None:
        reduce_layers(config, layers)
    return config


def random_base(
    name: str, tokenizer: object, layers: int | None = None, *, device: str | torch.device = "cpu"
) -> tuple[object, Processor]:
    """(model in float32, processor) of a published size with random weights, a pure function of (sizes, device).

    `layers` keeps the first decoder layers only. Any tokenizer with the control tokens will do. On the device `meta` it
    takes no memory, to count by.
    """
    from transformers import AutoModelForImageTextToText

    config = published_config(name, tokenizer, layers)
    state = torch.get_rng_state()
    try:
        torch.manual_seed(0)
        with torch.device(device):
            model: Any = AutoModelForImageTextToText.from_config(config)
    finally:
        torch.set_rng_state(state)
    return speed_up(model), Processor(tokenizer, image_processor(preset(name)), preset(name))
