"""`vesper train | merge`."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import Any

from dagster_project.commands.store_option import add_store
from dagster_project.settings import deployment
from dagster_project.stages.client_options import client_options
from pipelines.store import has_store
from trainer.merging.merge import merge as merge_checkpoints
from trainer.stages.assets import CHECKPOINTS, checkpoint_folder
from trainer.stages.run import run_stage

EXAMPLES = {
    "train": "vesper train mid_trained --preset nano --home .vesper --out out/mid_trained",
    "merge": "vesper merge --method ties --base out/mid --model out/a --model out/b --density 0.5 --out out/merged",
}


def configure(command: str, parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.epilog = f"example: {EXAMPLES[command]}"
    {"train": _train_arguments, "merge": _merge_arguments}[command](parser)


def _train_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("stage", metavar="STAGE", choices=CHECKPOINTS, help=f"one of {', '.join(CHECKPOINTS)}")
    parser.add_argument(
        "--preset", default="nano", choices=("nano", "2b", "8b", "30b-a3b"), help="what to train (nano)"
    )
    add_store(parser, "a store with shards and mixture")
    parser.add_argument("--out", type=Path, help="folder for a copy of the checkpoint (it stays in the store as well)")
    parser.add_argument("--config", default="{}", metavar="JSON", help="settings, see docs/reference/settings.md")
    parser.set_defaults(run=train)


def _merge_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--method", choices=("ties", "linear"), required=True, help="how")
    parser.add_argument("--base", type=Path, required=True, help="the common ancestor (the mid-trained checkpoint)")
    parser.add_argument("--model", type=Path, action="append", required=True, help="a specialist; give one or more")
    parser.add_argument("--out", type=Path, required=True, help="a new folder")
    parser.add_argument(
        "--density", type=float, action="append", help="share of changes to keep: one, or one a model (1)"
    )
    parser.add_argument("--weight", type=float, action="append", help="one a model (ties 1, linear 1/n)")
    parser.add_argument("--lambda", dest="lam", type=float, default=1.0, help="scale of the merged change (1)")
    parser.set_defaults(run=merge)


def train(options: argparse.Namespace) -> int:
    """One stage of the trainer."""
    from trainer.modeling.checkpoint import LINEAGE

    try:
        config = json.loads(options.config)
    except ValueError as error:
        raise ValueError(f"--config: expected JSON: {error}") from error
    if not isinstance(config, dict):
        raise ValueError(f"--config: expected a JSON object, found {options.config[:60]!r}")
    if options.out and (options.out / LINEAGE).exists():
        raise ValueError(f"--out {options.out} already holds a checkpoint; give a new folder")
    config.setdefault("preset", options.preset)
    manifest = run_stage(
        options.stage,
        _store_home(options.home),
        config,
        progress=sys.stderr.isatty(),
        judge=client_options(deployment.load().judge),
    )
    if options.out:
        shutil.copytree(checkpoint_folder(manifest), options.out, dirs_exist_ok=True)
    print(f"{manifest.asset} {manifest.version}: {_figures(manifest.counts)}")
    failed = [f"{c.name}: found {c.found}, expected {c.expected}" for c in manifest.checks if not c.passed]
    if failed:
        print(f"vesper train: checks failed: {'; '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def merge(options: argparse.Namespace) -> int:
    """Checkpoints → one checkpoint."""
    for folder in (options.base, *options.model):
        if not (folder / "config.json").is_file():
            raise ValueError(f"{folder}: expected a checkpoint folder with config.json, found none")

    density: Any = options.density or [1.0]
    report = merge_checkpoints(
        options.method,
        options.base,
        options.model,
        options.out,
        density=density[0] if len(density) == 1 else density,
        weights=options.weight,
        lam=options.lam,
    )
    total = report.total
    print(
        f"{len(report.tensors)} tensors merged into {options.out}: change {total.delta_norm:.4g}, "
        f"conflicting signs {100 * total.conflicts:.1f} %"
    )
    return 0


def _store_home(path: Path) -> Path:
    if not has_store(path):
        raise ValueError(
            f"--home {path}: expected a store (a $VESPER_HOME with assets/), found none; run `vesper demo`"
        )
    return path


def _figures(counts: dict[str, Any]) -> str:
    shown = [(k, v) for k, v in counts.items() if isinstance(v, int | float) and not isinstance(v, bool)][:8]
    return ", ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in shown)
