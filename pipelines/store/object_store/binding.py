"""Which URL a home belongs to: $VESPER_STORE_URL says it for $VESPER_HOME, and the home remembers it.

    $VESPER_HOME/store_url.json   {"url", "exclusive"}: written once; workers find the store by it
    <url>/store.json              says that a store is there: a missing mount or bucket never passes for an empty store

Other homes (the scratch stores of `vesper unify --out`, of tests) have nothing to do with the variable.
"""

import json
import os
import re
from pathlib import Path

from pipelines.home import default_home
from pipelines.store.files import StoreError
from pipelines.store.object_store.copies import StoreCopies
from pipelines.store.object_store.folder import FolderObjects
from pipelines.store.object_store.objects import Objects
from pipelines.store.object_store.s3 import S3Objects
from pipelines.whole_files import whole_file

VARIABLE, FILE, MARK = "VESPER_STORE_URL", "store_url.json", "store.json"
_LAYOUT = b'{"layout": 1}\n'

_opened: dict[tuple[int, str, str], StoreCopies] = {}
"""By process (connections don't outlive a fork), home and URL."""
_stores: dict[tuple[int, str], Objects] = {}
"""By process and URL."""


def open_objects(url: str) -> Objects:
    """The objects of a URL: `s3://`, `file://`, or any protocol that fsspec knows. Raises `StoreError`."""
    # Connections don't outlive a fork, so the process is part of the key.
    key = (os.getpid(), url)
    if key not in _stores:
        _stores[key] = _new_objects(url)
    return _stores[key]


def _new_objects(url: str) -> Objects:
    _refuse_password(url)
    protocol = url.partition("://")[0] if "://" in url else ""
    if protocol in ("s3", "s3a"):
        return S3Objects(url)
    if protocol in ("file", "local"):
        return FolderObjects(url)
    if not protocol:
        raise StoreError(f"{VARIABLE}: expected a URL such as s3://bucket/prefix or file:///share, found {url[:80]!r}")
    return Objects(url)


def _refuse_password(url: str) -> None:
    """It would stand in a file and in every message."""
    if re.match(r"[a-z0-9+]+://[^/@]*:[^/@]*@", url):
        raise StoreError(f"{VARIABLE}: expected a URL without a password; give that where the protocol reads it")


def url_for(home: Path) -> str:
    """The URL that the environment names for a home; empty if none."""
    return os.environ.get(VARIABLE, "") if home == default_home() else ""


def bind(home: Path, url: str, *, holds_it: bool = False) -> StoreCopies:
    """Make a home the copy of a URL's store, for good. Raises `StoreError` if it is that of another already, holds
    assets of its own (unless `holds_it` says that they were put there), or the store can't be reached."""
    _refuse_password(url)
    url = url.rstrip("/")
    known = _read(home)
    # Bound once and for all: another URL would mix two stores in one home.
    if known is not None:
        if known["url"] != url:
            raise StoreError(f"{home}: is the copy of {known['url']}, found {VARIABLE}={url}; take another VESPER_HOME")
        return _open(home, known)
    if any((home / "assets").glob("*")) and not holds_it:
        raise StoreError(
            f"{home}: holds assets of its own, so it can't become a copy of {url}; take an empty folder, or put them "
            f"there first: python -m pipelines.store.object_store.adopt --home {home} {url}"
        )
    objects = open_objects(url)
    # The mark tells an empty store from a bucket or share that isn't there.
    if objects.read(MARK) is None:
        objects.create(MARK, _LAYOUT)
    bound = {"url": url, "exclusive": objects.exclusive and _is_exclusive(objects)}
    with whole_file(home / FILE) as part:
        part.write_text(json.dumps(bound, sort_keys=True), encoding="utf-8")
    return _open(home, bound)


def _is_exclusive(objects: Objects) -> bool:
    """Whether the store really refuses to create what is there: some that speak S3 leave conditions out of account."""
    # The mark is there, so creating it has to fail; a store that lets it through knows no conditions.
    return objects.read(MARK) is not None and not objects.create(MARK, b'{"layout": 1, "probe": true}\n')


def copies_at(home: Path) -> StoreCopies | None:
    """The copies of a home that was bound before; None if it is a store of its own."""
    known = _read(home)
    return _open(home, known) if known is not None else None


def copies_of(path: Path, folder: str = "assets") -> StoreCopies | None:
    """The same for anything below `<home>/assets`, or another folder of the home."""
    # A folder of that name may lie further up by chance: the binding decides.
    for parent in path.parents:
        if parent.name == folder and (parent.parent / FILE).exists():
            return copies_at(parent.parent)
    return None


def _read(home: Path) -> dict[str, object] | None:
    path = home / FILE
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
        return {"url": str(plain["url"]), "exclusive": bool(plain["exclusive"])}
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path}: expected the URL of a store, found {error}; delete the file to bind anew") from None


def _open(home: Path, bound: dict[str, object]) -> StoreCopies:
    url = str(bound["url"])
    key = (os.getpid(), str(home), url)
    if key not in _opened:
        objects = open_objects(url)
        # Found out once, when the home was bound.
        if not bound["exclusive"]:
            objects.exclusive = False
        if objects.read(MARK) is None:
            raise StoreError(f"{url}: expected a store ({MARK}), found none; is the bucket there, the share mounted?")
        _opened[key] = StoreCopies(home, objects)
    return _opened[key]
