"""A manifest as an asset's metadata: numbers that plot over nights, ages of inputs, pictures."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa

from dagster_project.graph import Stage
from pipelines.manifest import Manifest
from pipelines.store import Store

MAX_NUMBERS = 60
"""More numeric entries than this are no plots anyone opens; the rest goes into one JSON entry."""


def row_count(stage: Stage, manifest: Manifest) -> int:
    """Rows of the asset's main table; where it has none, its (native) files."""
    if stage.table:
        return manifest.rows(stage.table)
    return int(manifest.counts.get("files", len(manifest.files)))


def describe(stage: Stage, manifest: Manifest, store: Store) -> dict[str, Any]:
    """All metadata of a materialisation."""
    metadata: dict[str, Any] = {  # pictures first: they are what people open the page for
        **{name: dg.MetadataValue.md(png) for name, png in _pictures(stage, manifest, store).items()},
        "dagster/row_count": row_count(stage, manifest),
        "version": manifest.version,
        "files": len(manifest.files),
        "bytes": sum(entry.bytes for entry in (*manifest.files, *manifest.side_files)),
        "folder": dg.MetadataValue.path(str(manifest.directory)),
        "inputs": _inputs(manifest, store),
    }
    if stage.columns is not None:
        metadata["dagster/column_schema"] = column_schema(stage.columns)
    if manifest.asset.startswith("cards/"):
        metadata["card"] = dg.MetadataValue.md(manifest.file("card.md").read_text(encoding="utf-8"))
        metadata["page"] = dg.MetadataValue.path(str(manifest.file("card.html")))
    if manifest.asset == "hygiene/safety":
        metadata["licences"] = dg.MetadataValue.md(manifest.file("licences.md").read_text(encoding="utf-8"))
    if manifest.asset == "leaderboard/standings":
        metadata["standings"] = dg.MetadataValue.md(manifest.file("standings.md").read_text(encoding="utf-8"))
    found = dict(_numbers(manifest.counts))
    metadata |= dict(list(found.items())[:MAX_NUMBERS])
    metadata["counts"] = dg.MetadataValue.json(_plain(manifest.counts))
    return metadata


def _pictures(stage: Stage, manifest: Manifest, store: Store) -> dict[str, str]:
    from dagster_project import pictures

    try:
        return pictures.of(manifest, store)
    except (OSError, ValueError, KeyError, RuntimeError) as error:  # a picture isn't worth a night's run
        return {"picture": f"not drawn: {type(error).__name__}: {error}"}


def _numbers(counts: Mapping[str, Any], prefix: str = "") -> list[tuple[str, int | float]]:
    """Numbers of nested counts, named by their path."""
    found: list[tuple[str, int | float]] = []
    for name, value in counts.items():
        if isinstance(value, bool) or value is None:
            continue
        if isinstance(value, int | float) and value == value and abs(value) < 2**62:
            found.append((f"{prefix}{name}", value))
        elif isinstance(value, Mapping):
            found += _numbers(value, f"{prefix}{name}: ")
    return found


def _plain(value: Any) -> Any:
    """JSON-able, with NaN as null."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and value != value else value


def _inputs(manifest: Manifest, store: Store) -> dg.TableMetadataValue:
    """What it was made from, and how old that was."""
    now = datetime.datetime.now(datetime.UTC)
    records = []
    for asset, version in sorted(manifest.inputs.items()):
        path = Path(store.root(asset)) / version / "manifest.json"
        made = datetime.datetime.fromtimestamp(path.stat().st_mtime, datetime.UTC) if path.exists() else None
        age = f"{(now - made).total_seconds() / 3600:.1f} h" if made else "gone"
        records.append(dg.TableRecord({"asset": asset, "version": version, "age": age}))
    schema = dg.TableSchema([dg.TableColumn(name) for name in ("asset", "version", "age")])
    return dg.TableMetadataValue(records, schema)


def column_schema(schema: pa.Schema) -> dg.TableSchema:
    """An Arrow schema as the UI shows it."""
    return dg.TableSchema(
        columns=[
            dg.TableColumn(field.name, str(field.type), constraints=dg.TableColumnConstraints(nullable=field.nullable))
            for field in schema
        ]
    )
