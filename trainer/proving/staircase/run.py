"""The staircase of one training seed, from tasks to report; every part is a file, so a run that was killed goes on.

    python -m trainer.proving.staircase.run choose  --out DIR --platform web  # measure, choose, draw episodes
    python -m trainer.proving.staircase.run run     --out DIR --platform web --seed 0 [--base CHECKPOINT] [--short]
    python -m trainer.proving.staircase.run combine --out DIR SEED_FOLDER SEED_FOLDER ...

In DIR: `tasks-<platform>/` and `episodes-<platform>/`, which all seeds share, and `<platform>-seed-<n>/` with the
stages' checkpoints, the evaluations and `report.json`, `report.md`, `report.svg`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipelines.whole_files import put_json
from trainer.proving.staircase.choice import ChosenTasks, choose_tasks
from trainer.proving.staircase.config import StaircaseConfig, long_form, short_form
from trainer.proving.staircase.episodes import counts, make_episodes, read_rows
from trainer.proving.staircase.evaluation import Evaluation
from trainer.proving.staircase.figures import joined
from trainer.proving.staircase.random_policy import random_policy
from trainer.proving.staircase.report import RECORDS, combine, write_report
from trainer.proving.staircase.training import Trainings
from trainer.runtime.tracking import OnEvent
from trainer.stages.settings import weights_folder


def seed_folder(out: str | Path, config: StaircaseConfig) -> Path:
    """Where a seed's stages and report lie."""
    return Path(out) / f"{config.platform}-seed-{config.seed}"


def prepare(out: str | Path, config: StaircaseConfig, on_event: OnEvent | None = None) -> tuple[ChosenTasks, list[Any]]:
    """Tasks and sample rows of a platform, made where they aren't there yet."""
    tasks = choose_tasks(Path(out) / f"tasks-{config.platform}", config.choice, on_event)
    folder = Path(out) / f"episodes-{config.platform}"
    make_episodes(folder, tasks, config.episodes, *config.worlds, on_event=on_event)
    return tasks, read_rows(folder, tasks, config.episodes, *config.worlds)


def run_staircase(out: str | Path, config: StaircaseConfig, on_event: OnEvent | None = None) -> dict[str, Any]:
    """All rows of one seed → its report, which also lies in the seed's folder."""
    import torch

    torch.set_num_threads(config.threads)
    tasks, rows = prepare(out, config, on_event)
    folder = seed_folder(out, config)
    train = Trainings(folder / "stages", config, tasks, rows, on_event)
    evaluation = Evaluation(folder / "evaluations", config, tasks, rows, on_event)

    base = train.base()
    mid = train.mid(base)
    offline = train.offline(mid, config.platform)
    pointing = train.offline(mid, "grounding")
    online = train.online(offline)
    stages = {"base": base, "mid": mid, "offline": offline, "online": online}
    if config.base and config.controls:
        stages["random_weights"] = train.random_weights()
    experts = [pointing, online]
    if config.controls:
        stages["linear"] = train.merged("linear", mid, experts)
    merges = [train.merged("ties", mid, experts, density=density, lam=lam) for density, lam in config.ties]
    stages["ties"] = max(merges, key=evaluation.score) if len(merges) > 1 else merges[0]
    looks = offline.told["looks"]
    if config.controls:
        stages["more_supervised"] = train.more_supervised(offline, online.seconds)
        stages["more_offline"] = more = train.offline(offline, config.platform, online.seconds)
        looks = joined(looks, more.told["looks"])

    records = {"random": evaluation.row("random", random_policy())}
    records |= {name: evaluation.row(name, stage) for name, stage in stages.items()}
    records["online"] = {**records["online"], "reference_steps": online.told["metrics"]["reference_steps"]}
    put_json(folder / RECORDS, records)
    told = {
        name: {"seconds": round(stage.seconds, 1), **_brief(stage.told)}
        for name, stage in {**stages, "offline_grounding": pointing}.items()
    }
    settings = {**config.plain(), "base": base.told.get("weights", "") if config.base else ""}  # no folder of a machine
    head = {
        "platform": config.platform,
        "seed": config.seed,
        "config": settings,
        "tasks_digest": tasks.digest,
        "measured": list(tasks.measured),
        "data": counts(rows),
        "stages": told,
    }
    return write_report(folder, head, {config.seed: records}, looks)


def _brief(told: Mapping[str, Any]) -> dict[str, Any]:
    """What a stage tells, without its curves (they stay in its own folder); mid-training's looks are why it stopped."""
    metrics = told.get("metrics", {})
    own = ("metrics", "timing") if "kept_step" in told else ("metrics", "timing", "looks")
    plain = {name: value for name, value in told.items() if name not in own}
    kept = {name: value for name, value in metrics.items() if isinstance(value, int | float | str | None)}
    return {**plain, **({"metrics": kept} if kept else {})}


def _progress(event: Mapping[str, Any]) -> None:
    """A line an event that people wait for."""
    kind = event.get("kind")
    if kind == "step" and event["step"] % 50:
        return
    if kind in ("start", "trained", "world_success", "rollouts", "saved"):
        return
    told = {
        name: round(value, 4) if isinstance(value, float) else value
        for name, value in event.items()
        if isinstance(value, int | float | str)
    }
    print(time.strftime("%H:%M:%S"), " ".join(f"{name}={value}" for name, value in told.items()), flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; 1 and a line on bad input."""
    example = "Example: python -m trainer.proving.staircase.run run --out staircase --seed 0"
    says_it = (__doc__ or "").split("\n")[0]
    parser = argparse.ArgumentParser(
        prog="python -m trainer.proving.staircase.run", description=says_it, epilog=example
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, says in (("choose", "measure candidates and choose tasks"), ("run", "one training seed, to its report")):
        one = commands.add_parser(name, help=says)
        one.add_argument("--out", required=True, help="folder of all seeds")
        one.add_argument("--platform", default="web", choices=("web", "mobile"))
        one.add_argument("--short", action="store_true", help="every part in two or three minutes, no controls")
        if name == "run":
            one.add_argument("--seed", type=int, default=0, help="training seed")
            one.add_argument(
                "--base", default="", help="checkpoint folder to begin from, or nano_base (random weights without one)"
            )
            one.add_argument("--threads", type=int, default=2, help="CPU threads of the trainer (2)")
    joined = commands.add_parser("combine", help="several seeds' reports as one")
    joined.add_argument("--out", required=True)
    joined.add_argument("folders", nargs="+", help="folders of seeds")
    given = parser.parse_args(arguments)
    try:
        if given.command == "combine":
            combine(given.folders, given.out)
            print(Path(given.out) / "report.md")
            return 0
        form = short_form if given.short else long_form
        config = form(given.platform, getattr(given, "seed", 0), weights_folder(getattr(given, "base", "")))
        if given.command == "choose":
            found = choose_tasks(Path(given.out) / f"tasks-{config.platform}", config.choice, _progress)
            print(f"{len(found.families())} families chosen, digest {found.digest}")
            return 0
        config = replace(config, threads=given.threads)
        run_staircase(given.out, config, _progress)
        print(seed_folder(given.out, config) / "report.md")
    except (ValueError, RuntimeError) as error:
        print(f"staircase: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
