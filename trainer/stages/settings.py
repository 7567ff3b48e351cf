"""Settings of the trainer's stages: the defaults, what a published preset changes of them, and what each stage sees."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from schemas.ids import canonical_json
from trainer.presets import NANO_BASE, NORMS, Preset, Shape, preset
from trainer.runtime.settings import require_known

SPECIALISTS = ("offline_grounding", "offline_mobile", "offline_web")
ONLINE = ("online_mobile", "online_web")
MERGED = ("offline_grounding", *ONLINE)
"""The specialists that are merged, unless the configuration names others."""
SHARED = ("mid_trained", *SPECIALISTS, *ONLINE)
"""Stages whose training all ranks do."""

_RL_OF_NANO: dict[str, Any] = {"trainable": NORMS, "learning_rate": 4e-3}
"""So few replies say little about all of its weights: RL of them unlearned grounding (docs/decisions/rl.md)."""
DEFAULTS: dict[str, Any] = {
    "preset": "nano",
    "shape": {},
    "pixels": None,
    "seed": 0,
    "tokenizer_texts": 20_000,
    "weights": "",
    "device": "cpu",
    "ranks": 1,
    "midtrain": {"max_steps": 200, "sigma": [40, 15]},
    "validation_share": 0.08,
    "validation_rows": 32,
    "offline": {
        **_RL_OF_NANO,
        "updates": 8,
        "prompts": 8,
        "eval_steps": 4,
        "held_out_limit": 64,
        "held_out_samples": 1,
        "offline_grounding": {"updates": 16, "prompts": 16, "eval_steps": 8},  # its replies are short
    },
    "online": {
        **_RL_OF_NANO,
        "updates": 2,
        "tasks_per_update": 4,
        "num_generations": 4,
        "workers": 2,
        "save_steps": 1,
        "eval_steps": 0,
        "validation_share": 0.2,
        "worlds": None,
        "world_options": {},
        "reference": {"episodes": 8},
        "grpo": {"max_completion_length": 48},
        "limits": {"step_factor": 1.0, "step_extra": 2},
    },
    "staircase": {"form": "short", "seed": 0, "base": "nano_base"},
    "merge": {
        "density": [0.2, 0.5, 0.8],
        "lambda": [0.7, 1.0],
        "validation_rows": 48,
        "weights": None,
        "specialists": list(MERGED),
    },
    "evaluate": {},
    "suites": {"limit": 40, "seed": 0, "attempts": 1, "temperature": 0.0, "workers": 1},
}
"""The whole configuration; a stage sees only the keys of `KEYS`, so that others' don't make it work anew. `pixels`:
[least, largest] area of a picture for a published preset, which its checkpoints keep (None: as in `trainer.presets`).
`weights`: the folder of a checkpoint of Vesper's that is the base, or "nano_base" for the one that nano comes with ("":
random, or a published preset's own). `suites`: what `suites/*` ask, as `vesper eval` names it: at most `limit`
questions or episodes (None: all; worlds 100), and of worlds `attempts` of each task, their `temperature`, `workers` at
a time; settings of one suite stand under its own name and win. `staircase`: the form of `staircase/web` ("short" or
"long"), its training seed, and what it begins from (as `weights`). `merge`: of several densities and lambdas the TIES
merge gets those that do best on `validation_rows` rows of each domain. `device`: where one process computes ("cpu",
"cuda", "cuda:1"); under torchrun each rank has its own. `ranks`: in how many processes the stages of `SHARED` train,
each on a GPU of its own if `device` is "cuda"; the graph starts them by torchrun. No stage sees it: the number of ranks
changes no gradient, and a run that torchrun began elsewhere is the same run."""

KEYS: dict[str, tuple[str, ...]] = {
    "base": ("preset", "shape", "pixels", "seed", "tokenizer_texts", "weights"),
    "mid_trained": ("midtrain", "validation_share", "validation_rows", "device"),
    **dict.fromkeys(SPECIALISTS, ("offline", "validation_share", "device")),
    **dict.fromkeys(ONLINE, ("online", "device")),
    "linear": ("merge",),
    "unified": ("merge", "validation_share", "device"),
    "evaluations": ("evaluate", "device"),
    "suites": ("suites", "device"),
}

_RL_OF_PUBLISHED: dict[str, Any] = {
    "trainable": "",
    "learning_rate": 1e-6,
    "gradient_checkpointing": True,
    "save_steps": 20,
    "eval_steps": 20,
}
_PUBLISHED: dict[str, Any] = {
    "midtrain": {
        "max_steps": 2000,
        "batch_size": 64,
        "learning_rate": 1e-5,
        "warmup_steps": 100,
        "sigma": [0, 0],
        "packing": True,
        "max_length": 8192,
        "gradient_accumulation_steps": 4,
        "gradient_checkpointing": True,
        "save_steps": 100,
    },
    "validation_rows": 256,
    "offline": {
        **_RL_OF_PUBLISHED,
        "updates": 200,
        "prompts": 64,
        "micro_batch": 4,
        "train_limit": 20_000,
        "validation_limit": 512,
        "held_out_limit": 512,
        "grpo": {"max_completion_length": 512},
    },
    "online": {
        **_RL_OF_PUBLISHED,
        "mode": "async",
        "updates": 200,
        "tasks_per_update": 16,
        "num_generations": 8,
        "workers": 64,
        "micro_batch": 4,
        "limits": {},
        "reference": {},
        "grpo": {"max_completion_length": 512},
    },
    "merge": {"validation_rows": 256},
}
_OF_EXPERTS = {**_PUBLISHED, "midtrain": {**_PUBLISHED["midtrain"], "router_aux_loss_coef": 1e-3}}
OF_PRESET: dict[str, dict[str, Any]] = {"2b": _PUBLISHED, "8b": _PUBLISHED, "30b-a3b": _OF_EXPERTS}
"""What training from a preset's checkpoint changes of `DEFAULTS`, which are nano's: a place to start from, taken from
no run of ours (docs/train-at-8b.md). Coordinates are plain cross entropy (`sigma` 0): a published tokenizer writes
numbers digit by digit."""


def stage_config(stage: str, config: Mapping[str, Any], trained: str = "") -> dict[str, Any]:
    """The part of the whole configuration that a stage depends on, as plain JSON values: `DEFAULTS`, over them
    `OF_PRESET` of the preset `trained` (that of the checkpoint which the stage starts from), over both what is given.
    A part that is given in part, as `{"grpo": {"beta": 0}}`, keeps the rest of it.

    Raises `ValueError` naming an unknown key, or one whose value isn't settings where settings are expected.
    """
    require_known("trainer config", config, DEFAULTS)
    for key, value in config.items():
        if isinstance(DEFAULTS[key], dict) and not isinstance(value, Mapping):
            raise ValueError(f"trainer config: {key}: expected settings by name, found {value!r:.60}")
    of_preset = OF_PRESET.get(trained, {})
    chosen: dict[str, Any] = {}
    for key in KEYS[stage.partition("/")[0]]:
        if isinstance(DEFAULTS[key], dict):
            chosen[key] = _over({**DEFAULTS[key], **of_preset.get(key, {})}, config.get(key, {}))
        else:
            chosen[key] = config.get(key, of_preset.get(key, DEFAULTS[key]))
    for key, own in (("offline", SPECIALISTS), ("online", ONLINE)):
        if stage in own:
            if not isinstance(mine := config.get(key, {}).get(stage, {}), Mapping):
                raise ValueError(f"trainer config: {key}.{stage}: expected settings by name, found {mine!r:.60}")
            # settings of one specialist stand under its own name and win; any given one beats defaults
            layers = [
                ({word: value for word, value in layer.items() if word not in own}, layer.get(stage, {}))
                for layer in (DEFAULTS[key], of_preset.get(key, {}), config.get(key, {}))
            ]
            (nano, nano_own), (published, published_own), (given, given_own) = layers
            chosen[key] = _over(_over({**nano, **nano_own, **published, **published_own}, given), given_own)
    plain: dict[str, Any] = json.loads(canonical_json(chosen))
    return plain


def _over(base: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with what is given, parts of it (mappings) word by word. A preset's parts replace nano's whole instead:
    `{}` there means what the configuration classes say."""
    parts = {
        word: {**base[word], **value}
        for word, value in given.items()
        if isinstance(value, Mapping) and isinstance(base.get(word), Mapping)
    }
    return {**base, **given, **parts}


