"""`vesper experiments new | list | compare`: trainings, mixtures and judges beside the mainline."""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dagster_project.commands.store_option import add_store, open_store
from dagster_project.settings import deployment
from dagster_project.settings.environment import Environment
from dagster_project.stages import sources
from dagster_project.stages.experiments import stages
from dagster_project.stages.stage import JudgeSettings, StageWork
from pipelines.store import Store
from schemas.settings import merged
from trainer.stages import comparison_page
from trainer.stages.assets import CHECKPOINTS
from trainer.stages.experiments import GROUP, JUDGED, MAINLINE, MIXED, Experiment, compared_of, define, names, read

ACTIONS = ("new", "list", "compare")
EXAMPLES = """examples:
  vesper experiments new lr_high --set midtrain.learning_rate=0.01 --stage mid_trained --run
  vesper experiments new unrepeated --stage mixture --run --set mixture.max_repeats=1
  vesper experiments new nano_judge --set judge.name=nano --stage verdicts/aitz --run
  vesper experiments list
  vesper experiments compare mainline lr_high --out lr_high.html
  vesper promote experiments/lr_high/checkpoints/mid_trained --alias candidate"""


def configure(command: str, parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.epilog = EXAMPLES
    add = parser.add_argument
    add("action", choices=ACTIONS, help="keep a new one, list them, or compare two")
    add(
        "names",
        metavar="NAME",
        nargs="*",
        help=f"new: its name; compare: two names, {MAINLINE} is what they stand beside",
    )
    add(
        "--set",
        dest="settings",
        action="append",
        default=[],
        metavar="SETTING=VALUE",
        help="a setting of the trainer over the deployment's, such as midtrain.max_steps=400, or of mixture or judge "
        "(judge.name=nano); repeatable",
    )
    add(
        "--stage",
        action="append",
        default=[],
        metavar="STAGE",
        help=f"new: what it makes, repeatable (mid_trained): {', '.join((*CHECKPOINTS, MIXED))}, or {JUDGED}SOURCE; "
        "compare: the one to compare (the last)",
    )
    add("--why", default="", help="new: what it is to find out")
    add("--run", dest="now", action="store_true", help="new: make it here, now; else the graph's sensor starts it")
    add("--out", type=Path, metavar="FILE", help="compare: write the page here, with curves and samples")
    add("--json", action="store_true", help="list, compare: as JSON")
    add_store(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Do what was asked."""
    wanted = {"new": 1, "list": 0, "compare": 2}[options.action]
    if len(options.names) != wanted:
        raise ValueError(f"{options.action}: expected {wanted} names, found {len(options.names)}")
    store = open_store(options.home)
    return {"new": _new, "list": _list, "compare": _compare}[options.action](store, options)


def setting_of(said: str) -> dict[str, Any]:
    """`midtrain.max_steps=400` (or `trainer.midtrain…`) → settings within settings. The value is JSON, else a text."""
    path, sign, text = said.partition("=")
    if not sign or not path:
        raise ValueError(f"--set: expected SETTING=VALUE, found {said[:80]!r}")
    try:
        found = json.loads(text)
    except ValueError:
        found = text
    # From the inside out.
    for word in reversed(path.removeprefix("trainer.").split(".")):
        found = {word: found}
    return dict(found)


def _new(store: Store, options: argparse.Namespace) -> int:
    settings: dict[str, Any] = {}
    for said in options.settings:
        settings = merged(settings, setting_of(said))
    experiment = Experiment(options.names[0], tuple(options.stage or ["mid_trained"]), settings, options.why)
    given, said = deployment.load(), Environment.read()
    makes = stages(given)
    if unknown := [key for key in experiment.wanted if f"{GROUP}/{key}" not in makes]:
        on = ", ".join(sources.enabled(given))
        raise ValueError(f"--stage: expected sources that are on ({on}), found {', '.join(unknown)}")
    define(store, experiment)
    print(f"experiment {experiment.name}: {', '.join(experiment.stages)} with {json.dumps(settings)}")
    judge = JudgeSettings(said.judge, said.judge_base_url or None, said.judge_model or None)
    work = StageWork(store, given, judge, progress=sys.stderr.isatty(), partition=experiment.name)
    for key in experiment.wanted if options.now else ():
        manifest = makes[f"{GROUP}/{key}"].run(work)
        print(f"{manifest.asset} {manifest.version}")
        # What blocks it, too: nothing reads or compares a version that failed.
        for check in manifest.checks:
            if check.blocking and not check.passed:
                print(f"  failed: {check.name}: found {check.found}, expected {check.expected}")
    return 0


def _list(store: Store, options: argparse.Namespace) -> int:
    found = [read(store, name) for name in names(store)]
    if options.json:
        print(json.dumps([asdict(one) for one in found], indent=1))
        return 0
    for one in found:
        done = [stage for stage in one.stages if compared_of(store, one.name, stage) is not None]
        state = "evaluated" if len(done) == len(one.stages) else f"{len(done)} of {len(one.stages)} evaluated"
        print(f"{one.name:24} {', '.join(one.stages)}  {state}  {json.dumps(one.settings)}  {one.why}".rstrip())
    return 0


def _compare(store: Store, options: argparse.Namespace) -> int:
    from trainer.stages.comparison import compare_sides  # with torch, which the help does without

    stage = options.stage[0] if options.stage else ""
    found = compare_sides(store, options.names[0], options.names[1], stage)
    if options.out:
        options.out.write_text(comparison_page.page([found]), encoding="utf-8")
    if options.json:
        figures = [asdict(figure) for figure in found.figures]
        plain = {"stage": found.stage, "sides": found.sides, "figures": figures, "differing": found.differing}
        print(json.dumps(plain, indent=1))
    else:
        print(comparison_page.markdown([found]), end="")
    return 0
