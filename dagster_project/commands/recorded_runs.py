"""`vesper eval recorded`: runs that the harnesses of computer benchmarks wrote, scored from their folders."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from trainer.online.success import judge_of
from trainer.suites.recorded_runs import report_of, runs_in
from trainer.suites.webvoyager import judged_runs, not_played, tasks_of

EXAMPLE = "example: vesper eval recorded results/pyautogui/screenshot/my-model --out report.json"


def configure(command: str, parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.epilog = EXAMPLE
    parser.add_argument("folder", type=Path, help="where the harness of one model wrote, with DOMAIN/TASK below it")
    parser.add_argument(
        "--webvoyager",
        type=Path,
        metavar="FILE",
        help="the folder is of WebVoyager's harness, with task ID/ for tasks of this file; --judge decides them",
    )
    parser.add_argument("--judge", default="", help="with --webvoyager: the multimodal model at VESPER_JUDGE_BASE_URL")
    parser.add_argument("--out", type=Path, help="write the figures and every run here as JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the figures. Raises `ValueError` for a folder without runs."""
    tasks = tasks_of(options.webvoyager) if options.webvoyager else []
    judge = judge_of(options.judge)
    if bool(tasks) != (judge is not None):
        raise ValueError("--webvoyager: expected a file with tasks, and --judge with the model that decides them")
    runs = list(judged_runs(tasks, options.folder, judge) if judge else runs_in(options.folder))
    try:
        report = report_of(runs)
    except ValueError as error:
        raise ValueError(f"{options.folder}: {error}") from None
    figures = {"score": report["score"], "success": report["success"], **report["by_domain"]}
    for name, figure in figures.items():
        low, high = (f"{100 * (figure[end] or 0):.1f}" for end in ("low", "high"))
        print(f"{name:26.60} {100 * (figure['mean'] or 0):5.1f} [{low}, {high}]  n {figure['n']}")
    not_counted = ", ".join(f"{why} {count}" for why, count in report["not_counted"].items()) or "none"
    print(f"{report['runs']} runs, {report['steps']} steps, {report['refused']} refused; not counted: {not_counted}")
    if tasks:
        report["not_played"] = not_played(tasks, runs)
        print("no run of", ", ".join(f"{site} {count}" for site, count in report["not_played"].items()) or "none")
    if options.out:
        text = json.dumps({**report, "records": [asdict(one) for one in runs]}, indent=1, sort_keys=True)
        options.out.write_text(f"{text}\n", encoding="utf-8")
    return 0
