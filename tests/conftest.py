"""Fixtures that all tests share."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from pipelines.store import Store

ROOT = Path(__file__).parents[1]

# A busy machine is no failure: properties are held to their claims, not to milliseconds.
settings.register_profile("vesper", deadline=None, print_blob=True)
settings.load_profile("vesper")

os.environ.setdefault("OMP_NUM_THREADS", "2")
os.environ.setdefault("DAGSTER_DISABLE_TELEMETRY", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")


@pytest.fixture(scope="session")
def samples_dir() -> Callable[[str], Path]:
    """Folder of a source's real records, which lie outside the repository; skips where they aren't there."""

    def find(source: str) -> Path:
        path = (ROOT / "../shared/sources/samples" / source).resolve()
        if not path.is_dir():
            pytest.skip(f"no real records of {source} beside this checkout")
        return path

    return find


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store."""
    return Store(tmp_path / "home")
