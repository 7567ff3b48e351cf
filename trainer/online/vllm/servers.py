"""Which servers there are and how they get weights: by the settings, or by the environment where those are silent."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from trainer.online.vllm.weight_transfer import WeightTransfer
from trainer.online.vllm.weight_update import ReloadWeights, WeightUpdate
from trainer.settings.online import VllmConfig

if TYPE_CHECKING:
    import torch

ENDPOINTS_VARIABLE, WEIGHTS_VARIABLE = "VESPER_VLLM_ENDPOINTS", "VESPER_VLLM_WEIGHTS_DIR"


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
