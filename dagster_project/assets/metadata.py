"""A manifest as an asset's metadata: numbers that plot over nights, ages of inputs, pictures."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg

from dagster_project.assets.copy_lines import copy_lines
from dagster_project.assets.plotted_metrics import plotted, tonight
from dagster_project.lineage.model_card import is_checkpoint
from dagster_project.pictures import asset_pictures
from dagster_project.pictures.quarantine import quarantine_table
from dagster_project.settings import deployment
from dagster_project.stages.stage import GraphStage
from pipelines.store import Store
from pipelines.store.manifest import Manifest
from pipelines.training_data.dataset_card import CARD
from quality.model_client.prices import Prices
from schemas.tables import Table
from trainer.worth import tables as worth

FIRST = 10
"""Figures of an asset that stand on its page and plot, in the order of `plotted_metrics`; the rest is in `counts`."""
COST = "cost: "


def amount(stage: GraphStage, manifest: Manifest) -> tuple[int, str]:
    """How much an asset holds: (rows of its main table, or those counted, "rows"), else (files, "files")."""
    if stage.table:
        return manifest.rows(stage.table), "rows"
    if (rows := manifest.counts.get("records", manifest.counts.get("rows"))) is not None:
        return int(rows), "rows"
    return int(manifest.counts.get("files", len(manifest.files))), "files"


@dataclass(frozen=True, slots=True)
class Confirmed:
    """When Dagster last made an asset (seconds since 1970), and the data version that this gave."""

    at: float
    data_version: str


def describe(
    stage: GraphStage, manifest: Manifest, store: Store, confirmed: Mapping[str, Confirmed] | None = None
) -> dict[str, Any]:
    """All metadata of a materialisation. `confirmed`: what is known of its inputs, by key."""
    inputs, (held, of) = input_rows(manifest, store, confirmed or {}), amount(stage, manifest)
    # Of all the gold that it could read: what is missing is said on its page.
    gold = [dep for dep in stage.deps if dep.startswith("gold/")] if stage.reads_gold else []
    left_out = [dep for dep in gold if dep not in manifest.inputs]
    metadata: dict[str, Any] = {  # pictures first: they are what people open the page for
        **{name: dg.MetadataValue.md(png) for name, png in pictures(manifest, store).items()},
        # Files are no rows: they stand among the counts.
        **({"dagster/row_count": held} if of == "rows" else {}),
        **{name: _readable(value) for name, value in list(_spent(plotted(manifest)).items())[:FIRST]},
        "version": manifest.version,
        "dagster/uri": _uri(manifest, store),
        "folder": dg.MetadataValue.path(str(manifest.directory)),
        **({"inputs": _input_table(inputs)} if inputs else {}),
    }
    if lines := copy_lines(stage, manifest):
        metadata["to copy"] = dg.MetadataValue.md(lines)
    # The night's bill is of all sources together, whichever of them is being looked at.
    if stage.pool == "judge":
        limits = deployment.load().judge
        metadata |= _spent(tonight(store, Prices(limits.price_prompt, limits.price_completion)))
    # The oldest input says how fresh the whole can be.
    if ages := [row["age_h"] for row in inputs if row["age_h"] is not None]:
        metadata["oldest input (h)"] = float(max(ages))
    if gold:  # what sees all sources says whom it does without
        # A note stands where a newer version failed, or a person went back.
        broken = [row["asset"] for row in inputs if row["asset"].startswith("gold/") and row["note"]]
        metadata |= {"sources on their last good version": len(broken), "sources without gold": len(left_out)}
        if broken or left_out:
            metadata["not fresh"] = dg.MetadataValue.text(", ".join([*broken, *left_out]))
    if stage.columns is not None:
        metadata["dagster/column_schema"] = column_schema(stage.columns)
    if manifest.asset.startswith("cards/"):
        metadata["card"] = dg.MetadataValue.md(manifest.file("card.md").read_text(encoding="utf-8"))
        metadata["page"] = dg.MetadataValue.path(str(manifest.file("card.html")))
    if manifest.asset == "hygiene/safety":
        metadata["licences"] = dg.MetadataValue.md(manifest.file("licences.md").read_text(encoding="utf-8"))
    if is_checkpoint(manifest.asset) and (card := manifest.directory / CARD).is_file():
        metadata["model card"] = dg.MetadataValue.md(card.read_text(encoding="utf-8"))
    if manifest.asset == "experiments/comparison":
        metadata["comparison"] = dg.MetadataValue.md(manifest.file("comparison.md").read_text(encoding="utf-8"))
        metadata["page"] = dg.MetadataValue.path(str(manifest.file("page.html")))
    if manifest.asset in worth.ASSETS:
        metadata["worth"] = dg.MetadataValue.md(manifest.file(worth.MARKDOWN).read_text(encoding="utf-8"))
        metadata["page"] = dg.MetadataValue.path(str(manifest.file(worth.PAGE)))
    if manifest.asset == "leaderboard/standings":
        metadata["standings"] = dg.MetadataValue.md(manifest.file("standings.md").read_text(encoding="utf-8"))
    size = sum(entry.bytes for entry in (*manifest.files, *manifest.side_files))
    stored = {"files": len(manifest.files), "bytes": size}  # all that was counted: folded, with the rarer figures
    metadata["counts"] = dg.MetadataValue.json({**stored, **_plain(manifest.counts)})
    return metadata


def of_the_run(
    metadata: Mapping[str, Any], run_id: str, seconds: float, last: dg.AssetMaterialization | None
) -> dict[str, Any]:
    """What a run adds to the metadata of a version: its costs, and that it made it; where it found the version there
    already (`last` is of the same, with the same counts), the costs of the run that did, and that nothing was done."""
    known = last.metadata if last is not None else {}
    same = [name for name in ("version", "counts") if name in known and _value(metadata[name]) == _value(known[name])]
    # Another version, or none before: this run's time is what it cost.
    if len(same) < 2 or "made by" not in known:
        own = {f"{COST}seconds": round(seconds, 2), "made by": dg.MetadataValue.dagster_run(run_id)}
        return _sorted({**metadata, **own})
    # Nothing was done here, so the costs are still those of the run that did it.
    spent = {name: value for name, value in known.items() if name.startswith(COST)}
    maker = known["made by"]
    done = dg.MetadataValue.text(f"nothing: this version was there; its costs are those of run {_value(maker)[:8]}")
    return _sorted({"done": done, **metadata, **spent, "made by": maker})


def _sorted(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """What people look at, then numbers, the lines to copy, and the rest; the inputs, of which there may be a hundred,
    and all that was counted come last."""

    def rank(entry: tuple[str, Any]) -> int:
        name, value = entry
        if name in ("done", "to copy", "inputs", "counts"):
            return {"done": 0, "to copy": 3, "inputs": 5, "counts": 6}[name]
        return 1 if isinstance(value, dg.MarkdownMetadataValue) else 2 if isinstance(_value(value), int | float) else 4

    return dict(sorted(metadata.items(), key=rank))


def _value(entry: Any) -> Any:
    return entry.value if isinstance(entry, dg.MetadataValue) else entry


def _uri(manifest: Manifest, store: Store) -> str:
    """Where the version lies: in the object store, if there is one behind the home, else its folder."""
    if store.copies is not None:
        return f"{store.copies.objects.url.rstrip('/')}/assets/{manifest.asset}/{manifest.version}"
    return manifest.directory.as_uri()


def pictures(manifest: Manifest, store: Store) -> dict[str, str]:
    """Name → Markdown of what there is to see of a version; where it can't be drawn, why not."""
    # An asset without a picture is an asset; one whose picture fails says why.
    try:
        drawn = asset_pictures.of(manifest, store)
        listed = quarantine_table(manifest, store) if manifest.asset.startswith("unified/") else ""
        return {"quarantine": listed, **drawn} if listed else drawn
    except (OSError, ValueError, TypeError, LookupError, RuntimeError) as error:  # a picture isn't worth a night's run
        return {"picture": f"not drawn: {type(error).__name__}: {error}"}


