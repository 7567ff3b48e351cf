"""What nano-base learns, in which order and how long: the phases, and all else that decides its weights.

Add a phase: an entry in `CURRICULUM`; a lesson that it asks: `generators.proving.perception.questions.LESSONS`.
"""

from __future__ import annotations

from typing import Any, Self

from pydantic import model_validator

from schemas.settings import Flag, Number, Settings, Whole, setting
from trainer.proving.nano_base.vision import VisionConfig
from trainer.runtime.precision import native_bf16
from trainer.settings.supervised import MidtrainConfig, SpanWeights

GATED = ("shapes", "icons", "words", "texts", "mixed", "acts", "layouts", "worlds", "kits", "kits_held_out", "apps")
"""Lessons that the gate measures unless others are named; it is passed on "mixed"."""


class Phase(Settings):
    """A part of the curriculum; it leaves a checkpoint that the next one starts from."""

    name: str = setting(..., "Its name, and part of its folder's.")
    lessons: dict[str, Number] = setting(..., "Lessons that batches are drawn from → their weight.")
    max_steps: Whole = setting(..., "Optimiser steps.", ge=1)
    learning_rate: Number = setting(6e-4, "The peak of the rate.")
    sigma: tuple[Number, Number] = setting(
        (60.0, 30.0), "Width of coordinate targets (0..1000) at the first and the last step."
    )
    frozen: Flag = setting(
        True, "The vision tower keeps its weights: a decoder that can't compare yet would unlearn it to read."
    )
    batch_size: Whole = setting(32, "Questions of a step.", ge=1)
    image_blocks: Whole = setting(
        0, "Blocks of the decoder after which image tokens say what they show (`MidtrainConfig.image_blocks`)."
    )
    final_lr_share: Number = setting(0.3, "Learning rate of its last step, as a share of `learning_rate`.")
    look: VisionConfig | None = setting(None, "The tower alone once more, before the phase's questions; null: not.")


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
    Phase(
        name="few",
        lessons={"colour": 0.25, "shapes": 0.15, "icons": 0.2, "words": 0.4},
        max_steps=900,
        learning_rate=1e-3,
    ),
    Phase(
        name="wide",
        lessons={"wide": 0.6, "words": 0.2, "icons": 0.1, "shapes": 0.1},
        max_steps=600,
        sigma=(50.0, 25.0),
        batch_size=16,
    ),
    Phase(
        name="texts",
        lessons={"texts": 0.6, "wide": 0.2, "words": 0.1, "mixed": 0.1},
        max_steps=300,
        sigma=(40.0, 20.0),
        batch_size=16,
    ),
    Phase(
        name="mixed",
        lessons={"mixed": 0.35, "layouts": 0.15, "texts": 0.15, "words": 0.25, "icons": 0.1},
        max_steps=1000,
        sigma=(30.0, 12.0),
        batch_size=16,
    ),
    Phase(
        name="acts",
        lessons={"acts": 0.7, "mixed": 0.15, "layouts": 0.15},
        max_steps=600,
        sigma=(30.0, 12.0),
        batch_size=16,
    ),
    Phase(
        name="all",
        lessons={"acts": 0.35, "layouts": 0.15, "mixed": 0.1, "words": 0.15, "icons": 0.1, "shapes": 0.15},
        max_steps=400,
        learning_rate=4e-4,
        sigma=(30.0, 12.0),
        batch_size=16,
    ),
    Phase(
        name="worlds",
        lessons={
            "worlds": 0.6,
            "acts": 0.1,
            "layouts": 0.1,
            "mixed": 0.05,
            "words": 0.05,
            "icons": 0.05,
            "shapes": 0.05,
        },
        max_steps=2000,
        sigma=(30.0, 12.0),
        batch_size=16,
        look=VisionConfig(
            max_steps=5000, full_size=0.4, worlds=0.65, learning_rate=1.2e-3, warmup_steps=100, heads_first=150
        ),
    ),
    Phase(
        name="settle",
        lessons={
            "worlds": 0.45,
            "acts": 0.2,
            "layouts": 0.1,
            "mixed": 0.1,
            "words": 0.05,
            "icons": 0.05,
            "shapes": 0.05,
        },
        max_steps=1500,
        sigma=(20.0, 12.0),
        batch_size=16,
        image_blocks=2,
    ),
    Phase(
        name="long",
        lessons={
            "worlds": 0.45,
            "acts": 0.25,
            "layouts": 0.08,
            "mixed": 0.1,
            "words": 0.04,
            "icons": 0.04,
            "shapes": 0.04,
        },
        max_steps=4000,
        sigma=(15.0, 8.0),
        batch_size=16,
        image_blocks=2,
        final_lr_share=0.05,
    ),
    Phase(
        name="kits",
        lessons={"kits": 0.55, "worlds": 0.2, "acts": 0.1, "layouts": 0.05, "mixed": 0.05, "icons": 0.05},
        max_steps=1200,
        sigma=(20.0, 12.0),
        batch_size=16,
        image_blocks=2,
        look=VisionConfig(
            max_steps=6500,
            full_size=0.3,
            worlds=0.2,
            kits=0.55,
            learning_rate=1.2e-3,
            warmup_steps=100,
            heads_first=150,
        ),
    ),
    Phase(
        name="missing",
        lessons={"kits_absent": 0.5, "kits": 0.15, "worlds": 0.2, "acts": 0.1, "layouts": 0.05},
        max_steps=600,
        learning_rate=4e-4,
        sigma=(15.0, 8.0),
        batch_size=16,
        image_blocks=2,
        final_lr_share=0.05,
    ),
    Phase(
        name="apps",
        lessons={
            "apps": 0.3,
            "kits": 0.1,
            "kits_absent": 0.12,
            "worlds": 0.12,
            "acts": 0.08,
            "layouts": 0.06,
            "mixed": 0.1,
            "texts": 0.06,
            "words": 0.04,
            "icons": 0.02,
        },
        max_steps=800,
        learning_rate=4e-4,
        sigma=(15.0, 8.0),
        batch_size=16,
        image_blocks=2,
        final_lr_share=0.05,
        look=VisionConfig(
            max_steps=1500,
            full_size=0.3,
            worlds=0.1,
            kits=0.15,
            apps=0.55,
            learning_rate=1.2e-3,
            warmup_steps=50,
            heads_first=100,
        ),
    ),
)
"""One attribute and few elements first, crowds later; then elements as people name them, goals as a navigation sample
puts them, and the worlds' own screens; last, pages in real fonts, tower first, and what isn't there. Each phase keeps a
share of what came before."""
FROM_WEIGHTS = CURRICULUM[[phase.name for phase in CURRICULUM].index("kits") :]
"""The phases that go on from finished weights. Those that come with Vesper went through them after `settle`."""


