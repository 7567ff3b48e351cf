"""The trainer's assets: checkpoints and evaluations, each made once from named versions of its inputs.

    checkpoints/base           random weights and a tokenizer learned on the corpus, or what `weights` names
    checkpoints/mid_trained    mid-training of base on the mixture
    checkpoints/offline_*      three specialists by offline RL
    checkpoints/online_*       two of them, mobile and web, by online RL on the task pool
    checkpoints/linear         the specialists' mean        checkpoints/unified   their TIES merge
    evaluations/<checkpoint>   held-out figures beside their controls

`run_stage` is the entry for an external process. Heavy modules are imported only when there is work to do, so a stage
whose inputs are unchanged returns in a moment. Resumable state lies in `cache/training/`, never in an asset; of it
TensorBoard's events stay, as side files in `runs` of the version.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.storage.manifest import Check, Manifest
from pipelines.store import PartSpec, PartWriter, Store
from pipelines.training_data.mixture import require_scan
from schemas.ids import canonical_json, digest
from trainer.presets import NANO_BASE, Preset, Shape, preset
from trainer.runtime import tracking
from trainer.runtime.settings import require_known
from trainer.runtime.tracking import OnEvent

CODE_VERSION = "2"

SHARDS, MIXTURE, HELDOUT = "mid_training/shards", "mid_training/mixture", "evaluations/heldout"
TASKS = "task_pool/shards"
BROWSER_WORLDS = ("phone", "fsm", "pages/phone", "pages/desktop", "miniwob")
"""Worlds of online RL unless its settings name others: those that a Chromium is enough for."""
SPECIALISTS = ("offline_grounding", "offline_mobile", "offline_web")
ONLINE = ("online_mobile", "online_web")
MERGED = ("offline_grounding", *ONLINE)
"""The specialists that are merged, unless the configuration names others."""
CHECKPOINTS = ("base", "mid_trained", *SPECIALISTS, *ONLINE, "linear", "unified")
STAGES = (*CHECKPOINTS, *(f"evaluations/{name}" for name in CHECKPOINTS))
"""Stages in an order that satisfies their inputs."""

DEFAULTS: dict[str, Any] = {
    "preset": "nano",
    "shape": {},
    "seed": 0,
    "tokenizer_texts": 20_000,
    "weights": "",
    "device": "cpu",
    "midtrain": {"max_steps": 200, "sigma": [40, 15]},
    "validation_share": 0.08,
    "validation_rows": 32,
    "offline": {
        "updates": 8,
        "prompts": 8,
        "eval_steps": 4,
        "held_out_limit": 64,
        "held_out_samples": 1,
        "offline_grounding": {"updates": 16, "prompts": 16, "eval_steps": 8},  # its replies are short
    },
    "online": {
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
}
"""The whole configuration; a stage sees only the keys of `KEYS`, so that others' don't make it work anew. `weights`:
the folder of a checkpoint of Vesper's that is the base, or "nano_base" for the one that nano comes with ("": random, or
a published preset's own). `staircase`: the form of `staircase/web` ("short" or "long"), its training seed, and what it
begins from (as `weights`). `merge`: of several densities and lambdas the TIES merge gets those that do best on
`validation_rows` rows of each domain. `device`: where one process computes ("cpu", "cuda", "cuda:1"); under torchrun
each rank has its own."""

KEYS: dict[str, tuple[str, ...]] = {
    "base": ("preset", "shape", "seed", "tokenizer_texts", "weights"),
    "mid_trained": ("midtrain", "validation_share", "validation_rows", "device"),
    **dict.fromkeys(SPECIALISTS, ("offline", "validation_share", "device")),
    **dict.fromkeys(ONLINE, ("online", "device")),
    "linear": ("merge",),
    "unified": ("merge", "validation_share", "device"),
    "evaluations": ("evaluate", "device"),
}


@dataclass(frozen=True)
class Context:
    """What a stage's function works with."""

    store: Store
    stage: str
    config: Mapping[str, Any]
    inputs: Mapping[str, Manifest]
    on_event: OnEvent
    state_dir: Path
    progress: bool

    def folder(self, checkpoint: str) -> Path:
        """The Hugging Face folder of an input checkpoint."""
        return checkpoint_folder(self.inputs[f"checkpoints/{checkpoint}"])

    @property
    def domain(self) -> str:
        """Of a stage of RL: grounding, mobile or web."""
        return self.stage.partition("_")[2]

    @property
    def device(self) -> str:
        """Where the models of a stage of one process lie; under torchrun the whole policy of RL on the rank's own
        device, and all else on the CPU (ranks move their shares themselves). Raises `ValueError` for a device that
        isn't here."""
        import torch

        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            from trainer.runtime.parallel import ranks

            return ranks().device if self.stage in (*SPECIALISTS, *ONLINE) else "cpu"
        named = str(self.config["device"])
        try:
            kind = torch.device(named).type
        except RuntimeError:
            raise ValueError(f"device: expected cpu, cuda or cuda:<number>, found {named!r:.40}") from None
        if kind == "cuda" and not torch.cuda.is_available():
            raise ValueError(f"device: {named} was asked for, and torch {torch.__version__} finds no GPU here")
        return named

    @property
    def parents(self) -> dict[str, str]:
        """Asset → version, for the lineage."""
        return {asset: manifest.version for asset, manifest in sorted(self.inputs.items())}


