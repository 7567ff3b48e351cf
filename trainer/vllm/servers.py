"""Which servers there are, what is known of each, and how they get weights: as the settings say, or the environment."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from trainer.settings.grpo import VllmConfig
from trainer.vllm.client import VllmClient
from trainer.vllm.weight_transfer import WeightTransfer
from trainer.vllm.weight_update import ReloadWeights, WeightUpdate

if TYPE_CHECKING:
    import torch

ENDPOINTS_VARIABLE, WEIGHTS_VARIABLE = "VESPER_VLLM_ENDPOINTS", "VESPER_VLLM_WEIGHTS_DIR"


@dataclass(frozen=True)
class PublishedWeights:
    """A published set: `scores` are the learner's log-probabilities of the given text under it."""

    label: str
    version: int
    slot: str
    scores: tuple[float, ...]


@dataclass(eq=False)
class EngineServer:
    """`label`: of the weights that it is known to answer from, "" while it is out of service. `lock`: held by who
    changes its weights."""

    client: VllmClient
    label: str = ""
    busy: int = 0
    misses: int = 0
    retry_at: float = 0.0
    why: str = ""
    refuses: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)


def endpoints(settings: VllmConfig) -> list[str]:
    """The servers' URLs, of the settings or the environment. Raises `ValueError` if there are none."""
    found = settings.endpoints or tuple(os.environ.get(ENDPOINTS_VARIABLE, "").split(","))
    named = [one.strip() for one in found if one.strip()]
    if not named:
        raise ValueError(
            "rollout engine vllm: expected the URL of a server or more, found none; set vllm.endpoints or "
            f"{ENDPOINTS_VARIABLE}=http://HOST:8000,…"
        )
    return named


def weight_update(settings: VllmConfig, run: str, dtype: torch.dtype | None = None) -> WeightUpdate:
    """By the settings, for a run of this name; `dtype` is what servers get (None: as the learner has it).
    Raises `ValueError` if the folder isn't named."""
    if settings.weight_update == "weight_transfer":
        return WeightTransfer(settings.master_address, dtype)
    folder = settings.weights_dir or os.environ.get(WEIGHTS_VARIABLE, "")
    if not folder:
        raise ValueError(
            "rollout engine vllm: expected a folder that learner and servers share, found none; set "
            f"vllm.weights_dir or {WEIGHTS_VARIABLE}"
        )
    return ReloadWeights(Path(folder) / run, dtype)
