"""Files of a version by name, size and hash, and the error of whatever is wrong with a store."""

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


class StoreError(RuntimeError):
    """An asset is missing, failed its checks, is damaged, or is being written by someone else."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file of a version. `path` is relative to the asset's folder; `table` names a parquet file's table."""

    path: str
    table: str | None
    rows: int | None
    bytes: int
    sha256: str

    @property
    def part(self) -> str:
        """Key of the part that wrote the table: `<version>/part-<key>.<table>.parquet`."""
        return self.path.rpartition("/")[2].removeprefix("part-").removesuffix(f".{self.table}.parquet")


_SEAL = ',\n "text_sha256": "'


def sealed(text: str) -> str:
    """The text of a JSON object with one entry more at its end, the sha256 of all that stands before it: what no hash
    names can be held to itself."""
    body = text.rstrip().removesuffix("}").rstrip()
    return f'{body}{_SEAL}{hashlib.sha256(body.encode()).hexdigest()}"\n}}\n'


def require_as_sealed(text: str, place: str | Path) -> None:
    """Raises `StoreError`, which names the file, where a text isn't what was `sealed`. One that never was is let by."""
    body, mark, end = text.rpartition(_SEAL)
    if mark and end != f'{hashlib.sha256(body.encode()).hexdigest()}"\n}}\n':
        raise StoreError(
            f"{place} is damaged: its text isn't what was written. Put back a good copy, or remove it and materialise "
            "its asset again"
        )


def unsealed(text: str, place: str | Path, wanted: str, build: Callable[[dict[str, Any]], T]) -> T:
    """What `build` makes of the object that was `sealed`, whose `files` and `side_files` come as entries. Raises
    `StoreError`, which names the file and what was `wanted`, where it isn't what was written."""
    # First, as a damaged text may be no JSON.
    require_as_sealed(text, place)
    try:
        plain = json.loads(text)
        plain.pop("text_sha256", None)
        # By hand, as `asdict` took them apart: dataclasses don't nest back by themselves.
        for name in ("files", "side_files"):
            plain[name] = [FileEntry(**entry) for entry in plain[name]]
        return build(plain)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise StoreError(
            f"{place}: expected {wanted}, found {type(error).__name__}: {str(error)[:120]}; put back a good copy, or "
            "remove it and materialise its asset again"
        ) from None


def file_sha256(path: str | Path) -> str:
    """sha256 (hex) of a file's bytes, read in blocks."""
    with open(path, "rb", buffering=0) as stream:
        if os.fstat(stream.fileno()).st_size < 1 << 20:  # `file_digest` makes a buffer of 256 kB for each file
            return hashlib.sha256(stream.read()).hexdigest()
        return hashlib.file_digest(stream, "sha256").hexdigest()
