"""What of the trainer's settings a stage works with."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from trainer.presets import NANO_BASE, Preset, preset
from trainer.settings import tree
from trainer.settings.presets import configured
from trainer.settings.tree import TrainerSettings


def stage_settings(stage: str, given: Mapping[str, object], trained: str = "") -> TrainerSettings:
    """What is given over the settings of the preset `trained`, which is that of the checkpoint that the stage starts
    from (nano's without one). Raises `schemas.settings.SettingsError`, see `trainer.settings.tree.over`."""
    return tree.over(configured(trained), given, stage)


def ranks_of(stage: str, given: Mapping[str, object]) -> int:
    """In how many processes a stage trains, as `ranks` of what is given says. Raises as `stage_settings`."""
    return tree.ranks_of(stage, stage_settings(stage, given))


def weights_folder(named: str) -> str:
    """The folder that the setting `weights` names."""
    return str(NANO_BASE if named == NANO_BASE.name else Path(named).expanduser()) if named else ""


def preset_from(settings: TrainerSettings) -> Preset:
    """The preset that is set, with the sizes of `shape` where it has a shape, `pixels` where it is published, its
    `reading`, unless `weights` bring a preset of their own, the `action_space` and the `history`.

    Raises `ValueError` for overrides that the preset can't take."""
    found, pixels = preset(settings.preset), settings.pixels
    changes: dict[str, Any] = {} if settings.weights else {"reading": settings.reading}
    changes |= {"action_space": settings.action_space, "action_codec": settings.action_codec}
    changes |= settings.history.of_preset()
    if found.shape is None:
        if settings.shape.model_fields_set:
            # Sizes of published weights are the weights' own.
            raise ValueError(f"preset {found.name}: shape can't be changed, its weights are published")
        if pixels is not None:
            changes |= {"min_pixels": pixels[0], "max_pixels": pixels[1]}
    elif pixels is not None:
        raise ValueError(
            f"preset {found.name}: pixels is for published presets; say shape.pixels and shape.enlarged_to"
        )
    elif settings.shape.model_fields_set:
        changes |= {"shape": settings.shape, "max_pixels": settings.shape.pixels}
    return replace(found, **changes)
