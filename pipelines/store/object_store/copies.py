"""The local files of a home as copies of what lies behind its URL.

Reading: a file that isn't here is fetched by its name, verified by its size and sha256, and renamed into place; one
that is here was verified when it came, or written here. Pointers, journals, manifests and receipts are asked for each
time (a conditional read where the protocol has one), since others may have changed them.

Writing, in this order: pictures, a part's files, its receipt; then the manifest; then the pointer in one conditional
PUT. Nothing that a manifest names is overwritten with other bytes. A process killed at any point leaves objects that
nothing names yet, and a rerun, here or elsewhere, takes up the parts whose receipt is there.
"""

import contextlib
import os
import re
import threading
import time
from collections.abc import Iterable
from pathlib import Path

from pipelines.store.files import FileEntry, StoreError, file_sha256
from pipelines.store.free_space import require_space
from pipelines.store.images import picture_names
from pipelines.store.named_screens import named_screens
from pipelines.store.object_store.objects import Found, Listed, Objects
from pipelines.whole_files import part_beside, whole_file

SCREENS = ".screens"
"""Beside a receipt, behind the URL only: which pictures its part names, so that `vesper gc` needn't read the tables."""
_INDEX = re.compile(r"/(?:(?:manifest|current|taken_down|alias-[a-z]+)\.json|(?:README|LICENSES)\.md)$")
"""Objects of assets that say what there is, and cards, which no manifest names."""
_RECEIPT = re.compile(r"/parts/[0-9a-f]{32}\.(?:json|screens)$")
_POINTERS = ("current.json", "gate.json")
"""Files of `feedback/` that change."""
KNOWN_S = 600.0
"""How long a picture that was seen behind the URL is taken to be there: `vesper gc` leaves young ones."""
LISTING_S = 30.0


