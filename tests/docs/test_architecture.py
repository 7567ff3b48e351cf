"""The page of the architecture shows the layers that the contracts hold the code to."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "bench"))

from architecture import TOPS, folders  # noqa: E402


def test_the_page_and_its_picture_are_what_the_contracts_say() -> None:
    checked = subprocess.run(
        [sys.executable, ROOT / "bench" / "architecture.py", "--check"], capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_every_room_is_named_by_its_folders_contract() -> None:
    for folder in folders():
        named = {room for layer in folder.layers for room in layer}
        there = {
            path.stem
            for path in (ROOT / folder.name).iterdir()
            if path.stem != "__init__" and (path.suffix == ".py" or (path / "__init__.py").exists())
        }
        assert named == there, f"{folder.name}: not in its contract, or not there: {sorted(named ^ there)}"


def test_every_folder_has_a_contract() -> None:
    assert [folder.name for folder in folders()] == list(TOPS)
