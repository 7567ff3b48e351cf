"""Objects in a folder, `file:///share/vesper`: a disk that several machines mount. A write is a temporary file renamed
into place, so what is read is whole; `create` is a hard link, which fails if the name is there."""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from pipelines.store.files import StoreError
from pipelines.store.object_store.objects import Found, Listed, Objects, time_limit
from pipelines.whole_files import PREFIX, part_beside, whole_file


class FolderObjects(Objects):
    """See `Objects`. `create` and `replace` hold on one machine, and on a share whose locks work (NFS 4)."""

    exclusive = True

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self.timeout_s = time_limit()
        self._folder = Path(self.url.removeprefix("file://"))
        if not self._folder.is_absolute():
            raise StoreError(f"{url}: expected file:// and an absolute path")

    def read(self, name: str, known: Found | None = None) -> Found | None:
        """As `Objects`."""
        with self._told(f"reading {name}"):
            try:
                return Found(self._path(name).read_bytes(), "")
            except (FileNotFoundError, NotADirectoryError):
                return None

    def put(self, name: str, data: bytes) -> None:
        """As `Objects`."""
        with self._told(f"writing {name}"), whole_file(self._path(name)) as part:
            part.write_bytes(data)

    def create(self, name: str, data: bytes) -> bool:
        """As `Objects`."""
        with self._told(f"writing {name}"), part_beside(self._path(name)) as part:
            part.write_bytes(data)
            try:
                # A hard link fails if the name is there, in one step, on NFS as well.
                os.link(part, self._path(name))
            except FileExistsError:
                return False
        return True

    def replace(self, name: str, data: bytes, known: Found | None) -> bool:
        """As `Objects`."""
        if known is None:
            return self.create(name, data)
        path = self._path(name)
        # Reading, comparing and writing are one step only while the lock is held.
        with self._told(f"writing {name}"), path.with_name(f".lock-{path.name}").open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            now = self.read(name)
            if now is None or now.data != known.data:
                return False
            self.put(name, data)
        return True

    def put_file(self, name: str, path: Path) -> None:
        """As `Objects`."""
        with self._told(f"writing {name}"), whole_file(self._path(name)) as part:
            shutil.copyfile(path, part)

    def get_file(self, name: str, path: Path, size: int) -> bool:
        """As `Objects`."""
        with self._told(f"reading {name}"):
            try:
                shutil.copyfile(self._path(name), path)
            except FileNotFoundError:
                return False
        return True

    def size(self, name: str) -> int | None:
        """As `Objects`."""
        with self._told(f"looking for {name}"):
            try:
                return self._path(name).stat().st_size
            except (FileNotFoundError, NotADirectoryError):
                return None

    def listing(self, folder: str) -> dict[str, Listed]:
        """As `Objects`."""
        found = {}
        with self._told(f"listing {folder or '/'}"):
            for inner, _, names in os.walk(self._path(folder) if folder else self._folder):
                for name in names:
                    # Temporary files and locks are no objects.
                    if not name.startswith((PREFIX, ".lock-")):
                        with contextlib.suppress(FileNotFoundError):
                            status = (path := Path(inner, name)).stat()
                            found[path.relative_to(self._folder).as_posix()] = Listed(status.st_size, status.st_mtime)
        return found

    def delete(self, names: object) -> None:
        """As `Objects`."""
        for name in names:  # type: ignore[attr-defined]
            with self._told(f"deleting {name}"):
                self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self._folder / name

    @contextlib.contextmanager
    def _told(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoreError(f"{self.url}: {what} failed: {type(error).__name__}: {error.strerror}") from None
