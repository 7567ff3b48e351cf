"""`--data`, for the commands that work on a store."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.home import named_home
from pipelines.store import Store, has_store

if TYPE_CHECKING:
    from pipelines.store import Store


def add_store(parser: argparse.ArgumentParser) -> None:
    """Add `--data`: the store that a command works on."""
    parser.add_argument("--data", type=Path, default=named_home(), help="the store ($VESPER_HOME)")


def open_store(home: Path) -> Store:
    """The store at `home`. Raises `ValueError` if there is none."""
    if not has_store(home):
        raise ValueError(f"--data {home}: expected a store (a $VESPER_HOME with assets/), found none")
    return Store(home)
