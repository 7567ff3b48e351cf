"""Archives of native files, unpacked as data from strangers: no name leads out, no link is followed, no bomb works."""

from __future__ import annotations

import os
import shutil
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from pipelines.manifest import file_sha256

MAX_BYTES = 2 << 40
"""Most bytes that an archive may unpack to; the largest source known has 0.2 TB."""
MAX_RATIO = 200
"""Most bytes unpacked per byte of archive, once more than `RATIO_FROM` were unpacked."""
RATIO_FROM = 100 << 20
SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz")


class ArchiveError(ValueError):
    """An archive that is damaged, or one of whose members must not be unpacked."""


def is_archive(path: Path) -> bool:
    """Whether a path looks like an archive that `unpack` reads."""
    return path.is_file() and path.name.lower().endswith(SUFFIXES)


def unpack(archive: Path, cache: Path) -> Path:
    """Unpack into `cache/<sha256 of the archive>` and return that folder; a second call finds it there.

    Raises `ArchiveError` naming the member: an absolute name, one with `..`, a link or device, more bytes than
    `MAX_BYTES` or `MAX_RATIO` allow, or a damaged archive. Nothing of a refused archive is left behind.
    """
    target = cache / file_sha256(archive)
    if target.is_dir():
        return target
    partial = cache / f".{target.name}.{os.getpid()}"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        budget = MAX_BYTES
        for name, stream in _members(archive):
            path = _inside(partial, name, archive)
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as out:
                while block := stream.read(1 << 20):
                    budget -= len(block)
                    used = MAX_BYTES - budget
                    if budget < 0 or (used > RATIO_FROM and used > MAX_RATIO * archive.stat().st_size):
                        raise ArchiveError(
                            f"{archive.name}: {name!r} unpacks to too much ({used} bytes so far): a bomb?"
                        )
                    out.write(block)
        partial.rename(target)
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, OSError, RuntimeError) as error:
        raise ArchiveError(f"{archive.name}: damaged or unreadable archive: {error}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return target


def _members(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    if archive.name.lower().endswith(".zip"):
        with zipfile.ZipFile(archive) as source:
            for info in source.infolist():
                if (info.external_attr >> 16) & 0o170000 == 0o120000:
                    raise ArchiveError(f"{archive.name}: {info.filename!r} is a link; only plain files are unpacked")
                if not info.is_dir():
                    with source.open(info) as stream:
                        yield info.filename, stream
        return
    with tarfile.open(archive) as source:
        for member in source:
            if member.isdir():
                continue
            plain = source.extractfile(member) if member.isreg() else None
            if plain is None:
                raise ArchiveError(
                    f"{archive.name}: {member.name!r} is a link or device; only plain files are unpacked"
                )
            yield member.name, plain


def _inside(root: Path, name: str, archive: Path) -> Path:
    parts = name.replace("\\", "/").split("/")
    if name.startswith(("/", "\\")) or ".." in parts or ":" in parts[0] or "\0" in name:
        raise ArchiveError(f"{archive.name}: member {name[:120]!r} leads out of the folder it is unpacked to")
    return root.joinpath(*[part for part in parts if part not in ("", ".")])
