"""A source's native files by relative names, which come from records and may say anything."""

import errno
import fnmatch
import functools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipelines.mapping.record_error import RecordError, is_of_the_name


@dataclass(frozen=True, slots=True)
class Piece:
    """A range of a native file whose records stand alone: row groups of parquet, or bytes of whole lines."""

    first: int
    past: int
    before: int
    """Rows or lines that stand in front of it."""


@dataclass(frozen=True)
class Raw:
    """A source's native files, and the folders of its companions (such as Rico's screens)."""

    root: Path
    companions: Mapping[str, Path] = field(default_factory=dict)

    @functools.cached_property
    def _roots(self) -> dict[str | None, str]:
        folders: dict[str | None, Path] = {None: self.root}
        folders.update(self.companions)
        return {name: os.path.normpath(folder) for name, folder in folders.items()}

    @functools.cached_property
    def _real_roots(self) -> tuple[str, ...]:
        # With all links followed, once: each name from a record is compared with these.
        return tuple(os.path.realpath(folder) for folder in self._roots.values())

    @functools.cached_property
    def _inside_of_folder(self) -> dict[str, bool]:
        return {}

    def piece(self, relative: str) -> Piece | None:
        """The range of a file that is to be read; None: all of it."""
        del relative
        return None

    def files(self, pattern: str) -> list[str]:
        """Files below the root that match a glob, as sorted relative POSIX paths. Hidden ones are left out."""
        last = pattern.removeprefix("**/")
        # The usual pattern, "everything of this ending": walked by hand, several times as fast as Path.glob.
        if pattern.startswith("**/") and "/" not in last and "**" not in last:
            return sorted(_walk(str(self.root), "", re.compile(fnmatch.translate(last)).match))
        found = (path.relative_to(self.root) for path in self.root.glob(pattern) if path.is_file())
        return sorted(path.as_posix() for path in found if not any(part.startswith(".") for part in path.parts))

    def path(self, relative: str, companion: str | None = None) -> Path:
        """A file by its relative path. Raises `RecordError("unsafe_path")` if the name, or a link, leads out."""
        return Path(self._checked(relative, companion)[1])

    def place(self, relative: str, companion: str | None = None) -> str:
        """Where a file of `files` lies, as text: for its hash, not for its content, since a link may lead out."""
        return self._resolve(relative, companion)[1]

    def _resolve(self, relative: str, companion: str | None) -> tuple[str, str]:
        """(root, path) as texts: records name a million files, and `Path` is slow."""
        root = self._roots[companion]
        path = os.path.normpath(f"{root}/{relative}")
        # A root of "." has no prefix to compare by: there only a path that goes up leads out.
        inside = path == root or path.startswith(root + "/") or (root == "." and path.partition("/")[0] != "..")
        if "\0" in relative or relative.startswith("/") or not inside:
            raise RecordError("unsafe_path", f"{relative[:120]!r} leads out of the raw folder")
        return root, path

    def _checked(self, relative: str, companion: str | None, is_link: bool | None = None) -> tuple[str, str]:
        """As `_resolve`; raises `RecordError("unsafe_path")` where a link leads out of the raw folder and companions.

        A folder is looked at once, a file by one call, or none if the caller knows whether it `is_link`.
        """
        root, path = self._resolve(relative, companion)
        # Links may stand anywhere on the way, so the folder is looked at with all of them followed.
        folder = path.rpartition("/")[0] if path != root else root
        if folder not in self._inside_of_folder:
            self._inside_of_folder[folder] = self.is_inside(folder or ".")
        inside = self._inside_of_folder[folder]
        if inside and (os.path.islink(path) if is_link is None else is_link):
            inside = self.is_inside(path)
        if not inside:
            raise RecordError(
                "unsafe_path", f"{relative[:120]!r} is reached by a link that leads out of the raw folder"
            )
        return root, path

    def is_inside(self, path: str) -> bool:
        """Whether a path lies in the raw folder or a companion once all links are followed."""
        real = os.path.realpath(path)
        # With the slash: /data/raw2 begins like /data/raw.
        return any(real == root or real.startswith(root.rstrip("/") + "/") for root in self._real_roots)

    def read(self, relative: str, companion: str | None = None) -> bytes:
        """Bytes of a file (see `path`). Raises `FileNotFoundError`."""
        try:
            return self.path(relative, companion).read_bytes()
        except (OSError, ValueError) as error:
            if not is_of_the_name(error):
                raise
            # One error for all names that lead nowhere, so that adapters catch one.
            raise FileNotFoundError(errno.ENOENT, "no such file", relative) from error

    def read_if_there(self, relative: str, companion: str | None = None) -> bytes | None:
        """Bytes of a file, or None if it (or the companion) isn't there."""
        if companion is not None and companion not in self.companions:
            return None
        return self.read(relative, companion) if self.is_there(relative, companion) else None

    def first(self, names: Iterable[str], items: int | None = None) -> bytes | None:
        """Bytes of the first of several files that is there; None if none is. Raises `RecordError("unsafe_path")` with
        the record's `items`."""
        try:
            return next((data for name in names if (data := self.read_if_there(name)) is not None), None)
        except RecordError as error:
            raise RecordError(error.reason, error.detail, items) from error

    def listing(self, folder: str, companion: str | None = None) -> frozenset[str]:
        """Names in a folder, hidden ones left out; empty if it isn't there."""
        try:
            return frozenset(name for name in os.listdir(self._checked(folder, companion)[1]) if name[0] != ".")
        except (OSError, ValueError) as error:
            if not is_of_the_name(error):
                raise
            return frozenset()

    def is_there(self, relative: str, companion: str | None = None) -> bool:
        """Whether a file is there; one whose name no file system takes isn't."""
        try:
            return self.path(relative, companion).is_file()
        except (OSError, ValueError) as error:
            if not is_of_the_name(error):
                raise
            return False


def _walk(folder: str, inner: str, matches: Callable[[str], Any]) -> Iterator[str]:
    """Files below a folder whose names match, hidden ones left out: what `**/` globs mean, several times faster."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                # Folders behind links aren't walked: they may lead out, or in circles.
                if entry.is_dir(follow_symlinks=False):
                    yield from _walk(entry.path, f"{inner}{entry.name}/", matches)
                elif matches(entry.name) and entry.is_file():
                    yield inner + entry.name
    except (FileNotFoundError, NotADirectoryError):
        return
