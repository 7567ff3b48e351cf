"""Sizes of a staircase: the long form (nano on two cores, at most 100 minutes a seed) and the short one."""

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import model_validator

from schemas.ids import digest
from schemas.settings import Flag, Number, Settings, Whole, setting
from trainer.proving.staircase.choice import ChoiceConfig
from trainer.proving.staircase.episodes import EpisodeConfig
from trainer.proving.staircase.tasks import worlds_of
from trainer.settings.presets import NORMS

Platform = Literal["web", "mobile"]
PIXELS = 320 * 448
"""Area of the largest picture, at which all text of nano's style can be read."""


class StaircaseConfig(Settings):
    """A seed's run on one platform."""

    platform: Platform = setting("web", "Whose worlds its tasks are from.")
    seed: Whole = setting(0, "Of the training.")
    base: str = setting("", "The checkpoint's folder to begin from; empty: nano with random weights.")
    shape: dict[str, Any] = setting({}, "Other sizes of that nano.")
    choice: ChoiceConfig = setting(ChoiceConfig(), "Which tasks it stands on.")
    episodes: EpisodeConfig = setting(
        EpisodeConfig(each={"train": 40, "validation": 8, "test": 6}), "The scripted episodes that it learns from."
    )
    midtrain: dict[str, Any] = setting(
        {
            "max_steps": 1500,
            "batch_size": 16,
            "learning_rate": 8e-4,
            "warmup_steps": 50,
            "save_steps": 50,
            "image_labels": True,
            "image_blocks": 2,
        },
        "Settings of mid-training, over that trainer's own defaults.",
    )
    look_every: Whole = setting(250, "Steps of mid-training between two looks at how often it succeeds.", ge=1)
    look_each: Whole = setting(2, "Validation episodes of a family that a look tries.", ge=1)
    look_attempts: Whole = setting(2, "How often it tries each, at temperature 1.", ge=1)
    stop_at: Number = setting(0.35, "Mid-training stops once pass@1 reaches this.")
    window: tuple[Number, Number] = setting((0.2, 0.5), "The last weights whose pass@1 lies here are taken.")
    mid_budget_s: Number = setting(1800.0, "Seconds of mid-training at most; 0: no bound.")
    offline_budget_s: Number = setting(480.0, "Seconds of each specialist at most; 0: no bound.")
    # RL of navigation moves the scales of the norms alone: in a group's gradient they hold fifteen times the signal,
    # beside the noise, that all weights do (docs/staircase.md)
    offline: dict[str, Any] = setting(
        {
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
        },
        "Settings of offline RL, over that trainer's own defaults.",
    )
    grounding: dict[str, Any] = setting(
        {"trainable": "", "learning_rate": 2e-4}, "What differs from `offline` for the grounding specialist."
    )
    # a look takes 44 episodes, each task of the web once; the method's 200 would take a third of the budget
    online: dict[str, Any] = setting(
        {
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
        },
        "Settings of online RL, over that trainer's own defaults.",
    )
    controls: Flag = setting(
        True,
        "Also the rows that others are held against: untrained weights, the linear merge, and as long as online RL of "
        "what came before.",
    )
    online_each: Whole = setting(
        16, "Training episodes a family of online RL: so few that each comes again, and its successes with it.", ge=1
    )
    screen_each: Whole = setting(
        2, "Training episodes a family that online RL's start tries first, in the time of online RL; 0: none."
    )
    screen_attempts: Whole = setting(4, "How often it tries each.")
    screen_least: Whole = setting(
        4, "Families that online RL needs: where fewer are solved sometimes, it trains on all."
    )
    online_validation_each: Whole = setting(2, "Validation episodes of a family in online RL.")
    control_learning_rate: Number = setting(5e-4, "Peak of the control that goes on with supervised training.")
    test_each: Whole = setting(8, "Held-out episodes of a family that are tried greedily.", ge=1)
    sampled_each: Whole = setting(1, "Of them, those that are sampled as well.", ge=1)
    attempts: Whole = setting(8, "How often each of these is sampled.", ge=1)
    validation_each: Whole = setting(1, "Validation episodes of a family by which a merge is chosen.")
    grounding_test: Whole = setting(300, "Rows of held-out pages that are asked.", ge=1)
    ties: tuple[tuple[Number, Number], ...] = setting(
        ((0.2, 1.0), (0.5, 1.0), (0.8, 1.0)), "Densities and lambdas to choose a TIES merge from.", min_length=1
    )
    max_new_tokens: Whole = setting(56, "Room for one action; who hasn't learned to stop is cut here.")
    workers: Whole = setting(6, "Episodes at a time.", ge=1)
    threads: Whole = setting(2, "CPU threads of the trainer.")

    @model_validator(mode="after")
    def _window(self) -> Self:
        if not 0 <= self.window[0] <= self.stop_at <= self.window[1] <= 1:
            raise ValueError(
                f"expected 0 <= window[0] <= stop_at <= window[1] <= 1, found {self.window} and {self.stop_at}"
            )
        return self

    @property
    def worlds(self) -> tuple[str, ...]:
        return self.choice.worlds

    def key(self, *names: str, **more: object) -> str:
        """Digest of some settings, for the name of what depends on them."""
        plain = self.plain()
        return digest([{name: plain[name] for name in names}, more])


