"""`--home`, for the commands that work on a store."""

import argparse
from pathlib import Path

from pipelines.home import named_home
from pipelines.store import Store, has_store


def add_store(parser: argparse.ArgumentParser, told: str = "the store") -> None:
    """Add `--home`: the store that a command works on, $VESPER_HOME unless another is given. `--data`, under which
    the entry points promise it, and `--store` are the same option."""
    text = f"{told} ($VESPER_HOME)"
    flags = ("--home", "--data", "--store")
    parser.add_argument(*flags, dest="home", metavar="DIR", type=Path, default=named_home(), help=text)


def open_store(home: Path) -> Store:
    """The store at `home`. Raises `ValueError` if there is none."""
    if not has_store(home):
        raise ValueError(f"--home {home}: expected a store (a $VESPER_HOME with assets/), found none")
    return Store(home)
