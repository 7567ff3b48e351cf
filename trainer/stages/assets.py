"""The trainer's assets: checkpoints and evaluations, each made once from named versions of its inputs.

    checkpoints/<stage>        of each stage in `trainer.settings.stages.STAGES`
    evaluations/<stage>        held-out figures of its checkpoint beside their controls

Names and inputs alone: the graph reads them without loading what makes them.
"""

from collections.abc import Sequence
from pathlib import Path

from pipelines.store.manifest import Manifest
from trainer.settings.distill import DistillSettings
from trainer.settings.domains import DOMAINS, USUAL
from trainer.settings.stages import CORPUS, DISTILLED, HELDOUT, LINEAR, MERGED, ONLINE, UNIFIED
from trainer.settings.stages import STAGES as ENTRIES
from trainer.settings.tree import TrainerSettings

CODE_VERSION = "2"
SETTINGS = "settings.json"
"""A side file of a checkpoint: the settings that the version depends on, as JSON."""

BROWSER_WORLDS = ("phone", "fsm", "pages/phone", "pages/desktop", "pages/web", "miniwob")
"""Worlds that a Chromium is enough for."""
CHECKPOINTS = tuple(ENTRIES)
STAGES = (*CHECKPOINTS, *(f"evaluations/{name}" for name in CHECKPOINTS))
"""Stages in an order that satisfies their inputs."""


def worlds_of(domain: str, named: Sequence[str] | None = None) -> tuple[str, ...]:
    """The worlds of a domain's online RL: those that its settings name, or those that a Chromium is enough for and the
    domain's own."""
    own = DOMAINS[domain].worlds if domain in DOMAINS else ()
    return tuple(named or (*BROWSER_WORLDS, *own))


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
    A merge reads the specialists that the settings name, and distillation its teachers."""
    if stage not in ENTRIES:
        return (f"checkpoints/{asset_of(stage).partition('/')[2]}", HELDOUT, CORPUS)
    entry = ENTRIES[stage]
    if stage == UNIFIED.name and settings and settings.merge.unified == DISTILLED.name:
        return (f"checkpoints/{DISTILLED.name}",)
    merged = (settings.merge.specialists if settings else MERGED) if entry.merges else ()
    taught = (settings.distilled if settings else DistillSettings()).teachers.names if entry.distils else ()
    # in order, each once
    checkpoints = dict.fromkeys((*((entry.start,) if entry.start else ()), *merged, *taught))
    return (*(f"checkpoints/{name}" for name in checkpoints), *entry.reads)


def beside_the_agent(settings: TrainerSettings | None = None) -> frozenset[str]:
    """Stages that the agent isn't made of, and which start only when they are asked for: specialists of domains that
    aren't trained, unless they are named; distillation beside the TIES merge; merges and online RL beside a distilled
    agent, unless its teachers are of online RL, and the evaluation of what is evaluated as the agent."""
    trained = settings.domains if settings else USUAL
    aside = {name for name, stage in ENTRIES.items() if stage.domain and stage.domain not in trained}
    if settings is None or settings.merge.unified != DISTILLED.name:
        aside, named = aside | {DISTILLED.name}, settings.merge.specialists if settings else MERGED
    else:
        aside, named = aside | {LINEAR.name, *ONLINE}, settings.distilled.teachers.names
    # a specialist that is merged or teaches isn't aside, nor is what it started from
    aside -= {*named, *(ENTRIES[name].start for name in named)}
    return frozenset({*aside, *(f"evaluations/{name}" for name in (*aside, DISTILLED.name))})
