"""A tiny base for probes, whose replies are short."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def base(processor: Any, tiny_preset: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from trainer.modeling.checkpoint import lineage, save_checkpoint
    from trainer.modeling.model import build_model

    folder, short = tmp_path_factory.mktemp("base"), processor.apart()
    # What has learned next to nothing rambles to the end of any length, and probes would do little else.
    short.preset = replace(tiny_preset, max_answer_tokens=12)
    model = build_model(short.preset, short.tokenizer, seed=1)
    save_checkpoint(folder, model, short, lineage("base", short.preset))
    return folder
