"""The lease authority's tables (SQLite, WAL) and its transactions.

Durability. Leases, heartbeats and probes are written with `synchronous=NORMAL`: a killed process loses nothing that was
committed, a power cut may lose the last commits. What that could break is fencing, so fences don't rest on them: every
start of an authority takes the next number of a term, written with `synchronous=FULL` before anything is granted, and
all fences of a term are above all of the terms before. A lease that a power cut forgot is cut off by the next one on
its device. Registrations, removals and quarantines are written with FULL. A commit with NORMAL waits for no disk, and
the authority copies the log into the database in a thread, so that an allocation doesn't wait for that either.
"""

import contextlib
import fcntl
import json
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from generators.devices.records import DeviceLease, DeviceRecord, DeviceState, LeaseRequest

TABLES = Path(__file__).with_suffix(".sql").read_text("utf-8")
TERM = 1_000_000_000
"""Fences of a term: from term * TERM on. 2**53 of JSON's integers hold nine million terms."""
LOG_PAGES = 20_000
"""The log is copied into the database by a writer itself only when it has grown so long."""


class AlreadyRunning(RuntimeError):
    """Another authority has this database open."""


class LeaseDatabase:
    """The open database. One process at a time, held by a lock on a file beside it; `":memory:"` needs none."""

    def __init__(self, path: Path | str) -> None:
        self._lock = None if str(path) == ":memory:" else _lock(Path(path))
        if self._lock is not None:
            _make_private(Path(path))
        self._path = str(path)
        # no implicit transactions: `transaction` begins and ends them
        self.db = sqlite3.connect(str(path), isolation_level=None, check_same_thread=False)
        self.db.row_factory = sqlite3.Row
        self.db.execute("PRAGMA journal_mode=WAL")
        self.db.execute("PRAGMA synchronous=FULL")
        self.db.execute(f"PRAGMA wal_autocheckpoint={LOG_PAGES}")
        self.db.execute("PRAGMA foreign_keys=ON")
        self.db.executescript(TABLES)
        self._full = True
        # written with FULL before anything is granted: see the module
        with self.transaction(durable=True) as db:
            self.first_fence = int(db.execute("INSERT INTO terms DEFAULT VALUES").lastrowid or 0) * TERM

    def copy_log(self) -> None:
        """Copy the log into the database; on a connection of its own, so any thread may, and no writer waits."""
        if self._path != ":memory:":
            with contextlib.closing(sqlite3.connect(self._path)) as db:
                db.execute("PRAGMA wal_checkpoint(PASSIVE)")

    @contextlib.contextmanager
    def transaction(self, durable: bool = False) -> Iterator[sqlite3.Connection]:
        """All or nothing; `durable` waits for the disk, with all that was committed before."""
        # a pragma is no part of a transaction, so it is set before one begins
        if durable != self._full:
            self.db.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
            self._full = durable
        # IMMEDIATE takes the write lock now, not at the first write, which might then fail
        self.db.execute("BEGIN IMMEDIATE")
        try:
            yield self.db
        except BaseException:
            self.db.execute("ROLLBACK")
            raise
        self.db.execute("COMMIT")

    def close(self) -> None:
        """Close the file and let another authority have it."""
        self.db.close()
        if self._lock is not None:
            self._lock.close()


def _make_private(path: Path) -> None:
    """The database, its log and its index are its owner's alone: they name holders, devices and their addresses."""
    # made with its rights from the start: a file that is narrowed later was open for a moment
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    for name in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        with contextlib.suppress(FileNotFoundError):  # SQLite makes the others like the first
            name.chmod(0o600)


def _lock(path: Path) -> IO[bytes]:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.fdopen(os.open(path.with_name(path.name + ".lock"), os.O_WRONLY | os.O_CREAT, 0o600), "ab")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        handle.close()
        raise AlreadyRunning(f"{path}: another lease authority has it open; stop that one first") from None
    # a child process would go on holding the lock
    os.set_inheritable(handle.fileno(), False)
    return handle


def read_lease(row: sqlite3.Row) -> DeviceLease:
    """A row of `leases`."""
    return DeviceLease(
        row["id"],
        row["request"],
        row["device"],
        row["fence"],
        row["holder"],
        row["priority"],
        row["granted_at"],
        row["expires_at"],
        row["state"],
        row["reason"],
    )


def read_request(row: sqlite3.Row) -> LeaseRequest:
    """A row of `requests`."""
    return LeaseRequest(
        row["id"],
        row["holder"],
        row["protocol"],
        tuple(json.loads(row["labels"])),
        row["device"],
        row["priority"],
        row["ttl_s"],
        row["idle_s"],
    )


def _record(row: sqlite3.Row) -> DeviceRecord:
    return DeviceRecord(
        row["id"],
        row["protocol"],
        row["host"],
        row["port"],
        tuple(json.loads(row["labels"])),
        json.loads(row["options"]),
        row["node"],
    )


def read_device_state(row: sqlite3.Row) -> DeviceState:
    """A row of `devices`, with `holder` joined to it."""
    return DeviceState(
        _record(row),
        row["health"],
        row["health_reason"],
        row["failures"],
        row["quarantined"],
        row["fence"],
        row["floor"],
        row["lease"],
        row["holder"],
        row["priority"],
    )
