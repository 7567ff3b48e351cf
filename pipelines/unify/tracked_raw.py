"""What a part reads beside its own files: pictures, split lists, folders. Recorded while it runs, checked on the next.

A part depends on the files it asked for, there or not, so a changed picture redoes the parts that read it, and one that
appears redoes the part that missed it; nothing else is touched. Adapters need not declare any of it: they read through
`Raw`, and `TrackedRaw` listens.
"""

import contextlib
import errno
import hashlib
import os
import re
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from pipelines.mapping.adapter import Raw, RecordError
from pipelines.mapping.raw_files import Piece
from pipelines.mapping.record_error import is_of_the_name
from pipelines.raw.file_hashes import RECENT
from pipelines.store.files import file_sha256
from schemas.ids import digest

READS = pa.schema(
    [
        ("kind", pa.string()),
        ("companion", pa.string()),
        ("folder", pa.string()),
        ("name", pa.string()),
        ("bytes", pa.int64()),
        ("mtime_ns", pa.int64()),
        ("sha256", pa.string()),
    ]
)
"""One thing that a part asked for. `kind`: file (sha256 null: it wasn't there), folder (it wasn't there, so neither was
anything in it), listing (of a folder; sha256 digests the names), or glob (`name` is the pattern, sha256 digests what it
found)."""

_PLAIN_PATH = re.compile(r"[^/.\0][^/\0]*(?:/[^/.\0][^/\0]*)*")
_Key = tuple[str, str | None, str, str]


class Folders:
    """Listings of folders, each made once: {name: entry}, None for a folder that isn't there."""

    def __init__(self) -> None:
        self._listed: dict[str, dict[str, os.DirEntry[str]] | None] = {}

    def list(self, folder: str) -> dict[str, os.DirEntry[str]] | None:
        if folder not in self._listed:
            try:
                with os.scandir(folder) as entries:
                    self._listed[folder] = {entry.name: entry for entry in entries}
            except (OSError, ValueError) as error:
                if not is_of_the_name(error):
                    raise
                self._listed[folder] = None
        return self._listed[folder]


@dataclass(frozen=True)
class TrackedRaw(Raw):
    """A `Raw` that remembers what was asked of it. `own` are the part's own files, which need no remembering.

    `_seen` maps each thing to its hash, to False if it wasn't there, or to None for a file that was named only: whether
    it is there, and its hash, is found out at the end."""

    own: frozenset[str] = frozenset()
    pieces: Mapping[str, Piece] = field(default_factory=dict, compare=False)
    """Of files that aren't to be read whole."""
    _seen: dict[_Key, str | Literal[False] | None] = field(default_factory=dict, compare=False)
    _folders: Folders = field(default_factory=Folders, compare=False)
    _listings: dict[str, frozenset[str]] = field(default_factory=dict, compare=False)

    def _resolve(self, relative: str, companion: str | None) -> tuple[str, str]:
        """As `Raw`; a path that is as plain as most are needs no `normpath`, which takes several times as long."""
        # The expression lets no segment begin with a dot and none be empty, so normpath would change nothing.
        root = self._roots[companion]
        if root not in (".", "/") and _PLAIN_PATH.fullmatch(relative):
            return root, f"{root}/{relative}"
        return super()._resolve(relative, companion)

    def _checked(self, relative: str, companion: str | None, is_link: bool | None = None) -> tuple[str, str]:
        try:
            return super()._checked(relative, companion, is_link)
        except RecordError:
            with contextlib.suppress(RecordError):  # not there, as `changes` sees it too, until it is no link
                self._seen["file", companion, *_inner(*self._resolve(relative, companion))] = False
            raise

    def piece(self, relative: str) -> Piece | None:
        return self.pieces.get(relative)

    def files(self, pattern: str) -> list[str]:
        found = super().files(pattern)
        # The names found, not the files: those that are read note themselves.
        self._seen["glob", None, "", pattern] = digest(found)
        return found

    def path(self, relative: str, companion: str | None = None) -> Path:
        root, path = self._checked(relative, companion)
        if companion is not None or relative not in self.own:
            # Its hash is found at the end, and only if nothing read it: a path that is only named costs no
            # reading.
            self._seen.setdefault(("file", companion, *_inner(root, path)), None)
        return Path(path)

    def read(self, relative: str, companion: str | None = None) -> bytes:
        root, path = self._checked(relative, companion)
        is_own = companion is None and relative in self.own
        if is_own and (recent := RECENT.take(path)) is not None:
            # The part's own bytes were just hashed: take them from memory instead of reading a second time.
            return recent
        try:
            with open(path, "rb", buffering=0) as stream:
                data = stream.read()
        except (OSError, ValueError) as error:
            if not is_of_the_name(error):
                raise
            self._seen["file", companion, *_inner(root, path)] = False
            raise FileNotFoundError(errno.ENOENT, "no such file", relative) from error
        # The hash of what was read, not of what lies there later: a change while the part runs has to show.
        if not is_own:
            self._seen["file", companion, *_inner(root, path)] = hashlib.sha256(data).hexdigest()
        return data

    def listing(self, folder: str, companion: str | None = None) -> frozenset[str]:
        root, path = self._checked(folder, companion)
        if path not in self._listings:
            names = _visible(self._folders.list(path))
            self._seen["listing", companion, path[0 if root == "." else len(root) + 1 :] or ".", ""] = _digest(names)
            self._listings[path] = frozenset(names)
        return self._listings[path]

    def is_there(self, relative: str, companion: str | None = None) -> bool:
        """Whether a file is there, by the listing of its folder: a million names that aren't cost a million look-ups
        in memory, not on disk."""
        root, path = self._resolve(relative, companion)
        folder, _, name = path.rpartition("/")
        listed = self._folders.list(folder)
        if listed is not None and name in listed and listed[name].is_file():
            self._checked(relative, companion, listed[name].is_symlink())
            return True
        inner = _inner(root, path)[0]
        # A folder that isn't there is one line in the record, not one for each of its pictures.
        key = ("file", companion, inner, name) if listed is not None else ("folder", companion, inner, "")
        self._seen.setdefault(key, False)
        return False

    def reads(self) -> pa.Table | None:
        """All that was asked for, as it is now; None if nothing was."""
        if not self._seen:
            return None
        rows = []
        # Sorted, so that a rerun that read the same in another order writes the same bytes.
        for (kind, companion, folder, name), found in sorted(self._seen.items(), key=_order):
            size = mtime = None
            sha256 = found or None
            if kind == "file" and found is not False:  # True to what was read: a file that vanished since is a change
                path = Path(self._roots[companion], folder, name)
                if (status := _status(path)) is not None:
                    size, mtime, sha256 = status.st_size, status.st_mtime_ns, sha256 or file_sha256(path)
            rows.append((kind, companion, _storable(folder), _storable(name), size, mtime, sha256))
        columns = zip(*rows, strict=True)
        return pa.table([pa.array(column, kind.type) for column, kind in zip(columns, READS)], schema=READS)


