"""What takes long to make and several files of tests look at: made once a run, by whichever worker asks first."""

from __future__ import annotations

import fcntl
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

T = TypeVar("T")


def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that all workers of this run share."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base


def made_once(tmp_path_factory: pytest.TempPathFactory, name: str, make: Callable[[], T]) -> T:
    """What `make()` gives, or gave another file of this run. It is pickled: everyone gets a copy."""
    kept = run_folder(tmp_path_factory) / f"{name}.pickle"
    with kept.with_suffix(".lock").open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        if not kept.exists():
            made = make()
            kept.write_bytes(pickle.dumps(made))
            return made
    found: T = pickle.loads(kept.read_bytes())
    return found
