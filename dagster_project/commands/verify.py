"""`vesper verify`: is every file of a store still what was written?"""

import argparse
from functools import partial
from itertools import chain

from dagster_project.commands.store_option import add_store, open_store
from dagster_project.settings import deployment
from dagster_project.settings.raw_folders import raw_folder
from pipelines.raw.rawdata import damaged_raw
from pipelines.store.choose_version import asset_of
from pipelines.store.verify_store import damages


def configure(command: str, parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.epilog = "examples:\n  vesper verify\n  vesper verify unified/aitw gold/aitw --all-versions"
    parser.add_argument(
        "asset",
        metavar="ASSET",
        nargs="*",
        help="such as gold/aitw; raw/aitw: its native files, too (default: all, and the pictures)",
    )
    parser.add_argument("--all-versions", action="store_true", help="those that aren't current, too")
    add_store(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print a line for each damaged file; exit code 1 if there is one."""
    number, store = 0, open_store(options.home)
    assets = [asset_of(asset)[0] for asset in options.asset]
    native = damaged_raw(store, partial(raw_folder, deployment.load(), store.home), assets)
    for damage in chain(damages(store, assets, all_versions=options.all_versions), native):
        number += 1
        print(damage)
    if number:
        print(f"{number} damaged: put back good copies, or remove them and materialise their assets again")
        return 1
    print("every file is what was written")
    return 0
