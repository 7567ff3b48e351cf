"""The output folder of `vesper unify` as `unified/folder` of a store of its own, so that the graph's stages run on it:
part by part, by any engine, with the parts and the bytes that the graph would make of the same rows."""

import re
import shutil
from pathlib import Path

import pyarrow as pa

from pipelines.commands import SOURCE, read_tables
from pipelines.engines.run_parts import Execution
from pipelines.store import PartSpec, PartWriter, Store
from pipelines.store.files import file_sha256
from pipelines.store.manifest import CheckSpec, Manifest
from pipelines.unify.buckets import screens_with_digests, with_digests
from pipelines.unify.regroup import bucket_specs, regroup
from schemas.ids import digest
from schemas.tables import Samples, Screens, Steps

CODE_VERSION = "1"
TABLES = {"steps": Steps, "samples": Samples, "screens": Screens}
ROWS = CheckSpec("the folder holds rows", "The folder holds no row")


def unified_folder(store: Store, in_dir: Path, execution: Execution) -> Manifest:
    """The tables of a folder in buckets, which depend on its rows alone and not on how its files were cut; its pictures
    by a link. Files that didn't change are read once. Raises `ValueError` if the folder isn't one."""
    files = [path for name in TABLES for path in sorted(in_dir.glob(f"{name}*.parquet"))]
    spec = PartSpec("folder", digest([CODE_VERSION, sorted(file_sha256(path) for path in files)]))
    _link_pictures(store, in_dir)
    with store.build(f"mapped/{SOURCE}", code_version=CODE_VERSION, parts=[spec]) as build:
        build.run_part(spec, lambda out: _write(out, in_dir))
        mapped = build.commit()
    specs, asset = bucket_specs(mapped), f"unified/{SOURCE}"
    with store.build(asset, code_version=CODE_VERSION, parts=specs) as build:
        for result in regroup(store, asset, build.version, mapped, specs, execution):
            build.add(result)
        rows = mapped.rows("steps") + mapped.rows("samples")
        return build.commit(checks=[ROWS.check(rows > 0, rows, "at least 1", limit=1)])


def _write(out: PartWriter, in_dir: Path) -> dict[str, int]:
    steps, samples, screens = (read_tables(in_dir, name, table) for name, table in TABLES.items())
    if not steps.num_rows and not samples.num_rows:
        raise ValueError(f"{in_dir}: expected steps*.parquet or samples*.parquet with rows, made by `vesper unify`")
    for name, table in {"steps": steps, "samples": samples}.items():
        out.table(name, with_digests(name, _plain(table)))
    out.table("screens", screens_with_digests(_plain(screens), steps, samples))
    return {}


def _plain(table: pa.Table) -> pa.Table:
    # Readers of Parquet name what a file's metadata says; the store writes its own.
    return table.combine_chunks()


def _link_pictures(store: Store, in_dir: Path) -> None:
    """The folder's pictures as the store's: judging reads them and writes none, so none is copied."""
    screens, links = in_dir / "screens", store.home / "screens"
    # Of an earlier call, maybe of another folder. A link to a folder is removed, never what lies in it.
    if links.is_symlink():
        links.unlink()
    shutil.rmtree(links, ignore_errors=True)
    links.parent.mkdir(parents=True, exist_ok=True)
    # As `vesper unify` lays them out, one link does for all.
    if screens.is_dir() and all(re.fullmatch("[0-9a-f]{2}", path.name) for path in screens.iterdir()):
        links.symlink_to(screens.resolve(), target_is_directory=True)
        return
    for path in screens.rglob("*"):
        if path.is_file():
            place = links / path.stem[:2] / path.name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(path.resolve())
