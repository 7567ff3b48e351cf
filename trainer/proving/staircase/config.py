"""Sizes of a staircase: the long form (nano on two cores, at most 100 minutes a seed) and the short one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from schemas.ids import digest
from trainer.proving.staircase.choice import ChoiceConfig
from trainer.proving.staircase.episodes import EpisodeConfig
from trainer.proving.staircase.tasks import worlds_of
from trainer.settings.presets import NORMS

PIXELS = 320 * 448
"""Area of the largest picture, at which all text of nano's style can be read."""


@dataclass(frozen=True)
class StaircaseConfig:
    """A seed's run on one platform ("web" or "mobile").

    `base` is a checkpoint folder to begin from; "" builds the nano preset with random weights (`shape` overrides its
    sizes). `midtrain`, `offline`, `grounding` and `online` override the configs of those trainers. Mid-training looks
    every `look_every` steps how often `look_each` validation episodes a family succeed, `look_attempts` times each, and
    stops once pass@1 reaches `stop_at`; the last weights with pass@1 in `window` are kept. Mid-training and each
    specialist end after `mid_budget_s` and `offline_budget_s` of wall time at the latest (0: no bound). `test_each`
    episodes a family are tried greedily, `sampled_each` of them `attempts` times sampled; `grounding_test` rows of
    held-out pages are asked. `ties` lists (density, lambda) to choose from on validation. `controls`: also the rows
    that others are held against (untrained weights, the linear merge, and as long as online RL of what came before).
    """

    platform: str = "web"
    seed: int = 0
    base: str = ""
    shape: Mapping[str, Any] = field(default_factory=dict)
    choice: ChoiceConfig = field(default_factory=ChoiceConfig)
    episodes: EpisodeConfig = field(
        default_factory=lambda: EpisodeConfig(each={"train": 40, "validation": 8, "test": 6})
    )
    midtrain: Mapping[str, Any] = field(
        default_factory=lambda: {
            "max_steps": 1500,
            "batch_size": 16,
            "learning_rate": 8e-4,
            "warmup_steps": 50,
            "save_steps": 50,
            "image_labels": True,
            "image_blocks": 2,
        }
    )
    look_every: int = 250
    look_each: int = 2
    look_attempts: int = 2
    stop_at: float = 0.35
    window: tuple[float, float] = (0.2, 0.5)
    mid_budget_s: float = 1800.0
    offline_budget_s: float = 480.0
    offline: Mapping[str, Any] = field(
        default_factory=lambda: {
            "updates": 80,
            "prompts": 16,
            "num_generations": 8,
            "eval_steps": 10,
            "patience": 3,
            "train_limit": 4000,
            "validation_limit": 800,
            "validation_samples": 1,
            "held_out_limit": 64,
            "held_out_samples": 0,
            "learning_rate": 4e-3,
            "trainable": NORMS,
            "rewards": {"box_aware": True},
        }
    )
    """RL of navigation moves the scales of the norms alone: in a group's gradient they hold fifteen times the signal,
    beside the noise, that all weights do (docs/staircase.md)."""
    grounding: Mapping[str, Any] = field(default_factory=lambda: {"trainable": "", "learning_rate": 2e-4})
    """What differs from `offline` for the grounding specialist."""
    online: Mapping[str, Any] = field(
        default_factory=lambda: {
            "mode": "async",
            "updates": 400,
            "tasks_per_update": 4,
            "num_generations": 8,
            "workers": 6,
            "budget_s": 960.0,
            "learning_rate": 4e-3,
            "lr_scheduler_type": "linear",
            "trainable": NORMS,
            "eval_steps": 40,
            "reference": {"episodes": 44, "min_episodes": 40},
            "grpo": {"max_completion_length": 56},
        }
    )
    """A look takes 44 episodes, each task of the web once; the method's 200 would take a third of the budget."""
    controls: bool = True
    online_each: int = 16
    """Training episodes a family that online RL does: so few that each comes again, and its successes with it."""
    screen_each: int = 2
    """Training episodes a family that online RL's start tries first, in the time of online RL; 0: none is left out."""
    screen_attempts: int = 4
    screen_least: int = 4
    """Families that online RL needs: where fewer are solved sometimes, it trains on all."""
    online_validation_each: int = 2
    control_learning_rate: float = 5e-4
    """Peak of the control that goes on with supervised training."""
    test_each: int = 8
    sampled_each: int = 1
    attempts: int = 8
    validation_each: int = 1
    grounding_test: int = 300
    ties: tuple[tuple[float, float], ...] = ((0.2, 1.0), (0.5, 1.0), (0.8, 1.0))
    max_new_tokens: int = 56
    """Room for one action; who hasn't learned to stop is cut here."""
    workers: int = 6
    threads: int = 2

    def __post_init__(self) -> None:
        counts = {
            "look_every": self.look_every,
            "look_each": self.look_each,
            "look_attempts": self.look_attempts,
            "test_each": self.test_each,
            "sampled_each": self.sampled_each,
            "attempts": self.attempts,
            "workers": self.workers,
            "online_each": self.online_each,
            "grounding_test": self.grounding_test,
        }
        if bad := sorted(name for name, value in counts.items() if value < 1):
            raise ValueError(f"staircase: expected {', '.join(bad)} of at least 1")
        if not 0 <= self.window[0] <= self.stop_at <= self.window[1] <= 1 or not self.ties:
            raise ValueError(
                f"staircase: expected 0 <= window[0] <= stop_at <= window[1] <= 1 and some ties, found "
                f"{self.window}, {self.stop_at}, {self.ties}"
            )

    @property
    def worlds(self) -> tuple[str, ...]:
        return self.choice.worlds

    def plain(self) -> dict[str, Any]:
        """As JSON values."""
        found: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return found

    def key(self, *names: str, **more: Any) -> str:
        """Digest of some settings, for the name of what depends on them."""
        plain = self.plain()
        return digest([{name: plain[name] for name in names}, more])


