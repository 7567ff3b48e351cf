"""SQLite files that a running server has open."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path


def overwrite(snapshot: Path, path: Path) -> None:
    """Put a database back to a snapshot while its server runs, by SQLite's own backup: under its locks, so that no
    reader sees half of it."""
    with closing(sqlite3.connect(snapshot)) as source, closing(sqlite3.connect(path, timeout=10)) as target:
        source.backup(target)
