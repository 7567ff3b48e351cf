"""`--engine`, `--workers`, `--engine-option`: who runs the parts of what a command makes."""

import argparse
import sys

from pipelines.engines.run_parts import Execution
from pipelines.engines.settings import EngineSettings


def add_engine(parser: argparse.ArgumentParser) -> None:
    """The flags; what they mean stands beside the settings of the graph."""
    parser.add_argument(
        "--engine",
        metavar="NAME",
        help="who runs the parts: auto (the default: worker processes where they pay), in-process, processes, beam, "
        "ray, or one of your own (path/to/file.py:name)",
    )
    parser.add_argument("--workers", type=int, metavar="N", help="parts that are run at a time (default: one a core)")
    parser.add_argument(
        "--engine-option",
        action="append",
        metavar="TEXT",
        help="what the engine itself is told, such as --engine-option=--runner=DaskRunner for beam",
    )


def execution(options: argparse.Namespace) -> Execution:
    """How the command runs parts, with a bar where someone watches. Raises `ValueError` for a wrong flag."""
    said = {"runner": options.engine, "workers": options.workers, "options": options.engine_option}
    engine = EngineSettings.parsed({name: value for name, value in said.items() if value is not None}, "--engine")
    return Execution(engine, progress=sys.stderr.isatty())
