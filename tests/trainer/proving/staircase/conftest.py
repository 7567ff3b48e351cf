"""The ground of boxes among the others, and sizes at which every part takes moments."""

from __future__ import annotations

import pytest
from boxes_ground import BOXES

from trainer.proving.staircase import tasks
from trainer.proving.staircase.choice import ChoiceConfig
from trainer.proving.staircase.config import TINY, StaircaseConfig
from trainer.proving.staircase.episodes import EpisodeConfig


@pytest.fixture(autouse=True)
def boxes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(tasks.WORLDS, "boxes", BOXES)


@pytest.fixture
def choice() -> ChoiceConfig:
    return ChoiceConfig(
        worlds=("boxes",),
        oracle_episodes=12,
        blind_episodes=12,
        most={"boxes": 2},
        most_blind=0.6,
        episodes={"train": 8, "validation": 3, "test": 3},
    )


@pytest.fixture
def episode_config() -> EpisodeConfig:
    return EpisodeConfig(each={"train": 8, "validation": 3, "test": 3}, held_out=3, error_rate=0.4, part=4)


@pytest.fixture
def tiny(choice: ChoiceConfig, episode_config: EpisodeConfig) -> StaircaseConfig:
    return StaircaseConfig(
        choice=choice,
        episodes=episode_config,
        shape={**TINY, "pixels": 96 * 128},
        threads=1,
        workers=2,
        midtrain={"max_steps": 4, "batch_size": 4, "warmup_steps": 1, "save_steps": 2},
        look_every=4,
        look_attempts=1,
        offline={
            "updates": 2,
            "prompts": 2,
            "num_generations": 2,
            "eval_steps": 1,
            "patience": 9,
            "train_limit": 20,
            "validation_limit": 6,
            "validation_samples": 0,
            "held_out_limit": 2,
            "held_out_samples": 0,
        },
        online={
            "mode": "sync",
            "updates": 1,
            "tasks_per_update": 2,
            "num_generations": 2,
            "workers": 2,
            "eval_steps": 0,
            "save_steps": 1,
            "limits": {"step_factor": 1, "step_extra": 0},
            "grpo": {"max_completion_length": 6},
        },
        online_each=4,
        online_validation_each=1,
        test_each=2,
        attempts=2,
        grounding_test=6,
        ties=((0.5, 1.0), (1.0, 1.0)),
        max_new_tokens=6,
    )
