"""Settings of the trainer under which a stage takes seconds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

SHAPE: dict[str, Any] = {
    "hidden": 64,
    "layers": 2,
    "heads": 2,
    "kv_heads": 2,
    "intermediate": 128,
    "vision_hidden": 64,
    "vision_depth": 2,
    "vision_heads": 2,
    "vision_intermediate": 96,
    "deepstack": [0],
    "vocab_size": 1536,
    "pixels": 12288,
}
SETTINGS: dict[str, Any] = {
    "shape": SHAPE,
    "midtrain": {
        "max_steps": 2,
        "batch_size": 4,
        "warmup_steps": 0,
        "eval_steps": 0,
        "threads": 1,
        "packing": True,
        "max_length": 512,
        "packing_window": 12,
        "gradient_accumulation_steps": 2,
    },
    "validation_share": 0.1,
    "offline": {
        "threads": 1,
        "updates": 2,
        "prompts": 3,
        "num_generations": 4,
        "grpo": {"max_completion_length": 16},  # what so few steps teach rambles to the end of any length
        "held_out_limit": 8,
        "held_out_samples": 1,
        "validation_limit": 4,
        "validation_samples": 1,
        "micro_batch": 4,
        "save_steps": 1,
    },
}


@contextmanager
def short_replies(tokens: int = 12) -> Iterator[None]:
    """Models whose training begins inside have no room for longer replies, nor have those that are trained from them.
    What a few steps teach rambles to the end of any length, and stages would do little else."""
    from trainer.stages import checkpoints

    usual = checkpoints.preset_from
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoints, "preset_from", lambda chosen: replace(usual(chosen), max_answer_tokens=tokens))
        yield
