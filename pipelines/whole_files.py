"""Files that appear whole or not at all: written under another name in the same folder, then renamed into place."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from schemas.ids import canonical_json

PREFIX = ".put-"
"""Of the other name: `vesper gc` takes away what a killed process left, and listings pass it over."""


@contextlib.contextmanager
def part_beside(path: Path, *, alone: bool = False) -> Iterator[Path]:
    """A file beside `path`, whose folder is made if need be: to be written, then renamed or linked. Gone at the end,
    whatever became of it. Its name is used once, unless the writer is `alone`: then a large file that a killed process
    left is written over by the next."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if alone:
        part = path.with_name(f"{PREFIX}{path.name}.part")
    else:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=PREFIX)
        os.close(handle)
        part = Path(name)
    try:
        yield part
    except OSError as error:
        # A full disk says so to whoever writes, who knows no path.
        if error.filename is None:
            error.filename = str(path)
        raise
    finally:
        part.unlink(missing_ok=True)


@contextlib.contextmanager
def whole_file(path: Path, *, lasting: bool = False, alone: bool = False) -> Iterator[Path]:
    """The file to write instead of `path` (see `part_beside`); it takes that one's place at the end, unless an error is
    raised. `lasting`: its bytes are on the disk before that, so that a machine that loses its power leaves no empty
    file."""
    with part_beside(path, alone=alone) as part:
        yield part
        if lasting:
            sync(part)
        os.replace(part, path)


def link_file(source: Path, target: Path) -> None:
    """Make `target` the file `source`, whole or not at all: by a hard link, which costs no space; by a copy where the
    disk knows none."""
    with whole_file(target) as part:
        part.unlink()
        try:
            os.link(source, part)
        except OSError:  # another disk, or one without links
            shutil.copy2(source, part)


def put_json(path: Path, value: object) -> None:
    """Write a value as canonical JSON, whole or not at all, and lasting."""
    with whole_file(path, lasting=True) as part:
        part.write_text(canonical_json(value) + "\n", encoding="utf-8")


def sync(path: Path) -> None:
    """Wait until a file's bytes (or a folder's names) are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
