"""Checks that several stages of the trainer share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from pipelines.store.manifest import Check
from trainer.modeling.checkpoint import quiet
from trainer.settings.stage_checks import LOADS, WEIGHTS_FINITE
from trainer.statistics import fell

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def finite(model: PreTrainedModel) -> Check:
    """No weight is NaN or infinite."""
    bad = [name for name, tensor in model.named_parameters() if not torch.isfinite(tensor).all()]
    return WEIGHTS_FINITE.check(not bad, ", ".join(bad[:3]) or "all finite", "no NaN, no infinity", len(bad), 0)


def loads(folder: Path) -> Check:
    """Plain transformers reads the folder, without any of our code."""
    from transformers import AutoImageProcessor, AutoModelForImageTextToText, AutoTokenizer

    with quiet():
        loaded: Any = AutoModelForImageTextToText.from_pretrained(str(folder), output_loading_info=True)
    model, info = loaded
    tokenizer = AutoTokenizer.from_pretrained(str(folder))
    AutoImageProcessor.from_pretrained(str(folder))
    missing = sorted({*info["missing_keys"], *info["unexpected_keys"]})
    # a token without an embedding would fail at its first use
    fits = len(tokenizer) <= model.config.text_config.vocab_size
    return LOADS.check(
        not missing and fits,
        f"{len(missing)} keys missing or unexpected",
        "all keys, a tokenizer that fits",
        len(missing),
        0,
    )


def moved_finitely(metrics: Mapping[str, Any]) -> Check:
    """RL's change of the weights is a number."""
    norm = metrics["weight_delta_norm"]
    return WEIGHTS_FINITE.check(math.isfinite(norm), norm, "finite")


def did_not_fall(gain: Mapping[str, Any], mean: str) -> tuple[bool, str, str, float, float]:
    """(passed, found, expected, value, limit) of a paired gain that isn't below 0 outside chance; `mean` is how its
    mean is written. The check's name is the stage's own."""
    found = f"gain {mean}, interval up to {gain['high']}"
    return not fell(gain), found, "an interval that is not wholly below 0", gain["mean"], 0
