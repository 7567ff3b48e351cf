"""`vesper shard`: a folder of samples and screens → shards in a folder."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.storage.manifest import file_sha256
from pipelines.store import Check, PartSpec, Store
from pipelines.training_data.shards import build_shards
from schemas.ids import digest
from schemas.tables import Samples

SOURCE = "folder"


def shard_directory(source: Path, out: Path, splits: tuple[str, ...]) -> dict[str, Any]:
    """`samples*.parquet` and `screens/` of a folder → `shards/*.parquet` and `index.parquet` in `out`.

    The index lies beside the shards' folder, so `load_dataset("parquet", data_dir=OUT/shards)` sees shards only.

    The store that makes it resumable lies in `OUT/.store`. Raises `ValueError` if the folder holds no samples.
    """
    paths = sorted(source.glob("samples*.parquet"))
    if not paths:
        raise ValueError(f"{source}: expected samples*.parquet, as `vesper refine` writes them, found none")
    try:
        table = pa.concat_tables([pq.read_table(path) for path in paths])
        Samples.check(table)
    except (pa.ArrowException, ValueError) as error:
        raise ValueError(f"{source}: samples*.parquet is no samples table: {error}") from error
    if table.num_rows == 0:
        raise ValueError(f"{source}: expected samples, found samples*.parquet without a row: nothing became gold")
    store = Store(out / ".store")
    for picture in sorted((source / "screens").glob("*/*")):
        store.put_screen(picture.read_bytes())
    spec = PartSpec("samples", digest([file_sha256(path) for path in paths]))
    with store.build(f"gold/{SOURCE}", code_version="1", parts=[spec]) as build:
        build.run_part(spec, lambda writer: writer.table("samples", table))
        build.commit(checks=[Check("rows", table.num_rows > 0, str(table.num_rows), "at least 1")])
    manifest = build_shards(store, [SOURCE], splits=splits)
    if not manifest.checks_passed:
        failed = "; ".join(f"{c.name}: found {c.found}, expected {c.expected}" for c in manifest.checks if not c.passed)
        raise ValueError(f"shards of {source}: {failed}")
    folder = out / "shards"
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.glob("*.parquet"):
        stale.unlink()
    for path in manifest.paths("shard"):
        shutil.copyfile(path, folder / path.name)  # no link: who edits an export must not edit the store
    index = manifest.read("index")
    pq.write_table(index, out / "index.parquet")
    report = {**manifest.counts, "shards": len(manifest.paths("shard")), "samples": index.num_rows,
              "data_version": manifest.data_version}  # fmt: skip
    (out / "report.json").write_text(json.dumps(report, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return report
