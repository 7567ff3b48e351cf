"""The runbook has a line for every check that the code declares, and none for one that it doesn't."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from dagster_project.assets import checks, runbook_page
from dagster_project.settings.deployment import Deployment
from dagster_project.stages import experiments, graph
from pipelines.store.manifest import CheckSpec

ROOT = Path(__file__).parents[2]
FOLDERS = ("schemas", "pipelines", "quality", "generators", "trainer", "dagster_project")
LINE = re.compile(r'^\| <a id="(\w+)"></a>`([^`]+)` \| (blocks|warns) \|([^|]*)\|([^|]*)\|([^|]*)\|$', re.MULTILINE)
PAGE = (ROOT / "docs/runbook.md").read_text(encoding="utf-8")


def calls(name: str) -> list[tuple[Path, ast.Call]]:
    """Every call of a name in the code."""
    found = []
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if f"{name}(" in text:
                nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
                found += [(path, node) for node in nodes if getattr(node.func, "id", "") == name]
    return found


def declared() -> dict[str, CheckSpec]:
    """Every check that is declared, by name; a name is declared once. Words and flags are literals."""
    found: dict[str, CheckSpec] = {}
    for path, call in calls("CheckSpec"):
        spec = CheckSpec(
            *map(ast.literal_eval, call.args),
            **{word.arg or "": ast.literal_eval(word.value) for word in call.keywords},
        )
        assert spec.name not in found, f"{path.name}: {spec.name!r} is declared twice"
        found[spec.name] = spec
    return found


def test_every_check_has_its_line_with_what_it_means_and_no_line_is_stale() -> None:
    lines = {name: (anchor, word, means.strip(), *more) for anchor, name, word, means, *more in LINE.findall(PAGE)}
    assert len(lines) == len(LINE.findall(PAGE)) == PAGE.count("</a>`"), "a line stands there twice, or lacks a cell"
    specs = declared()
    assert len(specs) > 70 and "nothing_lost" in specs and "loss fell" in specs  # it does find them
    assert set(specs) == set(lines), f"docs/runbook.md and the code differ in {sorted(set(specs) ^ set(lines))}"
    for name, spec in specs.items():
        anchor, word, means, first, act = lines[name]
        assert (anchor, word) == (spec.slug, "blocks" if spec.blocking else "warns"), name
        assert means == spec.means or means.startswith(f"{spec.means}. "), name
        assert first.strip() and act.strip(), name


def test_anchors_and_names_in_the_ui_are_unique_and_plain() -> None:
    slugs = [spec.slug for spec in declared().values()]
    assert len(set(slugs)) == len(slugs) and all(re.fullmatch(r"[A-Za-z0-9_]+", slug) for slug in slugs)


def test_no_check_is_made_that_nobody_declared() -> None:
    """`Check(**kept)` reads one back; all others come from the spec that declares them."""
    spelled = [(path, call) for path, call in calls("Check") if call.args or any(word.arg for word in call.keywords)]
    assert [path.name for path, _ in spelled] == ["manifest.py"]


def test_every_stage_declares_its_checks() -> None:
    deployment = Deployment(
        raw_root=Path("/nowhere"), exports=({"form": "llama-factory"}, {"kind": "checkpoint", "form": "hub"})
    )
    stages = {**graph.stages(deployment), **experiments.stages(deployment)}
    assert not [key for key, stage in stages.items() if checks.declared(stage) == (checks.ALL,)]
    shown = {spec for stage in stages.values() for spec in stage.checks}
    elsewhere = {"checks_passed", "rows", "the folder holds rows", "taken down", "the judge agrees with people"}
    assert {spec.name for spec in shown} == set(declared()) - elsewhere


def test_the_ui_is_told_what_the_line_says() -> None:
    facts = checks.runbook(declared()["nothing_lost"])
    assert "adapter" in str(facts["look first"].value) and "fixture" in str(facts["then do"].value)
    assert facts["runbook"].value == "/runbook#nothing_lost"


def test_each_line_is_read_by_the_checks_themselves() -> None:
    specs = declared().values()
    assert [spec.name for spec in specs if not {"look first", "then do"} <= set(checks.runbook(spec))] == []


def test_the_page_of_the_ui_has_each_line_at_the_anchor_that_checks_link_to() -> None:
    page = runbook_page.runbook_page()
    assert [spec.slug for spec in declared().values() if f"<section id={spec.slug}>" not in page] == []
    assert "docs/" not in page.partition("<section")[0] and "<a " not in page and "](" not in page
