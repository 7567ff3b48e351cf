"""The `vesper` command. Commands are loaded on use, so that `vesper unify` starts without Dagster and without torch."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from dagster_project.commands.helpful_parser import HelpfulParser, said
from pipelines.extras import without_extra
from vesper import __version__

COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("demo", "run the whole graph on embedded data and print what improved"),
    "sources": ("sources", "list the datasets, or pull one's native files"),
    "unify": ("data", "native files to steps, samples and screens in one action space"),
    "judge": ("judge", "score every step and sample, 0 to 10"),
    "judge bench": ("judge_bench", "how good a judge is, per defect, on what training never saw"),
    "judge train": ("judge", "train the nano judge on a bench"),
    "refine": ("judge", "judge, repair, judge again; write what is gold"),
    "refine bench": ("refine_bench", "what refinement makes of a corpus with planted low fidelity"),
    "scan": ("safety", "planted triggers, personal data and credentials in a folder"),
    "review": ("review", "people verify sampled items on a local page"),
    "browse": ("browse", "the corpus on a local page: filter, look, compare, tag, send to review, export"),
    "gateway": ("devices", "phones, browsers and desktops that many agents share"),
    "devices": ("devices", "list, register and reach them; an emulated phone"),
    "harvest": ("harvest", "web pages and desktop programs to screens with elements, a source like any other"),
    "generate": ("generate", "rounds of the generation loop: propose, run, verify, learn"),
    "desktop gate": ("desktop_gate", "hold every desktop task to its gate, in real programs"),
    "dedup": ("data", "semantic duplicates of any list of texts"),
    "shard": ("data", "samples to shards that `datasets` opens with pictures"),
    "export": ("export", "corpus, tasks or a checkpoint in the form that another trainer loads"),
    "train": ("training", "make a checkpoint from a store's corpus"),
    "experiments": ("experiments", "trainings with other settings beside the mainline, and what came of them"),
    "worth": ("worth", "what sources, rules and mixtures are worth to the agent, beside what they cost"),
    "eval": ("evaluate", "a checkpoint or a served model on any suite, beside its controls"),
    "eval recorded": ("recorded_runs", "score the runs that harnesses of computer benchmarks wrote"),
    "play": ("play", "one task in a real browser, as an animated picture with the actions drawn"),
    "serve": ("serve_model", "a checkpoint behind the OpenAI protocol, on this machine"),
    "serve rollouts": ("serve_model", "a checkpoint behind vLLM's rollout protocol, for a learner of online RL"),
    "serve worlds": ("serve_worlds", "tasks and their worlds over HTTP in the form of OpenEnv, for any trainer"),
    "merge": ("training", "several checkpoints into one, linear or TIES"),
    "staircase": ("proving", "the whole method in miniature: does each stage help, on tasks that nobody can guess?"),
    "nano-base": ("proving", "build the nano model that sees, in parts, and pass its gate"),
    "lineage": ("lineage", "what a checkpoint was made from, what a dataset touches, what a withdrawal makes stale"),
    "explain": ("explain", "one item from its native row to the checkpoints that trained on it"),
    "diff": ("diff", "what entered and left a corpus between two versions, and why"),
    "web": ("web", "Dagster's UI, which no web page drives; with code location and daemon on this machine"),
    "dagster-home": ("dagster_home", "make Dagster's folder in $VESPER_HOME with its settings, and print it"),
    "promote": ("promote", "choose which version of an asset others read"),
    "rollback": ("promote", "go back to an earlier version of an asset"),
    "gc": ("gc", "list, and delete, what of a store nobody needs any more"),
    "verify": ("verify", "look for files of a store that aren't what was written"),
    "takedown": ("takedown", "single records out of all that a store holds, and out of later ingests"),
}
"""Command → (module in `dagster_project.commands`, what it does)."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command. Exit code 0, 1 if its work failed, 2 on bad input (with one line that says why)."""
    given = list(sys.argv[1:] if argv is None else argv)
    if " ".join(given[:2]) in COMMANDS:  # a folder of that name is given as ./bench
        given[:2] = [" ".join(given[:2])]
    name = next((word for word in given if not word.startswith("-")), None)
    parser = HelpfulParser(
        prog="vesper",
        description="From raw GUI datasets to a trained, merged and evaluated GUI agent.",
        epilog="example: vesper unify aitw --raw ~/data/aitw --out out/aitw\n"
        "`vesper COMMAND --help` shows an example of each.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"vesper {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command, (module, stated) in COMMANDS.items():
        sub = subparsers.add_parser(
            command,
            help=stated,
            description=stated[0].upper() + stated[1:] + ".",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if command == name:
            importlib.import_module(f"dagster_project.commands.{module}").configure(command, sub)
    options = parser.parse_args(given)
    try:
        return int(options.run(options) or 0)
    except KeyboardInterrupt:
        print("vesper: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:  # who read the output has enough, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else the interpreter's last flush fails again
        return 141
    except (ValueError, OSError, RuntimeError, ImportError) as error:
        print(f"vesper {options.command}: {without_extra(error) or said(error)}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
