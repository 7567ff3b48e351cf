"""`vesper judge`, `vesper judge train`, `vesper refine`: scoring and repairing plain folders, without a store."""

import argparse
from pathlib import Path

from dagster_project.commands.corpus_option import TEXT, corpus
from dagster_project.commands.data import keep_off, print_report
from dagster_project.commands.engine_option import add_engine, execution
from dagster_project.commands.judge_options import add_judge_options, add_read, judge_config
from dagster_project.settings import deployment
from pipelines.prompts.history import HISTORY_FORMS, PROMPT_VERSIONS, USUAL_HISTORY, HistoryConfig
from quality.commands.judge import judge_directory
from quality.commands.refine import refine_directory
from quality.evidence.reading import reader_beside
from quality.judges.nano.training import NanoConfig, train_nano
from quality.refinement.taught_thoughts import ThoughtTeachers

EXAMPLES = {
    "judge": "vesper judge out/aitw --out out/aitw-judged --judge rules\n"
    "  (see also `vesper judge bench --help` and `vesper judge train --help`)",
    "judge train": "vesper judge train --bench out/bench --out out/nano",
    "refine": "vesper refine out/aitw --out out/aitw-gold",
}


def configure(command: str, parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.epilog = f"example: {EXAMPLES[command]}"
    {"judge": _judge_arguments, "judge train": _train_arguments, "refine": _refine_arguments}[command](parser)


def _judge_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("input", metavar="IN", type=corpus, help=TEXT)
    parser.add_argument("--out", type=Path, required=True, help="verdicts.parquet, costs.parquet, report.json")
    parser.add_argument(
        "--dual",
        action="store_true",
        help="also let the rules review every step and the judge arbitrate: candidates.parquet (rows for gold, some "
        "with another action) and disputes.jsonl (what judges can learn from)",
    )
    add_judge_options(parser)
    add_engine(parser)
    parser.set_defaults(run=judge)


def _train_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--bench", type=Path, required=True, metavar="DIR", help="a judge bench; its seen part is read")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="nano.safetensors, nano.json")
    parser.add_argument("--seed", type=int, default=0)
    add_read(parser, "read the bench's screens too, for judges with --read")
    parser.set_defaults(run=train)


def _refine_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("input", metavar="IN", type=corpus, help=TEXT)
    parser.add_argument("--out", type=Path, required=True, help="gold tables, rejects, verdicts, report.json")
    parser.add_argument("--max-rounds", type=int, default=3, help="how often a repaired item is judged again (3)")
    parser.add_argument(
        "--deriver",
        action="append",
        default=[],
        metavar="FILE.py:NAME",
        help="a deriver of your own, which makes samples of gold, too; may be said several times (none)",
    )
    parser.add_argument(
        "--teach-thoughts",
        metavar="MODEL",
        help="a model at --base-url that writes a thought for each gold step without one; kept only where a second "
        "reading of screen and thought comes to the same action (none)",
    )
    parser.add_argument(
        "--history",
        choices=HISTORY_FORMS,
        default=USUAL_HISTORY.form,
        help=f"what prompts say of the steps before, as the deployment's `history.form` ({USUAL_HISTORY.form})",
    )
    parser.add_argument(
        "--history-steps",
        type=int,
        default=USUAL_HISTORY.steps,
        metavar="N",
        help=f"how many of them they show ({USUAL_HISTORY.steps})",
    )
    parser.add_argument(
        "--prompt-version",
        choices=PROMPT_VERSIONS,
        default=USUAL_HISTORY.prompt,
        help=f"in whose words prompts are, as the deployment's `history.prompt` ({USUAL_HISTORY.prompt})",
    )
    parser.add_argument("--thought-reader", metavar="MODEL", help="the model of the second reading (the same)")
    add_judge_options(parser)
    add_engine(parser)
    parser.set_defaults(run=refine)


def judge(options: argparse.Namespace) -> int:
    """Unified tables → verdicts."""
    keep_off(options.out, options.input)
    config = judge_config(options, options.out / "cache" / "judge")
    report = judge_directory(options.input, options.out, config, options.dual, execution(options))
    return print_report(
        report, ("items", "keep", "rewrite", "reconstruct", "review", "pending", "share_keep"), options.out
    )


def train(options: argparse.Namespace) -> int:
    """A judge bench → a nano judge."""
    keep_off(options.out, options.bench)
    cache = deployment.home() / "bench" / "cache" / "judge"
    reader = reader_beside(cache, options.read) if options.read else None
    report = train_nano(options.bench, options.out, NanoConfig(seed=options.seed), reader=reader)
    examples = ", ".join(f"{count} {unit}s" for unit, count in report["examples"].items())
    print(f"trained on {examples}; the judge is in {options.out}")
    return 0


def refine(options: argparse.Namespace) -> int:
    """Unified tables → gold."""
    keep_off(options.out, options.input)
    if options.max_rounds < 1:
        raise ValueError(f"--max-rounds: expected at least 1, found {options.max_rounds}")
    config = judge_config(options, options.out / "cache" / "judge")
    teacher = None
    if options.teach_thoughts:
        if not options.base_url:
            raise ValueError("--teach-thoughts: expected --base-url of the server that has the model, found none")
        teacher = ThoughtTeachers(
            options.base_url, options.teach_thoughts, options.thought_reader or options.teach_thoughts
        )
    shown = {"form": options.history, "steps": options.history_steps, "prompt": options.prompt_version}
    history = HistoryConfig.parsed(shown, "--history-steps")
    report = refine_directory(
        options.input,
        options.out,
        config,
        options.max_rounds,
        tuple(options.deriver),
        teacher,
        history,
        execution(options),
    )
    code = print_report(report, ("items", "gold", "discarded", "share_before", "share_after", "samples"), options.out)
    if report["items"] and not report["gold"]:  # in the graph the check "gold isn't empty" blocks
        raise ValueError(f"checks failed: gold isn't empty: found 0 of {report['items']} items; {report['rejected']}")
    return code
