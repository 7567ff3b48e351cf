"""`raw/<source>`: the native files as they came, named and hashed in a manifest, never copied."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pipelines.mapping.adapter import Raw
from pipelines.raw.file_hashes import FileHashes
from pipelines.store import CheckSpec, PartSpec, PartWriter, Store
from pipelines.store.files import FileEntry, StoreError
from pipelines.store.manifest import Manifest
from pipelines.store.soundness import Damage, damaged_entries
from pipelines.store.verify_store import asset_names
from schemas.ids import digest

HAS_FILES = CheckSpec("has_files", "The source's folder holds no file")
CHECKS = (HAS_FILES,)
_LISTING = "files.json"


def list_raw(raw: Raw) -> list[str]:
    """All files of a raw folder, as sorted relative POSIX paths (hidden ones left out)."""
    return raw.files("**/*")


def register_raw(store: Store, source: str, path: Path, extra: Mapping[str, object] | None = None) -> Manifest:
    """Commit `raw/<source>`: a listing of the folder's files with size and sha256, which is its data version.

    Raises `ValueError` if the folder isn't there or is empty.
    """
    if not path.is_dir():
        raise ValueError(f"raw/{source}: expected a folder of native files, found none at {path.name!r}")
    names = list_raw(Raw(path))
    hashes = FileHashes(store.home / "cache" / "raw" / f"{source}.json")
    sizes = {name: (path / name).stat().st_size for name in names}
    found = zip(names, hashes.all([path / name for name in names]), strict=True)
    listing = [{"path": name, "bytes": sizes[name], "sha256": sha256} for name, sha256 in found]
    hashes.save()
    # The listing itself is the input: equal files, equal version.
    spec = PartSpec("files", digest(listing))
    counts = {"files": len(listing), "bytes": sum(sizes.values()), **(extra or {})}

    def write(out: PartWriter) -> None:
        out.bytes(_LISTING, (json.dumps(listing, indent=1, sort_keys=True) + "\n").encode())

    with store.build(f"raw/{source}", code_version="1", config={"source": source}, parts=[spec]) as build:
        build.run_part(spec, write)
        return build.commit(
            counts=counts,
            checks=[HAS_FILES.check(bool(listing), f"{len(listing)} files", "at least one file", len(listing), 1)],
        )


def native_listing(manifest: Manifest) -> list[dict[str, Any]]:
    """The native files of a version of `raw/<source>`: `path` within their folder, `bytes` and `sha256` of each."""
    found: list[dict[str, Any]] = json.loads(manifest.file(_LISTING).read_text(encoding="utf-8"))
    return found


def damaged_raw(store: Store, folder_of: Callable[[str], Path], assets: Sequence[str] = ()) -> Iterator[Damage]:
    """Native files that aren't what the current `raw/<source>` lists, of some assets (none named: of all). A person who
    replaced or removed one is told as well, as nobody can see that from the file. `folder_of`: where the files of a
    source, companion or suite lie; what has no folder on this machine isn't looked at."""
    for asset in assets or asset_names(store):
        group, _, source = asset.partition("/")
        folder = folder_of(source) if group == "raw" else None
        if folder is None or not folder.is_dir():
            continue
        try:
            manifest = store.current(asset)
            listing = native_listing(manifest) if manifest is not None else []
        except StoreError:  # told by `damages`
            continue
        listed = (FileEntry(one["path"], None, None, one["bytes"], one["sha256"]) for one in listing)
        for damage in damaged_entries(asset, folder, listed):
            yield Damage(asset, damage.path, f"{damage.why}; if a person changed it, materialise {asset}")
