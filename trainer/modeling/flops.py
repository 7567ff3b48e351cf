"""How much arithmetic training does, and what share of a GPU's peak that is (MFU, model FLOPs utilisation)."""

from typing import Any

import torch

from trainer.modeling.batches import Batch

PEAKS = {"B200": 2250.0, "H200": 989.4, "H100": 989.4, "A100": 312.0, "L40S": 362.0, "RTX 4090": 165.2}
"""Part of a GPU's name → dense bf16 TFLOP/s by its maker's data sheet (of H100 and H200 that of the SXM form)."""


def peak_flops(name: str) -> float | None:
    """FLOP/s of a GPU in dense bf16, by its name; None for one that isn't listed."""
    return next((peak * 1e12 for part, peak in PEAKS.items() if part in name), None)


def batch_flops(config: Any, batch: Batch, *, frozen_tower: bool = False) -> float:
    """FLOPs that forward and backward pass of a batch need, without recomputation (PaLM, Chowdhery et al. 2022,
    appendix B): `weight_flops` and `attention_flops`. 0.0 for what isn't a Qwen3-VL, whose layers count otherwise.

    A frozen tower has no backward pass, and what it made of a picture before costs nothing.
    """
    if getattr(config, "model_type", "") not in ("qwen3_vl", "qwen3_vl_moe"):
        return 0.0
    return weight_flops(config, batch, frozen_tower) + attention_flops(config, batch, frozen_tower)


def weight_flops(config: Any, batch: Batch, frozen_tower: bool = False) -> float:
    """Of products with weights: 6 a weight and token that meet, 2 of them forward. The head counts at labels only, the
    tower at the patches of each picture of the batch once; of a mixture of experts those count that a token meets."""
    text, vision = config.text_config, config.vision_config
    # of all heads of the queries; keys and values may have fewer
    width, inner = text.hidden_size, text.num_attention_heads * text.head_dim
    # queries and output are width x inner each, keys and values width x their heads
    attention = width * (2 * inner + 2 * text.num_key_value_heads * text.head_dim)
    experts = getattr(text, "num_experts_per_tok", None) if hasattr(text, "num_experts") else None
    # gate, up and down
    mlp = 3 * width * (text.moe_intermediate_size * experts if experts else text.intermediate_size)
    layers = text.num_hidden_layers * (attention + mlp) * sum(_lengths(batch))
    head = width * text.vocab_size * int((batch.labels != -100).sum())
    patches = sum(_patches(batch))
    pixels = vision.in_channels * vision.temporal_patch_size * vision.patch_size**2 * vision.hidden_size
    # queries, keys, values and output; then the two products of the MLP
    block = 4 * vision.hidden_size**2 + 2 * vision.hidden_size * vision.intermediate_size
    merged = vision.hidden_size * vision.spatial_merge_size**2
    # one merger, and one for each level of DeepStack; each reads merge² patches at once
    mergers = (1 + len(vision.deepstack_visual_indexes)) * merged * (merged + width) / vision.spatial_merge_size**2
    tower = (vision.depth * block + mergers) * patches
    back = 0.0 if frozen_tower else 1.0
    # pixels need no gradient, which spares a third of their product's passes
    return 6.0 * (layers + head) + (2.0 + 4.0 * back) * tower + (2.0 + 2.0 * back) * pixels * patches


def attention_flops(config: Any, batch: Batch, frozen_tower: bool = False) -> float:
    """Of the products of queries, keys and values: over half of each sample's squared length, which its mask leaves,
    and in the tower over each picture's."""
    text, vision = config.text_config, config.vision_config
    inner = text.num_attention_heads * text.head_dim
    # 4 T² forward, three times that with the way back, and half of it under the causal mask
    decoder = 6.0 * text.num_hidden_layers * inner * sum(length**2 for length in _lengths(batch))
    tower = 4.0 * vision.depth * vision.hidden_size * sum(count**2 for count in _patches(batch))
    return decoder + (1.0 if frozen_tower else 3.0) * tower


def _lengths(batch: Batch) -> list[int]:
    return batch.lengths or [int(length) for length in batch.attention_mask.sum(1)]


def _patches(batch: Batch) -> list[int]:
    """Of the pictures that the tower reads: those that it didn't read before."""
    if batch.image_grid_thw is None:
        return []
    counts = batch.image_grid_thw.prod(-1).tolist()
    keys = batch.picture_keys or [""] * len(counts)
    return [count for count, key in zip(counts, keys, strict=True) if key not in batch.features]


def utilisation(flops: float, seconds: float, device: torch.device, world: int) -> dict[str, float]:
    """`tflops` a second and process, and `mfu` where the GPU's peak is known. {} for 0 FLOPs."""
    if not flops:
        return {}
    pace = flops / seconds / world
    peak = peak_flops(torch.cuda.get_device_name(device)) if device.type == "cuda" else None
    return {"tflops": pace / 1e12, **({"mfu": pace / peak} if peak else {})}
