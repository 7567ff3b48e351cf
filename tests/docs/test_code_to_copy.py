"""Files that a page gives to be copied pass the project's lint as they stand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").glob("add-a*.md"))


def files_of(page: Path) -> list[str]:
    """The blocks of a page that are whole files: those that begin with a module's docstring."""
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    return [block for block in blocks if block.startswith('"""')]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_gives_to_copy_is_formatted_and_clean(page: Path, tmp_path: Path) -> None:
    assert files_of(page), f"{page}: no file to copy"
    for number, text in enumerate(files_of(page)):
        (tmp_path / f"file_{number}.py").write_text(text, encoding="utf-8")
    ruff, settings = [sys.executable, "-m", "ruff"], ["--config", str(ROOT / "pyproject.toml"), str(tmp_path)]
    for command in (["check", *settings], ["format", "--diff", *settings]):
        ran = subprocess.run([*ruff, *command], capture_output=True, text=True)
        assert ran.returncode == 0, ran.stdout + ran.stderr
