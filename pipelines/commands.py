"""`vesper unify` and `vesper shard`: stages on plain folders, for use without a store. Those of quality lie
in `quality.commands` and read and report with what is here.

The store that makes resuming possible lies in `OUT/.store`; what is exported are copies, so editing one harms nothing.
"""

import json
import re
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines import sources
from pipelines.engines.run_parts import Execution
from pipelines.mapping.adapter import Raw
from pipelines.store import CheckSpec, PartSpec, Store
from pipelines.store.files import file_sha256
from pipelines.store.manifest import Manifest
from pipelines.training_data.dataset_card import DATA, write_shard_card
from pipelines.training_data.shards import build_shards
from pipelines.unify.changes import ChangeBands
from pipelines.unify.unify import unify_source
from schemas.action_types import ACTION_SPACE, ActionSpace
from schemas.ids import digest
from schemas.tables import Quarantine, Samples, Table

SOURCE = "folder"
"""Name of the source whose gold the samples of a folder become."""
ROWS = CheckSpec("rows", "`vesper shard` wrote no row")


def unify_directory(
    source: str,
    raw: Raw,
    out_dir: Path,
    *,
    execution: Execution | None = None,
    bands: ChangeBands | None = None,
    space: ActionSpace = ACTION_SPACE,
) -> dict[str, Any]:
    """Native files → unified tables of an action space in a folder; returns the report. A second call with equal
    inputs does no work.

        OUT/steps-<part>.parquet  samples-<part>.parquet  screens-<part>.parquet  screens/ab/<sha256>.<ext>
        OUT/quarantine.jsonl      one line per rejected native unit
        OUT/report.json           native units in, mapped, quarantined; reasons; loss table

    Raises `ValueError` for an unknown source or a folder without its files.
    """
    adapter = sources.get(source)
    if not raw.root.is_dir():
        raise ValueError(f"raw folder: expected a folder, found none at {raw.root}")
    out_dir.mkdir(parents=True, exist_ok=True)
    store = Store(out_dir / ".store")
    manifest = unify_source(store, source, raw, execution=execution, bands=bands, space=space)
    for stale in (*out_dir.glob("*-*.parquet"), *out_dir.glob("screens/*/*")):
        stale.unlink()
    for entry in manifest.files:
        if entry.table and (entry.rows or 0) > 0 and entry.table != "quarantine":
            _copy(manifest.root / entry.path, out_dir / f"{entry.table}-{entry.part}.parquet")
    for screen in manifest.read("screens", columns=["screenshot_sha256"]).to_pylist():
        path = store.screen_path(screen["screenshot_sha256"])
        _copy(path, out_dir / "screens" / path.parent.name / path.name)
    with (out_dir / "quarantine.jsonl").open("w", encoding="utf-8") as stream:
        for row in manifest.read("quarantine", Quarantine.schema).to_pylist():
            stream.write(json.dumps(row, ensure_ascii=False, sort_keys=True) + "\n")
    return write_report(out_dir, _unify_report(manifest, adapter.descriptor.record_unit, adapter.descriptor.item_unit))


def _unify_report(manifest: Manifest, record_unit: str, item_unit: str) -> dict[str, Any]:
    """The counts of a `unified/<source>` manifest as people read them."""
    counts = manifest.counts
    return {
        "source": manifest.asset.rpartition("/")[2],
        "data_version": manifest.data_version,
        **({"action_space": space} if (space := counts.get("action_space")) else {}),
        "records": {
            "unit": record_unit,
            "in": counts["records_in"],
            "mapped": counts["records_mapped"],
            "quarantined": counts["records_quarantined"],
        },
        "items": {
            "unit": item_unit,
            "in": counts["items_in"],
            "mapped": counts["items_mapped"],
            "quarantined": counts["items_quarantined"],
        },
        "files": counts["files"],
        "damaged_files": sorted(counts["damages"]),
        "rows": {table: manifest.rows(table) for table in ("steps", "samples", "screens", "quarantine")},
        "images_missing": counts["images_missing"],
        "images_broken": counts["images_broken"],
        "texts_cleaned": counts["texts_cleaned"],
        "quarantine_reasons": counts["reasons"],
        "loss": counts["losses"],
        "checks": {check.name: check.passed for check in manifest.checks},
        "failed": {
            check.name: f"found {check.found}; expected {check.expected}"
            for check in manifest.checks
            if not check.passed
        },
    }


