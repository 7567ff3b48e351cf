"""Where a file of a repository or an archive may lie in a raw folder: below it, and never in a book-keeping folder.

The names come from strangers, or from lists that a stranger's archive may once have written; each is checked here
before anything is written, moved or removed under it.
"""

from pathlib import Path

from pipelines.raw.remote_file import PullError

BOOK_KEEPING = ".vesper"
"""Folder of a raw folder that a pull's own lists lie in (`hub.RECORD`, `unpacked.FOLDER`)."""
MAX_NAME_BYTES = 1024
MAX_DEPTH = 64
"""Folders in a name; the deepest of a known source has 9, and each is made one inside the other."""


def refused(name: str) -> str | None:
    """Why nothing may get this relative name; None if it may."""
    # Backslashes count as separators, as they do on Windows.
    parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".")]
    if name.startswith(("/", "\\")) or ".." in parts or "\0" in name or ":" in "".join(parts[:1]):
        return "leads out of the folder"
    if any(part.casefold() == BOOK_KEEPING for part in parts):  # disks that know no case are common
        return "lies in the book-keeping of a pull"
    if len(parts) > MAX_DEPTH or len(name.encode("utf-8", "surrogateescape")) > MAX_NAME_BYTES:
        return f"is longer than {MAX_NAME_BYTES} bytes or {MAX_DEPTH} folders"
    return None


def local_path(target: Path, name: str) -> Path:
    """Where a file of this name lies below `target`. Raises `PullError` if nothing may get that name, or if a link in
    the way leads out."""
    why = refused(name)
    path = target.resolve() if why else (target / name).resolve()
    if why is None and not path.is_relative_to(target.resolve()):
        why = "leads out of the folder by a link"
    if why is not None:
        raise PullError(f"{name[:120]!r} {why}")
    return path
