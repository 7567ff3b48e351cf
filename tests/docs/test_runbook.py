"""The runbook has a line for every check that the code makes, and none for one that it doesn't."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("schemas", "pipelines", "quality", "generators", "trainer", "dagster_project")
LINE = re.compile(r"^\| `([^`]+)` \| (blocks|warns) \|(.*)\|(.*)\|(.*)\|$", re.MULTILINE)
MADE = ("Check", "AssetCheckSpec")


def checks_in_code() -> dict[str, set[bool]]:
    """Name → whether it blocks, for every call that makes a check. `Check(**kept)` reads one back and makes none;
    a name that isn't written out (`NAME`) is looked up in its module."""
    found: dict[str, set[bool]] = defaultdict(set)
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if not any(f"{word}(" in text for word in MADE):
                continue
            tree = ast.parse(text)
            constants = {
                target.id: node.value.value
                for node in tree.body
                if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
                for target in node.targets
                if isinstance(target, ast.Name)
            }
            for call in ast.walk(tree):
                if isinstance(call, ast.Call) and _called(call) in MADE and (call.args or _word(call, "name")):
                    found[_name(call, constants, path)].add(_blocks(call))
    return found


def _called(call: ast.Call) -> str:
    return getattr(call.func, "id", "") or getattr(call.func, "attr", "")


def _word(call: ast.Call, name: str) -> ast.expr | None:
    return next((word.value for word in call.keywords if word.arg == name), None)


def _name(call: ast.Call, constants: Mapping[str, object], path: Path) -> str:
    node = call.args[0] if call.args else _word(call, "name")
    value = constants.get(node.id) if isinstance(node, ast.Name) else getattr(node, "value", None)
    assert isinstance(value, str), f"{path.name}:{call.lineno}: the runbook's test can't read this check's name"
    return value


def _blocks(call: ast.Call) -> bool:
    """Whether it blocks at least sometimes. Checks of manifests block unless they say otherwise, Dagster's don't."""
    blocking = _word(call, "blocking")
    if blocking is None:
        return _called(call) == "Check"
    return not (isinstance(blocking, ast.Constant) and blocking.value is False)


def test_every_check_has_its_line_and_no_line_is_stale() -> None:
    page = (ROOT / "docs/runbook.md").read_text(encoding="utf-8")
    lines: dict[str, set[bool]] = defaultdict(set)
    for name, word, *cells in LINE.findall(page):
        assert name not in lines, f"docs/runbook.md: {name!r} stands there twice"
        assert all(len(cell.split()) >= 1 for cell in cells), f"docs/runbook.md: {name!r} lacks a cell"
        lines[name].add(word == "blocks")
    code = checks_in_code()
    assert len(code) > 50 and "nothing_lost" in code and "loss fell" in code  # it does find them
    assert not set(code) - set(lines), f"docs/runbook.md needs a line for {sorted(set(code) - set(lines))}"
    assert not set(lines) - set(code), f"docs/runbook.md: no check is called {sorted(set(lines) - set(code))}"
    for name, blocks in code.items():
        assert lines[name] <= blocks, (
            f"docs/runbook.md: {name!r}: {'blocks' if True in blocks else 'warns'} in the code"
        )
