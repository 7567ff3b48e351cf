"""A version's folder with all of its files in it, for readers that know folders and no manifests.

A version names the files of unchanged parts where an older version put them. They are linked into its own folder, too:
a hard link costs no space, and what is deleted in one folder stays in the other. Manifests go on naming the old place.

An object store knows no links: there a version's folder holds `listing.json` (`listing`), by which a reader that has
nothing but the bucket finds the rest.

Where a version has tables, `README.md` beside them says which files are which: `datasets.load_dataset(folder)` would
take all of them for one table.
"""

import fnmatch
import json
import os
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from pipelines.store.files import StoreError
from pipelines.store.manifest import Manifest
from pipelines.store.parts import put_text
from pipelines.whole_files import link_file

LISTING, README = "listing.json", "README.md"
_FIRST = ("shard", "tasks", "samples", "steps", "verdicts")
"""Tables that a folder is opened for, where it has them: they come first."""
_PARTS = "*-[0-9][0-9][0-9].parquet"
"""How files of a table are called that bear no table's name: shards."""


def complete(manifest: Manifest) -> Path:
    """Give a version's folder all of its files → the folder. Of a store behind a URL they are fetched first. Raises
    `StoreError` where a file is missing or isn't what was written."""
    _ = manifest.root  # fetches, and holds tables to their digests
    link_parts(manifest)
    return manifest.directory


def listing(manifest: Manifest) -> str:
    """`listing.json` of a version: the name of each file in its folder → where it lies, relative to that folder."""
    entries = sorted(entry.path for entry in chain(manifest.files, manifest.side_files))
    split = [(path, *path.split("/", 1)) for path in entries]
    # A file of this version by its name, that of another by the way there from this folder.
    found = {name: name if owner == manifest.version else f"../{path}" for path, owner, name in split}
    return json.dumps({"asset": manifest.asset, "version": manifest.version, "files": found}, indent=1) + "\n"


def link_parts(manifest: Manifest) -> None:
    """Link the files of other versions that a manifest names into its version's folder; copy them where the disk knows
    no hard links. A version with tables gets its `README.md`. Raises `StoreError` if a file isn't there."""
    for entry in chain(manifest.files, manifest.side_files):
        owner, _, name = entry.path.partition("/")
        source, target = manifest.folder / entry.path, manifest.directory / name
        if owner == manifest.version:
            continue
        if not source.is_file():
            whose = f"{manifest.asset} {manifest.version}"
            raise StoreError(f"{source}: expected a file of {whose}, found none; it was collected, or moved away")
        # Linked by an earlier call.
        if target.exists() and os.path.samefile(source, target):
            continue
        # Under another name first: a reader of the folder sees the whole file or none.
        link_file(source, target)
    if (text := tables_readme(manifest)) and not (target := manifest.directory / README).exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        put_text(target, text)


def tables_readme(manifest: Manifest) -> str:
    """`README.md` of a version with tables, each of them a configuration of `datasets`: `load_dataset(folder)` opens
    the first, `load_dataset(folder, "index")` another. "" for a version without tables, or with a README of its own."""
    names: dict[str, list[str]] = {}
    empty: set[str] = set()
    for entry in chain(manifest.files, manifest.side_files):
        name = entry.path.partition("/")[2]
        if name == README:
            return ""
        if entry.table and entry.rows == 0:
            # `datasets` fails on a file without a row, so a pattern mustn't find it.
            empty.add(entry.table)
        elif entry.table:
            names.setdefault(entry.table, []).append(name)
    if not names:
        return ""
    order = sorted(names, key=lambda table: (_FIRST.index(table) if table in _FIRST else len(_FIRST), table))
    lines = ["---", "configs:"]
    for table in order:
        files = sorted(names[table]) if table in empty else _pattern(table, names[table])
        lines += [f"- config_name: {json.dumps(table)}", f"  data_files: {json.dumps(files)}"]
        # Without it a folder of several tables has no first one.
        lines += ["  default: true"] if table == order[0] else []
    opened = "\n".join(f'load_dataset(folder, "{table}", split="train")' for table in order)
    title = f"# {manifest.asset}@{manifest.version}"
    return "\n".join([*lines, "---", "", title, "", "Opened by `datasets`:", "", f"```python\n{opened}\n```", ""])


def _pattern(table: str, names: Sequence[str]) -> str | list[str]:
    """The files of a table: a pattern where one fits, as there may be thousands."""
    for pattern in (f"*.{table}.parquet", _PARTS):
        if all("/" not in name and fnmatch.fnmatchcase(name, pattern) for name in names):
            return pattern
    return sorted(names)
