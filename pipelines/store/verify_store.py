"""`vesper verify`: every file of a store held to its manifest, every picture to its name, and what no manifest names
(manifests, receipts of parts) to the digest in its own text."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from pipelines.store.choose_version import committed
from pipelines.store.current_version import POINTER, read_history, read_pointer
from pipelines.store.files import StoreError
from pipelines.store.manifest import Manifest, fetch
from pipelines.store.parts import read_marker
from pipelines.store.soundness import Damage, damaged_entries, damaged_screens
from pipelines.store.store import Store


def damages(store: Store, assets: Sequence[str] = (), *, all_versions: bool = False) -> Iterator[Damage]:
    """What of a store isn't what was written: of the current versions of some assets (none named: of all, and the
    pictures), or of all their versions. Raises `StoreError` for an asset that has no committed version."""
    for asset in assets or asset_names(store):
        found = committed(store.root(asset))
        if not found:
            raise StoreError(store.nothing_of(asset))
        pointer: dict[str, Any] = {}
        try:
            pointer = read_pointer(store.root(asset))
            read_history(store.root(asset))
        except StoreError as error:
            # One file that can't be read hides no other.
            yield Damage(asset, store.root(asset), str(error))
        lost = pointer.get("version") not in {path.parent.name for path in found}
        if pointer and lost:
            yield Damage(asset, store.root(asset) / POINTER, f"points to {pointer['version']}, which isn't there")
        for path in found:
            # Old versions share most files with the current one: looked at where that isn't known, or all are wanted.
            if all_versions or lost or path.parent.name == pointer["version"]:
                yield from _of_version(store, asset, path, pointer)
        yield from _of_receipts(store, asset)
    if not assets:
        yield from damaged_screens(store.home / "screens")


def asset_names(store: Store) -> list[str]:
    """All assets with a committed version."""
    root = store.home / "assets"
    return sorted({path.parents[1].relative_to(root).as_posix() for path in root.rglob("*/manifest.json")})


def _of_receipts(store: Store, asset: str) -> Iterator[Damage]:
    """Receipts of finished parts: by them the next build takes up what is there."""
    for path in sorted(store.root(asset).glob("parts/*.json")):
        try:
            read_marker(path.read_text("utf-8", "replace"), path)
        except StoreError as error:
            yield Damage(asset, path, str(error).removeprefix(f"{path} "))


def _of_version(store: Store, asset: str, path: Path, pointer: Mapping[str, Any]) -> Iterator[Damage]:
    root, version = store.root(asset), path.parent.name
    try:
        manifest = Manifest.verified(path.read_text("utf-8", "replace"), root, asset, version, str(path))
        entries = list(chain(manifest.files, manifest.side_files))
    except StoreError as error:
        yield Damage(asset, path, str(error).removeprefix(f"{path} "))
        return
    if pointer.get("version") == version and pointer.get("data_version") != manifest.data_version:
        yield Damage(asset, root / POINTER, f"data version: expected {manifest.data_version}, as its manifest says")
    fetch(root, entries, manifest.version)
    yield from damaged_entries(asset, root, entries)
