"""A manifest's checks as one blocking asset check: nothing downstream runs on data that failed."""

from __future__ import annotations

import dagster as dg

from pipelines.store.manifest import Manifest

NAME = "checks_passed"
FIELDS = {"check": "name", "passed": "passed", "blocking": "blocking", "found": "found", "expected": "expected"}
"""Column of the table → field of `Check`."""


def spec(key: dg.AssetKey) -> dg.AssetCheckSpec:
    """The check of an asset."""
    return dg.AssetCheckSpec(
        NAME, asset=key, blocking=True, description="All checks of the manifest: what was found, what was expected."
    )


def result(manifest: Manifest) -> dg.AssetCheckResult:
    """Passed iff the manifest has checks and all of them passed; each is listed with what was found.

    A failed check of the manifest that doesn't block is a WARN here: shown as failed, and downstream runs.
    """
    failed = [check for check in manifest.checks if not check.passed]
    columns = [dg.TableColumn(name) for name in ("check", "passed", "blocking", "found", "expected")]
    records = [dg.TableRecord({c.name: getattr(check, FIELDS[c.name]) for c in columns}) for check in manifest.checks]
    passed = not failed and bool(manifest.checks)
    blocked = not manifest.checks or not manifest.checks_passed
    text = "; ".join(f"{c.name}: found {c.found}, expected {c.expected}" for c in failed)
    return dg.AssetCheckResult(
        check_name=NAME,
        passed=passed,
        severity=dg.AssetCheckSeverity.ERROR if blocked else dg.AssetCheckSeverity.WARN,
        description=text or (None if passed else "the manifest has no checks"),
        metadata={
            "checks": dg.TableMetadataValue(records, dg.TableSchema(columns)),
            "failed": len(failed),
            "version": manifest.version,
        },
    )
