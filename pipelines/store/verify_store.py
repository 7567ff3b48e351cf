"""`vesper verify`: every file of a store held to its manifest, every picture to its name."""

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from pipelines.store.choose_version import committed
from pipelines.store.current_version import read_pointer
from pipelines.store.files import StoreError
from pipelines.store.manifest import Manifest, fetch
from pipelines.store.soundness import Damage, damaged_entries, damaged_screens
from pipelines.store.store import Store


def damages(store: Store, assets: Sequence[str] = (), *, all_versions: bool = False) -> Iterator[Damage]:
    """What of a store isn't what was written: of the current versions of some assets (none named: of all, and the
    pictures), or of all their versions. Raises `StoreError` for an asset that has no committed version."""
    for asset in assets or asset_names(store):
        found = committed(store.root(asset))
        if not found:
            raise StoreError(f"{asset}: expected a committed version in {store.home}, found none")
        current = read_pointer(store.root(asset)).get("version")
        for path in found:
            # Old versions share most files with the current one, so that is what is looked at unless all are
            # wanted.
            if all_versions or path.parent.name == current:
                yield from _of_version(store, asset, path)
    if not assets:
        yield from damaged_screens(store.home / "screens")


def asset_names(store: Store) -> list[str]:
    """All assets with a committed version."""
    root = store.home / "assets"
    return sorted({path.parents[1].relative_to(root).as_posix() for path in root.rglob("*/manifest.json")})


def _of_version(store: Store, asset: str, path: Path) -> Iterator[Damage]:
    root = store.root(asset)
    try:
        manifest = Manifest.from_json(path.read_text(encoding="utf-8"), root)
        entries = list(chain(manifest.files, manifest.side_files))
    except (ValueError, LookupError, TypeError) as error:
        yield Damage(asset, path, f"expected a manifest, found {type(error).__name__}: {error}")
        return
    fetch(root, entries, manifest.version)
    yield from damaged_entries(asset, root, entries)
