"""Two checkpoints of other weights, and pauses that are short."""

from __future__ import annotations

from pathlib import Path

import pytest
from vllm_engines import moved

from trainer.modeling.checkpoint import Checkpoint, load_checkpoint
from trainer.vllm import engine as vllm_engine


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_engine, "RETRY_S", 0.02)


@pytest.fixture
def loaded(start: Path) -> Checkpoint:
    return load_checkpoint(start)


@pytest.fixture
def other(start: Path) -> Checkpoint:
    """Whose weights are others."""
    found = load_checkpoint(start)
    moved(found.model, 0.05)
    return found
