"""An installation without extras: every command has its help, and says which extra its work needs."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from dagster_project.cli import COMMANDS
from pipelines.extras import EXTRAS, MissingExtra, install_line, require, without_extra
from trainer.presets import NANO_BASE

pytestmark = pytest.mark.slow

CHECKOUT = Path(__file__).parents[2]
FOLDERS = ("schemas", "pipelines", "quality", "generators", "trainer", "dagster_project", "vesper")
BASE = {
    "PIL",
    "google_crc32c",
    "jiter",
    "kornia_rs",
    "numpy",
    "orjson",
    "psutil",
    "pyarrow",
    "pydantic",
    "pydantic_core",
    "pydantic_settings",
    "scipy",
    "tqdm",
    "xxhash",
    "yaml",
    "typing_extensions",
}
"""Modules of what `pip install vesper` alone brings."""
OF_THE_SYSTEM = {"android_world", "gi", "httpx2", "rapidocr", "wandb"}
"""Of no extra: a harness, a reader and a tracker that their users install, GNOME's bindings, and what comes with the
hub's client."""
BLOCKED = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in blocked:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
from vesper.__main__ import main
"""


def without(modules: set[str], code: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Python code with `main` in it, where these modules can't be imported."""
    head = f"import sys; sys.path.insert(0, {str(CHECKOUT)!r})\nblocked = {modules!r}\n{BLOCKED}"
    return subprocess.run(
        [sys.executable, "-c", head + code], cwd=cwd, capture_output=True, text=True, timeout=240, check=False
    )


KNOWN = {module for modules in EXTRAS.values() for module in modules} | BASE | OF_THE_SYSTEM
OURS = {*sys.stdlib_module_names, *FOLDERS}
MAYBE = re.compile(r"(?:^|[:;])[ \t]*(?:from[ \t]+(\w+)|import[ \t]+([\w., \t]+))", re.MULTILINE)
"""What may be an import; a line of a text may look like one, too."""


def unknown(path: Path) -> set[str]:
    """Third parties that a file imports, wherever the import stands, and that nothing above names. Only a file that may
    have one is parsed: all of them would take seconds."""
    text = path.read_text(encoding="utf-8")
    named = {
        one.split(".")[0].split()[0] for some in MAYBE.findall(text) for one in ",".join(some).split(",") if one.strip()
    }
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)) if named - KNOWN - OURS else ():
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add((node.module or "").partition(".")[0])
    return found - KNOWN - OURS


def test_whatever_is_imported_comes_with_the_base_or_with_a_named_extra() -> None:
    files = [path for folder in FOLDERS for path in (CHECKOUT / folder).rglob("*.py")]
    assert {path: found for path in files if (found := unknown(path))} == {} and len(files) > 500
    assert not BASE & {module for modules in EXTRAS.values() for module in modules}


def test_an_import_is_found_wherever_it_stands(tmp_path: Path) -> None:
    lines = [
        "import os, numpy as np",
        '"""',
        "from one import two",
        '"""',
        "def f():",
        "    from three.four import five",
    ]
    (tmp_path / "some.py").write_text("\n".join([*lines, "    if np: import six, seven.eight as nine", ""]))
    assert unknown(tmp_path / "some.py") == {"three", "six", "seven"}


def test_the_table_names_extras_that_the_project_has() -> None:
    extras = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(EXTRAS) <= set(extras)


def test_every_command_has_its_help_in_a_base_install(tmp_path: Path) -> None:
    code = f"""
for words in {[name.split() for name in COMMANDS]!r}:
    try:
        main([*words, "--help"])
    except SystemExit as ended:
        assert ended.code == 0, words
"""
    ended = without({module for modules in EXTRAS.values() for module in modules}, code, tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("usage: vesper") == len(COMMANDS)


@pytest.mark.parametrize(
    ("extra", "command"),
    [
        ("core", ["sources", "pull", "mind2web", "--to", "incoming"]),
        ("embed", ["dedup", "texts.jsonl", "--threshold", "0.9", "--out", "out"]),
        ("train", ["merge", "--method", "linear", "--base", "BASE", "--model", "BASE", "--out", "out"]),
        ("train", ["serve", "BASE", "--port", "0"]),
        ("train", ["staircase", "run", "--out", "out", "--short"]),
        ("devices", ["judge", "bench", "--judge", "rules", "--out", "out"]),
        ("devices", ["harvest", "web", "page.html", "--out", "out"]),
        ("dagster", ["demo", "--size", "tiny"]),
        ("dagster", ["web", "--port", "0"]),
    ],
)
def test_work_that_needs_an_extra_says_the_line_to_type(tmp_path: Path, extra: str, command: list[str]) -> None:
    (tmp_path / "texts.jsonl").write_text('{"id": "1", "text": "one text"}\n{"id": "2", "text": "another text"}\n')
    words = [str(NANO_BASE) if word == "BASE" else word for word in command]
    ended = without(set(EXTRAS[extra]), f"sys.exit(main({words!r}))", tmp_path)
    assert ended.returncode == 2
    told = ended.stderr.strip().splitlines()[-1]
    assert f"this needs the extra {extra!r}" in told
    assert told.endswith(f'pip install "vesper[{extra}]"')


def test_an_engine_that_needs_an_extra_says_the_line_to_type(tmp_path: Path) -> None:
    code = """
from pipelines.engines.ray import Ray
from pipelines.engines.settings import EngineChoice
Ray(EngineChoice()).map("os:fspath", ["."], print)
"""
    ended = without(set(EXTRAS["ray"]), code, tmp_path)
    assert ended.stderr.strip().endswith("no module 'ray' here): pip install \"vesper[ray]\"")


def test_only_a_missing_module_of_an_extra_is_told_so() -> None:
    assert without_extra(ModuleNotFoundError("", name="torch.nn")) is not None
    assert without_extra(ModuleNotFoundError("", name="schemas.nothing")) is None
    assert without_extra(ValueError("torch")) is None
    with pytest.raises(ModuleNotFoundError, match="nobody_has_this"):
        require("nobody_has_this")
    require("json")
    assert issubclass(MissingExtra, ImportError)
    assert install_line("train") == 'pip install "vesper[train]"'