def _status(path: Path) -> os.stat_result | None:
    """Of a file; None if there is none of the name."""
    try:
        status = path.stat()
    except (OSError, ValueError) as error:
        if not is_of_the_name(error):
            raise
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def _storable(name: str) -> str:
    """A name as a table can hold it. What isn't UTF-8 is written out, and so is looked for in vain on the next run:
    such a part runs again if the file is there."""
    return name.encode("utf-8", "backslashreplace").decode()


def _visible(listed: Mapping[str, object] | None) -> list[str]:
    return sorted(name for name in listed or () if name[0] != ".")


def _digest(names: list[str]) -> str:
    return hashlib.sha256("\0".join(names).encode("utf-8", "surrogateescape")).hexdigest()


def _inner(root: str, path: str) -> tuple[str, str]:
    """(folder below the root, name) of a path that `_resolve` made."""
    folder, _, name = path[0 if root == "." else len(root) + 1 :].rpartition("/")
    return folder or ".", name


def _order(item: tuple[_Key, Any]) -> tuple[str, str, str, str]:
    kind, companion, folder, name = item[0]
    return kind, companion or "", folder, name


def changes(path: Path, raw: Raw, folders: Folders, glob: Callable[[str], list[str]]) -> str | None:
    """Whether what a part read (its file of `READS`) is still the same: None, or a digest of how it is now.

    A file is the same if its size and time are, or else its bytes. Each folder is listed once for all parts, and only
    files that were read are looked at, so a folder of a million pictures costs one listing and a look at each.
    """
    now: list[Any] = []
    same = True
    with pa.memory_map(str(path)) as stream:
        columns = pa.ipc.open_file(stream).read_all().to_pydict()
    for kind, companion, folder, name, size, mtime, sha256 in zip(*columns.values(), strict=True):
        # The companion was taken out of the settings: as if nothing of it were there.
        if companion is not None and companion not in raw.companions:
            state: Any = None
        elif kind == "glob":
            state = digest(glob(name))
        else:
            base = str(raw.root if companion is None else raw.companions[companion])
            listed = folders.list(os.path.normpath(os.path.join(base, folder)))
            state = _state(raw, kind, listed, name, size, mtime, sha256)
        same = same and state == sha256
        # All states go into the digest, the unchanged ones too: it names the part's inputs as they are now.
        now.append([kind, companion, folder, name, state])
    return None if same else digest(now)


def _state(
    raw: Raw,
    kind: str,
    listed: dict[str, os.DirEntry[str]] | None,
    name: str,
    size: int | None,
    mtime: int | None,
    sha256: str | None,
) -> str | None:
    if kind == "folder":
        return None if listed is None else "there"
    if kind == "listing":
        return _digest(_visible(listed))
    entry = listed.get(name) if listed is not None else None
    if entry is None or not entry.is_file() or (entry.is_symlink() and not raw.is_inside(entry.path)):
        return None
    status = entry.stat()
    # Size and time to the nanosecond are as before, so the bytes are taken to be, as git does.
    if sha256 is not None and (status.st_size, status.st_mtime_ns) == (size, mtime):
        return sha256
    return file_sha256(Path(entry.path))
