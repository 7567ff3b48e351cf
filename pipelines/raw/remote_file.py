"""A file of a dataset repository as the hub lists it, and what a pull that fails raises."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ATTEMPTS = 5
FIRST_WAIT_S = 1.0


class PullError(RuntimeError):
    """A pull that can't go on; what is whole stays, and the next pull takes it up."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file of a repository. `sha256` is set for large files, `blob` (git's sha1) for all others."""

    path: str
    size: int
    sha256: str | None
    blob: str | None

    def matches(self, path: Path) -> bool:
        """Whether a local file has these bytes."""
        if not path.is_file() or path.stat().st_size != self.size:
            return False
        if self.sha256 is not None:
            return _hashed(path, hashlib.sha256()) == self.sha256
        # git's id of a blob: sha1 over its length and its bytes.
        return self.blob is None or _hashed(path, hashlib.sha1(b"blob %d\0" % self.size)) == self.blob


def _hashed(path: Path, state: Any) -> str:
    for block in _blocks(path):
        state.update(block)
    return str(state.hexdigest())


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            yield block
