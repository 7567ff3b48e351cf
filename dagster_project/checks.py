"""A manifest's checks as one blocking asset check: nothing downstream runs on data that failed."""

from __future__ import annotations

import dagster as dg

from pipelines.manifest import Manifest

NAME = "checks_passed"


def spec(key: dg.AssetKey) -> dg.AssetCheckSpec:
    """The check of an asset."""
    return dg.AssetCheckSpec(
        NAME, asset=key, blocking=True, description="All checks of the manifest: what was found, what was expected."
    )


def result(manifest: Manifest) -> dg.AssetCheckResult:
    """Passed iff the manifest has checks and all of them passed; each is listed with what was found."""
    failed = [check for check in manifest.checks if not check.passed]
    columns = [dg.TableColumn(name) for name in ("check", "passed", "found", "expected")]
    records = [
        dg.TableRecord({"check": c.name, "passed": c.passed, "found": c.found, "expected": c.expected})
        for c in manifest.checks
    ]
    passed = manifest.checks_passed and bool(manifest.checks)
    told = "; ".join(f"{c.name}: found {c.found}, expected {c.expected}" for c in failed)
    return dg.AssetCheckResult(
        check_name=NAME,
        passed=passed,
        severity=dg.AssetCheckSeverity.ERROR,
        description=told or (None if passed else "the manifest has no checks"),
        metadata={
            "checks": dg.TableMetadataValue(records, dg.TableSchema(columns)),
            "failed": len(failed),
            "version": manifest.version,
        },
    )
