"""Presets: functions that return a whole configuration of training.

Nano's trains on two cores. The others are a place to start from, taken from no run of ours (docs/train-at-8b.md).
"""

from collections.abc import Callable
from typing import Any, Literal

from trainer.settings.distill import DistillSettings
from trainer.settings.domains import DOMAINS
from trainer.settings.grpo import GrpoConfig
from trainer.settings.measuring import MergeSettings
from trainer.settings.offline import OfflineSection
from trainer.settings.online import OnlineGrpo, OnlineSection, ReferenceConfig, RolloutLimits
from trainer.settings.supervised import MidtrainConfig
from trainer.settings.tree import TrainerSettings

NORMS = r"language_model.*norm"
"""For `trainable`: scales of the text decoder's norms, 1,984 numbers of nano-base."""


def nano() -> TrainerSettings:
    # Norms alone, at a high rate: few replies can teach few numbers.
    """A model of 3 million parameters, from scratch or from nano-base, on two cores."""
    # so few replies say little about all of its weights: RL of them unlearned grounding (docs/decisions/rl.md)
    rl: dict[str, Any] = {"trainable": NORMS, "learning_rate": 4e-3}
    grounding: dict[str, Any] = {
        DOMAINS["grounding"].offline: {"updates": 16, "prompts": 16, "eval_steps": 8}  # its replies are short
    }
    return TrainerSettings(
        midtrain=MidtrainConfig(sigma=(40, 15)),
        offline=OfflineSection(
            **rl,
            **grounding,
            warn_without_traces=False,  # what trains it holds two or three
        ),
        online=OnlineSection(
            **rl,
            save_steps=1,
            reference=ReferenceConfig(episodes=8),
            grpo=OnlineGrpo(max_completion_length=48),
            limits=RolloutLimits(step_factor=1.0, step_extra=2),
        ),
        # it was never taught to read a hint, and towards a teacher that reads one it learned less
        distilled=DistillSettings(**rl, divergence="full", told_type=False),
    )


def qwen3_vl_2b() -> TrainerSettings:
    """Qwen3-VL 2B from its published weights."""
    return _published("2b")


def qwen3_vl_8b() -> TrainerSettings:
    """Qwen3-VL 8B from its published weights."""
    return _published("8b")


def qwen3_vl_30b_a3b() -> TrainerSettings:
    """Qwen3-VL 30B-A3B, a mixture of experts, from its published weights."""
    return _published("30b-a3b", router_aux_loss_coef=1e-3)


def _published(name: Literal["2b", "8b", "30b-a3b"], **midtrain: Any) -> TrainerSettings:
    """What the published presets share. Coordinates are plain cross entropy (`sigma` 0): a published tokenizer writes
    numbers digit by digit."""
    rl: dict[str, Any] = {
        "trainable": "",
        "learning_rate": 1e-6,
        "gradient_checkpointing": True,
        "updates": 200,
        "micro_batch": 64,
        "micro_batch_tokens": 8192,
        "save_steps": 20,
        "eval_steps": 20,
    }
    return TrainerSettings(
        preset=name,
        midtrain=MidtrainConfig(
            max_steps=2000,
            batch_size=64,
            learning_rate=1e-5,
            warmup_steps=100,
            sigma=(0, 0),
            packing=True,
            max_length=8192,
            gradient_accumulation_steps=4,
            gradient_checkpointing=True,
            save_steps=100,
            **midtrain,
        ),
        validation_rows=256,
        offline=OfflineSection(
            **rl,
            prompts=64,
            train_limit=20_000,
            validation_limit=512,
            held_out_limit=512,
            grpo=GrpoConfig(max_completion_length=512),
        ),
        online=OnlineSection(
            **rl,
            mode="async",
            tasks_per_update=16,
            num_generations=8,
            workers=64,
            limits=RolloutLimits(),
            reference=ReferenceConfig(),
            grpo=OnlineGrpo(max_completion_length=512),
        ),
        merge=MergeSettings(validation_rows=256),
        distilled=DistillSettings(
            **rl, prompts=64, train_limit=20_000, validation_limit=512, held_out_limit=512, keep_teachers=False
        ),
    )


PRESETS: dict[str, Callable[[], TrainerSettings]] = {
    "nano": nano,
    "2b": qwen3_vl_2b,
    "8b": qwen3_vl_8b,
    "30b-a3b": qwen3_vl_30b_a3b,
}
"""Preset → its whole configuration. A new preset: a function, a line here, and its model in `trainer.presets`."""


def configured(preset: str = "") -> TrainerSettings:
    # A preset that was entered from outside begins with nano's.
    """The settings that training from a checkpoint of a preset begins with; nano's of one that is none of these."""
    return PRESETS.get(preset, nano)()
