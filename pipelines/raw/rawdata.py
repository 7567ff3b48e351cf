"""`raw/<source>`: the native files as they came, named and hashed in a manifest, never copied."""

import json
from collections.abc import Mapping
from pathlib import Path

from pipelines.mapping.adapter import Raw
from pipelines.raw.file_hashes import FileHashes
from pipelines.store import CheckSpec, PartSpec, PartWriter, Store
from pipelines.store.manifest import Manifest
from schemas.ids import digest

HAS_FILES = CheckSpec("has_files", "The source's folder holds no file")
CHECKS = (HAS_FILES,)


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
        out.bytes("files.json", (json.dumps(listing, indent=1, sort_keys=True) + "\n").encode())

    with store.build(f"raw/{source}", code_version="1", config={"source": source}, parts=[spec]) as build:
        build.run_part(spec, write)
        return build.commit(
            counts=counts,
            checks=[HAS_FILES.check(bool(listing), f"{len(listing)} files", "at least one file", len(listing), 1)],
        )
