"""Settings are called as in TRL and transformers, in every trainer; other words are told, never passed over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from trainer.proving.nano_base.curriculum import NanoBaseConfig, Phase
from trainer.proving.nano_base.vision import VisionConfig
from trainer.settings.grpo import LearnerConfig
from trainer.settings.offline import OfflineConfig
from trainer.settings.online import OnlineConfig
from trainer.settings.supervised import MidtrainConfig


def _web(plain: Mapping[str, Any]) -> OfflineConfig:
    return OfflineConfig.parsed({"domain": "web", **plain}, "run.json")


READERS: dict[str, Callable[[Mapping[str, Any]], object]] = {
    "mid-training": lambda plain: MidtrainConfig.parsed(plain, "run.json"),
    "offline RL": _web,
    "online RL": lambda plain: OnlineConfig.parsed(plain, "run.json"),
}
OTHER_WORDS = {"lr", "warmup", "steps", "clip", "group", "iterations", "save_every", "eval_every", "validate_every"}


@pytest.mark.parametrize("trainer", READERS)
@pytest.mark.parametrize(
    ("word", "near"), [("moon", "known are .*save_steps"), ("eval_step", "did you mean eval_steps")]
)
def test_an_unknown_word_is_named_with_the_nearest_or_all(trainer: str, word: str, near: str) -> None:
    with pytest.raises(ValueError, match=rf"^run.json: unknown '{word}'; {near}"):
        READERS[trainer]({word: 4})


@pytest.mark.parametrize("part", ["grpo", "rewards", "alignment", "semi_online"])
def test_so_is_one_of_a_part_of_offline_rl(part: str) -> None:
    with pytest.raises(ValueError, match=rf"^run.json: {part}: unknown 'moon'; known are "):
        _web({part: {"moon": 1}})


def test_no_part_can_be_left_out() -> None:
    assert _web({"semi_online": None}) == _web({})


KINDS = [MidtrainConfig, OfflineConfig, OnlineConfig, LearnerConfig, VisionConfig, NanoBaseConfig, Phase]


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_thing_has_the_same_name_everywhere(kind: Any) -> None:
    assert not OTHER_WORDS & set(kind.model_fields)
