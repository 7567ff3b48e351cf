"""The lease authority's changes to its tables: granting, ending and offering on. Each runs inside a transaction of the
caller's (`leases.Leases`), so a crash leaves all of a change or nothing.
"""

import sqlite3
from collections.abc import Callable

from generators.devices.authority.lease_queries import USABLE, first_waiting
from generators.devices.authority.lease_tables import LeaseDatabase, read_request
from generators.devices.records import DeviceLease, LeaseEnded, LeaseRequest, Rules, Unknown


class LeaseLedger:
    """Leases and devices as rows. `ids` makes the names of leases."""

    def __init__(self, tables: LeaseDatabase, rules: Rules, ids: Callable[[], str]) -> None:
        self._tables, self._rules, self._ids = tables, rules, ids
        self._db = tables.db
        # goes on from the database, or a node that was away would miss changes
        self._change = int(self._db.execute("SELECT coalesce(max(change), 0) FROM devices").fetchone()[0])

    def next_change(self) -> int:
        """Number of the next change."""
        self._change += 1
        return self._change

    def device_row(self, device: str) -> sqlite3.Row:
        """The row of a registered device. Raises `Unknown`."""
        row = self._db.execute("SELECT * FROM devices WHERE id = ? AND removed = 0", (device,)).fetchone()
        if row is None:
            raise Unknown(f"device {device[:80]}: not registered")
        return row

    def live_row(self, lease: str, fence: int) -> sqlite3.Row:
        """The row of a live lease. Raises `LeaseEnded`, `Unknown`."""
        row = self._db.execute("SELECT * FROM leases WHERE id = ?", (lease,)).fetchone()
        # a wrong fence is as unknown as a wrong name: it says nothing of the lease
        if row is None or row["fence"] != fence:
            raise Unknown(f"lease {lease[:80]} with fence {fence}: unknown")
        if row["state"] != "live":
            raise LeaseEnded(row["state"], row["reason"])
        return row

    def grant(self, device: str, request: LeaseRequest, now: float) -> DeviceLease:
        """Give a device that stands free to a request, under the next fence."""
        # above every fence of this device and of all terms before (see `lease_tables`)
        fence = self._db.execute(
            "SELECT max(fence + 1, floor, ?) FROM devices WHERE id = ?", (self._tables.first_fence, device)
        ).fetchone()[0]
        lease, rules = self._ids(), self._rules
        expires = now + min(request.ttl_s or rules.ttl_s, rules.max_ttl_s)
        idle = request.idle_s or rules.idle_s
        self._db.execute(
            "INSERT INTO leases (id, request, device, fence, holder, priority, granted_at, expires_at, idle_s, "
            "beat_at, used_at, deadline, state) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?7, ?7, ?10, 'live')",
            (
                lease,
                request.id,
                device,
                fence,
                request.holder,
                request.priority,
                now,
                expires,
                idle,
                min(expires, now + rules.dead_s, now + idle),
            ),
        )
        self._db.execute(
            # the floor rises with the grant, so nodes cut off the lease before at once
            "UPDATE devices SET fence = ?1, floor = ?1, change = ?2, lease = ?3, priority = ?4, granted_at = ?5 "
            "WHERE id = ?6",
            (fence, self.next_change(), lease, request.priority, now, device),
        )
        return DeviceLease(lease, request.id, device, fence, request.holder, request.priority, now, expires, "live", "")

    def end(self, lease: str, state: str, reason: str, now: float, offer: bool = True) -> None:
        """End a live lease: its fence is cut off, and the device goes to the queue."""
        self._db.execute(
            "UPDATE leases SET state = ?, reason = ?, ended_at = ? WHERE id = ? AND state = 'live'",
            (state, reason, now, lease),
        )
        device = self._db.execute("SELECT device FROM leases WHERE id = ?", (lease,)).fetchone()[0]
        self._db.execute(
            # before the device is offered on: nobody may have it under the old fence meanwhile
            "UPDATE devices SET floor = fence + 1, change = ?, lease = NULL, priority = NULL, granted_at = NULL, "
            "free_at = ? WHERE id = ?",
            (self.next_change(), now, device),
        )
        if offer:
            self.offer(device, now)

    def offer(self, device: str, now: float) -> None:
        """Give a device that stands free to the first request in the queue that it suits."""
        row = self._db.execute(
            f"SELECT * FROM devices WHERE id = ? AND lease IS NULL AND {USABLE}", (device,)
        ).fetchone()
        if row is None:
            return
        found = first_waiting(self._db, row)
        if found is not None:
            self._db.execute("DELETE FROM requests WHERE seq = ?", (found["seq"],))
            self.grant(device, read_request(found), now)

    def why_due(self, row: sqlite3.Row, now: float) -> tuple[str, str]:
        """State and reason of a lease whose deadline has passed."""
        # the first that is over names it; TTL before silence, since that was agreed on
        if row["expires_at"] <= now:
            return "expired", f"its time of {row['expires_at'] - row['granted_at']:g} s is over"
        if row["beat_at"] + self._rules.dead_s <= now:
            return "dead", f"no heartbeat for {self._rules.dead_s:g} s"
        return "idle", f"unused for {row['idle_s']:g} s"
