"""Taking records down behind a URL: all of the store comes here first, and what other machines keep of it goes.

`takedown.json` lies behind the URL too. A machine that finds it changed drops its copies of parts, receipts and of the
pictures that it names before it does anything else: what it needs is fetched again, or made again without the records.
"""

import contextlib
import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from pipelines.store.files import StoreError
from pipelines.store.images import picture_names
from pipelines.store.manifest import Manifest
from pipelines.store.object_store.copies import StoreCopies
from pipelines.store.small_greys import SmallGreys
from pipelines.whole_files import whole_file

NAME = "takedown.json"
GATE = "collect.lock"
_FOLDER = re.compile(r"[0-9a-f]{16}|parts")


def fetch_everything(copies: StoreCopies) -> None:
    """Make all files of all assets be here, those too that no manifest names. Raises `StoreError`."""
    there = copies.fetch_index()
    for name in there:
        if name.endswith("/manifest.json"):
            path = copies.home / name
            manifest = Manifest.from_json(path.read_text("utf-8", "replace"), path.parents[1], path)
            copies.fetch(manifest.folder, [*manifest.files, *manifest.side_files])
    # What no manifest names may hold the record as well.
    copies.fetch_unnamed(path for name in there if not (path := copies.home / name).exists())


def remote_screens(copies: StoreCopies, named: Iterable[str]) -> Iterator[Path]:
    """Where pictures of these names would lie here, of those that are behind the URL."""
    for sha256 in named:
        for name in picture_names(sha256):
            if copies.objects.size(name) is not None:
                yield copies.home / name


def heed(copies: StoreCopies, *, gate_held: bool = False) -> None:
    """Look for what was taken down since; if so, drop what is here of it, with the home's gate closed (`gate_held`: by
    the caller). Raises `StoreError`."""
    path = copies.home / NAME
    found = copies.objects.read(NAME)
    if found is None or _text_of(path) == found.data:
        return
    copies.home.mkdir(parents=True, exist_ok=True)
    with (copies.home / GATE).open("ab") as stream:
        # Exclusive: no build may take up a part that is about to go.
        if not gate_held:
            fcntl.flock(stream, fcntl.LOCK_EX)
        if _text_of(path) == found.data:  # another process has just done it
            return
        _drop(copies, found.data)
        with whole_file(path) as part:  # last: a process killed before does it all again
            part.write_bytes(found.data)


def _text_of(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _drop(copies: StoreCopies, listed: bytes) -> None:
    try:
        screens = [str(name) for name in json.loads(listed)["screens"]]
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"{copies.objects.url}/{NAME}: expected what was taken down, found {error}") from None
    # Everything but pictures: it is fetched again without the records, or made again.
    for folder, folders, _ in os.walk(copies.home / "assets"):
        for name in [name for name in folders if _FOLDER.fullmatch(name)]:
            shutil.rmtree(Path(folder, name), ignore_errors=True)
            folders.remove(name)
    greys = SmallGreys(copies.home / "cache" / "greys")
    for sha256 in screens:
        # The list came over the network: only what has the form of a digest becomes a path.
        if re.fullmatch(r"[0-9a-f]{64}", sha256):
            for name in picture_names(sha256):
                with contextlib.suppress(FileNotFoundError):
                    (copies.home / name).unlink()
            greys.remove(sha256)
    # What this process remembers of the store is no longer true.
    copies.forget_all()
