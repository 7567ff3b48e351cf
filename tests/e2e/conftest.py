"""Tiny embedded data, made once for all end-to-end tests of a run, whichever worker asks first."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from generators.browser import BrowserMissing, find_chromium
from generators.embedded import build_raw
from pipelines.store import Store


@pytest.fixture(scope="session")
def tiny_home(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """`tiny_home("rico", "aitz")`: a $VESPER_HOME that holds these sources' raw assets. Not to be written."""
    base = tmp_path_factory.getbasetemp()
    home = (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "tiny-home"

    def make(*sources: str) -> Path:
        try:
            find_chromium()
        except BrowserMissing as error:
            pytest.skip(str(error))
        home.mkdir(exist_ok=True)
        with (home.parent / "tiny-home.lock").open("w") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            for source in sources:
                build_raw(Store(home), source, home / "raw" / source, size="tiny")
        return home

    return make


@pytest.fixture
def copy_of_tiny(tiny_home: Callable[..., Path], tmp_path: Path) -> Callable[..., Path]:
    """`copy_of_tiny("a", "aitz")`: a $VESPER_HOME of one's own, `tmp_path/a`, with these sources' raw data."""

    def copy(name: str, *sources: str) -> Path:
        made = tiny_home(*sources)
        for source in sources:
            for folder in (f"raw/{source}", f"assets/raw/{source}"):
                shutil.copytree(made / folder, tmp_path / name / folder)
            for kind in ("_receipts/{}.json", "_truth/{}.jsonl"):
                target = tmp_path / name / "raw" / kind.format(source)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(made / "raw" / kind.format(source), target)
        return tmp_path / name

    return copy
