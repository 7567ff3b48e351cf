"""How a demo trains: the whole one so that its agent sees, the first look (`vesper demo --size tiny`) in a few steps.

Both begin with the small model that can already see; random weights would need hours before a figure says something.
The first look is the whole way from raw files to a merged agent in a few minutes, and leaves out what only proves
things: the bench of judges with what is built from it, and the staircase.
"""

import json
import os
from collections.abc import Mapping
from typing import Any

from dagster_project.settings import deployment
from schemas.settings import merged

WHOLE: dict[str, Any] = {
    "weights": "nano_base",
    # text is read at the size at which it was learned: of a whole screen, made smaller, hardly a letter is left
    "reading": {"mode": "windows", "sure_from": 0.6},
    "midtrain": {
        # Few and gentle steps, the tower frozen: more of them raise the hits on swapped screens as much as those on the
        # right ones, for the demo's few hundred screens are learned by heart (docs/decisions/reading.md).
        "max_steps": 80,
        "batch_size": 16,
        "warmup_steps": 8,
        "learning_rate": 4e-4,
        "sigma": [20, 10],
        "image_labels": True,
        "image_blocks": 2,
        "freeze_vision": True,
        # A model this small learns no prose in 80 steps, only to begin a thought or a list that it can't end; what it
        # sees and does is lost on the way (docs/decisions/reading.md).
        "spans": {"text": 0.1},
        "schedule": [[1.0, {"grounding": 0.45, "navigation": 0.45, "perception": 0.05, "vqa": 0.05}]],
        "threads": 1,  # the second process has the other core
    },
    # A window is a prompt of four times the picture that nano sees of a whole screen, and a screen has five of them; RL
    # and nine evaluations get fewer rows, so that the demo stays within its minutes. What RL gains is measured by four
    # draws of each held-out task: by one alone the draws differ more than the policies do.
    "offline": {
        "threads": 1,
        "validation_limit": 24,
        "held_out_samples": 4,
    },
    "evaluate": {"grounding": 100, "navigation": 12, "threads": 1},
    # an agent that solves one task in twenty is to be seen solving one
    "episodes": {"attempts": 60},
}
"""Settings of training of the whole demo."""
FIRST_LOOK: dict[str, Any] = {
    "weights": "nano_base",
    "validation_rows": 16,
    # So few steps teach little; larger ones, or those of the tower, would unlearn what it can do. One thread: batches
    # so small gain nothing by a second one, which waits busily for the first at every sum.
    "midtrain": {
        "max_steps": 16,
        "batch_size": 8,
        "warmup_steps": 4,
        "learning_rate": 1e-4,
        "freeze_vision": True,
        "threads": 1,
    },
    # a step in our three tags has some forty tokens; a reply that rambles isn't waited for
    "offline": {
        "threads": 1,
        "updates": 1,
        "eval_steps": 1,
        "prompts": 4,
        "num_generations": 4,
        "grpo": {"max_completion_length": 48},
        "validation_limit": 8,
        "validation_samples": 1,
        "held_out_limit": 4,
        "offline_grounding": {"updates": 2, "prompts": 8, "eval_steps": 2},
    },
    "online": {"updates": 1, "tasks_per_update": 2, "num_generations": 2, "reference": {"episodes": 2}},
    "merge": {"validation_rows": 8, "density": 0.5, "lambda": 1.0},
    "evaluate": {"grounding": 12, "navigation": 3, "max_new_tokens": 48, "threads": 1},
    "episodes": {"attempts": 8},
}
"""Settings of training of a first look."""


def train_as(demo: Mapping[str, Any]) -> None:
    """Give this process, and those that it starts, a demo's settings of training in place of those of the preset; what
    the deployment or $VESPER_TRAINER says wins."""
    os.environ["VESPER_TRAINER"] = json.dumps(merged(demo, deployment.load().trainer))
