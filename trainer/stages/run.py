"""Runs a stage: makes its asset unless the same inputs made it before.

`run_stage` is the entry for an external process. Heavy modules are imported only when there is work to do, so a stage
whose inputs are unchanged returns in a moment. Resumable state lies in `cache/training/`, never in an asset; of it
TensorBoard's events stay, as side files in `runs` of the version.
"""

import json
import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from pipelines.extensions import find_part
from pipelines.store import PartSpec, PartWriter, Store
from pipelines.store.manifest import Check, Manifest
from pipelines.training_data.mixture import require_scan
from schemas.ids import canonical_json, digest
from schemas.settings import merged
from trainer.modeling.published_files import usable_weights
from trainer.modeling.tensors import WeightFiles
from trainer.runtime import tracking
from trainer.runtime.report_to import reporting
from trainer.runtime.tracking import OnEvent
from trainer.settings.stages import BASE, CORPUS, STAGES
from trainer.settings.tree import TrainerSettings
from trainer.stages.assets import CODE_VERSION, SETTINGS, asset_of, checkpoint_folder, inputs_of
from trainer.stages.context import Context, StageResult
from trainer.stages.experiments import Experiment
from trainer.stages.settings import ranks_of, stage_settings, weights_folder

EVALUATION = "trainer.stages.evaluation:evaluation"
"""Function of all `evaluations/<stage>`."""


def run_stage(
    stage: str,
    store_home: str | Path,
    config: Mapping[str, object] | None = None,
    on_event: OnEvent | None = None,
    *,
    progress: bool = True,
    judge: Mapping[str, object] | None = None,
    experiment: Experiment | None = None,
) -> Manifest:
    """Make a stage's asset unless the same inputs made it before; returns the committed manifest.

    `on_event` gets dicts with a `kind`; wall time goes there and into side files only. `judge`: see `Context`; what a
    night may cost is no part of what is made. `experiment`: make the stage beside the mainline, with its settings over
    `config`. Raises `StoreError` if an input is missing or failed its checks,
    `ValueError` for an unknown stage or configuration key, or for `ranks` that torchrun didn't start.
    """
    asset, store = asset_of(stage), Store(store_home)
    if experiment is not None:
        asset, config = experiment.asset(asset), merged(config or {}, experiment.trainer)
    wanted, started = ranks_of(stage, config or {}), int(os.environ.get("WORLD_SIZE", "1"))
    if wanted not in (1, started):
        raise ValueError(
            f"ranks: {stage} is to train in {wanted} processes, found {started}; start it in the graph "
            f"or by torchrun --nproc-per-node {wanted} -m dagster_project.cli train, or leave ranks out"
        )
    inputs, settings = opened(store, stage, config or {}, experiment)
    weights = ""
    # By the files' digest, computed once here.
    if stage == BASE.name and settings.weights:  # the same folder may hold others tomorrow
        folder = usable_weights(weights_folder(settings.weights))
        settings, weights = settings.changed(weights=str(folder)), WeightFiles(folder).digest()
    emit = on_event or (lambda event: None)
    if CORPUS in inputs:
        # A corpus that contamination wasn't looked for in must not be trained on.
        require_scan(store, inputs[CORPUS])
    if stage.startswith("evaluations/"):
        inputs |= {m.asset: m for m in _unified(store)}
    versions = {manifest.asset: manifest.version for _, manifest in sorted(inputs.items())}
    context = Context(store, stage, settings, inputs, emit, store.home, progress, judge or {}, weights)
    # Where weights lie isn't what is made.
    named = {key: value for key, value in context.config.items() if key != "weights"}
    data = {name: manifest.data_version for name, manifest in sorted(inputs.items())}  # made anew alike: as it was
    spec = PartSpec("evaluation" if "/" in stage else "checkpoint", digest([asset, CODE_VERSION, named, data]))
    with store.build(asset, code_version=CODE_VERSION, config=named, inputs=versions, parts=[spec]) as build:
        # By the version: another version never goes on from this one's state.
        work = store.home / "cache" / "training" / f"{asset.replace('/', '-')}-{build.version}"
        context = replace(context, state_dir=work / "state")
        emit({"kind": "stage", "stage": stage, "asset": asset, "version": build.version})
        watched = settings.report_to if "/" not in stage else ()

        def made(out: PartWriter) -> dict[str, Any]:
            with reporting(watched, store.home, asset, build.version, named, emit) as event:
                return _write(out, replace(context, on_event=event), work / "out")

        result = build.run_part(spec, made)
        checks = [Check(**check) for check in result.counts["checks"]]
        manifest = build.commit(counts=result.counts["counts"], checks=checks)
    # Only after the commit: a crash before it can go on from there.
    shutil.rmtree(work, ignore_errors=True)  # state of a finished run
    emit(
        {
            "kind": "committed",
            "stage": stage,
            "version": manifest.version,
            "skipped": result.skipped,
            "checks_passed": manifest.checks_passed,
            **manifest.counts,
        }
    )
    return manifest


