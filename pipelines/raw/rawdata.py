"""`raw/<source>`: the native files as they came, named and hashed in a manifest, never copied."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipelines.mapping.adapter import Raw
from pipelines.store import CheckSpec, PartSpec, PartWriter, Store, put_text
from pipelines.store.files import file_sha256
from pipelines.store.manifest import Manifest
from schemas.ids import digest

_SMALL = 1 << 20
_RECENT_BYTES = 64 << 20
HAS_FILES = CheckSpec("has_files", "The source's folder holds no file")
CHECKS = (HAS_FILES,)


class RecentBytes:
    """The bytes of small files that were just hashed, for whoever reads them next in this process: most of the cost of
    a small file is to open it. What is taken is what was hashed."""

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}
        self._size = 0

    def put(self, name: str, data: bytes) -> None:
        """Keep a file, unless there is enough of them already."""
        self.take(name)
        if self._size + len(data) <= _RECENT_BYTES:
            self._files[name] = data
            self._size += len(data)

    def take(self, name: str) -> bytes | None:
        """A file's bytes, once; None if they aren't held."""
        data = self._files.pop(name, None)
        self._size -= len(data or b"")
        return data

    def clear(self) -> None:
        """Let all go."""
        self._files.clear()
        self._size = 0


RECENT = RecentBytes()


class FileHashes:
    """sha256 of raw files, remembered by size and mtime, so that an unchanged 100 GB tree is not read again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, list[Any]] = json.loads(path.read_text()) if path.exists() else {}
        self._seen: dict[str, list[Any]] = {}

    def sha256(self, path: str | Path) -> str:
        """Hash of a file, from memory if neither its size nor its time of change differs."""
        name = os.fspath(path)
        status = os.stat(name)
        stamp = [status.st_size, status.st_mtime_ns]
        known = self._known.get(name)
        if known and known[:2] == stamp:
            RECENT.take(name)  # of an earlier read of it
            value = str(known[2])
        elif status.st_size < _SMALL:
            with open(name, "rb", buffering=0) as stream:
                data = stream.read()
            value = hashlib.sha256(data).hexdigest()
            RECENT.put(name, data)
        else:
            value = file_sha256(name)
        self._seen[name] = [*stamp, value]
        return value

    def save(self) -> None:
        """Keep what was seen for the next run. Several processes may do so at once."""
        put_text(self._path, json.dumps({**self._known, **self._seen}))


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
    listing = [{"path": name, "bytes": sizes[name], "sha256": hashes.sha256(path / name)} for name in names]
    hashes.save()
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
