"""The trainer's assets: checkpoints and evaluations, each made once from named versions of its inputs.

    checkpoints/base           random weights and a tokenizer learned on the corpus, or what `weights` names
    checkpoints/mid_trained    mid-training of base on the mixture
    checkpoints/offline_*      three specialists by offline RL
    checkpoints/online_*       two of them, mobile and web, by online RL on the task pool
    checkpoints/linear         the specialists' mean        checkpoints/unified   their TIES merge
    evaluations/<checkpoint>   held-out figures beside their controls

Names and inputs alone: the graph reads them without loading what makes them.
"""

from __future__ import annotations

from pathlib import Path

from pipelines.store.manifest import Manifest
from trainer.data.rows import HELDOUT, MIXTURE, SHARDS
from trainer.settings.stage_names import MERGED, ONLINE, SPECIALISTS
from trainer.settings.tree import TrainerSettings

CODE_VERSION = "2"

TASKS = "task_pool/shards"
BROWSER_WORLDS = ("phone", "fsm", "pages/phone", "pages/desktop", "miniwob")
"""Worlds of online RL unless its settings name others: those that a Chromium is enough for."""
CHECKPOINTS = ("base", "mid_trained", *SPECIALISTS, *ONLINE, "linear", "unified")
STAGES = (*CHECKPOINTS, *(f"evaluations/{name}" for name in CHECKPOINTS))
"""Stages in an order that satisfies their inputs."""


def checkpoint_folder(manifest: Manifest) -> Path:
    """The Hugging Face folder of a committed checkpoint (`model/` of its version)."""
    return manifest.file("config.json").parent


def asset_of(stage: str) -> str:
    """Stage → asset key. Raises `ValueError` naming the stages."""
    if stage not in STAGES:
        raise ValueError(f"stage: expected one of {', '.join(STAGES)}, found {stage!r}")
    return stage if "/" in stage else f"checkpoints/{stage}"


def inputs_of(stage: str, settings: TrainerSettings | None = None) -> tuple[str, ...]:
    """Asset keys that a stage reads (an evaluation reads `unified/<source>` too, for the elements of screens).
    A merge reads the specialists that the settings name."""
    if stage == "base":
        return (SHARDS,)
    if stage == "mid_trained":
        return ("checkpoints/base", SHARDS, MIXTURE)
    if stage in SPECIALISTS:
        return ("checkpoints/mid_trained", SHARDS, HELDOUT)
    if stage in ONLINE:
        return (f"checkpoints/offline_{stage.partition('_')[2]}", TASKS)
    if stage in ("linear", "unified"):
        named = settings.merge.specialists if settings else MERGED
        validated = (SHARDS,) if stage == "unified" else ()
        return ("checkpoints/mid_trained", *(f"checkpoints/{name}" for name in named), *validated)
    return (f"checkpoints/{asset_of(stage).partition('/')[2]}", HELDOUT, SHARDS)
