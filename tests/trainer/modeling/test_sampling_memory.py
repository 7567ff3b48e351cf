"""What is answered at once fits into a GPU's memory, whatever the model and the screen."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from drawn import make_rows
from tiny_published import published_tokenizer

from trainer.modeling import sampling_memory
from trainer.modeling.generation import generate
from trainer.modeling.published import published_config
from trainer.modeling.sampling_memory import bytes_of_a_prompt, prompts_at_once

GB = 10**9
SCREEN = 2_550 + 200
"""Tokens of a 1080 x 2400 screen and its text."""


class OnAGpu:
    """A model of the same sizes that says where its weights are."""

    def __init__(self, config: Any) -> None:
        self.config = config

    def parameters(self) -> Any:
        return iter([torch.empty(0, device="meta")])


@pytest.mark.parametrize(("name", "gigabytes"), [("2b", 6.7), ("8b", 8.8), ("30b-a3b", 5.7)])
def test_a_prompt_counts_the_keys_and_values_of_its_replies(name: str, gigabytes: float) -> None:
    text = published_config(name, published_tokenizer()).get_text_config()
    whole = 2 * text.num_hidden_layers * text.num_key_value_heads * text.head_dim * 4 * 8 * (SCREEN + 512)
    found = bytes_of_a_prompt(text, SCREEN, 8, 512)
    assert whole < found < 1.2 * whole + GB and found / GB == pytest.approx(gigabytes, abs=0.05)
    assert found < bytes_of_a_prompt(text, SCREEN, 16, 512) < 2 * found  # the prompt is read once


def test_replies_in_flight_follow_the_memory(monkeypatch: pytest.MonkeyPatch, processor: Any) -> None:
    config = published_config("8b", published_tokenizer())
    text, rows = config.get_text_config(), make_rows(3)
    longest = max(processor.prompt_length(row) for row in rows)
    one = bytes_of_a_prompt(text, longest, 8, 512)
    monkeypatch.setattr(sampling_memory, "_on_gpu", lambda device: True)
    for free, found in ((0.5 * one, 1), (2 * one, 1), (4 * one, 3), (1000 * one, 16)):
        monkeypatch.setattr(sampling_memory, "_free", lambda device, free=free: int(free))
        assert prompts_at_once(OnAGpu(config), processor, rows, 8, 512, 16) == found, free


def test_fewer_at_once_give_the_same_replies(model: Any, processor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = make_rows(5)
    whole = generate(model, processor, rows, max_new_tokens=6)
    monkeypatch.setattr(sampling_memory, "_on_gpu", lambda device: True)
    monkeypatch.setattr(sampling_memory, "_free", lambda device: 0)
    sizes: list[int] = []
    alone = generate(model, processor, rows, max_new_tokens=6, on_batch=sizes.append)
    assert sizes == [1] * 5 and [one.token_ids for one in alone] == [one.token_ids for one in whole]
