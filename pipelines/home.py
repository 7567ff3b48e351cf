"""Where the store lies that commands and the graph work on."""

import os
from pathlib import Path


def named_home() -> Path:
    """$VESPER_HOME as it was written, by default `.vesper` (an empty text counts as not set)."""
    return Path(os.environ.get("VESPER_HOME") or ".vesper")


def default_home() -> Path:
    """The same, whole: `.vesper` is that of the current folder."""
    return named_home().expanduser().resolve()
