"""A tiny base for probes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def base(processor: Any, tiny_preset: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from trainer.modeling.checkpoint import lineage, save_checkpoint
    from trainer.modeling.model import build_model

    folder = tmp_path_factory.mktemp("base")
    save_checkpoint(
        folder, build_model(tiny_preset, processor.tokenizer, seed=1), processor, lineage("base", tiny_preset)
    )
    return folder
