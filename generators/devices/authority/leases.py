"""The lease authority's state machine: who may use which device, until when, under which fencing token.

It keeps everything in SQLite and knows no network. Invariants, held by model-based tests:
- a device has at most one live lease (the database itself refuses a second);
- a device's fencing token only grows, also over crashes, power cuts and re-registration;
- a lease that has ended never lives again;
- while a request waits, no device that suits it stands free;
- what was committed is there after a crash at any point (a power cut may cost the last commits, see
  `generators.devices.authority.lease_tables`).
"""

import json
import secrets
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

from generators.devices import records
from generators.devices.authority.lease_ledger import LeaseLedger
from generators.devices.authority.lease_queries import check_possible, free_device, is_wanted, lowest_held, place
from generators.devices.authority.lease_tables import LeaseDatabase, read_device_state, read_lease, read_request


class Leases:
    """The state machine. `clock` gives seconds since 1970; if it is set back, time stands still meanwhile. `ids` makes
    the names of leases. Every call first ends what is overdue."""

    def __init__(
        self,
        path: Path | str,
        rules: records.Rules | None = None,
        clock: Callable[[], float] = time.time,
        ids: Callable[[], str] = lambda: secrets.token_hex(16),
    ) -> None:
        self.rules = rules or records.Rules()
        self._clock = clock
        self._tables = LeaseDatabase(path)
        self._db = self._tables.db
        # the latest time that was ever written: a clock that was set back can't undo a deadline
        last = self._db.execute(
            "SELECT max(coalesce(max(beat_at), 0), coalesce(max(ended_at), 0)) FROM leases"
        ).fetchone()[0]
        self._latest = float(last)
        self._ledger = LeaseLedger(self._tables, self.rules, ids)
        self._resume()

    def copy_log(self) -> None:
        """Housekeeping that may wait for the disk, safe in another thread (`LeaseDatabase.copy_log`)."""
        self._tables.copy_log()

    def close(self) -> None:
        """Close the database; leases go on."""
        self._tables.close()

    def now(self) -> float:
        """The clock, never behind what it has already said."""
        self._latest = max(self._latest, self._clock())
        return self._latest

    def _resume(self) -> None:
        """While the authority was away nobody could beat or poll: silence counts from now, the TTL runs on."""
        now = self.now()
        with self._tables.transaction() as db:
            db.execute(
                "UPDATE leases SET beat_at = ?1, used_at = ?1, deadline = min(expires_at, ?1 + ?2, ?1 + idle_s) "
                "WHERE state = 'live'",
                (now, self.rules.dead_s),
            )
            db.execute("UPDATE requests SET seen_at = ?", (now,))
            db.execute("UPDATE nodes SET seen_at = ?", (now,))

    # -- devices ----------------------------------------------------------------------------------------------------

    def register(self, device: records.DeviceRecord) -> None:
        """Add a device, or change one: its fence, failures, quarantine and lease stay. A lease on a device whose
        address changed goes on; its tokens still name the old address, so the change ends it ("removed")."""
        now = self.now()
        with self._tables.transaction(durable=True) as db:
            old = db.execute("SELECT protocol, host, port, lease FROM devices WHERE id = ?", (device.id,)).fetchone()
            labels, options = json.dumps(sorted(set(device.labels))), json.dumps(dict(device.options), sort_keys=True)
            db.execute(
                "INSERT INTO devices (id, protocol, host, port, labels, options, node, change, free_at) "
                "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT (id) DO UPDATE SET protocol = ?2, host = ?3, "
                "port = ?4, labels = ?5, options = ?6, node = ?7, change = ?8, removed = 0",
                (
                    device.id,
                    device.protocol,
                    device.host,
                    device.port,
                    labels,
                    options,
                    device.node,
                    self._ledger.next_change(),
                    now,
                ),
            )
            # labels are replaced whole: those that are gone must not match a request
            db.execute("DELETE FROM device_labels WHERE device = ?", (device.id,))
            db.executemany(
                "INSERT INTO device_labels VALUES (?, ?)", [(device.id, label) for label in set(device.labels)]
            )
            # the address is part of the tokens that are out: they lead to a place where it no longer is
            if old is not None and tuple(old)[:3] != (device.protocol, device.host, device.port):
                db.execute("UPDATE devices SET health = 'unknown', health_reason = '' WHERE id = ?", (device.id,))
                if old["lease"]:
                    self._ledger.end(old["lease"], "removed", f"device {device.id} moved to another address", now)
            self._ledger.offer(device.id, now)

    def remove(self, device: str) -> None:
        """Take a device out; its lease ends. Its fence is remembered for the day it comes back."""
        now = self.now()
        with self._tables.transaction(durable=True) as db:
            row = self._ledger.device_row(device)
            db.execute("UPDATE devices SET removed = 1, change = ? WHERE id = ?", (self._ledger.next_change(), device))
            if row["lease"]:
                self._ledger.end(row["lease"], "removed", f"device {device} was removed", now)

    def devices(self) -> list[records.DeviceState]:
        """All registered devices by id."""
        self.tick()
        rows = self._db.execute(
            "SELECT devices.*, leases.holder AS holder FROM devices LEFT JOIN leases ON leases.id = devices.lease "
            "WHERE removed = 0 ORDER BY devices.id"
        )
        return [read_device_state(row) for row in rows]

    def set_health(self, device: str, up: bool, reason: str = "") -> None:
        """What a probe found. A device that is down isn't given out; a lease that lives on it goes on."""
        row = self._ledger.device_row(device)
        health = "up" if up else "down"
        # most probes find what the last one found: nothing is written for them
        if row["health"] == health and row["health_reason"] == reason[:300]:
            return
        now = self.now()
        with self._tables.transaction() as db:
            db.execute("UPDATE devices SET health = ?, health_reason = ? WHERE id = ?", (health, reason[:300], device))
            self._ledger.offer(device, now)

    def fail(self, device: str, reason: str, lease: str = "", fence: int = -1) -> bool:
        """An infrastructure failure of a device, reported by the holder of its lease (`lease`, `fence`) or, with
        neither, by an administrator, whose word is enough. A lease counts once, and what one holder alone reports puts
        nothing away that answers its probe. True if it is now in quarantine, which ends its lease. Raises `LeaseEnded`
        for a lease that isn't live: a holder that was cut off can't put a device away."""
        self.tick()
        now, holders = self.now(), self.rules.quarantine_holders
        with self._tables.transaction(durable=True) as db:
            row = self._ledger.device_row(device)
            if lease:
                # raises for a lease that has ended: who was cut off may be the one at fault
                held = self._ledger.live_row(lease, fence)
                if held["device"] != device:
                    raise records.Unknown(f"lease {lease}: it is on {held['device']}, not on {device}")
                if held["failed"]:  # one holder's word is one failure, however often it says so
                    return bool(row["quarantined"])
                db.execute("UPDATE leases SET failed = 1 WHERE id = ?", (lease,))
            failures = row["failures"] + 1
            db.execute("UPDATE devices SET failures = ? WHERE id = ?", (failures, device))
            confirmed = not lease or row["health"] == "down" or self._reporters(device, failures) >= holders
            if failures < self.rules.quarantine_after or row["quarantined"] or not confirmed:
                return bool(row["quarantined"])
            why = f"{failures} infrastructure failures in a row, the last: {reason[:300]}"
            db.execute("UPDATE devices SET quarantined = ? WHERE id = ?", (why, device))
            if row["lease"]:
                self._ledger.end(row["lease"], "quarantined", f"device {device} was quarantined: {why}", now)
            return True

    def _reporters(self, device: str, failures: int) -> int:
        """How many holders the last so many failures of a device come from."""
        # the newest failures by fence, which only grows
        last = "SELECT holder FROM leases WHERE device = ? AND failed = 1 ORDER BY fence DESC LIMIT ?"
        found = self._db.execute(f"SELECT count(DISTINCT holder) FROM ({last})", (device, failures))
        return int(found.fetchone()[0])

    def readmit(self, device: str) -> None:
        """Out of quarantine, with a clean slate."""
        now = self.now()
        with self._tables.transaction(durable=True) as db:
            self._ledger.device_row(device)
            db.execute("UPDATE devices SET quarantined = '', failures = 0 WHERE id = ?", (device,))
            self._ledger.offer(device, now)

    def device(self, device: str) -> records.DeviceState:
        """One device. Raises `Unknown`."""
        row = self._db.execute(
            "SELECT devices.*, leases.holder AS holder FROM devices LEFT JOIN leases ON leases.id = devices.lease "
            "WHERE devices.id = ? AND removed = 0",
            (device,),
        ).fetchone()
        if row is None:
            raise records.Unknown(f"device {device[:80]}: not registered")
        return read_device_state(row)

    # -- leases -----------------------------------------------------------------------------------------------------

    def ask(self, request: records.LeaseRequest) -> records.DeviceLease | records.LeaseWaiting:
        """A lease on a free device (the one unused longest); else on the device of the lowest priority below the
        request's, whose lease ends; else a place in the queue. The same request again gives the same lease, or its
        place. Raises `LeaseEnded` if its lease has ended, `Unknown` if no registered device could ever suit."""
        standing, now = self.look(request), self.now()
        if isinstance(standing, records.LeaseWaiting):
            # a sixth of the silence allowed: often enough that a poll more or less doesn't matter
            old = request.id, now - self.rules.dead_s / 6  # it may be requested often
            if self._db.execute("SELECT 1 FROM requests WHERE id = ? AND seen_at < ?", old).fetchone():
                with self._tables.transaction() as db:
                    db.execute("UPDATE requests SET seen_at = ? WHERE id = ?", (now, request.id))
        if standing is not None:
            return standing
        with self._tables.transaction() as db:
            device = free_device(self._db, request)
            if device is None:
                victim = lowest_held(self._db, request)
                if victim is not None:
                    device = victim["id"]
                    why = f"device {device} went to a lease of priority {request.priority}"
                    # not offered on: it goes to this request
                    self._ledger.end(victim["lease"], "preempted", why, now, offer=False)
            if device is not None:
                return self._ledger.grant(device, request, now)
            check_possible(self._db, request)
            db.execute(
                "INSERT INTO requests (id, holder, protocol, labels, device, priority, ttl_s, idle_s, seen_at) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    request.id,
                    request.holder,
                    request.protocol,
                    json.dumps(sorted(set(request.labels))),
                    request.device,
                    request.priority,
                    request.ttl_s,
                    request.idle_s,
                    now,
                ),
            )
            return place(self._db, db.execute("SELECT * FROM requests WHERE id = ?", (request.id,)).fetchone())

    def look(self, request: records.LeaseRequest) -> records.DeviceLease | records.LeaseWaiting | None:
        """The state of a request: its lease, its place in the queue, or None once it was withdrawn or dropped. This
        doesn't renew it. Raises `LeaseEnded`, `Unknown` if it isn't the holder's.
        """
        self.tick()
        found = self._db.execute("SELECT * FROM leases WHERE request = ?", (request.id,)).fetchone()
        if found is not None:
            return self._mine(found, request.holder)
        queued = self._db.execute("SELECT * FROM requests WHERE id = ?", (request.id,)).fetchone()
        if queued is not None and queued["holder"] != request.holder:
            raise records.Unknown(f"request {request.id}: it isn't yours")
        return None if queued is None else place(self._db, queued)

    def withdraw(self, request: str, holder: str) -> None:
        """Give up a request: out of the queue, or its lease released if it was granted meanwhile."""
        self.tick()
        row = self._db.execute("SELECT * FROM leases WHERE request = ? AND state = 'live'", (request,)).fetchone()
        if row is not None:
            self.release(self._mine(row, holder).id, row["fence"])
            return
        with self._tables.transaction() as db:
            db.execute("DELETE FROM requests WHERE id = ? AND holder = ?", (request, holder))

    def heartbeat(self, lease: str, fence: int, unused_s: float = 0.0) -> records.DeviceLease:
        """The holder lives; it used the device `unused_s` ago. Raises `LeaseEnded`, `Unknown`."""
        self.tick()
        now = self.now()
        with self._tables.transaction() as db:
            row = self._ledger.live_row(lease, fence)
            used = max(row["used_at"], now - max(0.0, unused_s))
            # whichever comes first: TTL, silence of the holder, or time without use
            deadline = min(row["expires_at"], now + self.rules.dead_s, used + row["idle_s"])
            db.execute(
                "UPDATE leases SET beat_at = ?, used_at = ?, deadline = ? WHERE id = ?", (now, used, deadline, lease)
            )
        return read_lease(row)

    def is_wanted(self, lease: str) -> bool:
        """Whether the holder of a live lease should give its device back when it has done what it is at: another of the
        same priority waits for such a device and holds fewer. Nobody is made to. Raises `Unknown`."""
        return is_wanted(self._db, self._row(lease))

    def release(self, lease: str, fence: int) -> None:
        """The holder is done; if it reported no failure, the device's failures in a row are over. Raises `LeaseEnded`,
        `Unknown`."""
        self.tick()
        with self._tables.transaction() as db:
            row = self._ledger.live_row(lease, fence)
            # a lease without a failure ends the run of failures: the device worked for somebody
            if not row["failed"]:
                db.execute("UPDATE devices SET failures = 0 WHERE id = ?", (row["device"],))
            self._ledger.end(lease, "released", "given back by its holder", self.now())

    def lease(self, lease: str) -> records.DeviceLease:
        """A lease, live or ended. Raises `Unknown` (ended ones are forgotten after `Rules.keep_ended_s`)."""
        return read_lease(self._row(lease))

    def _row(self, lease: str) -> sqlite3.Row:
        row: sqlite3.Row | None = self._db.execute("SELECT * FROM leases WHERE id = ?", (lease,)).fetchone()
        if row is None:
            raise records.Unknown(f"lease {lease[:80]}: unknown")
        return row

    def live(self) -> list[records.DeviceLease]:
        """All live leases, by device."""
        self.tick()
        rows = self._db.execute("SELECT * FROM leases WHERE state = 'live' ORDER BY device")
        return [read_lease(row) for row in rows]

    def tick(self) -> None:
        """End what is overdue and drop requests that nobody polls any more. Cheap when there is nothing to do."""
        now = self.now()
        due = self._db.execute("SELECT * FROM leases WHERE state = 'live' AND deadline <= ?", (now,)).fetchall()
        stale = now - self.rules.dead_s
        lost = self._db.execute("SELECT 1 FROM requests WHERE seen_at <= ? LIMIT 1", (stale,)).fetchone()
        # no transaction where nothing is due, since every call comes by here
        if not due and lost is None:
            return
        with self._tables.transaction() as db:
            db.execute("DELETE FROM requests WHERE seen_at <= ?", (stale,))
            for row in due:
                state, reason = self._ledger.why_due(row, now)
                self._ledger.end(row["id"], state, reason, now)
            db.execute("DELETE FROM leases WHERE state <> 'live' AND ended_at <= ?", (now - self.rules.keep_ended_s,))

    # -- what nodes ask ---------------------------------------------------------------------------------------------

    def floors(self, after: int = 0) -> tuple[int, dict[str, int]]:
        """(number of the newest change, by device the lowest fence still good), of devices changed since `after`."""
        self.tick()
        # read before the rows: a change in between is then told twice, not missed
        newest = self.newest_change()
        rows = self._db.execute("SELECT id, floor FROM devices WHERE change > ? ORDER BY change", (after,))
        return newest, {row["id"]: row["floor"] for row in rows}

    def newest_change(self) -> int:
        """Number of the newest change."""
        return int(self._db.execute("SELECT coalesce(max(change), 0) FROM devices").fetchone()[0])

    def announce(self, node: records.NodeRecord) -> None:
        """A gateway node lives."""
        with self._tables.transaction() as db:
            db.execute("INSERT OR REPLACE INTO nodes VALUES (?, ?, ?, ?)", (node.id, node.host, node.port, self.now()))

    def retire(self, node: str) -> None:
        """A gateway node goes in good order."""
        with self._tables.transaction() as db:
            db.execute("DELETE FROM nodes WHERE id = ?", (node,))

    def nodes(self) -> list[records.NodeRecord]:
        """The nodes heard of within `Rules.node_dead_s`, by id."""
        rows = self._db.execute(
            "SELECT * FROM nodes WHERE seen_at > ? ORDER BY id", (self.now() - self.rules.node_dead_s,)
        )
        return [records.NodeRecord(row["id"], row["host"], row["port"]) for row in rows]

    def count_of(self, holder: str, but: str = "") -> int:
        """Live leases and waiting requests of a holder, but for those of one request."""
        found = self._db.execute(
            "SELECT (SELECT count(*) FROM leases WHERE holder = ?1 AND state = 'live' AND request <> ?2) + "
            "(SELECT count(*) FROM requests WHERE holder = ?1 AND id <> ?2)",
            (holder, but),
        )
        return int(found.fetchone()[0])

    def waiting(self) -> list[records.LeaseRequest]:
        """The queue, first in line first."""
        self.tick()
        return [read_request(row) for row in self._db.execute("SELECT * FROM requests ORDER BY priority DESC, seq")]

    def _mine(self, row: sqlite3.Row, holder: str) -> records.DeviceLease:
        if row["holder"] != holder:
            raise records.Unknown(f"request {row['request']}: it isn't yours")
        if row["state"] != "live":
            raise records.LeaseEnded(row["state"], row["reason"])
        return read_lease(row)
