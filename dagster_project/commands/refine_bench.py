"""`vesper refine bench`: what refinement makes of a corpus with a known share of planted low fidelity."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from dagster_project.commands.judge_options import add_judge_options, judge_config
from dagster_project.settings.deployment import home
from generators.proving.judge_bench.accept import own_oracle
from generators.proving.judge_bench.assets import BUILD_VERSION
from generators.proving.judge_bench.build import BenchConfig, build, read_report
from generators.proving.judge_bench.recorders.losses import lines
from generators.proving.judge_bench.verify import verify
from quality.commands.refine import refine_directory
from quality.refinement.claims import fit_folder, save_claim

EXAMPLE = "vesper refine bench --judge nano --nano out/nano --out out/refined"
TRACES, SCREENS, LOW = 240, 120, 0.303


def configure(command: str, parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.epilog = f"example: {EXAMPLE}"
    parser.add_argument(
        "--corpus",
        type=Path,
        metavar="DIR",
        help="where the corpus is, or is built (default: $VESPER_HOME/bench/corpus)",
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="gold tables, report.json, verified.json"
    )
    parser.add_argument("--traces", type=int, default=TRACES, help=f"sound traces before damage ({TRACES})")
    parser.add_argument("--low", type=float, default=LOW, help=f"share of low-fidelity items ({LOW})")
    parser.add_argument("--seed", type=int, default=7, help="of the corpus (7: other screens than the judge bench's)")
    parser.add_argument("--pages", type=Path, metavar="DIR", help="html pages that others wrote")
    parser.add_argument("--max-rounds", type=int, default=3, help="how often a repaired item is judged again (3)")
    parser.add_argument(
        "--fit-claim",
        action="store_true",
        help="fit on this corpus what the nano judge may claim of its gold; kept beside the judge",
    )
    add_judge_options(parser)
    parser.set_defaults(run=bench)


def bench(options: argparse.Namespace) -> int:
    """Build the corpus, refine it, and hold gold against the world's truth. Raises `ValueError`, `ModelError`."""
    if options.traces < 1:
        raise ValueError(f"--traces: expected at least 1, found {options.traces}")
    corpus = options.corpus or home() / "bench" / "corpus"
    # In proportion to the traces, so that a small bench is small all over.
    screens = max(1, round(options.traces * SCREENS / TRACES))
    config = BenchConfig(options.traces, screens, 0, 0, low=options.low, seed=options.seed)
    report = read_report(corpus)
    # Another code, other settings or other pages: another corpus.
    found = None if report is None else (report["version"], report["config"], report["pages"])
    if found != (BUILD_VERSION, asdict(config), options.pages is not None):
        print(f"building a corpus of {options.traces} traces in {corpus} …", flush=True)
        for line in lines(build(corpus, config, options.pages)):
            print(line)
    judge = judge_config(options, options.out / "cache")
    if options.fit_claim and (judge.name != "nano" or judge.nano is None):
        raise ValueError(f"--fit-claim: expected --judge nano, found {judge.name}: other judges give no risks")
    refined = refine_directory(corpus, options.out, judge, options.max_rounds)
    # The world's own oracle, which knows what was planted; the judge never sees it.
    with own_oracle() as accepts:
        verified = verify(corpus, options.out, accepts)
    if options.fit_claim and judge.nano is not None:
        save_claim(judge.nano, fit_folder(options.out, verified.true))
        print(f"claim fitted on this corpus and kept in {judge.nano}")
    truth = verified.as_json()
    truth["claimed"] = refined["share_claimed"]
    (options.out / "verified.json").write_text(json.dumps(truth, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    claim = "none" if truth["claimed"] is None else f"{truth['claimed']:.3f}"
    print(
        f"items {truth['items']} ({truth['planted']:.3f} planted low), gold {truth['gold']}; "
        f"true high fidelity {truth['before']:.3f} before, "
        f"{truth['after']:.3f} after (the judge claims {claim}); sound items kept {truth['clean_kept']:.3f}, "
        f"of traces without any damage {truth['whole_kept']:.3f} "
        f"({truth['withheld']} more hold credentials and are withheld)"
    )
    for name, counts in (("untrue in gold", truth["left"]), ("repaired", truth["repaired"])):
        print(f"{name}: " + (", ".join(f"{kind} {count}" for kind, count in counts.items()) or "none"))
    return 0
