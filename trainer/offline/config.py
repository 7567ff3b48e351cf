"""The settings of a specialist's offline run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trainer.offline.alignment import AlignmentConfig
from trainer.offline.semi_online import SemiOnlineConfig
from trainer.rl.grpo import GrpoConfig
from trainer.rl.learner import LearnerConfig
from trainer.rl.rewards import RewardConfig
from trainer.runtime.settings import require_known


@dataclass(frozen=True)
class OfflineConfig:
    """A specialist's run; defaults fit the nano preset on two cores in a minute.

    `prompts` × `num_generations` replies an update; `updates` bounds the run; `warmup_steps`, `eval_steps` and
    `save_steps` count updates; the peak is looked for every `eval_steps` on `validation_limit` tasks and given up after
    `patience` looks below it; `held_out_limit` tasks, `held_out_samples` replies each, before and after. The peak is
    that of trace success where there are at least `min_traces` whole episodes to validate on (fewer are all noise):
    whole episodes are then taken first, and `min_traces` of them though they have more than `validation_limit` steps.
    Among equals and elsewhere it is that of the expected reward; `keep` "last" trains to the bound instead.
    `freeze_vision` keeps the vision tower as it is, `trainable` all parameters without that regular expression in their
    name; `gradient_checkpointing` makes activations anew where they are needed; `bf16` (None: on a GPU) learns in
    bfloat16 with the weights as they are. `align`: histories are aligned between epochs (None: as the preset is, see
    `epoch_alignment.wanted`), by the settings of `alignment`, whose rewards are those of the run. `difficulty` above 0
    gives questions with small targets a larger share of an update (`box_reward.difficulty_weights`). `semi_online`
    replays whole episodes with the policy's own history (`trainer.offline.semi_online`) and never aligns; `prompts`
    then counts episodes.
    """

    domain: str
    updates: int = 16
    prompts: int = 16
    num_generations: int = 8
    num_iterations: int = 1
    learning_rate: float = 3e-4
    warmup_steps: int = 2
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    freeze_vision: bool = False
    trainable: str = ""
    gradient_checkpointing: bool = False
    bf16: bool | None = None
    entropy_decay: float = 1.0
    micro_batch: int = 64
    train_limit: int = 2000
    validation_limit: int = 48
    validation_samples: int = 2
    held_out_limit: int = 128
    held_out_samples: int = 4
    eval_steps: int = 8
    patience: int = 2
    min_traces: int = 20
    keep: str = "peak"
    save_steps: int = 4
    seed: int = 0
    threads: int = 2
    grpo: GrpoConfig = field(default_factory=lambda: GrpoConfig(max_completion_length=112))
    rewards: RewardConfig = field(default_factory=RewardConfig)
    difficulty: float = 0.0
    semi_online: SemiOnlineConfig | None = None
    align: bool | None = None
    alignment: AlignmentConfig = field(default_factory=AlignmentConfig)

    def __post_init__(self) -> None:
        counts = (self.updates, self.prompts, self.num_iterations, self.micro_batch, self.eval_steps, self.save_steps)
        if min(counts) < 1 or self.num_generations < 2:
            raise ValueError(f"offline RL: expected counts >= 1 and num_generations >= 2, found {self}")
        if self.keep not in ("peak", "last"):
            raise ValueError(f"offline RL: expected keep to be peak or last, found {self.keep!r}")
        if self.learning_rate <= 0 or self.max_grad_norm <= 0:
            raise ValueError(f"offline RL: expected learning_rate and max_grad_norm > 0, found {self}")
        if self.difficulty < 0:
            raise ValueError(f"offline RL: expected difficulty >= 0, found {self.difficulty}")
        if self.semi_online and (self.align or self.difficulty or self.domain == "grounding"):
            raise ValueError("offline RL: semi_online replays navigation: expected no align, difficulty or grounding")


def learner_config(config: OfflineConfig) -> LearnerConfig:
    """What of a run's settings the learner goes by."""
    return LearnerConfig(
        grpo=config.grpo,
        learning_rate=config.learning_rate,
        warmup_steps=config.warmup_steps,
        weight_decay=config.weight_decay,
        max_grad_norm=config.max_grad_norm,
        entropy_decay=config.entropy_decay,
        num_iterations=config.num_iterations,
        micro_batch=config.micro_batch,
        freeze_vision=config.freeze_vision,
        trainable=config.trainable,
        gradient_checkpointing=config.gradient_checkpointing,
        bf16=config.bf16,
    )


def config_from(domain: str, plain: Mapping[str, Any]) -> OfflineConfig:
    """From JSON, with the settings of loss, rewards, alignment and semi-online replay as objects. Raises `ValueError`
    naming an unknown key or a bad value."""
    kinds: dict[str, Any] = {
        "grpo": GrpoConfig,
        "rewards": RewardConfig,
        "alignment": AlignmentConfig,
        "semi_online": SemiOnlineConfig,
    }
    values = dict(plain)
    require_known("offline RL", values, set(OfflineConfig.__dataclass_fields__) - {"domain"})
    if "grpo" in values:
        values["grpo"] = {"max_completion_length": 112, **values["grpo"]}
    for key, kind in kinds.items():
        if isinstance(given := values.get(key), Mapping):
            require_known(f"offline RL {key}", given, kind.__dataclass_fields__)
            values[key] = kind(**given)
    return OfflineConfig(domain, **values)
