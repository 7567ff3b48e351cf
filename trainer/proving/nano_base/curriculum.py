"""What nano-base learns, in which order and how long: the phases, and all else that decides its weights.

Add a phase: an entry in `CURRICULUM`; a lesson that it asks: `generators.proving.perception.questions.LESSONS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from trainer.proving.nano_base.vision import VisionConfig
from trainer.runtime.precision import native_bf16

if TYPE_CHECKING:
    from trainer.settings.supervised import MidtrainConfig

GATED = ("shapes", "icons", "words", "texts", "mixed", "acts", "layouts", "worlds")
"""Lessons that the gate measures unless others are named; it is passed on "mixed"."""


@dataclass(frozen=True)
class Phase:
    """A part of the curriculum: `max_steps` batches of lessons drawn by weight, with a learning rate and the width of
    coordinate targets (0..1000) at its first and last step. It leaves a checkpoint that the next one starts from.

    While `frozen` the vision tower stays as it is: a decoder that can't compare yet would unlearn it to read."""

    name: str
    lessons: Mapping[str, float]
    max_steps: int
    learning_rate: float = 6e-4
    sigma: tuple[float, float] = (60.0, 30.0)
    frozen: bool = True
    batch_size: int = 32
    image_blocks: int = 0
    """Blocks of the decoder after which image tokens say what they show (`MidtrainConfig.image_blocks`)."""
    final_lr_share: float = 0.3
    """Learning rate of its last step, as a share of `learning_rate`."""
    look: VisionConfig | None = None
    """The tower alone once more, before the phase's questions."""


SHAPE: dict[str, Any] = {
    "vocab_size": 3072,
    "vision_hidden": 160,
    "vision_heads": 5,
    "vision_intermediate": 320,
    "deepstack": [],
    "position_grid": 28,
    "position_init": 0.2,
    "pixels": 320 * 448,
    "enlarged_to": 0.1,
}
"""What nano-base changes of the nano preset: text of 16 px is large enough to be read, and is never another size."""
CURRICULUM = (
    Phase("few", {"colour": 0.25, "shapes": 0.15, "icons": 0.2, "words": 0.4}, 900, 1e-3),
    Phase("wide", {"wide": 0.6, "words": 0.2, "icons": 0.1, "shapes": 0.1}, 600, sigma=(50.0, 25.0), batch_size=16),
    Phase("texts", {"texts": 0.6, "wide": 0.2, "words": 0.1, "mixed": 0.1}, 300, sigma=(40.0, 20.0), batch_size=16),
    Phase(
        "mixed",
        {"mixed": 0.35, "layouts": 0.15, "texts": 0.15, "words": 0.25, "icons": 0.1},
        1000,
        sigma=(30.0, 12.0),
        batch_size=16,
    ),
    Phase("acts", {"acts": 0.7, "mixed": 0.15, "layouts": 0.15}, 600, sigma=(30.0, 12.0), batch_size=16),
    Phase(
        "all",
        {"acts": 0.35, "layouts": 0.15, "mixed": 0.1, "words": 0.15, "icons": 0.1, "shapes": 0.15},
        400,
        4e-4,
        sigma=(30.0, 12.0),
        batch_size=16,
    ),
    Phase(
        "worlds",
        {"worlds": 0.6, "acts": 0.1, "layouts": 0.1, "mixed": 0.05, "words": 0.05, "icons": 0.05, "shapes": 0.05},
        2000,
        sigma=(30.0, 12.0),
        batch_size=16,
        look=VisionConfig(
            max_steps=5000, full_size=0.4, worlds=0.65, learning_rate=1.2e-3, warmup_steps=100, heads_first=150
        ),
    ),
    Phase(
        "settle",
        {"worlds": 0.45, "acts": 0.2, "layouts": 0.1, "mixed": 0.1, "words": 0.05, "icons": 0.05, "shapes": 0.05},
        1500,
        sigma=(20.0, 12.0),
        batch_size=16,
        image_blocks=2,
    ),
    Phase(
        "long",
        {"worlds": 0.45, "acts": 0.25, "layouts": 0.08, "mixed": 0.1, "words": 0.04, "icons": 0.04, "shapes": 0.04},
        4000,
        sigma=(15.0, 8.0),
        batch_size=16,
        image_blocks=2,
        final_lr_share=0.05,
    ),
)
"""One attribute and few elements first, crowds later; then elements as people name them, goals as a navigation sample
puts them, and the worlds' own screens. Each phase keeps a share of what came before."""


@dataclass(frozen=True)
class NanoBaseConfig:
    """What decides the weights, beside the curriculum."""

    seed: int = 0
    sheets: int = 200
    layouts: int = 1200
    pages: int = 462
    held_out_sheets: int = 8
    held_out_layouts: int = 80
    held_out_pages: int = 66
    vision: VisionConfig = field(default_factory=VisionConfig)
    """The vision tower alone, before any question."""
    curriculum: tuple[Phase, ...] = CURRICULUM
    warmup_steps: int = 30
    tokenizer_rows: int = 6_000
    gate_rows: int = 240
    gated: tuple[str, ...] = GATED
    """Lessons that the gate measures; "mixed" must be one."""
    threads: int = 2
    save_steps: int = 100
    shape: Mapping[str, Any] = field(default_factory=lambda: dict(SHAPE))

    def __post_init__(self) -> None:
        counts = (
            self.sheets,
            self.layouts,
            self.pages,
            self.held_out_sheets,
            self.held_out_layouts,
            self.held_out_pages,
            self.gate_rows,
            self.tokenizer_rows,
        )
        if min(counts) < 1:
            raise ValueError(f"nano-base: expected sheets, layouts, pages and rows of at least 1, found {self}")
        if "mixed" not in self.gated:
            raise ValueError(f'nano-base: gated: expected "mixed" among the lessons, found {self.gated}')

    def midtrain(self, phase: Phase) -> MidtrainConfig:
        """A phase as the settings of `trainer.midtrain.train.train`."""
        from trainer.settings.supervised import MidtrainConfig, SpanWeights

        return MidtrainConfig(
            max_steps=phase.max_steps,
            batch_size=phase.batch_size,
            learning_rate=phase.learning_rate,
            warmup_steps=min(self.warmup_steps, phase.max_steps),
            final_lr_share=phase.final_lr_share,
            sigma=phase.sigma,
            seed=self.seed,
            threads=self.threads,
            bf16=native_bf16(),
            save_steps=self.save_steps,
            eval_steps=0,
            freeze_vision=phase.frozen,
            image_blocks=phase.image_blocks,
            spans=SpanWeights(coordinate=1.0, text=2.0),
        )
