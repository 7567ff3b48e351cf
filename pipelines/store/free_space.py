"""Is there room? What a build is expected to write, against what the disk has free, before it begins."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.store.files import StoreError

if TYPE_CHECKING:
    from pipelines.store.manifest import Manifest

RESERVE_BYTES = 64 << 20
"""Left free beside what is written: for databases, journals and the manifest."""


def free_bytes(folder: Path) -> int:
    """Bytes that this user may still write where the folder lies (or will lie)."""
    # A home that isn't there yet will lie on the disk of the nearest folder that is.
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def size_of(manifest: Manifest) -> int:
    """Bytes of a version's files."""
    return sum(entry.bytes for entry in (*manifest.files, *manifest.side_files))


def require_space(folder: Path, needed: int, what: str) -> None:
    """Raises `StoreError` in one line if `needed` bytes and the reserve aren't free. `what` names who needs them."""
    free = free_bytes(folder)
    if free < needed + RESERVE_BYTES:
        raise StoreError(
            f"{what}: expected {sized(needed + RESERVE_BYTES)} free in {folder}, found {sized(free)}; "
            "free some (`vesper gc` lists what can go) or move the store"
        )


def require_space_for_build(folder: Path, asset: str, last: Manifest | None, missing: Callable[[], float]) -> None:
    """Before a version is made: it takes about as much as the last one, times the share of parts that must be made
    anew. `missing` gives that share; it is asked only where space is short. Raises `StoreError`."""
    whole = size_of(last) if last is not None else 0
    # Which parts are missing is asked only where it matters: it looks for the receipt of each.
    if free_bytes(folder) < whole + RESERVE_BYTES:
        require_space(folder, int(whole * missing()), asset)


def sized(number: int) -> str:
    """Bytes as people say them: 1.5 GB."""
    size = float(number)
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
