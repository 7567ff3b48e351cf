"""A version's folder with all of its files in it, for readers that know folders and no manifests.

A version names the files of unchanged parts where an older version put them. They are linked into its own folder, too:
a hard link costs no space, and what is deleted in one folder stays in the other. Manifests go on naming the old place.

An object store knows no links: there a version's folder holds `listing.json` (`listing`), by which a reader that has
nothing but the bucket finds the rest.
"""

from __future__ import annotations

import json
import os
import shutil
from itertools import chain
from pathlib import Path

from pipelines.store.files import StoreError
from pipelines.store.manifest import Manifest
from pipelines.whole_files import PREFIX

LISTING = "listing.json"


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
    no hard links. Raises `StoreError` if one isn't there."""
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
        target.parent.mkdir(parents=True, exist_ok=True)
        # Linked under another name and renamed: a reader of the folder sees the whole file or none.
        passing = target.with_name(f"{PREFIX}{os.getpid()}-{target.name}")
        try:
            try:
                os.link(source, passing)
            except OSError:  # another disk, or one without links
                shutil.copy2(source, passing)
            os.replace(passing, target)
        finally:
            passing.unlink(missing_ok=True)
