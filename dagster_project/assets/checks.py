"""A manifest's checks as asset checks by name: nothing downstream runs on data that failed one that blocks."""

from typing import Any

import dagster as dg

from dagster_project.assets.runbook_page import PAGE, runbook_lines
from dagster_project.settings import deployment
from dagster_project.stages.stage import GraphStage
from pipelines.markdown_text import markdown_text
from pipelines.store.manifest import Check, CheckSpec, Manifest

ALL = CheckSpec("checks_passed", "A check of the manifest failed; one that only warns shows as a warning")
"""Stands for the checks of a stage that declares none."""
WORDS = "in words"
"""The entry of a result's metadata that holds what was found and expected, as plain text."""
NOT_NOW = "not applicable now: this version has nothing for it to check"


class UndeclaredCheck(ValueError):
    """A manifest has a check that its stage doesn't declare, so that the graph has no place to show it."""


def declared(stage: GraphStage) -> tuple[CheckSpec, ...]:
    """What an asset is checked for."""
    return stage.checks or (ALL,)


def specs(stage: GraphStage) -> list[dg.AssetCheckSpec]:
    """The checks of an asset: names, meanings and severities are known before anything runs."""
    return [
        dg.AssetCheckSpec(
            spec.slug,
            asset=dg.AssetKey(stage.key.split("/")),
            blocking=spec.blocking,
            description=f"If it fails: {spec.means}. [What to do]({PAGE}#{spec.slug})",
        )
        for spec in declared(stage)
    ]


def results(stage: GraphStage, manifest: Manifest) -> list[dg.AssetCheckResult]:
    """What each declared check found. One that wasn't made passes as "not applicable now" if it is made only
    sometimes, and fails otherwise. Raises `UndeclaredCheck`."""
    if not stage.checks:
        return [_result(ALL, _all(manifest), manifest)]
    by_name = {check.name: check for check in manifest.checks}
    # A check that the graph doesn't know of would fail unseen.
    if unknown := sorted(set(by_name) - {spec.name for spec in stage.checks}):
        listed = ", ".join(map(repr, unknown))
        raise UndeclaredCheck(
            f"{manifest.asset} {manifest.version}: expected the checks that its stage declares, found also {listed}; "
            "give the stage a CheckSpec of that name (docs/add-an-asset.md)"
        )
    found = []
    for spec in stage.checks:
        # Made only sometimes, and this version has nothing for it; but a manifest without any check isn't
        # that.
        if spec.name not in by_name and spec.sometimes and by_name:
            found.append(dg.AssetCheckResult(check_name=spec.slug, passed=True, description=NOT_NOW))
        else:
            lacking = spec.check(False, "no such check in the manifest", "this check in every version")
            found.append(_result(spec, by_name.get(spec.name, lacking), manifest))
    return found


def _result(spec: CheckSpec, check: Check, manifest: Manifest) -> dg.AssetCheckResult:
    words = f"found {check.found}, expected {check.expected}"
    facts: dict[str, Any] = {  # numbers are plotted over the runs
        WORDS: dg.MetadataValue.text(words),
        "found": check.found if check.value is None else float(check.value),
        "expected": check.expected if check.limit is None else float(check.limit),
        "version": manifest.version,
        **runbook(spec),
    }
    return dg.AssetCheckResult(
        check_name=spec.slug,
        passed=check.passed,
        # A blocking check may only warn for one version: the manifest says so.
        severity=dg.AssetCheckSeverity.ERROR if check.blocking else dg.AssetCheckSeverity.WARN,
        description=markdown_text(words),  # the UI reads it as Markdown, and names of files are in it
        metadata=facts,
    )


def _all(manifest: Manifest) -> Check:
    """All checks as one, for a stage that doesn't say which there are; a manifest without any doesn't pass."""
    failed = [check for check in manifest.checks if not check.passed]
    found = "; ".join(f"{check.name}: found {check.found}, expected {check.expected}" for check in failed)
    passed = not failed and bool(manifest.checks)
    none = "no checks in the manifest" if not manifest.checks else f"{len(manifest.checks)} passed"
    # A manifest without any checks is one that nobody looked at, and doesn't pass.
    blocking = not manifest.checks or not manifest.checks_passed
    return ALL.check(passed, found or none, "all checks passed", len(failed), 0, blocking=blocking)


def runbook(spec: CheckSpec) -> dict[str, dg.MetadataValue]:
    """What the runbook's line of a check says (nothing, for a check of a stage of your own), and where that line is."""
    texts = zip(("look first", "then do"), runbook_lines().get(spec.slug, ())[3:], strict=False)
    facts: dict[str, dg.MetadataValue] = {name: dg.MetadataValue.text(text) for name, text in texts}
    return {**facts, "runbook": dg.MetadataValue.url(f"{deployment.load().runbook or PAGE}#{spec.slug}")}
