"""Settings are called as in TRL and transformers, in every trainer; other words are told, never passed over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from trainer.midtrain import config as midtrain
from trainer.offline import config as offline
from trainer.offline.config import OfflineConfig
from trainer.online import config as online
from trainer.online.config import OnlineConfig
from trainer.proving.nano_base.curriculum import NanoBaseConfig, Phase
from trainer.proving.nano_base.vision import VisionConfig
from trainer.rl.learner import LearnerConfig

READERS: dict[str, Callable[[Mapping[str, Any]], object]] = {
    "midtrain config": midtrain.config_from,
    "offline RL": lambda plain: offline.config_from("web", plain),
    "online RL": online.config_from,
}
OTHER_WORDS = {"lr", "warmup", "steps", "clip", "group", "iterations", "save_every", "eval_every", "validate_every"}


@pytest.mark.parametrize("trainer", READERS)
@pytest.mark.parametrize("word", ["save_every", "eval_every", "validate_every", "domain"])
def test_an_unknown_word_is_named_with_the_known_ones(trainer: str, word: str) -> None:
    with pytest.raises(ValueError, match=rf"{trainer}: unknown \['{word}'\]; known are .*'save_steps'"):
        READERS[trainer]({word: 4})


@pytest.mark.parametrize("part", ["grpo", "rewards", "alignment", "semi_online"])
def test_so_is_one_of_a_part_of_offline_rl(part: str) -> None:
    with pytest.raises(ValueError, match=rf"offline RL {part}: unknown \['moon'\]; known are "):
        offline.config_from("web", {part: {"moon": 1}})


def test_no_part_can_be_left_out() -> None:
    assert offline.config_from("web", {"semi_online": None}) == offline.config_from("web", {})


@pytest.mark.parametrize(
    "kind", [midtrain.MidtrainConfig, OfflineConfig, OnlineConfig, LearnerConfig, VisionConfig, NanoBaseConfig, Phase]
)
def test_the_same_thing_has_the_same_name_everywhere(kind: Any) -> None:
    assert not OTHER_WORDS & set(kind.__dataclass_fields__)