def shard_directory(
    in_dir: Path, out_dir: Path, splits: tuple[str, ...], *, execution: Execution | None = None
) -> dict[str, object]:
    """`samples*.parquet` and `screens/` of a folder → `data/*.parquet`, `README.md`, `index.parquet`, `report.json`;
    returns the report. Each file of samples is a part, which `execution` says who packs.

    The README is a dataset card: `datasets.load_dataset(OUT)` reads the shards, and nothing that lies beside them.
    Raises `ValueError` if the folder holds no samples, or if the shards' checks fail.
    """
    table, paths = read_tables(in_dir, "samples", Samples), sorted(in_dir.glob("samples*.parquet"))
    if table.num_rows == 0:
        raise ValueError(
            f"{in_dir}: expected samples*.parquet with rows, as `vesper refine` writes them, found "
            + ("none with a row: nothing became gold" if paths else "no such file")
        )
    found = Counter(table["split"].to_pylist())
    if not found.keys() & {*splits}:
        there = ", ".join(f"{split} {number}" for split, number in sorted(found.items()))
        raise ValueError(f"{in_dir}: expected samples of the split {' or '.join(splits)}, found {there}; see --split")
    store = Store(out_dir / ".store")
    for picture in sorted((in_dir / "screens").glob("*/*")):
        store.put_screen(picture.read_bytes())
    _samples_as_gold(store, paths)
    manifest = build_shards(store, [SOURCE], splits=splits, execution=execution)
    refuse_failed(manifest, f"shards of {in_dir}")
    folder = out_dir / DATA
    for stale in (*folder.glob("*.parquet"), *(out_dir / "shards").glob("*.parquet")):  # where they once lay
        stale.unlink()
    for path in manifest.paths("shard"):
        _copy(path, folder / path.name)
    index = manifest.read("index")
    pq.write_table(index, out_dir / "index.parquet")
    packed = pa.compute.is_in(table["sample_id"], index["sample_id"].combine_chunks())
    write_shard_card(out_dir, table.filter(packed), splits)
    return write_report(
        out_dir,
        {
            **manifest.counts,
            "shards": len(manifest.paths("shard")),
            "samples": index.num_rows,
            "data_version": manifest.data_version,
        },
    )


def refuse_failed(manifest: Manifest, what: str) -> None:
    """Raise `ValueError` with what was found and expected where a check of a stage failed that blocks in the graph."""
    if not manifest.checks_passed:
        failed = "; ".join(f"{c.name}: found {c.found}, expected {c.expected}" for c in manifest.checks if not c.passed)
        raise ValueError(f"{what}: {failed}")


def _samples_as_gold(store: Store, paths: Sequence[Path]) -> None:
    """The files as parts of `gold/folder`, which is what shards are packed from."""
    specs = {path: PartSpec(_part_key(path), digest([file_sha256(path)])) for path in paths}
    with store.build(f"gold/{SOURCE}", code_version="1", parts=list(specs.values())) as build:
        rows = 0
        for path, spec in specs.items():
            build.run_part(spec, lambda writer, path=path: writer.table("samples", pq.read_table(path)))  # type: ignore[misc]
            rows += pq.read_metadata(path).num_rows
        build.commit(checks=[ROWS.check(rows > 0, rows, "at least 1", limit=1)])


def _part_key(path: Path) -> str:
    """A file's name as a part can have it: two names that differ in other characters only don't collide."""
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", path.stem)
    return plain if plain == path.stem else f"{plain}-{digest(path.stem)[:8]}"


def read_tables(in_dir: Path, name: str, table: type[Table]) -> pa.Table:
    """All `<name>*.parquet` of a folder as one table, without rows if there are none. Raises `ValueError` naming the
    folder if one of them isn't a table of the kind."""
    try:
        read = [pq.read_table(path) for path in sorted(in_dir.glob(f"{name}*.parquet"))]
        for one in read:
            table.check(one)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ValueError(f"{in_dir}: {name}*.parquet isn't a {name} table of `vesper unify`: {error}") from error
    return pa.concat_tables(read) if read else table.schema.empty_table()


def write_report(out_dir: Path, report: dict[str, Any]) -> dict[str, object]:
    """Write `report.json` into a folder; returns the report."""
    text = json.dumps(report, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    (out_dir / "report.json").write_text(text, encoding="utf-8")
    return report


def _copy(source: Path, target: Path) -> None:
    """No link: who edits an export must not edit the store."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
