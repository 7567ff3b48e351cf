"""Settings of mid-training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trainer.modeling.span_weights import SpanWeights
from trainer.runtime.settings import require_known


@dataclass(frozen=True, slots=True)
class MidtrainConfig:
    """All that decides the weights, beside data and starting point; names are TRL's where they mean the same.
    `learning_rate` is the peak, after `warmup_steps`."""

    max_steps: int = 400
    batch_size: int = 32
    """Rows a step (with `packing`, sequences a step), of all ranks and micro-batches together."""
    learning_rate: float = 2e-3
    warmup_steps: int = 20
    final_lr_share: float = 0.05
    betas: tuple[float, float] = (0.9, 0.95)
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    sigma: tuple[float, float] = (60.0, 12.0)
    """Width of coordinate targets in units of 0..1000, first and last step; (0, 0) is plain cross entropy."""
    seed: int = 0
    threads: int = 2
    spans: SpanWeights = field(default_factory=SpanWeights)
    save_steps: int = 50
    eval_steps: int = 100
    """0 validates after the last step only."""
    bf16: bool | None = None
    """Compute in bfloat16, with float32 weights, gradients and losses; None: on a GPU only."""
    gradient_accumulation_steps: int = 1
    """Micro-batches that a rank splits its share of a step into; bounds memory, changes no gradient."""
    padding_free: bool = True
    """A micro-batch is one sequence without padding, its samples masked from one another."""
    packing: bool = False
    """Several samples share a sequence (`trainer.modeling.packing`)."""
    max_length: int = 2048
    """Tokens of a packed sequence; a longer sample has one of its own."""
    packing_window: int = 1024
    """Rows that are packed together."""
    gradient_checkpointing: bool = False
    """Recompute each block's activations in the backward pass instead of keeping them."""
    router_aux_loss_coef: float = 0.0
    """Weight of the loss that keeps all experts of a mixture in use (`trainer.modeling.routing`); 0: without it."""
    freeze_vision: bool = False
    """The vision tower keeps its weights (`trainer.modeling.model.freeze_vision`)."""
    image_labels: bool = False
    """Image tokens have labels too: whether they show the target of the action or question
    (`trainer.data.image_labels`); for presets that put the instruction before the picture."""
    image_blocks: int = 0
    """Blocks of the decoder after which labelled image tokens say so (0: all of them). The blocks that come after can
    use for the answer what was found by then; what is found by the last one no answer ever sees."""
    schedule: tuple[Any, ...] = ()
    """Phases (share of the steps, {objective: share of the rows}), see `trainer.midtrain.schedule`; () is none."""

    def __post_init__(self) -> None:
        if self.router_aux_loss_coef < 0:
            raise ValueError(f"MidtrainConfig: expected router_aux_loss_coef >= 0, found {self.router_aux_loss_coef}")
        if self.max_steps < 1 or self.batch_size < 1 or not 0 <= self.warmup_steps <= self.max_steps:
            raise ValueError(
                "MidtrainConfig: expected max_steps, batch_size >= 1 and 0 <= warmup_steps <= max_steps, "
                f"found {self.max_steps}, {self.batch_size}, {self.warmup_steps}"
            )
        if self.learning_rate <= 0 or min(self.sigma) < 0 or self.save_steps < 1:
            raise ValueError("MidtrainConfig: expected learning_rate > 0, sigma >= 0 and save_steps >= 1")
        if min(self.gradient_accumulation_steps, self.max_length, self.packing_window) < 1:
            raise ValueError(
                "MidtrainConfig: expected gradient_accumulation_steps, max_length and packing_window "
                f">= 1, found {self.gradient_accumulation_steps}, {self.max_length}, "
                f"{self.packing_window}"
            )


NEUTRAL = (
    "bf16",
    "gradient_accumulation_steps",
    "padding_free",
    "packing",
    "max_length",
    "packing_window",
    "gradient_checkpointing",
    "router_aux_loss_coef",
    "freeze_vision",
    "image_labels",
    "image_blocks",
    "schedule",
)
"""Settings that a run's digest names only where they differ from the default, so that older states still fit."""


def config_from(plain: Mapping[str, Any]) -> MidtrainConfig:
    """From JSON; `warmup_steps` that aren't given are a tenth of all, at most 20. Raises `ValueError` naming an unknown
    key."""
    known = MidtrainConfig.__dataclass_fields__
    require_known("midtrain config", plain, known)
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in plain.items()}
    if isinstance(values.get("spans"), Mapping):
        values["spans"] = SpanWeights(**values["spans"])
    if "warmup_steps" not in values:
        values["warmup_steps"] = min(
            known["warmup_steps"].default, values.get("max_steps", known["max_steps"].default) // 10
        )
    return MidtrainConfig(**values)