class NanoBaseConfig(Settings):
    """What decides the weights."""

    seed: Whole = setting(0, "Of random weights, and of the order of questions.")
    sheets: Whole = setting(200, "Sheets of elements that are drawn.", ge=1)
    layouts: Whole = setting(1200, "Layouts that are drawn.", ge=1)
    pages: Whole = setting(462, "Pages of the worlds that are drawn.", ge=1)
    kits: Whole = setting(5000, "Pages in real fonts that are drawn.", ge=1)
    apps: Whole = setting(1500, "Screens of our own apps that are drawn.", ge=1)
    held_out_sheets: Whole = setting(8, "Sheets of the gate.", ge=1)
    held_out_layouts: Whole = setting(80, "Layouts of the gate.", ge=1)
    held_out_pages: Whole = setting(66, "Pages of the gate.", ge=1)
    held_out_kits: Whole = setting(
        150, "Pages of the gate in real fonts, and so many of families and styles that are held out.", ge=1
    )
    held_out_apps: Whole = setting(150, "Screens of our own apps of the gate.", ge=1)
    vision: VisionConfig = setting(VisionConfig(), "The vision tower alone, before any question.")
    curriculum: tuple[Phase, ...] = setting(CURRICULUM, "The phases, one after the other.")
    warmup_steps: Whole = setting(30, "Steps of a phase in which its rate rises.")
    tokenizer_rows: Whole = setting(6_000, "Questions whose words the tokenizer learns.", ge=1)
    gate_rows: Whole = setting(240, "Questions of each lesson of the gate.", ge=1)
    gated: tuple[str, ...] = setting(GATED, 'Lessons that the gate measures; "mixed" must be one.')
    threads: Whole = setting(2, "CPU threads.")
    save_steps: Whole = setting(100, "Steps between two saved states to go on from.", ge=1)
    shape: dict[str, Any] = setting(SHAPE, "Other sizes than those of the nano preset.")

    @model_validator(mode="after")
    def _gate(self) -> Self:
        if "mixed" not in self.gated:
            raise ValueError(f'gated: expected "mixed" among the lessons, found {self.gated}')
        return self

    def midtrain(self, phase: Phase) -> MidtrainConfig:
        """A phase as the settings of `trainer.midtrain.train.train`."""

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
            # Evaluation belongs to the gate, on pages that training never saw.
            eval_steps=0,
            freeze_vision=phase.frozen,
            image_blocks=phase.image_blocks,
            spans=SpanWeights(coordinate=1.0, text=2.0),
        )
