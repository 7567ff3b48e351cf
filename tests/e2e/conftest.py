"""Homes of one's own with tiny embedded data."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest


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