@dataclass(frozen=True)
class Made:
    """What a stage's function leaves: a folder of files to keep, its counts, and its checks."""

    folder: Path
    counts: dict[str, Any]
    checks: list[Check]


def checkpoint_folder(manifest: Manifest) -> Path:
    """The Hugging Face folder of a committed checkpoint (`model/` of its version)."""
    return manifest.file("config.json").parent


def asset_of(stage: str) -> str:
    """Stage → asset key. Raises `ValueError` naming the stages."""
    if stage not in STAGES:
        raise ValueError(f"stage: expected one of {', '.join(STAGES)}, found {stage!r}")
    return stage if "/" in stage else f"checkpoints/{stage}"


def inputs_of(stage: str, config: Mapping[str, Any] | None = None) -> tuple[str, ...]:
    """Asset keys that a stage reads (an evaluation reads `unified/<source>` too, for the elements of screens).
    `config`: as of `stage_config`; a merge reads the specialists that it names."""
    if stage == "base":
        return (SHARDS,)
    if stage == "mid_trained":
        return ("checkpoints/base", SHARDS, MIXTURE)
    if stage in SPECIALISTS:
        return ("checkpoints/mid_trained", SHARDS, HELDOUT)
    if stage in ONLINE:
        return (f"checkpoints/offline_{stage.partition('_')[2]}", TASKS)
    if stage in ("linear", "unified"):
        named = (config or {}).get("merge", {}).get("specialists", MERGED)
        if not named or (unknown := set(named) - {*SPECIALISTS, *ONLINE}):
            raise ValueError(f"merge: expected specialists of {', '.join((*SPECIALISTS, *ONLINE))}, found "
                             f"{sorted(unknown) if named else 'none'}")  # fmt: skip
        validated = (SHARDS,) if stage == "unified" else ()
        return ("checkpoints/mid_trained", *(f"checkpoints/{name}" for name in named), *validated)
    return (f"checkpoints/{asset_of(stage).partition('/')[2]}", HELDOUT, SHARDS)