def opened(
    store: Store, stage: str, config: Mapping[str, object], experiment: Experiment | None = None
) -> tuple[dict[str, Manifest], TrainerSettings]:
    """A stage's inputs and its settings, which are those of the preset that its checkpoint has.

    Raises `StoreError` if an input is missing or failed its checks, `ValueError` for an unknown configuration key, or
    a `preset` that isn't the checkpoint's: settings of one size ruin another.
    """
    asked = stage_settings(stage, config)
    # An experiment reads what it makes itself, else the mainline's.
    inputs = {
        name: store.require(name if experiment is None else experiment.reads(name)) for name in inputs_of(stage, asked)
    }
    # The checkpoint that the stage starts from is always the first of its inputs.
    given, start = config.get("preset"), next((name for name in inputs if name.startswith("checkpoints/")), None)
    if start is None:
        return inputs, asked
    from trainer.modeling.checkpoint import read_preset

    trained = read_preset(checkpoint_folder(inputs[start])).name
    if given not in (None, trained):
        raise ValueError(
            f"preset: expected {trained}, that of {start}, found {given!r:.40}; make base anew with it, or leave it out"
        )
    return inputs, stage_settings(stage, config, trained)


def _unified(store: Store) -> list[Manifest]:
    root = store.home / "assets" / "unified"
    names = sorted(path.name for path in root.iterdir() if (path / "current.json").exists()) if root.exists() else []
    return [store.require(f"unified/{name}") for name in names]


def _write(out: PartWriter, context: Context, folder: Path) -> dict[str, Any]:
    """Run a stage's function and put its files into the asset."""
    # Left by a run that was killed while writing; what it trained is in the state.
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    began = time.perf_counter()
    made = stage_function(context.stage)(context, folder)
    # In one order, so that the manifest lists files alike.
    for path in sorted(p for p in made.folder.rglob("*") if p.is_file()):
        name = path.relative_to(made.folder).as_posix()
        table = "records" if name.endswith(".records.parquet") else None
        shutil.copyfile(path, out.path(name, table=table))
    follows = "tensorboard" in context.settings.report_to
    for path in (
        tracking.kept(context.state_dir) if follows else ()
    ):  # the state's folder goes when the stage is committed
        shutil.copyfile(path, out.path(f"{tracking.FOLDER}/{path.name}", hashed=False))
    out.bytes(SETTINGS, f"{canonical_json(context.config)}\n".encode(), hashed=False)
    timing = {"seconds": round(time.perf_counter() - began, 3)}
    out.bytes("timing.json", json.dumps(timing).encode(), hashed=False)
    return {"counts": made.counts, "checks": [asdict(check) for check in made.checks]}


def stage_function(stage: str) -> Callable[[Context, Path], StageResult]:
    """What makes a stage's files."""
    make = STAGES[stage].make if stage in STAGES else EVALUATION
    return find_part("stage function", make, {}) if isinstance(make, str) else make
