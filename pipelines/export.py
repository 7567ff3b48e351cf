"""`vesper unify`: a source's native files → plain files in a folder, for use without a store.

OUT/steps-<part>.parquet  samples-<part>.parquet  screens-<part>.parquet  screens/ab/<sha256>.<ext>
OUT/quarantine.jsonl      one line per rejected native unit
OUT/report.json           native units in, mapped, quarantined; reasons; loss table
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipelines import sources
from pipelines.adapter import Raw
from pipelines.storage.manifest import Manifest
from pipelines.store import Store
from pipelines.unify import unify_source
from schemas.tables import Quarantine


def unify_directory(source: str, raw: Raw, out: Path, *, beam_options: Sequence[str] = ()) -> dict[str, Any]:
    """Unify into a folder; returns the report. A second call with equal inputs does no work.

    The store that makes resuming possible lies in `OUT/.store`; the exported files are copies, so editing one harms
    nothing. Raises `ValueError` for an unknown source or a folder without its files.
    """
    adapter = sources.get(source)
    if not raw.root.is_dir():
        raise ValueError(f"raw folder: expected a folder, found none at {raw.root}")
    out.mkdir(parents=True, exist_ok=True)
    store = Store(out / ".store")
    manifest = unify_source(store, source, raw, beam_options=beam_options)
    for stale in (*out.glob("*-*.parquet"), *out.glob("screens/*/*")):
        stale.unlink()
    for entry in manifest.files:
        if entry.table and (entry.rows or 0) > 0 and entry.table != "quarantine":
            part = entry.path.rpartition("/part-")[2].removesuffix(f".{entry.table}.parquet")
            _copy(manifest.root / entry.path, out / f"{entry.table}-{part}.parquet")
    for screen in manifest.read("screens", columns=["screenshot_sha256"]).to_pylist():
        path = store.screen_path(screen["screenshot_sha256"])
        _copy(path, out / "screens" / path.parent.name / path.name)
    report = make_report(manifest, adapter.descriptor.record_unit, adapter.descriptor.item_unit)
    with (out / "quarantine.jsonl").open("w", encoding="utf-8") as stream:
        for row in manifest.read("quarantine", Quarantine.schema).to_pylist():
            stream.write(json.dumps(row, ensure_ascii=False, sort_keys=True) + "\n")
    text = json.dumps(report, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    (out / "report.json").write_text(text, encoding="utf-8")
    return report


def make_report(manifest: Manifest, record_unit: str, item_unit: str) -> dict[str, Any]:
    """The counts of a `unified/<source>` manifest as people read them."""
    counts = manifest.counts
    return {
        "source": manifest.asset.rpartition("/")[2],
        "data_version": manifest.data_version,
        "records": {
            "unit": record_unit, "in": counts["records_in"], "mapped": counts["records_mapped"],
            "quarantined": counts["records_quarantined"],
        },
        "items": {
            "unit": item_unit, "in": counts["items_in"], "mapped": counts["items_mapped"],
            "quarantined": counts["items_quarantined"],
        },
        "rows": {table: manifest.rows(table) for table in ("steps", "samples", "screens", "quarantine")},
        "images_missing": counts["images_missing"],
        "images_broken": counts["images_broken"],
        "quarantine_reasons": counts["reasons"],
        "loss": counts["losses"],
        "checks": {check.name: check.passed for check in manifest.checks},
    }  # fmt: skip


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
