"""The first look, `vesper demo --size tiny`: the whole way from raw files to a merged agent in a few minutes.

It trains a few steps where the demo trains until the figures move, from the small model that can already see, and
leaves out what only proves things: the bench of judges with what is built from it, and the staircase.
"""

from __future__ import annotations

import json
import os
from typing import Any

from dagster_project.settings import deployment
from schemas.settings import merged

TRAINER: dict[str, Any] = {
    # random weights would need all of the demo's steps before any figure says something
    "weights": "nano_base",
    "validation_rows": 16,
    # so few steps teach little; larger ones, or those of the tower, would unlearn what it can do
    "midtrain": {"max_steps": 24, "batch_size": 8, "warmup_steps": 4, "learning_rate": 1e-4, "freeze_vision": True},
    "offline": {
        "updates": 2,
        "eval_steps": 2,
        "prompts": 4,
        "num_generations": 4,
        "validation_limit": 8,
        "validation_samples": 1,
        "held_out_limit": 8,
        "offline_grounding": {"updates": 2, "prompts": 8, "eval_steps": 2},
    },
    "online": {"updates": 1, "tasks_per_update": 2, "num_generations": 2, "reference": {"episodes": 2}},
    "merge": {"validation_rows": 8, "density": 0.5, "lambda": 1.0},
    "evaluate": {"grounding": 24, "navigation": 6},
    "episodes": {"attempts": 8},
}
"""Settings of training in place of those of the preset; what the deployment or $VESPER_TRAINER says wins."""


def shorten() -> None:
    """Give this process, and those that it starts, the short settings of training."""
    os.environ["VESPER_TRAINER"] = json.dumps(merged(TRAINER, deployment.load().trainer))
