"""The engine of docs/add-an-engine.md, as it stands there: the contract of all engines runs over it, and a command."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import native
import pytest

from dagster_project.cli import main
from pipelines.store import Store

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/add-an-engine.md"
REGISTER = """
from pathlib import Path

from pipelines.engines.run_parts import ENGINES
from pipelines.extensions import find_part

ENGINES["jobs"] = find_part("engine", f"{Path(__file__).parent / 'jobs.py'}:Jobs", ENGINES)
"""


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "jobs.py").write_text(code, encoding="utf-8")
    return tmp_path / "jobs.py"


def test_the_page_s_engine_keeps_the_contract(engine: Path) -> None:
    (engine.parent / "register_jobs.py").write_text(REGISTER, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(engine.parent), str(ROOT)])}
    for name in [word for word in environment if word.startswith("PYTEST_")]:  # a run of its own, not a worker's
        del environment[name]
    words = ["-q", "-p", "register_jobs", "-p", "no:cacheprovider", "-p", "no:xdist", "-k", "jobs"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *words, "tests/pipelines/engines/test_engine_contract.py"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-2000:]
    passed = re.search(r"(\d+) passed", ran.stdout)
    assert passed and int(passed[1]) >= 4, ran.stdout


def test_a_command_takes_it_by_its_path(engine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    native.fixture("mind2web").write(tmp_path)
    words = ["unify", "mind2web", "--raw", str(tmp_path / "raw"), "--damaged-files", "0.5"]
    by = ["--engine", f"{engine}:Jobs", "--workers", "2", "--engine-option=nice"]
    assert main([*words, "--out", str(tmp_path / "one")]) == 0
    assert main([*words, "--out", str(tmp_path / "two"), *by]) == 0
    versions = [Store(tmp_path / out / ".store").require("unified/mind2web").data_version for out in ("one", "two")]
    assert versions[0] == versions[1]
