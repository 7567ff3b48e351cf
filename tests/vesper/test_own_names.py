"""Packages of other people that are called as ours are: refused, or told of, at each way into Vesper."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
WAYS_IN = {
    "import": ["-c", "import vesper"],
    "command": ["-m", "vesper", "--version"],
    "torchrun's command": ["-m", "dagster_project.cli", "--version"],
    "definitions": ["-c", "import dagster_project.definitions"],
}


def run(path: list[Path], *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Python with these folders first on its path."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
    return subprocess.run([sys.executable, *arguments], cwd=cwd, env=env, capture_output=True, text=True, timeout=120)


def package(folder: Path, name: str, text: str = "WHOSE = 'theirs'\n") -> Path:
    """A package of that name in a folder, which is returned."""
    (folder / name).mkdir(parents=True)
    (folder / name / "__init__.py").write_text(text)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS_IN)
@pytest.mark.parametrize("name", ["quality", "schemas"])
def test_anothers_package_before_ours_is_refused_in_one_line(tmp_path: Path, name: str, way: str) -> None:
    theirs = package(tmp_path / "theirs", name)
    ended = run([theirs, CHECKOUT], *WAYS_IN[way], cwd=tmp_path)
    told = ended.stderr.strip().splitlines()
    assert ended.returncode == (1 if "-c" in WAYS_IN[way] else 2)
    assert f"the package `{name}` is another's: found {theirs / name / '__init__.py'}, expected {CHECKOUT}" in told[-1]
    assert f"take {theirs} off the path" in told[-1]
    if "-m" in WAYS_IN[way]:
        assert len(told) == 1


def test_a_single_module_of_that_name_in_the_current_folder_is_refused_too(tmp_path: Path) -> None:
    (tmp_path / "trainer.py").write_text("")
    ended = run([CHECKOUT], "-m", "vesper", "--version", cwd=tmp_path)  # -m puts the current folder first
    assert ended.returncode == 2
    assert f"found {tmp_path / 'trainer.py'}" in ended.stderr


@pytest.mark.parametrize("way", ["import", "command"])
def test_anothers_package_behind_ours_is_told_of_and_works_on(tmp_path: Path, way: str) -> None:
    theirs = package(tmp_path / "theirs", "pipelines")
    (tmp_path / "start").mkdir()
    ended = run([CHECKOUT, theirs], *WAYS_IN[way], cwd=tmp_path / "start")
    assert ended.returncode == 0
    assert "two packages are called `pipelines`" in ended.stderr
    assert str(theirs / "pipelines" / "__init__.py") in ended.stderr
    # From 3.13 on Python shows the line of a `-c` that a warning is about below it, moved in.
    assert len([line for line in ended.stderr.splitlines() if not line.startswith("  ")]) == 1


def test_folders_without_a_package_and_other_copies_of_vesper_are_nobodys_business(tmp_path: Path) -> None:
    (tmp_path / "quality").mkdir()
    copy = package(package(tmp_path / "copy", "vesper"), "schemas")
    ended = run([CHECKOUT, copy], "-W", "error", "-c", "import vesper", cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")


def installed(folder: Path, *, but: str = "") -> Path:
    """The packages with the record that an installer makes of them; afterwards `but` is written over."""
    lines = []
    for name in ("vesper", "schemas", "pipelines", "quality", "generators", "trainer", "dagster_project"):
        shutil.copytree(CHECKOUT / name, folder / name, ignore=lambda *_: ["__pycache__", "weights"])
        data = (folder / name / "__init__.py").read_bytes()
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{name}/__init__.py,sha256={digest},{len(data)}\n")
    (folder / "vesper-9.dist-info").mkdir()
    (folder / "vesper-9.dist-info" / "RECORD").write_text("".join(lines))
    (folder / "vesper-9.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: vesper\nVersion: 9\n")
    if but:
        (folder / but / "__init__.py").write_text("")
        (folder / "theirs-1.dist-info").mkdir()
        (folder / "theirs-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1\n")
        (folder / "theirs-1.dist-info" / "RECORD").write_text(f"{but}/__init__.py,,\n")
    return folder


@pytest.mark.slow
def test_a_package_that_an_installer_wrote_over_ours_is_named_with_the_line_that_mends_it(tmp_path: Path) -> None:
    whole = run([installed(tmp_path / "whole")], "-W", "error", "-c", "import vesper", cwd=tmp_path)
    assert (whole.returncode, whole.stderr) == (0, "")
    broken = installed(tmp_path / "broken", but="generators")
    ended = run([broken], "-m", "vesper", "--version", cwd=tmp_path)
    assert ended.returncode == 2
    assert "the package `generators` was written over by another of that name" in ended.stderr
    assert "`pip uninstall theirs` and install Vesper again" in ended.stderr


def test_import_vesper_loads_nothing_heavy_and_has_the_version(tmp_path: Path) -> None:
    code = (
        "import sys, time; began = time.perf_counter(); import vesper; took = time.perf_counter() - began\n"
        "heavy = {'torch', 'dagster', 'pyarrow', 'numpy', 'pydantic'} & set(sys.modules)\n"
        "print(vesper.__version__, sorted(heavy), took < 0.3)"
    )
    ended = run([CHECKOUT], "-c", code, cwd=tmp_path)
    version = run([CHECKOUT], "-m", "vesper", "--version", cwd=tmp_path).stdout.split()
    assert ended.stdout.split(maxsplit=1) == [version[1], "[] True\n"]
    assert version[0] == "vesper"
