"""FLOPs of a batch against those that PyTorch counts as it computes, and the share of a peak."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from trainer.midtrain.loss import token_losses
from trainer.modeling.flops import attention_flops, batch_flops, peak_flops, utilisation, weight_flops
from trainer.modeling.model import freeze_vision
from trainer.modeling.packing import packed


@pytest.mark.parametrize("frozen", [False, True])
def test_the_count_is_what_torch_counts(model: Any, processor: Any, rows: list[dict[str, Any]], frozen: bool) -> None:
    batch = packed(processor.training_batch(rows[:4]))
    freeze_vision(model, frozen, keep=False)
    try:
        with FlopCounterMode(display=False) as counter:  # on a CPU it sees products with weights alone
            losses, _, _ = token_losses(model, processor, batch, 0.0, 0)
            losses.sum().backward()
    finally:
        freeze_vision(model, False)
    assert weight_flops(model.config, batch, frozen) == counter.get_total_flops()
    whole = batch_flops(model.config, batch, frozen_tower=frozen)
    assert whole == weight_flops(model.config, batch, frozen) + attention_flops(model.config, batch, frozen)


def test_attention_counts_what_the_mask_leaves(model: Any, processor: Any, rows: list[dict[str, Any]]) -> None:
    batch = packed(processor.training_batch(rows[:2]))
    text, vision = model.config.text_config, model.config.vision_config
    pairs = sum(length * (length + 1) // 2 for length in batch.lengths or [])
    decoder = (
        12 * text.num_hidden_layers * text.num_attention_heads * text.head_dim * pairs
    )  # two products, three passes
    squares = sum(int(grid.prod()) ** 2 for grid in batch.image_grid_thw)
    tower = 12 * vision.depth * vision.hidden_size * squares
    assert attention_flops(model.config, batch) == pytest.approx(decoder + tower, rel=0.02)


def test_another_architecture_has_no_figure() -> None:
    assert batch_flops(SimpleNamespace(model_type="qwen3_5"), SimpleNamespace()) == 0.0  # type: ignore[arg-type]
    assert utilisation(0.0, 1.0, torch.device("cpu"), 1) == {}


def test_a_peak_is_known_by_the_name_of_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    assert peak_flops("NVIDIA H100 80GB HBM3") == 989.4e12 and peak_flops("NVIDIA T4") is None
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA A100-SXM4-80GB")
    found = utilisation(6.24e14, 2.0, torch.device("cuda", 0), 2)
    assert found == {"tflops": pytest.approx(156.0), "mfu": pytest.approx(0.5)}
    assert set(utilisation(1e12, 1.0, torch.device("cpu"), 1)) == {"tflops"}
