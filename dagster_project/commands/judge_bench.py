"""`vesper judge bench`: how good a judge is, per defect, on what no training has seen."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dagster_project.commands.judge_options import add_judge_options, judge_config
from dagster_project.settings import deployment
from generators.proving.judge_bench.assets import BUILD_VERSION
from generators.proving.judge_bench.build import BenchConfig, build, read_report
from generators.proving.judge_bench.recorders.losses import lines
from quality.judges.ensemble import calibrated_weights
from quality.judges.registry import build_judge
from quality.model_client.prices import Prices
from quality.proving import bench_report
from quality.proving.judge_bench import BenchResult, measure
from quality.proving.native_scores import compare_native

EXAMPLE = (
    "vesper judge bench --judge rules --judge nano --out out/bench\n"
    "  (a folder of unified data that is called bench is judged as ./bench)"
)
SPLITS = ("held_out", "seen", "all")
ELEMENTS = {"both": (True, False), "yes": (True,), "no": (False,)}
SIZE = 300
SCREENS_OF, COPIES_OF = 160 / 300, 60 / 300
"""Grounding screens, and copies per defect and natural errors, for each sound trace."""


def configure(command: str, parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.epilog = f"example: {EXAMPLE}"
    parser.add_argument(
        "--bench",
        type=Path,
        metavar="DIR",
        help="a bench (default: $VESPER_HOME/bench/judge, built there first if need be)",
    )
    add_judge_options(parser, several=True)
    parser.add_argument(
        "--split",
        choices=SPLITS,
        default="held_out",
        help="the items figures are about (held_out); cuts always come from the seen ones",
    )
    parser.add_argument(
        "--elements",
        choices=tuple(ELEMENTS),
        default="both",
        help="let the judge see the UI tree: yes, no, or one column for each (both)",
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="report.txt, report.json, costs.json, reliability.png, recall.png"
    )
    parser.add_argument(
        "--native",
        type=Path,
        metavar="DIR",
        help="what `vesper unify agentnet` wrote: compare with the scores that it ships",
    )
    parser.add_argument("--seed", type=int, help="of the bench that is built (0), and of the intervals")
    parser.add_argument("--size", type=int, metavar="N", help=f"sound traces of the bench that is built ({SIZE})")
    parser.add_argument("--pages", type=Path, metavar="DIR", help="html pages that others wrote, for the bench built")
    parser.add_argument(
        "--price", type=float, nargs=2, metavar=("PROMPT", "COMPLETION"), help="money per million tokens"
    )
    parser.set_defaults(run=bench)


def bench(options: argparse.Namespace) -> int:
    """Measure judges on a bench; the table goes to the terminal, everything to --out. Raises `ValueError` for bad
    input, `ModelError` where a judge fails."""
    # Each once, in the order in which they were given.
    names = list(dict.fromkeys(options.judge or ["rules"]))
    cache = (options.out or _home() / "bench") / "cache" / "judge"
    # One judge for each column, all made before anything is built: a missing endpoint shows at once.
    columns = [
        (build_judge(judge_config(options, cache, name)), elements)
        for name in names
        for elements in ELEMENTS[options.elements]
    ]
    prices = Prices(*options.price) if options.price else None
    folder = _bench_folder(options)
    if options.out is not None:
        # Before it is measured, as that takes long.
        _keep_off(options.out, folder)
    seed = options.seed or 0
    results = [measure(folder, judge, seen, options.split, seed=seed, prices=prices) for judge, seen in columns]
    print(bench_report.text(results), end="")
    if len(names) > 1:
        print(f"\n{_weights(results)}")
    extra: dict[str, Any] = {}
    if options.native is not None:
        one_each = {judge.name: judge for judge, _ in columns}.values()
        compared = [compare_native(options.native, judge, seed=seed).as_json() for judge in one_each]
        extra["native_scores"] = compared
        print("\nNative scores\n" + json.dumps(compared, indent=1))
    if options.out is not None:
        bench_report.write(results, options.out, extra)
        print(f"\nreport in {options.out / 'report.json'}")
    return 0


def _weights(results: Sequence[BenchResult]) -> str:
    """What each judge's vote is worth in an ensemble, by the share of bands that it got right."""
    tables = [result.figures.agreement.table for result in results]
    # Without any answer the division would fail; such a judge weighs nothing.
    right = [sum(line[band] for band, line in enumerate(table)) / max(sum(map(sum, table)), 1) for table in tables]
    lines = [f"{weight:.2f}  {result.title}" for weight, result in zip(calibrated_weights(right), results, strict=True)]
    return "Weights in an ensemble (--weight)\n" + "\n".join(lines)


def _home() -> Path:
    return deployment.home()


def _bench_folder(options: argparse.Namespace) -> Path:
    """The bench to measure on. One is built where none is given and none of this configuration stands at the default
    place; a bench that is given is never built or changed. Raises `ValueError`."""
    making = [name for name in ("size", "seed", "pages") if getattr(options, name) is not None]
    if options.bench is not None:
        # A seed is of the intervals, too.
        if wrong := [name for name in making if name != "seed"]:
            raise ValueError(f"--{wrong[0]} is for building a bench: expected it without --bench")
        return Path(options.bench)

    folder = _home() / "bench" / "judge"
    report = read_report(folder)
    # One that stands there is good, unless something else was asked for.
    if report is not None and not making and report["version"] == BUILD_VERSION:
        return folder
    size = SIZE if options.size is None else options.size
    if size < 1:
        raise ValueError(f"--size: expected at least 1 trace, found {size}")
    # In proportion, so that a small bench is small all over.
    copies = max(1, round(size * COPIES_OF))
    config = BenchConfig(size, max(1, round(size * SCREENS_OF)), copies, copies, seed=options.seed or 0)
    if report is not None and _same(report, config, options.pages):
        return folder
    print(f"building a judge bench of {size} traces in {folder} …", flush=True)
    for line in lines(build(folder, config, pages=options.pages)):
        print(line)
    return folder


def _same(report: Any, config: Any, pages: Path | None) -> bool:
    """Whether a bench's report is that of this configuration."""
    stated = (report["version"], report["config"], report["pages"])
    return stated == (BUILD_VERSION, asdict(config), pages is not None)


def _keep_off(out: Path, folder: Path) -> None:
    """Raises `ValueError` if the report would be written into the bench."""
    if out.resolve() == folder.resolve():
        raise ValueError(f"--out {out}: expected another folder than the bench, whose own files stand there")
