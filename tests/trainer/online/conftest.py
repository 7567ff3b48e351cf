"""A tiny checkpoint that can reply, once for all tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from choice_world import taught
from drawn import make_rows


@pytest.fixture(scope="session")
def small() -> Any:
    from dataclasses import replace

    from trainer.presets import Shape, preset

    shape = Shape(
        vocab_size=1400,
        hidden=32,
        layers=2,
        heads=1,
        kv_heads=1,
        intermediate=64,
        vision_hidden=32,
        vision_depth=1,
        vision_heads=1,
        vision_intermediate=32,
        deepstack=(0,),
        pixels=64 * 64,
    )
    return replace(preset("nano"), name="small", shape=shape, max_pixels=64 * 64)


@pytest.fixture(scope="session")
def words(small: Any) -> Any:
    from pipelines.prompts import prompt_text
    from trainer.modeling.processor import Processor
    from trainer.modeling.tokenizer import train_tokenizer
    from trainer.presets import image_processor

    rows = make_rows(16)
    texts = [prompt_text(row["messages"]) for row in rows] + [row["answer"] for row in rows]
    return Processor(train_tokenizer(texts, 1400), image_processor(small), small)


@pytest.fixture(scope="session")
def start(small: Any, words: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from trainer.modeling.model import build_model

    model = build_model(small, words.tokenizer, seed=1)
    return taught(tmp_path_factory.mktemp("start"), words, model, small)
