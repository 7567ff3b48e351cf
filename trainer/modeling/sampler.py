"""Who draws replies to rows of prompts: one interface for offline RL, alignment, distillation, evaluation and merges.

`Sampler` draws by the model in this process, `trainer.vllm.sampler.ServedSampler` by servers. The rollouts of
online RL ask for one reply at a time (`trainer.online.rollout_engine`), of the same two.
"""

from collections.abc import Sequence
from typing import Any, Required, Self, TypedDict, Unpack

import torch

from trainer.modeling.batches import Row
from trainer.modeling.generation import Completion, generate
from trainer.modeling.processor import Processor

POLICY, REFERENCE = "policy", "reference"
"""Slots: whose weights a reply is drawn with."""


class HowDrawn(TypedDict, total=False):
    """Arguments of `trainer.modeling.generation.generate` that any sampler takes."""

    max_new_tokens: Required[int]
    group: int
    temperature: float
    generator: torch.Generator | None
    batch_size: int
    decided: bool


class EngineFailed(RuntimeError):
    """No reply can be had any more; the message says why."""


class Sampler:
    """Draws by a model itself, which may be changed between two calls. Use it with `with`.

    `served`: kernels other than the learner's draw, so that its own log-probabilities differ from the recorded ones,
    which are then corrected by truncated importance weights (`sampled_replies.as_served`).
    """

    served = False

    def __init__(self, model: Any, processor: Processor) -> None:
        self.model, self.processor = model, processor

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing is held here."""

    def seeded(self, seed: int) -> torch.Generator:
        """What replies are drawn with that are a function of the weights, the rows and this seed."""
        return torch.Generator(device=next(self.model.parameters()).device).manual_seed(seed)

    def renew(self, version: int) -> None:
        """The model has other weights from now on, those after `version` updates."""

    def draw(self, rows: Sequence[Row], **how: Unpack[HowDrawn]) -> list[Completion]:
        """See `trainer.modeling.generation.generate`."""
        return generate(self.model, self.processor, rows, **how)
