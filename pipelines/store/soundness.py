"""Are files still the bytes that were written? Disks rot, copies stop half-way, people edit what they find.

Every reader goes through a manifest, which knows the digest of each file: a file is held to it when it is first opened
in a process. `damages` looks through a whole store.
"""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pipelines.store.files import FileEntry, StoreError, file_sha256

_SOUND: dict[str, tuple[int, int, str]] = {}
"""Path → (size, mtime in ns, sha256) of the files that this process has found sound."""
_SCREEN = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Damage:
    """A file that isn't what its manifest, or its name, says."""

    asset: str
    path: Path
    why: str

    def __str__(self) -> str:
        return f"{self.asset}: {self.path}: {self.why}"


def require_sound(folder: Path, entries: Iterable[FileEntry]) -> None:
    """Raises `StoreError` naming the first file in an asset's folder that isn't the bytes its entry tells; one that is
    missing is left to whoever opens it. A file that was found sound is looked at again only if its time or size is
    another."""
    for entry in entries:
        path = folder / entry.path
        try:
            status = os.stat(path)
        except FileNotFoundError:
            # Missing isn't damaged: whoever opens it says what it was wanted for.
            continue
        seen = (status.st_size, status.st_mtime_ns, entry.sha256)
        if _SOUND.get(str(path)) == seen:
            continue
        # Size first: it costs nothing, and most damage (cut copies) shows in it.
        if (why := _wrong(path, status.st_size, entry)) is not None:
            raise StoreError(
                f"{path} is damaged: {why}. Put back a good copy, or remove the file and materialise its asset again; "
                "`vesper verify` looks through the whole store"
            )
        _SOUND[str(path)] = seen


def _wrong(path: Path, size: int, entry: FileEntry) -> str | None:
    if size != entry.bytes:
        return f"expected {entry.bytes} bytes, as its manifest says, found {size}"
    found = file_sha256(path)
    return None if found == entry.sha256 else f"expected sha256 {entry.sha256[:16]}…, found {found[:16]}…"


def damaged_entries(asset: str, folder: Path, entries: Iterable[FileEntry]) -> Iterator[Damage]:
    """All files of a version that are missing, or aren't what their entries tell."""
    for entry in entries:
        path = folder / entry.path
        try:
            why = _wrong(path, os.stat(path).st_size, entry)
        except FileNotFoundError:
            why = "expected a file, found none"
        if why is not None:
            yield Damage(asset, path, why)


def damaged_screens(folder: Path) -> Iterator[Damage]:
    """Pictures of a store whose bytes aren't those that they are named after."""
    for path in sorted(folder.glob("*/*")):
        named = path.name.partition(".")[0]
        # Temporary names and files of others in the folder are no pictures.
        if not _SCREEN.fullmatch(named) or path.name.startswith("."):
            continue
        if (found := file_sha256(path)) != named:
            yield Damage("screens", path, f"expected the sha256 that it is named after, found {found[:16]}…")
