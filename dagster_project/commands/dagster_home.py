"""`vesper dagster-home`."""

import argparse

from dagster_project.settings.dagster_home import prepare


def configure(command: str, parser: argparse.ArgumentParser) -> None:
    """Arguments of the command: none; $VESPER_HOME and $VESPER_POSTGRES_URL say where."""
    parser.epilog = "example: export DAGSTER_HOME=$(vesper dagster-home)"
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Make the folder and print it: the first step of every deployment."""
    print(prepare())
    return 0
