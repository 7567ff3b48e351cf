"""One writer per asset, and who is writing now.

<asset>/build.lock         held (flock) by the writer; the kernel frees it when its holder dies, however it died
<asset>/lock.json          who holds it, for messages: host, pid, and what the build reads and makes
$VESPER_HOME/collect.lock  shared while a build begins or a version is promoted, exclusive while `vesper gc` deletes

These hold among the processes and containers of one machine. A store behind a URL has a lock object of each beside them
(`pipelines.store.object_store.leases`).
"""

import contextlib
import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pipelines.store.files import StoreError
from pipelines.store.object_store.binding import copies_at, copies_of
from pipelines.store.object_store.leases import COLLECT, StoreLease, holder_of, lease, wait_for_collection

NAME, HELD, GATE = "lock.json", "build.lock", "collect.lock"
PATIENCE_S = 1.0
"""How long a writer asks again: who only tests whether the lock is held holds it for a moment, and a killed process
until its last thread has ended."""


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
        # The file lock holds on this machine alone; behind a URL other machines collect and build, too.
        copies = copies_at(home)
        if copies is not None and exclusive:
            with lease(copies.objects, COLLECT, {}, f"{copies.objects.url}: what nobody needs"):
                yield
        else:
            yield


@contextlib.contextmanager
def writing(home: Path, root: Path, version: str, inputs: Mapping[str, str]) -> Iterator[StoreLease | None]:
    """Hold an asset's lock; yields the lock object's lease, if the store is behind a URL. Raises `StoreError` if
    another living process holds it, on this machine or another."""
    path = root / NAME
    with contextlib.ExitStack() as stack:
        # The gate is held only until the lock is: a collection that comes later sees that this asset is being
        # built.
        with gate(home):
            root.mkdir(parents=True, exist_ok=True)
            stack.enter_context(_held(root))
            owner = {"host": socket.gethostname(), "pid": os.getpid(), "version": version, "inputs": dict(inputs)}
            # Written after the lock is taken: until then it may name a process that has ended.
            path.write_text(json.dumps(owner))
            stack.callback(path.unlink, missing_ok=True)
        if (copies := copies_at(home)) is None:
            yield None
            return
        asset = root.relative_to(home / "assets").as_posix()
        facts = {"version": version, "inputs": dict(inputs)}
        # The lock of this machine first, so that its processes settle among themselves before they ask a
        # server.
        with lease(copies.objects, copies.name(path), facts, asset) as held:
            wait_for_collection(copies.objects, asset)
            yield held


@contextlib.contextmanager
def _held(root: Path) -> Iterator[None]:
    # The lock is the open file's, so the kernel lets go of it when the process dies, however it does.
    with (root / HELD).open("ab") as stream:
        until = time.monotonic() + PATIENCE_S
        while not _locked(stream.fileno(), fcntl.LOCK_EX):
            # Not at once an error: who tests whether the lock is held takes it for a moment.
            if time.monotonic() > until:
                found = _facts(root / NAME)
                raise StoreError(f"{root.name}: locked by process {found.pid} on {found.host}; one writer per asset")
            time.sleep(0.05)
        _OPEN.add(stream.fileno())
        try:
            yield
        finally:
            _OPEN.discard(stream.fileno())


_OPEN: set[int] = set()
"""Files of locks that this process holds."""


def _let_go() -> None:
    """A fork has its parent's locks as well, and would keep them when the parent is dead."""
    # Closing a copy of the descriptor leaves the parent's lock alone; a lock ends with its last open copy.
    for number in _OPEN:
        os.close(number)
    _OPEN.clear()


os.register_at_fork(after_in_child=_let_go)


def _locked(number: int, how: int) -> bool:
    """Whether an open file could be locked at once."""
    try:
        fcntl.flock(number, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def holder(root: Path) -> Holder | None:
    """Who builds the asset of this folder now; None if nobody does. A build that has only just begun counts, with
    nothing known of it."""
    if (copies := copies_of(root)) is not None:
        there = holder_of(copies.objects, copies.name(root / NAME))
        if there is None:
            return None
        return Holder(there["host"], there["pid"], there.get("version", ""), there.get("inputs", {}))
    try:
        with (root / HELD).open("rb") as stream:
            # To be able to share the lock means that no writer holds it; closing the file gives it back at
            # once.
            return None if _locked(stream.fileno(), fcntl.LOCK_SH) else _facts(root / NAME)
    except FileNotFoundError:
        return None


def _facts(path: Path) -> Holder:
    try:
        plain = json.loads(path.read_text())
        return Holder(str(plain["host"]), int(plain["pid"]), str(plain.get("version", "")), plain.get("inputs", {}))
    except (OSError, ValueError, KeyError, TypeError):  # being written just now
        # The file is written behind the lock, so it may not be whole yet.
        return Holder("an unknown host", 0)