def _spent(figures: Mapping[str, int | float]) -> dict[str, int | float]:
    """Figures without costs of nought: a judge that asks no model has no bill to look at."""
    return {name: value for name, value in figures.items() if value or not name.startswith(COST)}


def _readable(value: int | float) -> int | float:
    """A fraction with four digits."""
    if isinstance(value, int):
        return value
    # Four digits: more would only wobble from night to night.
    return round(value, 1) if abs(value) >= 1000 else float(f"{value:.4g}")


def _plain(value: object) -> Any:
    """JSON-able, with NaN as null."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and value != value else value


def input_rows(manifest: Manifest, store: Store, confirmed: Mapping[str, Confirmed]) -> list[dict[str, Any]]:
    """What it was built from. `age_h`: hours since that version was last found good, by Dagster's record of the asset
    where it is of this version, else since its files were made; None if they are gone. `note` tells of a newer attempt
    that wasn't good enough to be used."""
    now = time.time()
    rows = []
    for asset, version in sorted(manifest.inputs.items()):
        seen, note = confirmed.get(asset), ""
        path = Path(store.root(asset)) / version / "manifest.json"
        built = path.stat().st_mtime if path.exists() else None
        # Made and found good are two times: a rerun that found nothing to do still confirms it.
        if seen is not None and seen.data_version and built is not None:
            if store.version(asset, version).data_version == seen.data_version:
                built = max(built, seen.at)
            elif seen.at > built:
                # Newer by Dagster's record, and other data: that attempt isn't what is used here.
                newest = f"{(now - seen.at) / 3600:.1f} h old"
                note = f"the newest ({newest}) isn't used: its checks failed, or somebody set it aside"
        age = None if built is None else round(max(now - built, 0) / 3600, 2)
        rows.append({"asset": asset, "version": version, "age_h": age, "note": note if built else "its files are gone"})
    return rows


def _input_table(rows: list[dict[str, Any]]) -> dg.TableMetadataValue:
    columns = [
        dg.TableColumn("asset"),
        dg.TableColumn("version"),
        dg.TableColumn("age_h", "float"),
        dg.TableColumn("note"),
    ]
    return dg.TableMetadataValue([dg.TableRecord(row) for row in rows], dg.TableSchema(columns))


def column_schema(table: type[Table]) -> dg.TableSchema:
    """A table's columns as the UI shows them: type, meaning, and whether a null may stand there."""
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                field.name,
                str(field.type),
                table.meanings[field.name],
                constraints=dg.TableColumnConstraints(nullable=field.nullable),
            )
            for field in table.schema
        ]
    )
