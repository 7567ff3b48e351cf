"""Vesper installed from its wheel, away from any checkout: all files are in it, and commands find theirs.

The environment has the dependencies of the one that runs the tests, but not the checkout: the folder of these packages
is only put on the path, so that nothing in it is processed which leads back here.
"""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest
from native import fixture as native_fixture

CHECKOUT = Path(__file__).parents[2]
FOLDERS = ("schemas", "pipelines", "quality", "generators", "trainer", "dagster_project", "vesper")
BESIDE = ("pyproject.toml", "README.md", "LICENSE")

pytestmark = pytest.mark.slow


def run(*command: str | Path, cwd: Path, timeout_s: float = 240, **more: str) -> str:
    """What a program prints that has to succeed, with nothing of this checkout in its environment."""
    env = {key: value for key, value in os.environ.items() if key in ("HOME", "LANG", "PATH", "TMPDIR")}
    ended = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env={**env, **more},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    return ended.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy: building leaves folders behind."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in FOLDERS:
        shutil.copytree(CHECKOUT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in BESIDE:
        shutil.copy(CHECKOUT / name, source / name)
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation")
    run(*pip, "--wheel-dir", out, source, cwd=out)
    return next(out.glob("vesper-*.whl"))


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`bin` of an environment with the wheel and the dependencies."""
    root = tmp_path_factory.mktemp("environment")
    venv.create(root, with_pip=False)
    # what is imported is compiled then; all of it would take longer than what is done with it
    install = ("install", "--quiet", "--no-deps", "--no-index", "--no-compile")
    run(sys.executable, "-m", "pip", "--python", root, *install, wheel, cwd=root)
    packages = next(root.glob("lib/python*/site-packages"))
    (packages / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return root / "bin"


def test_every_file_of_the_folders_is_in_the_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        there = set(packed.namelist())
    ours = {
        path.relative_to(CHECKOUT).as_posix()
        for name in FOLDERS
        for path in (CHECKOUT / name).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert ours - there == set()
    assert {name for name in there if not name.startswith(FOLDERS) or ".dist-info/" in name} == {
        name for name in there if ".dist-info/" in name
    }


def test_modules_that_open_files_beside_them_find_these(programs: Path, tmp_path: Path) -> None:
    modules = sorted(
        ".".join(path.relative_to(CHECKOUT).with_suffix("").parts).removesuffix(".__init__")
        for name in FOLDERS
        for path in (CHECKOUT / name).rglob("*.py")
        if "__file__" in (text := path.read_text())  # few have it, and to parse all would take longer than the rest
        and any(isinstance(node, ast.Name) and node.id == "__file__" for node in ast.walk(ast.parse(text)))
    )
    code = (
        "import importlib, json, sys\n"
        f"found = [importlib.import_module(name).__file__ for name in {modules!r}]\n"
        "from generators.devices.drivers.cdp_page import resources\n"
        "from dagster_project.assets.runbook_page import RUNBOOK\n"
        "from dagster_project.settings import dagster_home, deployment\n"
        "from generators.policies.agent_prompt import _FOLDER as agent\n"
        "from pipelines.prompts import _FOLDER as prompts, template\n"
        "from quality.review.server import PAGE\n"
        "from trainer.presets import NANO_BASE\n"
        "template('navigation')\n"
        "opened = [deployment.FILE, dagster_home.TEMPLATE, dagster_home.POSTGRES, NANO_BASE / 'model.safetensors']\n"
        "opened += [PAGE / 'index.html', RUNBOOK, *agent.iterdir(), *prompts.iterdir()]\n"
        "assert all(path.exists() for path in opened), opened\n"
        "import dagster_project.definitions\n"
        "print(json.dumps(found))"
    )
    found = json.loads(run(programs / "python", "-c", code, cwd=tmp_path, VESPER_HOME=str(tmp_path / "home")))
    assert len(found) == len(modules) > 20
    assert all(Path(path).is_relative_to(programs.parent) for path in found)


def test_native_files_become_shards_in_another_folder(programs: Path, tmp_path: Path) -> None:
    native_fixture("aitz").write(tmp_path / "aitz")
    vesper = programs / "vesper"
    assert run(vesper, "--version", cwd=tmp_path).split()[0] == "vesper"
    assert run(programs / "python", "-m", "vesper", "--version", cwd=tmp_path) == run(vesper, "--version", cwd=tmp_path)
    assert "android_control" in run(vesper, "sources", "list", cwd=tmp_path)
    run(vesper, "unify", "aitz", "--raw", "aitz/raw", "--out", "out", cwd=tmp_path)
    run(vesper, "refine", "out", "--out", "gold", cwd=tmp_path)
    run(vesper, "shard", "gold", "--out", "shards", cwd=tmp_path)
    code = "import datasets; print(datasets.load_dataset('shards', split='train')[0]['images'][0].size)"
    assert run(programs / "python", "-c", code, cwd=tmp_path, HF_HOME=str(tmp_path)).startswith("(")


@pytest.mark.real_parts
@pytest.mark.timeout(3600)
def test_a_first_look_runs_from_the_wheel(programs: Path, tmp_path: Path) -> None:
    """Raw files to a merged agent, in an environment without the checkout, and the store opened by `import vesper`."""
    words = ("demo", "--size", "tiny", "--home", "home", "--report", "first.json")
    told = run(programs / "vesper", *words, cwd=tmp_path, timeout_s=3500)
    found = json.loads((tmp_path / "first.json").read_text())
    assert found["failed"] == {} and "A first look" in told and (tmp_path / "first.html").stat().st_size > 10_000
    code = (
        "import vesper\n"
        "store = vesper.open('home')\n"
        "agent = store.checkpoint('unified')\n"
        "print(len(store.corpus()) > 1000, len(store.pool()) > 10, (agent.path / 'model.safetensors').is_file())"
    )
    assert run(programs / "python", "-c", code, cwd=tmp_path).split() == ["True"] * 3
