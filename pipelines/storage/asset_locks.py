"""One writer per asset, and who is writing now: a file with owner and expiry, taken by exclusive creation.

<asset>/lock.json          host, pid, expires, and what the build holds: its version and its inputs
$VESPER_HOME/collect.lock  shared while a build begins or a version is promoted, exclusive while `vesper gc` deletes

These hold among the processes of one machine. A store behind a URL has a lock object of each beside them
(`pipelines.storage.object_store.leases`).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pipelines.storage.manifest import StoreError
from pipelines.storage.object_store.binding import copies_at, copies_of
from pipelines.storage.object_store.leases import COLLECT, Lease, holder_of, lease, wait_for_collection

LOCK_TTL_S = 6 * 3600
NAME, GATE = "lock.json", "collect.lock"


@dataclass(frozen=True, slots=True)
class Holder:
    """Who builds an asset now, and what that build reads: asset → version."""

    host: str
    pid: int
    version: str = ""
    inputs: Mapping[str, str] = field(default_factory=dict)


@contextlib.contextmanager
def gate(home: Path, *, exclusive: bool = False) -> Iterator[None]:
    """Shared: nothing is collected meanwhile. Exclusive: no build begins meanwhile. Both wait for the other."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / GATE).open("ab") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
        copies = copies_at(home)
        if copies is not None and exclusive:
            with lease(copies.objects, COLLECT, {}, f"{copies.objects.url}: what nobody needs"):
                yield
        else:
            yield


@contextlib.contextmanager
def writing(home: Path, root: Path, version: str, inputs: Mapping[str, str]) -> Iterator[Lease | None]:
    """Hold an asset's lock; yields the lock object's lease, if the store is behind a URL. Raises `StoreError` if
    another living process holds it, on this machine or another."""
    path = root / NAME
    with gate(home):
        root.mkdir(parents=True, exist_ok=True)
        _take(path, root, version, inputs)
    try:
        if (copies := copies_at(home)) is None:
            yield None
            return
        asset = root.relative_to(home / "assets").as_posix()
        facts = {"version": version, "inputs": dict(inputs)}
        with lease(copies.objects, copies.name(path), facts, asset) as held:
            wait_for_collection(copies.objects, asset)
            yield held
    finally:
        path.unlink(missing_ok=True)


def _take(path: Path, root: Path, version: str, inputs: Mapping[str, str]) -> None:
    owner = {
        "host": socket.gethostname(), "pid": os.getpid(), "expires": time.time() + LOCK_TTL_S, "version": version,
        "inputs": dict(inputs),
    }  # fmt: skip
    for _ in range(2):
        try:
            with path.open("x") as stream:
                json.dump(owner, stream)
            return
        except FileExistsError:
            if not _stale(path):
                raise StoreError(f"{root.name}: locked by {_told(path)}; one writer per asset") from None
            path.unlink(missing_ok=True)
    raise StoreError(f"{root}: the lock was taken by another writer just now")


def _told(path: Path) -> str:
    found = holder(path.parent)
    return f"process {found.pid} on {found.host}" if found else "a process that has just ended"


def holder(root: Path) -> Holder | None:
    """Who builds the asset of this folder now; None if nobody does.

    A process that lives on this machine holds what it took however long it runs, though another writer may take over
    after `LOCK_TTL_S`. A lock that is being written just now counts, with nothing known of it.
    """
    path = root / NAME
    if (copies := copies_of(root)) is not None:
        there = holder_of(copies.objects, copies.name(path))
        if there is None:
            return None
        return Holder(there["host"], there["pid"], there.get("version", ""), there.get("inputs", {}))
    try:
        plain = json.loads(path.read_text())
        found = Holder(str(plain["host"]), int(plain["pid"]), plain.get("version", ""), plain.get("inputs", {}))
    except OSError:
        return None
    except (ValueError, KeyError, TypeError):
        return None if _stale(path) else Holder("", 0)
    if found.host == socket.gethostname():
        return found if _lives(found.pid) else None
    return found if plain.get("expires", 0) >= time.time() else None


def _stale(path: Path) -> bool:
    """Whether a lock's owner is dead (same host) or its time is over."""
    try:
        owner = json.loads(path.read_text())
    except OSError:
        return True
    except ValueError:  # being written just now, or its writer was killed in between
        return time.time() - path.stat().st_mtime > 5
    if owner["expires"] < time.time():
        return True
    return owner["host"] == socket.gethostname() and not _lives(owner["pid"])


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
