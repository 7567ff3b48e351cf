"""The emulated phone's files: names and bytes in memory. No path from the wire ever meets the real file system."""

import posixpath
from dataclasses import dataclass

MAX_FILE = 32 << 20
MAX_TOTAL = 128 << 20
MAX_FILES = 4096
MAX_PATH = 1024
LINKS = {"/sdcard": "/storage/emulated/0"}
FOLDERS = (
    "/",
    "/data",
    "/data/local",
    "/data/local/tmp",
    "/storage",
    "/storage/emulated",
    "/storage/emulated/0",
    "/storage/emulated/0/DCIM",
    "/storage/emulated/0/Documents",
    "/storage/emulated/0/Download",
    "/storage/emulated/0/Pictures",
)
WRITABLE = ("/data/local/tmp/", "/storage/emulated/0/")
"""Where adb's user may write on a phone as it is sold."""


class FileError(OSError):
    """What a phone answers: `No such file or directory`, `Is a directory`, `No space left on device`."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file or folder. `mode` with its type bits, `mtime` in seconds since 1970, `size` in bytes."""

    name: str
    mode: int
    mtime: int
    size: int

    @property
    def folder(self) -> bool:
        return self.mode & 0o170000 == 0o040000


class VirtualFiles:
    """Folders and files by absolute path; relative paths start at `/`."""

    def __init__(self) -> None:
        self._folders = set(FOLDERS)
        self._files: dict[str, tuple[bytes, int, int]] = {}  # bytes, mode, mtime
        self._held = 0  # bytes of all files

    @staticmethod
    def resolve(path: str) -> str:
        """Absolute, without `.`, `..`, doubled slashes and the known links. Raises `FileError` on a path too long."""
        if len(path) > MAX_PATH:
            raise FileError("File name too long")
        # From the root: ".." can't leave it.
        clean = posixpath.normpath("/" + path.replace("\0", "").lstrip("/"))
        # After normalising, so that "/sdcard/.." isn't followed through the link.
        for link, target in LINKS.items():
            if clean == link or clean.startswith(link + "/"):
                clean = target + clean[len(link) :]
        return clean

    def _check_writable(self, place: str) -> None:
        if not place.startswith(WRITABLE):
            raise FileError("Permission denied" if place.startswith("/data/") else "Read-only file system")

    def stat(self, path: str) -> FileEntry | None:
        """None if there is nothing."""
        place = self.resolve(path)
        name = posixpath.basename(place) or "/"
        if place in self._folders:
            return FileEntry(name, 0o040771, 0, 4096)
        if place in self._files:
            data, mode, mtime = self._files[place]
            return FileEntry(name, mode, mtime, len(data))
        return None

    def read(self, path: str) -> bytes:
        place = self.resolve(path)
        if place in self._folders:
            raise FileError("Is a directory")
        if place not in self._files:
            raise FileError("No such file or directory")
        return self._files[place][0]

    def write(self, path: str, data: bytes, mode: int = 0o100660, mtime: int = 0, *, parents: bool = False) -> None:
        """Replace or make a file; `parents` = make its folders too, as a push does."""
        place = self.resolve(path)
        parent = posixpath.dirname(place)
        if place in self._folders:
            raise FileError("Is a directory")
        self._check_writable(place)
        if parents:
            self.mkdir(parent)
        if parent not in self._folders:
            raise FileError("No such file or directory")
        before = len(self._files[place][0]) if place in self._files else 0
        # What the file held before is free again.
        held = self._held - before + len(data)
        # Three bounds, so that no client can fill this machine's memory.
        if len(data) > MAX_FILE or held > MAX_TOTAL or len(self._files) >= MAX_FILES:
            raise FileError("No space left on device")
        self._held = held
        # Type bits are the file's own: a push can't make links or devices.
        self._files[place] = (data, 0o100000 | (mode & 0o7777), mtime)

    def mkdir(self, path: str) -> None:
        """A folder and those above it."""
        place = self.resolve(path)
        # From below upwards: folders that are there end the loop.
        while place not in self._folders:
            if place in self._files:
                raise FileError("Not a directory")
            self._check_writable(place)
            if len(self._folders) >= MAX_FILES:
                raise FileError("No space left on device")
            self._folders.add(place)
            place = posixpath.dirname(place)

    def remove(self, path: str, *, recursive: bool = False) -> None:
        place = self.resolve(path)
        if place in self._files:
            self._held -= len(self._files.pop(place)[0])
        elif place not in self._folders:
            raise FileError("No such file or directory")
        # A phone's own folders can't be removed.
        elif not recursive or place in FOLDERS:
            raise FileError("Is a directory" if not recursive else "Permission denied")
        else:
            below = place + "/"
            self._folders = {name for name in self._folders if name != place and not name.startswith(below)}
            self._files = {name: kept for name, kept in self._files.items() if not name.startswith(below)}
            # Counted anew, since many files may be gone at once.
            self._held = sum(len(data) for data, _, _ in self._files.values())

    def list(self, path: str) -> list[FileEntry]:
        """Entries of a folder by name; a file gives itself. Raises `FileError` if there is nothing."""
        place = self.resolve(path)
        found = self.stat(place)
        if found is None:
            raise FileError("No such file or directory")
        if not found.folder:
            return [found]
        names = {name for name in (*self._folders, *self._files) if name != "/" and posixpath.dirname(name) == place}
        # Links are listed beside folders, by name.
        names |= {link for link in LINKS if posixpath.dirname(link) == place}
        entries = [(name, self.stat(name)) for name in sorted(names)]
        return [FileEntry(posixpath.basename(n), e.mode, e.mtime, e.size) for n, e in entries if e is not None]

    def clear(self) -> None:
        """Back to the folders of a new phone."""
        # Everything as at the start, whatever is added to the constructor later.
        self.__init__()  # type: ignore[misc]
