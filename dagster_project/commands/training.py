"""`vesper train | merge`."""

import argparse
import json
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dagster_project.commands.checkpoint_option import TEXT, checkpoint
from dagster_project.commands.store_option import add_store
from dagster_project.lineage import openlineage_client
from dagster_project.lineage.model_card import write_cards
from dagster_project.settings import deployment
from dagster_project.stages.client_options import client_options
from dagster_project.stages.training import trainer_config
from pipelines.store import Store, has_store
from pipelines.store.manifest import Manifest
from schemas.settings_flags import add_flags, flag_names, given_flags, listing
from trainer.merging.merge import METHODS
from trainer.merging.merge import merge as merge_checkpoints
from trainer.runtime.tracking import OnEvent
from trainer.settings.tree import TrainerSettings
from trainer.stages.assets import CHECKPOINTS, STAGES, checkpoint_folder
from trainer.stages.run import run_stage

FLAGS = flag_names(TrainerSettings)
EXAMPLES = {
    "train": "vesper train base --preset nano --home .vesper --out out/base\n"
    "on several devices: torchrun --nproc-per-node 8 -m dagster_project.cli train STAGE… --home .vesper "
    "--config @run.json",
    "merge": "vesper merge --method ties --base out/mid --model out/a --model out/b --density 0.5 --out out/merged\n"
    "  vesper merge --method linear --base mid_trained --model offline_web --model online_web --out out/merged",
}


def configure(command: str, parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.epilog = f"example: {EXAMPLES[command]}"
    {"train": _train_arguments, "merge": _merge_arguments}[command](parser)


def _train_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("stage", metavar="STAGE", nargs="+", choices=STAGES, help=f"one or more of {', '.join(STAGES)}")
    add_store(parser, "a store with shards and mixture")
    parser.add_argument(
        "--out", type=Path, help="folder for a copy of the one stage's checkpoint (it stays in the store as well)"
    )
    parser.add_argument(
        "--config",
        default="{}",
        metavar="JSON|@FILE",
        help="settings over those of $VESPER_TRAINER and, before it, of deployment.yaml; they are listed below",
    )
    settings = parser.add_argument_group("settings of the first level, over those of --config")
    add_flags(settings, TrainerSettings(), FLAGS)
    parser.add_argument("--events", action="store_true", help="print what happens as JSON lines, instead of a bar")
    parser.epilog = f"{parser.epilog}\n\nsettings of --config, with their defaults:\n{listing(TrainerSettings)}"
    parser.set_defaults(run=train)


def _merge_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--method", choices=METHODS, required=True, help="how")
    parser.add_argument(
        "--base", type=checkpoint, required=True, help=f"the common ancestor (the mid-trained checkpoint): {TEXT}"
    )
    parser.add_argument(
        "--model", type=checkpoint, action="append", required=True, help="a specialist, said likewise; one or more"
    )
    parser.add_argument("--out", type=Path, required=True, help="a new folder")
    parser.add_argument(
        "--density", type=float, action="append", help="share of changes to keep: one, or one a model (1)"
    )
    parser.add_argument("--weight", type=float, action="append", help="one a model (ties 1, linear 1/n)")
    parser.add_argument("--lambda", dest="lam", type=float, default=1.0, help="scale of the merged change (1)")
    parser.set_defaults(run=merge)


def train(options: argparse.Namespace) -> int:
    """Stages of the trainer, one after the other; under torchrun each in all of its processes."""
    config = _config(options)
    # with torch, which `--help` does without, and a mistake in the settings
    from trainer.modeling.checkpoint import LINEAGE
    from trainer.stages.launch import on_ranks

    if options.out and (len(options.stage) > 1 or options.stage[0] not in CHECKPOINTS):
        raise ValueError(f"--out: expected one stage that makes a checkpoint, found {', '.join(options.stage)}")
    if options.out and (options.out / LINEAGE).exists():
        raise ValueError(f"--out {options.out} already holds a checkpoint; give a new folder")
    home = _store_home(options.home)
    openlineage_client.follow()

    on_event = _print if options.events else None

    # Every stage is tried, and the worst decides.
    def run(on_event: OnEvent | None) -> int:
        return max(_one_stage(stage, home, config, options, on_event) for stage in options.stage)

    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        # whatever `device` says, ranks that a person started compute on GPUs where there are any
        return on_ranks(home, config, lambda led: run(led(on_event))) or 0
    return run(on_event)


def _config(options: argparse.Namespace) -> dict[str, Any]:
    """The trainer's settings: those of the deployment and of $VESPER_TRAINER, over them those of the flags."""
    text = Path(options.config[1:]).read_text() if options.config.startswith("@") else options.config
    try:
        given = json.loads(text)
    except ValueError as error:
        raise ValueError(f"--config: expected JSON: {error}") from error
    if not isinstance(given, dict):
        raise ValueError(f"--config: expected a JSON object, found {text[:60]!r}")
    return trainer_config({**given, **given_flags(options, FLAGS)})


def _one_stage(
    stage: str, home: Path, config: Mapping[str, object], options: argparse.Namespace, on_event: OnEvent | None
) -> int:
    """Make a stage's asset and print its figures; → 1 if one of its checks failed."""
    manifest = run_stage(
        stage,
        home,
        config,
        on_event,
        progress=not options.events and sys.stderr.isatty(),
        judge=client_options(deployment.load().judge),
    )
    # Cards are for readers; a checkpoint stands without them.
    if unwritten := write_cards(Store(home), manifest):
        print(f"vesper train: {unwritten}", file=sys.stderr)
    if options.out:
        shutil.copytree(checkpoint_folder(manifest), options.out, dirs_exist_ok=True)
    if not options.events:
        print(f"{manifest.asset} {manifest.version}: {_figures(manifest)}")
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


def _figures(manifest: Manifest) -> str:
    counts = manifest.counts
    shown = [(k, v) for k, v in counts.items() if isinstance(v, int | float) and not isinstance(v, bool)][:8]
    return ", ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in shown)


def _print(event: Mapping[str, object]) -> None:
    plain = {key: value for key, value in event.items() if not isinstance(value, bytes)}  # pictures
    print(json.dumps(plain, default=str), flush=True)