def ranks_of(stage: str, config: Mapping[str, Any]) -> int:
    """In how many processes a stage trains: `ranks` of the whole configuration for those of `SHARED`, else 1.

    Raises `ValueError` for a number that is none, or a `device` that several ranks can't have.
    """
    count = config.get("ranks", DEFAULTS["ranks"])
    if type(count) is not int or count < 1:
        raise ValueError(f"ranks: expected a whole number, 1 or more, found {count!r:.40}")
    device = config.get("device", DEFAULTS["device"])
    if stage not in SHARED or count == 1:
        return 1
    if device not in ("cpu", "cuda"):
        raise ValueError(
            f"device: expected cpu or cuda with ranks {count}, for each rank has a GPU of its own, found {device!r:.40}"
        )
    return count


def weights_folder(named: str) -> str:
    """The folder that `weights` names (see `DEFAULTS`)."""
    return str(NANO_BASE if named == NANO_BASE.name else Path(named).expanduser()) if named else ""


def preset_from(config: Mapping[str, Any]) -> Preset:
    """The configured preset, with `shape` overrides where it has a shape, and `pixels` where it is published.

    Raises `ValueError` for overrides that the preset can't take."""
    found = preset(config["preset"])
    given, pixels = config["shape"], config.get("pixels")
    if found.shape is None:
        if given:
            raise ValueError(f"preset {found.name}: shape can't be changed, its weights are published")
        if not pixels:
            return found
        least, largest = _pixels(pixels)
        return replace(found, min_pixels=least, max_pixels=largest)
    if pixels:
        raise ValueError(
            f"preset {found.name}: pixels is for published presets; say shape.pixels and shape.enlarged_to"
        )
    changes: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in given.items()}
    if not changes:
        return found
    require_known("shape", changes, Shape.__dataclass_fields__)
    shape = replace(found.shape, **changes)
    return replace(found, shape=shape, max_pixels=shape.pixels)


def _pixels(given: Any) -> tuple[int, int]:
    whole = isinstance(given, list | tuple) and len(given) == 2 and all(type(area) is int for area in given)
    if not whole or not 0 < given[0] <= given[1]:
        raise ValueError(f"pixels: expected [least, largest], areas in pixels, found {given!r:.60}")
    return given[0], given[1]
