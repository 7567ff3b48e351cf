"""Questions to the lease authority's tables: which device suits a request, and where a request stands. Read only."""

import contextlib
import json
import sqlite3

from generators.devices.records import LeaseRequest, LeaseWaiting, Unknown

USABLE = "quarantined = '' AND health <> 'down' AND removed = 0"
"""As in the partial indexes of `authority.lease_tables`, word for word: SQLite takes them only then."""


def _suiting(request: LeaseRequest) -> tuple[str, list[str]]:
    """WHERE clause over devices, with its values: protocol, each label, the device if one is named."""
    clause, values = ["protocol = ?"], [request.protocol]
    for label in sorted(set(request.labels)):
        clause.append("EXISTS (SELECT 1 FROM device_labels WHERE device = devices.id AND label = ?)")
        values.append(label)
    if request.device:
        clause.append("id = ?")
        values.append(request.device)
    return " AND ".join(clause), values


def free_device(db: sqlite3.Connection, request: LeaseRequest) -> str | None:
    """The free device that was given back longest ago."""
    clause, values = _suiting(request)
    row = db.execute(
        # the one unused longest, so that all devices are worn alike
        f"SELECT id FROM devices WHERE {clause} AND lease IS NULL AND {USABLE} ORDER BY free_at, id LIMIT 1",
        values,
    ).fetchone()
    return None if row is None else str(row["id"])


def lowest_held(db: sqlite3.Connection, request: LeaseRequest) -> sqlite3.Row | None:
    """The held device of the lowest priority below the request's; of equals the one held shortest."""
    clause, values = _suiting(request)
    row: sqlite3.Row | None = db.execute(
        f"SELECT id, lease FROM devices WHERE {clause} AND lease IS NOT NULL AND priority < ? AND {USABLE} "
        # least is lost where the lease has run shortest
        "ORDER BY priority, granted_at DESC, id LIMIT 1",
        (*values, request.priority),
    ).fetchone()
    return row


def first_waiting(db: sqlite3.Connection, device: sqlite3.Row) -> sqlite3.Row | None:
    """The first request in the queue that a device (a row of `devices`) suits."""
    labels = set(json.loads(device["labels"]))
    waiting = db.execute("SELECT * FROM requests WHERE protocol = ? ORDER BY priority DESC, seq", (device["protocol"],))
    with contextlib.closing(waiting):
        for row in waiting:
            # labels aren't indexed for requests: of a protocol few wait at a time
            if row["device"] in ("", device["id"]) and labels.issuperset(json.loads(row["labels"])):
                found: sqlite3.Row = row
                return found
    return None


def is_wanted(db: sqlite3.Connection, lease: sqlite3.Row) -> bool:
    """Whether a holder (of a row of `leases`) has more than its share: the first in line for its device is another of
    the same priority that has fewer devices of the protocol."""
    device = db.execute("SELECT * FROM devices WHERE id = ?", (lease["device"],)).fetchone()
    first = first_waiting(db, device)
    # a lower priority that waits is no reason to give back
    if first is None or first["holder"] == lease["holder"] or first["priority"] < lease["priority"]:
        return False
    held = (
        "SELECT count(*) FROM leases JOIN devices ON devices.id = leases.device "
        "WHERE leases.holder = ? AND leases.state = 'live' AND protocol = ?"
    )
    ours, theirs = (
        db.execute(held, (holder, device["protocol"])).fetchone()[0] for holder in (lease["holder"], first["holder"])
    )
    return bool(theirs < ours)


def check_possible(db: sqlite3.Connection, request: LeaseRequest) -> None:
    """Raises `Unknown` if no registered device, whatever its state, could ever suit."""
    clause, values = _suiting(request)
    if db.execute(f"SELECT 1 FROM devices WHERE {clause} AND removed = 0 LIMIT 1", values).fetchone() is None:
        wanted = ", ".join((request.protocol, *request.labels, *([request.device] if request.device else [])))
        raise Unknown(f"lease: no registered device has {wanted}; register one, or ask for less")


def place(db: sqlite3.Connection, row: sqlite3.Row) -> LeaseWaiting:
    """Where a row of `requests` stands."""
    ahead = db.execute(
        "SELECT count(*) FROM requests WHERE protocol = ?1 AND (priority > ?2 OR (priority = ?2 AND seq < ?3))",
        (row["protocol"], row["priority"], row["seq"]),
    ).fetchone()[0]
    return LeaseWaiting(row["id"], ahead)