def long_form(platform: Platform, seed: int, base: str = "") -> StaircaseConfig:
    """Nano on two cores, at most 100 minutes a seed (the tasks and episodes, shared by all seeds, aside)."""
    from trainer.runtime.precision import native_bf16

    choice = ChoiceConfig(worlds=worlds_of(platform))
    # What the machine can do is set for all trainers alike: a
    # comparison across stages mustn't mix precisions.
    made = StaircaseConfig(platform=platform, seed=seed, base=base, choice=choice)
    made = _everywhere(made, {"bf16": native_bf16()})
    # Weights that can see are a base that was given; random ones have no eyes to keep.
    return _keeping_its_eyes(made) if base else made


def _everywhere(config: StaircaseConfig, kept: Mapping[str, object]) -> StaircaseConfig:
    """The same settings for every trainer."""
    return config.changed(
        midtrain={**config.midtrain, **kept}, offline={**config.offline, **kept}, online={**config.online, **kept}
    )


def _keeping_its_eyes(config: StaircaseConfig) -> StaircaseConfig:
    """A base that can see keeps its vision tower in every stage; it finds what is named, so that mid-training is about
    what to do with it: mostly steps of episodes, and no coarse targets first."""
    steps = {"sigma": (25.0, 8.0), "schedule": ((1.0, {"navigation": 0.75, "grounding": 0.25}),)}
    return _everywhere(config.changed(midtrain={**config.midtrain, **steps}), {"freeze_vision": True})


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


def short_form(platform: Platform, seed: int, base: str = "") -> StaircaseConfig:
    """Every part but the controls in two or three minutes: it shows that the staircase stands, and, from weights that
    can see, that it climbs; not how high it is."""
    made = StaircaseConfig(
        platform=platform,
        seed=seed,
        base=base,
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
    return _climbing(_keeping_its_eyes(made)) if base else made


def _climbing(config: StaircaseConfig) -> StaircaseConfig:
    """A short form whose base has something to lose: so many steps of episodes, at a rate that keeps what it can, that
    the families it trains on are learned in two minutes (docs/staircase.md: twice as many brought nothing)."""
    steps = {"max_steps": 50, "batch_size": 16, "learning_rate": 8e-4, "warmup_steps": 10, "save_steps": 25}
    labels = {"image_labels": True, "image_blocks": 2}
    each = {"train": 16, "validation": 2, "test": 4}
    return config.changed(
        choice=config.choice.changed(episodes=each),
        episodes=config.episodes.changed(each=each),
        midtrain={**config.midtrain, **steps, **labels},
        look_every=25,
        test_each=4,
        max_new_tokens=56,
    )