def long_form(platform: str, seed: int, base: str = "") -> StaircaseConfig:
    """Nano on two cores, at most 100 minutes a seed (the tasks and episodes, shared by all seeds, aside)."""
    from trainer.runtime.precision import native_bf16

    made = StaircaseConfig(platform, seed, base, choice=ChoiceConfig(worlds=worlds_of(platform)))
    made = _everywhere(made, {"bf16": native_bf16()})
    return _keeping_its_eyes(made) if base else made


def _everywhere(config: StaircaseConfig, kept: Mapping[str, Any]) -> StaircaseConfig:
    """The same settings for every trainer."""
    return replace(
        config,
        midtrain={**config.midtrain, **kept},
        offline={**config.offline, **kept},
        online={**config.online, **kept},
    )


def _keeping_its_eyes(config: StaircaseConfig) -> StaircaseConfig:
    """A base that can see keeps its vision tower in every stage; it finds what is named, so that mid-training is about
    what to do with it: mostly steps of episodes, and no coarse targets first."""
    steps = {"sigma": (25.0, 8.0), "schedule": ((1.0, {"navigation": 0.75, "grounding": 0.25}),)}
    return _everywhere(replace(config, midtrain={**config.midtrain, **steps}), {"freeze_vision": True})


SHORT_FAMILIES = {
    "web": ("miniwob/click-test-2", "miniwob/click-option", "fsm/issues/close", "miniwob/enter-text"),
    "mobile": ("phone/notes.pin", "phone/contacts.delete", "phone/clock.delete"),
}
"""The last of each is held out: its pages are the grounding test."""


TINY = {
    "vocab_size": 1536,
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
    "pixels": 160 * 224,
}
"""Sizes that the short form builds where it is given no checkpoint."""


def short_form(platform: str, seed: int, base: str = "") -> StaircaseConfig:
    """Every part but the controls in two or three minutes: it shows that the staircase stands, not how high it is."""
    made = replace(
        StaircaseConfig(platform, seed, base),
        choice=ChoiceConfig(
            worlds=worlds_of(platform),
            families=SHORT_FAMILIES.get(platform, ()),
            oracle_episodes=3,
            blind_episodes=3,
            most_blind=1.0,
            episodes={"train": 6, "validation": 1, "test": 1},
        ),
        episodes=EpisodeConfig(each={"train": 6, "validation": 1, "test": 1}, held_out=2, part=6),
        midtrain={"max_steps": 20, "batch_size": 8, "learning_rate": 2e-3, "warmup_steps": 2, "save_steps": 10},
        look_every=20,
        look_attempts=1,
        offline={
            "updates": 2,
            "prompts": 2,
            "num_generations": 2,
            "eval_steps": 2,
            "patience": 1,
            "train_limit": 40,
            "validation_limit": 4,
            "validation_samples": 0,
            "held_out_limit": 4,
            "held_out_samples": 0,
        },
        online={
            "mode": "sync",
            "updates": 1,
            "tasks_per_update": 1,
            "num_generations": 2,
            "workers": 1,
            "eval_steps": 0,
            "limits": {"step_factor": 1.0, "step_extra": 0},
            "grpo": {"max_completion_length": 24},
        },
        controls=False,
        online_each=2,
        screen_each=0,
        online_validation_each=1,
        test_each=1,
        attempts=2,
        grounding_test=12,
        ties=((0.5, 1.0),),
        max_new_tokens=24,
        workers=2,
        threads=1,
        shape={} if base else TINY,
    )
    return _keeping_its_eyes(made) if base else made
