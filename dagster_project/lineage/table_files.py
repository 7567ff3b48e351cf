"""Files of a table over many versions: which there are, without opening one, and opening those that are wanted."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from pipelines.store.files import FileEntry
from pipelines.store.manifest import Manifest, opened


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file of a table, and the versions that hold it (an unchanged part is in many)."""

    entry: FileEntry
    holders: list[Manifest]

    @property
    def folder(self) -> Path:
        """That of its asset."""
        return self.holders[0].folder

    @property
    def home(self) -> Path:
        """That of its store."""
        return self.folder.parents[self.holders[0].asset.count("/") + 1]

    @property
    def path(self) -> Path:
        """Where it lies once it was opened."""
        return self.folder / self.entry.path


def distinct_files(manifests: Iterable[Manifest], table: str) -> list[TableFile]:
    """Each file of a table once; none is opened."""
    found: dict[tuple[str, str], TableFile] = {}
    for manifest in manifests:
        for entry in chain(manifest.files, manifest.side_files):
            if entry.table == table:
                # By asset and path: an unchanged part is one file in many versions.
                found.setdefault((manifest.asset, entry.path), TableFile(entry, [])).holders.append(manifest)
    return list(found.values())


def open_files(files: Iterable[TableFile]) -> list[Path]:
    """Fetch files, those of an asset together, and hold each to its digest; their paths, in order. Raises `StoreError`
    for one that is missing behind a URL, or damaged."""
    by_folder: dict[Path, list[FileEntry]] = {}
    paths = []
    for file in files:
        by_folder.setdefault(file.folder, []).append(file.entry)
        paths.append(file.path)
    # Folder by folder, as a store behind a URL fetches many files of one at a time.
    for folder, entries in by_folder.items():
        opened(folder, entries)
    return paths
