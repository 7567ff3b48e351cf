"""`vesper demo`."""

import argparse
import os
from pathlib import Path


def configure(command: str, parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.epilog = "example: vesper demo --size tiny --report /tmp/report.json"
    parser.add_argument("--size", choices=("tiny", "demo"), help="how much embedded data (default: demo)")
    parser.add_argument("--home", type=Path, help="where everything goes (default: $VESPER_HOME, else .vesper)")
    parser.add_argument(
        "--report",
        type=Path,
        default=Path("report.json"),
        help="where the figures go (report.json), with report.html beside them",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """The whole graph."""
    if options.home:
        os.environ["VESPER_HOME"] = str(options.home.resolve())
    if options.size:
        os.environ["VESPER_EMBEDDED_SIZE"] = options.size
    if not options.report.parent.is_dir():
        raise ValueError(f"--report: expected a file in an existing folder, found {options.report}")
    if options.report.suffix == ".html":
        raise ValueError(f"--report: expected a .json file (the page goes beside it), found {options.report}")
    from dagster_project.demo import whole_graph

    return whole_graph.run(options.report)
