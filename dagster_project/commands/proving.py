"""`vesper staircase | nano-base`: what proves the trainer, by hand."""

import argparse
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainer.presets import NANO_BASE
from trainer.proving.staircase.choice import choose_tasks
from trainer.proving.staircase.config import StaircaseConfig, long_form, short_form
from trainer.proving.staircase.report import MARKDOWN, REPORT, combine
from trainer.proving.staircase.stopwatch import Stopwatch
from trainer.stages.settings import weights_folder

EXAMPLES = {
    "staircase": "vesper staircase run --out out/staircase --platform web --seed 0 --base nano_base",
    "nano-base": "vesper nano-base --work .vesper/cache/nano_base --out out/nano_base",
}
SILENT = ("start", "trained", "world_success", "rollouts", "saved")
"""Kinds of events that come too often, or say nothing that people wait for."""
STEPS_SHOWN = 50
"""Every so many steps of mid-training one is printed."""


def configure(command: str, parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.epilog = f"example: {EXAMPLES[command]}"
    {"staircase": _staircase_arguments, "nano-base": _nano_base_arguments}[command](parser)


def _staircase_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, run, does in (
        ("choose", choose, "measure candidates and choose tasks"),
        ("run", climb, "one or several training seeds, to their reports"),
    ):
        one = actions.add_parser(name, help=does)
        one.add_argument("--out", type=Path, required=True, help="folder of all seeds")
        one.add_argument("--platform", default="web", choices=("web", "mobile"), help="whose worlds (web)")
        one.add_argument("--short", action="store_true", help="every part in two or three minutes, no controls")
        # What `choose` isn't asked for, but its configuration needs.
        one.set_defaults(run=run, threads=2, base="")
    one.add_argument("--threads", type=int, help="CPU threads of the trainer (2)")
    one.add_argument("--base", help="checkpoint folder to begin from, or nano_base (random weights)")
    one.add_argument(
        "--seed", type=int, action="append", help="training seed; given again: their joint report, too (0)"
    )
    joint = actions.add_parser("combine", help="several seeds' reports as one")
    joint.add_argument("--out", type=Path, required=True, help="folder of the joint report")
    joint.add_argument("folders", nargs="+", help="folders of seeds")
    joint.set_defaults(run=join)


def _nano_base_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--out", type=Path, default=NANO_BASE, help="the checkpoint's folder (the package's own)")
    add("--work", type=Path, required=True, help="sheets and resumable state")
    add("--phases", type=int, help="end after so many phases (all)")
    add("--from", dest="begin", help="weights to go on from with the last phases alone: a folder, or nano_base")
    add("--threads", type=int, default=2, help="CPU threads (2)")
    parser.set_defaults(run=build_nano_base)


def _config(options: argparse.Namespace, seed: int) -> StaircaseConfig:
    form = short_form if options.short else long_form
    return form(options.platform, seed, weights_folder(options.base)).changed(threads=options.threads)


def choose(options: argparse.Namespace) -> int:
    """Measure the candidates of a platform and choose the tasks of all its seeds."""
    config = _config(options, 0)
    found = choose_tasks(options.out / f"tasks-{config.platform}", config.choice, _show)
    print(f"{len(found.families())} families chosen, digest {found.digest}")
    return 0


def climb(options: argparse.Namespace) -> int:
    """Seeds one after the other, each to its report, which is there before the next begins; several of them also as
    one. What was killed goes on."""
    # with torch, which `--help` does without
    from trainer.proving.staircase.run import prepare, run_staircase, seed_folder

    seeds = options.seed or [0]
    prepare(options.out, _config(options, seeds[0]), _show)
    folders = []
    for seed in seeds:
        config = _config(options, seed)
        folder = seed_folder(options.out, config)
        folders.append(folder)
        # With one seed the run itself says that it is finished.
        if len(seeds) > 1 and (folder / REPORT).is_file():
            print(f"{folder.name}: finished already", flush=True)
            continue
        watch = Stopwatch(folder / "clock.json")

        def event(happened: Mapping[str, object], watch: Stopwatch = watch) -> None:
            watch.tick()
            _show(happened)

        run_staircase(options.out, config, event)
        watch.write()
        print(f"{folder / MARKDOWN}: {watch.seconds / 60:.1f} minutes", flush=True)
    if len(seeds) > 1:
        combine(folders, options.out / options.platform)
        print(options.out / options.platform / MARKDOWN)
    return 0


def join(options: argparse.Namespace) -> int:
    """Reports of several seeds as one, with intervals over tasks and seeds."""
    combine(options.folders, options.out)
    print(options.out / MARKDOWN)
    return 0


def build_nano_base(options: argparse.Namespace) -> int:
    """Build nano-base, in parts, and pass its gate; → 1 if the gate isn't passed."""
    from trainer.proving.nano_base import build  # as above
    from trainer.proving.nano_base.curriculum import CURRICULUM, FROM_WEIGHTS, NanoBaseConfig

    phases = FROM_WEIGHTS if options.begin else CURRICULUM
    config = NanoBaseConfig(curriculum=phases[: options.phases], threads=options.threads)
    begin = Path(weights_folder(options.begin)) if options.begin else None
    texts = () if begin else build.goal_texts()
    found = build.build_nano_base(options.out, options.work, config, texts=texts, begin=begin)
    print(json.dumps({name: lesson["present"]["mean"] for name, lesson in found["lessons"].items()}))
    print(f"gate {'passed' if found['passed'] else 'NOT passed'}: {found['times_random']:.2f} times the random element")
    return 0 if found["passed"] else 1


def _show(event: Mapping[str, Any]) -> None:
    """A line an event that people wait for."""
    kind = event.get("kind")
    if kind in SILENT or (kind == "step" and event["step"] % STEPS_SHOWN):
        return
    shown = {
        name: round(value, 4) if isinstance(value, float) else value
        for name, value in event.items()
        if isinstance(value, int | float | str)
    }
    print(time.strftime("%H:%M:%S"), " ".join(f"{name}={value}" for name, value in shown.items()), flush=True)
