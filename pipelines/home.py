"""Where the store lies that commands and the graph work on."""

from __future__ import annotations

import os
from pathlib import Path


def default_home() -> Path:
    """$VESPER_HOME, by default `.vesper` in the current folder."""
    return Path(os.environ.get("VESPER_HOME", ".vesper")).expanduser().resolve()