def stage_config(stage: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """The part of the whole configuration that a stage depends on, defaults filled in, as plain JSON values.

    Raises `ValueError` naming an unknown key.
    """
    require_known("trainer config", config, DEFAULTS)
    chosen = {}
    for key in KEYS[stage.partition("/")[0]]:
        given, default = config.get(key, DEFAULTS[key]), DEFAULTS[key]
        chosen[key] = {**default, **given} if isinstance(default, dict) else given
    for key, own in (("offline", SPECIALISTS), ("online", ONLINE)):
        if stage in own:  # settings of one specialist stand under its own name and win; any given one beats defaults
            merged: dict[str, Any] = {}
            for layer in (DEFAULTS[key], config.get(key, {})):
                merged |= {word: value for word, value in layer.items() if word not in own} | layer.get(stage, {})
            chosen[key] = merged
    plain: dict[str, Any] = json.loads(canonical_json(chosen))
    return plain


def run_stage(
    stage: str,
    store_home: str | Path,
    config: Mapping[str, Any] | None = None,
    on_event: OnEvent | None = None,
    *,
    progress: bool = True,
) -> Manifest:
    """Make a stage's asset unless the same inputs made it before; returns the committed manifest.

    `on_event` gets dicts with a `kind`; wall time goes there and into side files only. Raises `StoreError` if an
    input is missing or failed its checks, `ValueError` for an unknown stage or configuration key.
    """
    asset, chosen = asset_of(stage), stage_config(stage, config or {})
    if chosen.get("weights"):  # the same folder may hold others tomorrow
        chosen["weights"] = weights_folder(chosen["weights"])
        chosen["weights_digest"] = _digest_of(Path(chosen["weights"]))
    store = Store(store_home)
    emit = on_event or (lambda event: None)
    inputs = {name: store.require(name) for name in inputs_of(stage, chosen)}
    if SHARDS in inputs:
        require_scan(store, inputs[SHARDS])
    if stage.startswith("evaluations/"):
        inputs |= {m.asset: m for m in _unified(store)}
    versions = {name: manifest.version for name, manifest in sorted(inputs.items())}
    named = {key: value for key, value in chosen.items() if key != "weights"}  # a folder's place changes nothing
    data = {name: manifest.data_version for name, manifest in sorted(inputs.items())}  # made anew alike: as it was
    spec = PartSpec("evaluation" if "/" in stage else "checkpoint", digest([asset, CODE_VERSION, named, data]))
    with store.build(asset, code_version=CODE_VERSION, config=named, inputs=versions, parts=[spec]) as build:
        work = store.home / "cache" / "training" / f"{asset.replace('/', '-')}-{build.version}"
        context = Context(store, stage, chosen, inputs, emit, work / "state", progress)
        emit({"kind": "stage", "stage": stage, "asset": asset, "version": build.version})
        result = build.run_part(spec, lambda out: _write(out, context, work / "out"))
        checks = [Check(**check) for check in result.counts["checks"]]
        manifest = build.commit(counts=result.counts["counts"], checks=checks)
    shutil.rmtree(work, ignore_errors=True)  # state of a finished run
    emit({"kind": "committed", "stage": stage, "version": manifest.version, "skipped": result.skipped,
          "checks_passed": manifest.checks_passed, **manifest.counts})  # fmt: skip
    return manifest


def weights_folder(named: str) -> str:
    """The folder that `weights` names (see `DEFAULTS`)."""
    return str(NANO_BASE if named == NANO_BASE.name else Path(named).expanduser()) if named else ""


def _digest_of(folder: Path) -> str:
    from trainer.modeling.checkpoint import LINEAGE
    from trainer.modeling.tensors import WeightFiles

    if not (folder / LINEAGE).is_file():
        raise ValueError(f"weights: expected the folder of a checkpoint ({LINEAGE} in it), found {str(folder)!r}")
    return WeightFiles(folder).digest()


def _unified(store: Store) -> list[Manifest]:
    root = store.home / "assets" / "unified"
    names = sorted(path.name for path in root.iterdir() if (path / "current.json").exists()) if root.exists() else []
    return [store.require(f"unified/{name}") for name in names]


def _write(out: PartWriter, context: Context, folder: Path) -> dict[str, Any]:
    """Run a stage's function and put its files into the asset."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    began = time.perf_counter()
    made = stage_function(context.stage)(context, folder)
    for path in sorted(p for p in made.folder.rglob("*") if p.is_file()):
        name = path.relative_to(made.folder).as_posix()
        table = "records" if name.endswith(".records.parquet") else None
        shutil.copyfile(path, out.path(name, table=table))
    for path in tracking.kept(context.state_dir):  # the state's folder goes when the stage is committed
        shutil.copyfile(path, out.path(f"{tracking.FOLDER}/{path.name}", hashed=False))
    timing = {"seconds": round(time.perf_counter() - began, 3)}
    out.bytes("timing.json", json.dumps(timing).encode(), hashed=False)
    from dataclasses import asdict

    return {"counts": made.counts, "checks": [asdict(check) for check in made.checks]}


def stage_function(stage: str) -> Callable[[Context, Path], Made]:
    """What makes a stage's files."""
    if stage.startswith("evaluations/"):
        from trainer.stage_evaluation import evaluation

        return evaluation
    if stage in ONLINE:
        from trainer.online.stage import online

        return online
    from trainer import stage_checkpoints as stages

    if stage in SPECIALISTS:
        return stages.specialist
    return {"base": stages.base, "mid_trained": stages.mid_trained, "linear": stages.merged,
            "unified": stages.merged}[stage]  # fmt: skip


def preset_from(config: Mapping[str, Any]) -> Preset:
    """The configured preset, with `shape` overrides where it has a shape."""
    from dataclasses import replace

    found = preset(config["preset"])
    given = config["shape"]
    changes: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in given.items()}
    if not changes:
        return found
    if found.shape is None:
        raise ValueError(f"preset {found.name}: shape can't be changed, its weights are published")
    require_known("shape", changes, Shape.__dataclass_fields__)
    shape = replace(found.shape, **changes)
    return replace(found, shape=shape, max_pixels=shape.pixels)
