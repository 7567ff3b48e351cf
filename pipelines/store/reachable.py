"""What of a store is still needed: versions that others read, all that these were made from, and their pictures.

Roots are the current version of each asset, those that an alias names, its last N whose checks passed, what `feedback/`
promoted, what a build in progress reads or writes, and what is younger than the safety age. From a root one follows the
inputs of its manifest.
"""

import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from pipelines.store.aliases import aliased
from pipelines.store.asset_locks import Holder, holder
from pipelines.store.current_version import read_pointer
from pipelines.store.files import FileEntry
from pipelines.store.frozen import frozen_versions
from pipelines.store.manifest import Manifest
from pipelines.store.store import TOMBSTONE, Store

VERSION = re.compile(r"[0-9a-f]{16}")


class Status(NamedTuple):
    """What counts of a file: its bytes, and when it was written (seconds since 1970)."""

    st_size: int
    st_mtime: float


@dataclass
class Asset:
    """An asset's folder as it was found."""

    key: str
    root: Path
    manifests: dict[str, Manifest]
    made: dict[str, float]
    """Version → when its manifest was written, seconds since 1970."""
    current: str | None
    holder: Holder | None
    kept: dict[str, str] = field(default_factory=dict)
    """Version → why it is needed."""

    there: dict[Path, Status] = field(default_factory=dict)
    """What lies behind the store's URL, by where it would lie here; empty if the store has none."""

    @property
    def all_files(self) -> dict[Path, Status]:
        """All files below the folder, here and there, without those of assets within it."""
        here = {path: Status(status.st_size, status.st_mtime) for path, status in files_of(self.root)}
        return {**here, **self.there}

    @property
    def files(self) -> set[Path]:
        """All that a needed version names."""
        entries = (e for version in self.kept for e in _entries(self.manifests[version]))
        return {self.root / entry.path for entry in entries}


def _entries(manifest: Manifest) -> Iterator[FileEntry]:
    yield from manifest.files
    yield from manifest.side_files


def find_assets(store: Store) -> dict[str, Asset]:
    """All assets of a store by key. Raises `StoreError` if a manifest or pointer can't be read."""
    found = {}
    there = store.copies.fetch_index() if store.copies is not None else {}
    for root in sorted(_roots(store.home / "assets")):
        key = root.relative_to(store.home / "assets").as_posix()
        paths = {path.parent.name: path for path in root.glob("*/manifest.json")}
        manifests = {version: _read(path, root) for version, path in paths.items()}
        written_at = {version: path.stat().st_mtime for version, path in paths.items()}
        # Behind a URL the listing tells which assets have a lock, so that not each is asked for.
        is_free = store.copies is not None and f"assets/{key}/lock.json" not in there
        pointer = read_pointer(root).get("version")
        found[key] = Asset(key, root, manifests, written_at, pointer, None if is_free else holder(root))
        if store.copies is not None:
            start = f"assets/{key}/"
            found[key].there = {
                root / name[len(start) :]: Status(listed.bytes, listed.made)
                for name, listed in there.items()
                if name.startswith(start) and _is_own(name[len(start) :])
            }
    return found


def _roots(folder: Path) -> Iterator[Path]:
    """Folders of assets: those that hold versions, finished parts or a pointer."""
    if not folder.is_dir():
        return
    # Versions and finished parts belong to this asset; any other folder may hold further assets.
    inner = [path for path in folder.iterdir() if path.is_dir()]
    own = [path for path in inner if VERSION.fullmatch(path.name) or path.name == "parts"]
    if own or (folder / "current.json").exists():
        yield folder
    for path in inner:
        if path not in own:
            yield from _roots(path)


def _is_own(name: str) -> bool:
    """Whether a path within an asset's folder is the asset's, and not of an asset within it."""
    first, _, rest = name.partition("/")
    return not rest or first == "parts" or VERSION.fullmatch(first) is not None


def files_of(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """All files below an asset's folder, without those of assets within it."""
    with os.scandir(folder) as entries:
        for entry in entries:
            path = Path(entry.path)
            if entry.is_file(follow_symlinks=False):
                yield path, entry.stat(follow_symlinks=False)
            elif entry.is_dir(follow_symlinks=False) and (VERSION.fullmatch(entry.name) or entry.name == "parts"):
                for inner, _, names in os.walk(path):
                    for name in names:
                        yield Path(inner, name), Path(inner, name).lstat()


def _read(path: Path, root: Path) -> Manifest:
    return Manifest.from_json(path.read_text("utf-8", "replace"), root, path)


def mark(store: Store, assets: Mapping[str, Asset], keep: int, min_age_s: float) -> None:
    """Fill `kept` of all assets."""
    # Breadth first, so the reason that is kept is the nearest one.
    waiting = list(_roots_of_need(store, assets, keep, time.time() - min_age_s))
    while waiting:
        key, version, why = waiting.pop(0)
        asset = assets.get(key)
        if asset is None:
            continue
        # Whoever named a version from before a takedown means the one that replaced it.
        version = _in_place_of(asset, version)
        # An input that is gone is no error here: it was collected, or is outside of the store.
        if version in asset.kept or version not in asset.manifests:
            continue
        asset.kept[version] = why
        inputs = asset.manifests[version].inputs
        waiting += [(name, value, f"made {key}@{version[:8]}") for name, value in inputs.items()]


def _in_place_of(asset: Asset, version: str) -> str:
    """The version that stands for one of which records were taken down."""
    # Several takedowns follow each other: go on to the one that stands now.
    while version not in asset.manifests and VERSION.fullmatch(version):
        gone = asset.root / version / TOMBSTONE
        if not gone.is_file():
            break
        version = str(json.loads(gone.read_text(encoding="utf-8"))["replaced_by"])
    return version


def _roots_of_need(
    store: Store, assets: Mapping[str, Asset], keep: int, before: float
) -> Iterator[tuple[str, str, str]]:
    """(asset, version, why)"""
    for key, asset in assets.items():
        # Current versions and aliases come first, as the first reason is the one that is shown.
        if asset.current is not None:
            yield key, asset.current, "current"
        for alias, version in aliased(asset.root).items():
            yield key, version, alias
    for key, version in frozen_versions(store.home):
        yield key, version, "promoted as feedback"
    for key, asset in assets.items():
        if asset.holder is not None:
            yield key, asset.holder.version, "being built"
            for name, version in asset.holder.inputs.items():
                yield name, version, f"read by the build of {key}"
        newest = sorted(asset.manifests, key=lambda version: (asset.made[version], version), reverse=True)
        passed = 0
        for version in newest:
            # What was just written may be read by somebody who has said so nowhere.
            if asset.made[version] >= before:
                yield key, version, "young"
            if passed < keep:
                yield key, version, f"one of the last {keep}"
            # Only good ones count towards the last N, so a row of failed nights doesn't push out the last
            # good version.
            passed += asset.manifests[version].checks_passed
