"""What is known of pictures that were verified before, so that none is decoded twice.

    <home>/cache/pictures/<version>/ab.info     records of sha256, width, height, perceptual hash, kind
    <home>/cache/pictures/<version>/ab.pixels   records of the digest of raw pixels, or of a picture that isn't
                                                plain → sha256 of their PNG

Files of fixed-size records, by the first two hex digits; workers append whole records, so several may write at once. A
record that was cut by a kill, or in which a bit rotted, is passed over. What is looked up is a function of the bytes
alone: an entry that got lost costs one decoding.
"""

import contextlib
import zlib
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

import numpy as np

from pipelines.store.images import ENDINGS, MAX_PIXELS, MAX_SIDE_PX, ImageInfo

_CHECK = ("check", "u8")
"""CRC of what stands before it in a record: a width in which a bit rotted would move every box of its picture."""
_INFO = np.dtype([("sha", "u8", 4), ("width", "u4"), ("height", "u4"), ("phash", "u8"), ("kind", "u8"), _CHECK])
_PIXELS = np.dtype([("key", "u8", 4), ("sha", "u8", 4), _CHECK])
_FLUSH = 1024
"""Records held before they are written: what a killed part may decode again."""


class KnownPictures:
    """Verified pictures of a store. `screens` is its folder of pictures, `folder` holds the records."""

    def __init__(self, folder: Path, screens: Path) -> None:
        self._folder = folder / f"3-{MAX_PIXELS}-{MAX_SIDE_PX}"  # other limits or rules verify anew
        self._screens = screens
        self._new: dict[str, ImageInfo] = {}
        self._new_pixels: dict[str, str] = {}
        self._tables: dict[tuple[str, str], np.ndarray] = {}

    def get(self, sha256: str) -> ImageInfo | None:
        """A picture by the hash of its bytes; None if it was never verified here."""
        if sha256 in self._new:
            return self._new[sha256]
        row = self._find(f"{sha256[:2]}.info", _INFO, "sha", sha256)
        if row is None:
            return None
        # The place in `ENDINGS` is what is stored, so endings may only be added at its end.
        ext = ENDINGS[int(row["kind"])]
        return ImageInfo(sha256, ext, int(row["width"]), int(row["height"]), int(row["phash"]))

    def of_pixels(self, key: str) -> ImageInfo | None:
        """The stored PNG of raw pixels, or of a picture that isn't plain, by their digest; None if it isn't stored."""
        sha256 = self._new_pixels.get(key)
        if sha256 is None:
            row = self._find(f"{key[:2]}.pixels", _PIXELS, "key", key)
            sha256 = row["sha"].tobytes().hex() if row is not None else None
        # A note of a picture that was collected since is no picture.
        if sha256 is None or not (self._screens / sha256[:2] / f"{sha256}.png").exists():
            return None
        return self.get(sha256)

    def add(self, info: ImageInfo) -> None:
        """Remember a picture that was verified."""
        self._new[info.sha256] = info
        if len(self._new) + len(self._new_pixels) >= _FLUSH:
            self.save()

    def add_pixels(self, key: str, info: ImageInfo) -> None:
        """Remember which PNG raw pixels became."""
        self._new_pixels[key] = info.sha256
        self.add(info)

    def save(self) -> None:
        """Append what is new to the files."""
        files: dict[str, list[bytes]] = {}
        # Appended in one write, whole records: several workers share the files without a lock.
        for sha256, info in self._new.items():
            row = np.zeros(1, _INFO)
            row["sha"], row["width"], row["height"] = _words(sha256), info.width_px, info.height_px
            row["phash"], row["kind"] = info.phash, ENDINGS.index(info.ext)
            files.setdefault(f"{sha256[:2]}.info", []).append(_checked(row))
        for key, sha256 in self._new_pixels.items():
            row = np.zeros(1, _PIXELS)
            row["key"], row["sha"] = _words(key), _words(sha256)
            files.setdefault(f"{key[:2]}.pixels", []).append(_checked(row))
        if files:
            self._folder.mkdir(parents=True, exist_ok=True)
        for name, rows in files.items():
            with (self._folder / name).open("ab", buffering=0) as stream:
                stream.write(b"".join(rows))
        self._new.clear()
        self._new_pixels.clear()
        # Read anew next time, with what other workers appended meanwhile.
        self._tables.clear()

    def _find(self, name: str, kind: np.dtype, field: str, key: str) -> np.void | None:
        table = self._tables.get((name, field))
        if table is None:
            path = self._folder / name
            # A record that was cut by a kill isn't counted; it shifts none before it.
            size = path.stat().st_size // kind.itemsize if path.exists() else 0
            table = np.memmap(path, kind, "r", shape=(size,)) if size else np.zeros(0, kind)
            self._tables[name, field] = table
        wanted = _words(key)
        # By the first 8 bytes of the hash, then by all 32 of the few that agree.
        for place in np.flatnonzero(table[field][:, 0] == wanted[0]):
            data = table[place].tobytes()
            if (table[field][place] == wanted).all() and _checked(table[place : place + 1].copy()) == data:
                return table[place]
        return None


def _checked(row: np.ndarray) -> bytes:
    """A record with its check."""
    row["check"] = zlib.crc32(row.tobytes()[: -row.dtype["check"].itemsize])
    return row.tobytes()


def _words(sha256: str) -> np.ndarray:
    return np.frombuffer(bytes.fromhex(sha256), np.uint64)


_current: ContextVar[KnownPictures | None] = ContextVar("known_pictures", default=None)


def known_pictures() -> KnownPictures | None:
    """Those of the part that is being made; None outside of one."""
    return _current.get()


@contextlib.contextmanager
def using(known: KnownPictures) -> Iterator[None]:
    """Let `Screen.load` and `Screen.of_pixels` ask and tell these."""
    token = _current.set(known)
    try:
        yield
    finally:
        _current.reset(token)
        known.save()
