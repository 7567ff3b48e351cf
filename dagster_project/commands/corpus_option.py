"""A corpus that a command is given: a folder that `vesper unify` or `refine` wrote, or the name of an asset."""

import argparse
import atexit
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pipelines.home import default_home
from pipelines.store import Store, StoreError, has_store
from pipelines.store.choose_version import named_version
from pipelines.store.manifest import Manifest

TEXT = "what `vesper unify` wrote, or its asset in the store: unified/aitw, gold/aitw@1f2e"
TABLES = ("steps", "samples", "screens")
_NAME = re.compile(r"(?:unified|gold)/[a-z0-9_]+(?:@[A-Za-z0-9_-]+)?")


def corpus(said: str) -> Path:
    """The folder that a text means, for argparse: that folder if there is one, else one with links to the tables and
    pictures of the asset of this name in $VESPER_HOME, which goes when the command ends. Raises
    `argparse.ArgumentTypeError` if the store has no such asset."""
    path, home = Path(said), default_home()
    if path.exists() or not _NAME.fullmatch(said) or not has_store(home):
        return path
    try:
        store = Store(home)
        return _linked(store, named_version(store, said))
    except StoreError as error:
        raise argparse.ArgumentTypeError(
            f"expected a folder or a corpus of {home}, found neither a folder {said!r} nor an asset: {error}"
        ) from None


def out_beside(source: Path, word: str) -> Path:
    """Where a command writes if nobody says: beside the folder it reads, or for an asset in the current folder."""
    name = f"{source.resolve().name}-{word}"
    return Path(name) if source.parent in _made else source.with_name(name)


_made: set[Path] = set()
"""Folders of links of this process."""


def _linked(store: Store, manifest: Manifest) -> Path:
    """A folder as the commands know it. Links, not copies: nothing is written through them, and a corpus is large."""
    above = Path(tempfile.mkdtemp(prefix="vesper-corpus-"))
    atexit.register(shutil.rmtree, above, ignore_errors=True)
    _made.add(above)
    # The version in the name, so that reports say what they were made of.
    folder = above / f"{manifest.asset.replace('/', '-')}-{manifest.version[:8]}"
    folder.mkdir()
    for table, path in _tables(store, manifest):
        (folder / f"{table}-{path.name.removeprefix('part-').removesuffix(f'.{table}.parquet')}.parquet").symlink_to(
            path
        )
    for sha256 in sorted(_pictures(manifest)):
        picture = store.screen_path(sha256)
        (folder / "screens" / sha256[:2]).mkdir(parents=True, exist_ok=True)
        (folder / "screens" / sha256[:2] / picture.name).symlink_to(picture)
    return folder


def _tables(store: Store, manifest: Manifest) -> Iterator[tuple[str, Path]]:
    for table in TABLES:
        yield from ((table, path) for path in manifest.paths(table))
    source = manifest.asset.partition("/")[2]
    if not manifest.rows("screens") and (shown := store.screens_of(source)) is not None:
        yield from (("screens", path) for path in shown.paths("screens"))  # gold leaves them where they were found


def _pictures(manifest: Manifest) -> set[str]:
    """What the rows show: a picture of a row that was discarded isn't part of the corpus."""
    shown: set[str] = set()
    if manifest.rows("steps"):
        steps = manifest.read("steps", columns=["screenshot_sha256"])["screenshot_sha256"]
        shown |= {sha for sha in steps.to_pylist() if sha}
    if manifest.rows("samples"):
        shown |= {sha for row in manifest.read("samples", columns=["images"])["images"].to_pylist() for sha in row}
    return shown
