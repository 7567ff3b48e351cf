"""`vesper verify`: is every file of a store still what was written?"""

import argparse

from dagster_project.commands.store_option import add_store, open_store
from pipelines.store.verify_store import damages


def configure(command: str, parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.epilog = "examples:\n  vesper verify\n  vesper verify unified/aitw gold/aitw --all-versions"
    parser.add_argument("asset", metavar="ASSET", nargs="*", help="such as gold/aitw (default: all, and the pictures)")
    parser.add_argument("--all-versions", action="store_true", help="those that aren't current, too")
    add_store(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print a line for each damaged file; exit code 1 if there is one."""
    number = 0
    for damage in damages(open_store(options.home), options.asset, all_versions=options.all_versions):
        number += 1
        print(damage)
    if number:
        print(f"{number} damaged: put back good copies, or remove them and materialise their assets again")
        return 1
    print("every file is what was written")
    return 0