class StoreCopies:
    """The copies in one home; safe to use from several threads."""

    def __init__(self, home: Path, objects: Objects) -> None:
        self.home, self.objects = home, objects
        self._texts: dict[str, Found] = {}
        self._screens: dict[str, float] = {}
        self._listings: dict[str, tuple[float, dict[str, Listed]]] = {}
        self._whole: dict[tuple[str, str], float] = {}
        self._turn = threading.Lock()
        self._refreshed = float("-inf")

    def name(self, path: Path) -> str:
        """The object of a file below the home."""
        return path.relative_to(self.home).as_posix()

    # Small files that change: pointers, journals, manifests, receipts.

    def read_text(self, path: Path) -> str | None:
        """What a small file says behind the URL now; the file here becomes that, or goes. None if there is none."""
        name = self.name(path)
        found = self.objects.read(name, self._texts.get(name))
        if found is None:
            self._texts.pop(name, None)
            path.unlink(missing_ok=True)
            return None
        try:
            text = found.data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise StoreError(f"{self.objects.url}/{name}: expected text in UTF-8, found {error.reason}") from None
        # Unchanged: neither written again here nor remembered anew.
        if found is not self._texts.get(name) or not path.exists():
            _put(path, found.data)
            self._texts[name] = found
        return text

    def forget(self, path: Path) -> None:
        """A small file turned out to be damaged: it is read whole the next time."""
        self._texts.pop(self.name(path), None)

    def forget_all(self) -> None:
        """The copies were dropped."""
        self._texts.clear()
        self._screens.clear()
        self._listings.clear()
        self._whole.clear()
        self._refreshed = float("-inf")

    def write_text(self, path: Path, text: str) -> None:
        """Put a small file, there and then here."""
        data = text.encode("utf-8")
        # There first: killed in between, this copy is old, and is read anew.
        self.objects.put(self.name(path), data)
        self._texts.pop(self.name(path), None)
        _put(path, data)

    def replace_text(self, path: Path, text: str) -> None:
        """Put a small file in place of what `read_text` gave last. Raises `StoreError` if another machine has changed
        it since."""
        name, data = self.name(path), text.encode("utf-8")
        if not self.objects.replace(name, data, self._texts.get(name)):
            raise StoreError(f"{self.objects.url}/{name}: another machine changed it just now; run this again")
        self._texts.pop(name, None)
        _put(path, data)

    def refresh(self, every_s: float = 60.0) -> None:
        """Make pointers, manifests and what `feedback/` promoted be here, so that a look into the home shows what there
        is; at most so often."""
        with self._turn:
            if time.monotonic() - self._refreshed < every_s:
                return
            self.fetch_index(receipts=False)
            self._refresh_feedback()
            (self.home / "assets").mkdir(parents=True, exist_ok=True)
            self._refreshed = time.monotonic()

    def _refresh_feedback(self) -> None:
        """Sets that were promoted are named by their digest and verified by whoever reads them; pointers come last."""
        # Sets lie deeper than their pointers, which are to come last.
        for name, found in sorted(self.objects.listing("feedback").items(), key=lambda one: one[0].count("/") < 3):
            path = self._inside(name)
            if path.name in _POINTERS:
                self.read_text(path)
            elif not _is_here(path, found.bytes):
                # Whole under another name, then renamed: readers of the folder see it or don't.
                with part_beside(path) as part:
                    if self.objects.get_file(name, part, found.bytes):
                        os.replace(part, path)

    def put_feedback(self, path: Path) -> None:
        """Put a small file of `feedback/<name>/`, and before its pointer the set that this names."""
        # Whoever finds the pointer there must find the set that it names.
        if path.name == "current.json":
            sets = [one for one in path.parent.glob("*/**/*") if one.is_file() and ".making-" not in one.as_posix()]
            there = self.objects.listing(self.name(path.parent))
            missing = [name for one in sets if (name := self.name(one)) not in there]
            self.objects.each(lambda name: self.objects.put_file(name, self.home / name), missing)
        self.objects.put_file(self.name(path), path)

    def fetch_index(self, *, receipts: bool = True) -> dict[str, Listed]:
        """Make all manifests, pointers and tombstones (and receipts) here those behind the URL, each as old as it is
        there; all objects of all assets."""
        there = self.objects.listing("assets")
        small = {name: found for name, found in there.items() if _INDEX.search(name)}
        if receipts:
            small |= {name: found for name, found in there.items() if _RECEIPT.search(name)}
        # By size and time, so that a store of thousands of manifests asks for few.
        changed = [name for name, found in small.items() if not _is_copy(self._inside(name), found)]
        self.objects.each(lambda name: self.read_text(self.home / name), changed)
        for name in changed:
            with contextlib.suppress(FileNotFoundError):
                # As old as it is there: ages decide what `vesper gc` may delete.
                os.utime(self.home / name, (small[name].made, small[name].made))
        for path in (self.home / "assets").rglob("manifest.json"):
            # A listing may be some seconds behind what this machine has just written.
            if self.name(path) not in there and time.time() - path.stat().st_mtime > LISTING_S:
                path.unlink(missing_ok=True)
        return there

    def delete(self, paths: Iterable[Path]) -> None:
        """Delete files there and then here."""
        listed = list(paths)
        self.objects.delete(self.name(path) for path in listed)
        for path in listed:
            self._texts.pop(self.name(path), None)
            self._screens.pop(path.stem, None)
            path.unlink(missing_ok=True)
        self._listings.clear()
        self._whole.clear()

    # Files that a manifest or a receipt names by their hash.

    def fetch(self, root: Path, entries: Iterable[FileEntry], version: str = "") -> None:
        """Make files of an asset be here; a whole `version` is looked at once in a while only. Raises `StoreError` for
        one that isn't behind the URL, or has other bytes than its entry says."""
        # Every look into a version would else ask for each of its files.
        if version and time.monotonic() - self._whole.get((str(root), version), float("-inf")) < LISTING_S:
            return
        missing = {self.name(self._inside_of(root, entry.path)): entry for entry in entries}
        missing = {name: entry for name, entry in missing.items() if not _is_here(self.home / name, entry.bytes)}
        if missing:
            # Before the first byte, as half of a checkpoint is of no use.
            require_space(self.home, sum(entry.bytes for entry in missing.values()), f"fetching {len(missing)} files")
            self.objects.each(lambda name: self._fetch(name, missing[name].bytes, missing[name].sha256), missing)
        if version:
            self._whole[str(root), version] = time.monotonic()

    def _fetch(self, name: str, size: int, sha256: str) -> None:
        path = self.home / name
        for attempt in (1, 2):  # a connection may have been cut
            with part_beside(path) as part:
                if not self.objects.get_file(name, part, size):
                    raise StoreError(f"{self.objects.url}/{name}: named by the store but missing; was it collected?")
                found = file_sha256(part)
                if found == sha256:
                    os.replace(part, path)
                    return
                if attempt == 2:
                    raise StoreError(
                        f"{self.objects.url}/{name}: expected {size} bytes with sha256 {sha256}, found "
                        f"{part.stat().st_size} with {found}; refused"
                    )

    def fetch_unnamed(self, paths: Iterable[Path]) -> None:
        """Fetch files whose hash nobody stated: for reading, not as evidence."""
        # Of an object that nobody named by its hash only the length can be checked.
        sizes = {self.name(path): self.objects.size(self.name(path)) for path in paths}
        for name, size in sizes.items():
            if size is not None:
                with part_beside(self._inside(name)) as part:
                    if self.objects.get_file(name, part, size):
                        os.replace(part, self.home / name)

    def screen(self, sha256: str) -> Path | None:
        """Fetch a picture by the hash of its bytes; None if there is none."""
        for name in picture_names(sha256):
            size = self.objects.size(name)
            if size is not None:
                self._fetch(name, size, sha256)
                return self.home / name
        return None

    # A part, and what must be there before a version is committed.

    def sizes(self, root: Path, *, fresh: bool = False) -> dict[str, Listed]:
        """All objects of an asset by their path within it; a listing is good for `LISTING_S`."""
        name = self.name(root)
        listed_at, found = self._listings.get(name, (float("-inf"), {}))
        # Good for a while: each rerun asks for the receipts of all parts.
        if fresh or time.monotonic() - listed_at > LISTING_S:
            start = len(name) + 1
            found = {path[start:]: listed for path, listed in self.objects.listing(name).items()}
            self._listings[name] = (time.monotonic(), found)
        return found

    def has(self, root: Path, entry: FileEntry) -> bool:
        """Whether a file is behind the URL with the bytes that its entry counts."""
        there = self.sizes(root).get(entry.path)
        return there is not None and there.bytes == entry.bytes

    def put_part(self, root: Path, receipt: Path, entries: Iterable[FileEntry]) -> None:
        """Put a finished part: the pictures that it names, its files, its receipt."""
        listed = list(entries)
        named = self._put_files(root, listed)
        # Pictures, files, receipt: in this order nobody finds a receipt that isn't true.
        self.objects.put(self.name(receipt.with_suffix(SCREENS)), "".join(f"{sha}\n" for sha in sorted(named)).encode())
        self.objects.put_file(self.name(receipt), receipt)
        # The listing in memory is kept true, or this machine would not see its own part.
        if (listing := self._listings.get(self.name(root))) is not None:
            now = time.time()
            listing[1].update({entry.path: Listed(entry.bytes, now) for entry in listed})
            listing[1][receipt.relative_to(root).as_posix()] = Listed(receipt.stat().st_size, now)

    def require_files(self, root: Path, entries: Iterable[FileEntry]) -> None:
        """Before a commit: all files are there, and what is missing but here is put. Raises `StoreError` for what is
        nowhere."""
        there = self.sizes(root, fresh=True)
        # Missing or of another size: put again if it is here, else it is lost.
        lost = [e for e in entries if (found := there.get(e.path)) is None or found.bytes != e.bytes]
        for entry in lost:
            if not _is_here(self._inside_of(root, entry.path), entry.bytes):
                raise StoreError(
                    f"{self.objects.url}/{self.name(root)}/{entry.path}: was there and has gone since (collected?); "
                    "run it again"
                )
        if lost:
            self._put_files(root, lost)

    def _put_files(self, root: Path, entries: list[FileEntry]) -> set[str]:
        """Returns what may be names of pictures in these files."""
        paths = [self._inside_of(root, entry.path) for entry in entries]
        named = named_screens(path for path in paths if path.exists())
        self._put_screens(named)
        self.objects.each(lambda name: self.objects.put_file(name, self.home / name), [self.name(p) for p in paths])
        return named

    def _put_screens(self, named: Iterable[str]) -> None:
        """Put the pictures of these names that are here and not there."""
        now = time.monotonic()
        here = {}
        for sha256 in sorted(named):
            # Asked again after a while, as pictures may have been collected.
            if now - self._screens.get(sha256, float("-inf")) > KNOWN_S:
                here.update({name: sha256 for name in picture_names(sha256) if (self.home / name).exists()})

        def put(name: str) -> None:
            path = self.home / name
            if self.objects.size(name) != path.stat().st_size:
                self.objects.put_file(name, path)

        self.objects.each(put, here)
        self._screens.update(dict.fromkeys(here.values(), now))

    def _inside(self, name: str) -> Path:
        return self._inside_of(self.home, name)

    def _inside_of(self, root: Path, name: str) -> Path:
        """A path that a remote text names. Raises `StoreError` if it leads out of its folder."""
        # A remote text may say `../..`, so its path is resolved before it is compared.
        path = Path(os.path.normpath(root / name))
        if not name or not path.is_relative_to(root) or path == root:
            raise StoreError(f"{self.objects.url}: expected the name of a file within {root.name}, found {name[:80]!r}")
        return path


def _is_here(path: Path, size: int) -> bool:
    try:
        return path.stat().st_size == size
    except (FileNotFoundError, NotADirectoryError):
        return False


def _is_copy(path: Path, found: Listed) -> bool:
    """Whether a small file is as long and as old as it is there."""
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return (status.st_size, int(status.st_mtime)) == (found.bytes, int(found.made))


def _put(path: Path, data: bytes) -> None:
    with whole_file(path) as part:
        part.write_bytes(data)
