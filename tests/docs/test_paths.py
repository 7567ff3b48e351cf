"""Paths, modules and citations that pages and docstrings give are there: a move that forgets one is found here."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("schemas", "pipelines", "quality", "generators", "trainer", "dagster_project", "vesper")
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
GIVEN = {
    "bench/judge",  # an asset
    "deploy/.env",
    "deploy/secrets/",
    "docs/log.md",
    "pipelines/sources/taps.py",
    "quality/judges/landing.py",
    "tests/fixtures/taps.py",
}
"""Assets, what a deployment writes, what the pages tell a reader to write, and what has gone."""
SLASHED = re.compile(rf"`((?:{'|'.join(FOLDERS)}|tests|bench|deploy|docs)/[\w./-]*)`")
DOTTED = re.compile(rf"`((?:{'|'.join(FOLDERS)})(?:\.\w+)+)")


@cache
def names_of(path: Path) -> frozenset[str]:
    """What a module defines or imports at its top, and the members of its classes."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        for inner in (node, *(node.body if isinstance(node, ast.ClassDef | ast.If | ast.Try) else ())):
            found.add(getattr(inner, "name", ""))
            targets = inner.targets if isinstance(inner, ast.Assign) else [getattr(inner, "target", None)]
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
            if isinstance(inner, ast.Import | ast.ImportFrom):
                found |= {(alias.asname or alias.name).partition(".")[0] for alias in inner.names}
    return frozenset(found)


def leads_somewhere(dotted: str) -> bool:
    """Whether a dotted name is a module or package here, or a name in one."""
    place, words = ROOT, dotted.split(".")
    while words and (place / words[0]).is_dir():
        place /= words.pop(0)
    if words and (place / f"{words[0]}.py").is_file():
        module = place / f"{words.pop(0)}.py"
    else:
        module = place / "__init__.py"
    return not words or (module.is_file() and words[0] in names_of(module))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_names_is_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    missing = [path for path in SLASHED.findall(text) if path not in GIVEN and not (ROOT / path).exists()]
    missing += [name for name in DOTTED.findall(text) if not leads_somewhere(name)]
    cited = re.findall(rf"`(\w+)`\s+in\s+`((?:{'|'.join(FOLDERS)})/[\w/]+\.py)`", text)
    missing += [
        f"{name} in {path}" for name, path in cited if (ROOT / path).exists() and name not in names_of(ROOT / path)
    ]
    assert not missing, f"{page.name} names {sorted(set(missing))}, which isn't there: correct the page"


def test_sections_that_are_cited_are_there() -> None:
    method = (ROOT / "docs/method.md").read_text(encoding="utf-8")
    sections = set(re.findall(r"^## (\d+)\. ", method, re.MULTILINE))
    cited = 0
    for folder in (*FOLDERS, "tests", "bench"):
        for path in (ROOT / folder).rglob("*.py"):
            for number in re.findall(r"docs/method\.md §(\d+)", path.read_text(encoding="utf-8")):
                assert number in sections, f"{path.relative_to(ROOT)} cites docs/method.md §{number}"
                cited += 1
    assert cited > 20, "hardly anything cites the method: has its page moved?"


def test_a_wrong_name_is_found() -> None:
    assert leads_somewhere("schemas.actions.parse") and leads_somewhere("schemas")
    assert not leads_somewhere("schemas.actions.nothing") and not leads_somewhere("schemas.nothing")
