"""Snapshots as SQLite files, which a running server has open."""

import sqlite3
from contextlib import closing
from pathlib import Path

from generators.tasks.world_interface import WorldError


def check_seed(seed: object, app: str) -> int:
    """The seed of a snapshot. Raises `WorldError` for what is no whole number."""
    # bool is an int in Python and no seed.
    if type(seed) is not int or not 0 <= seed < 10**9:
        raise WorldError(f"{app}: seed: expected a whole number from 0, found {seed!r:.60}")
    return seed


def overwrite(snapshot: Path, path: Path) -> None:
    """Put a database back to a snapshot while its server runs, by SQLite's own backup: under its locks, so that no
    reader sees half of it."""
    with closing(sqlite3.connect(snapshot)) as source, closing(sqlite3.connect(path, timeout=10)) as target:
        source.backup(target)
