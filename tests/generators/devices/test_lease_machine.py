"""The lease authority against a model: random calls, with crashes at every statement."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from lease_parts import RULES, Clock, ask, phone

from generators.devices.authority.leases import Leases
from generators.devices.records import DeviceLease, LeaseEnded, LeaseWaiting, Unknown

DEVICES = ("d0", "d1", "d2")
LABELS: dict[str, tuple[str, ...]] = {"d0": (), "d1": ("x",), "d2": ("x", "y")}


class LeaseMachine(RuleBasedStateMachine):
    """Random calls, clock moves and crashes. A crash is a copy of the database's files taken before a random statement
    of a call, as `kill -9` would leave them; the authority goes on from that copy."""

    @initialize()
    def start(self) -> None:
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # a disk that syncs slowly tests nothing more
        self.folder = Path(tempfile.mkdtemp(prefix="leases-", dir=memory))
        self.clock, self.count, self.copies, self.names = (
            Clock(),
            itertools.count(),
            itertools.count(),
            itertools.count(),
        )
        self.path = self.folder / "leases.sqlite"
        self.leases = self._open()
        self.known: dict[str, DeviceLease] = {}  # every lease that was ever told to a holder, or seen live
        self.ended: set[str] = set()
        self.fences: dict[str, int] = dict.fromkeys(DEVICES, 0)
        for device in DEVICES:
            self.leases.register(phone(device, *LABELS[device]))

    def _open(self) -> Leases:
        return Leases(self.path, RULES, self.clock, lambda: f"{next(self.names):06d}")

    def _crash_in(self, call: object, statement: int) -> None:
        """Run a call; go on from the files as they were before its n-th statement (or after it, if it has fewer)."""
        copy = self.folder / f"copy{next(self.copies)}"
        copy.mkdir()
        seen = itertools.count()

        def snapshot(_: str) -> None:
            if next(seen) == statement:
                for file in self.path.parent.glob(self.path.name + "*"):
                    shutil.copy(file, copy / file.name)

        self.leases._db.set_trace_callback(snapshot)
        try:
            call()  # type: ignore[operator]
        except (LeaseEnded, Unknown):
            pass
        self.leases._db.set_trace_callback(None)
        if next(seen) <= statement:
            for file in self.path.parent.glob(self.path.name + "*"):
                shutil.copy(file, copy / file.name)
        self.leases.close()
        self.path = copy / self.path.name
        self.leases = self._open()

    def _note(self, found: DeviceLease | LeaseWaiting) -> None:
        if isinstance(found, DeviceLease):
            self.known[found.id] = found

    def _any(self, number: int) -> DeviceLease | None:
        names = sorted(self.known)
        return self.known[names[number % len(names)]] if names else None

    @rule(
        priority=st.integers(0, 3), labels=st.sampled_from([(), ("x",), ("x", "y")]), ttl=st.sampled_from([5.0, 100.0])
    )
    def ask(self, priority: int, labels: tuple[str, ...], ttl: float) -> None:
        found = self.leases.ask(ask(f"r{next(self.count)}", priority, labels, ttl_s=ttl))
        if isinstance(found, DeviceLease):
            assert found.fence > self.fences[found.device]
        self._note(found)

    @rule(number=st.integers(0, 50), unused=st.sampled_from([0.0, 20.0]))
    def beat(self, number: int, unused: float) -> None:
        lease = self._any(number)
        if lease is None:
            return
        try:
            self.leases.heartbeat(lease.id, lease.fence, unused)
        except LeaseEnded:
            self.ended.add(lease.id)
        else:
            assert lease.id not in self.ended
            assert self.clock.time < lease.expires_at

    @rule(number=st.integers(0, 50))
    def release(self, number: int) -> None:
        lease = self._any(number)
        if lease is None:
            return
        try:
            self.leases.release(lease.id, lease.fence)
        except LeaseEnded:
            pass
        else:
            assert lease.id not in self.ended
        self.ended.add(lease.id)

    @rule(number=st.integers(0, 50))
    def fail(self, number: int) -> None:
        lease = self._any(number)
        if lease is None:
            return
        try:
            if self.leases.fail(lease.device, "it broke", lease.id, lease.fence):
                self.ended.add(lease.id)
        except LeaseEnded:
            self.ended.add(lease.id)

    @rule(device=st.sampled_from(DEVICES), up=st.booleans())
    def health(self, device: str, up: bool) -> None:
        self.leases.set_health(device, up, "" if up else "no answer")

    @rule(device=st.sampled_from(DEVICES))
    def readmit(self, device: str) -> None:
        self.leases.readmit(device)

    @rule(device=st.sampled_from(DEVICES))
    def remove_and_register(self, device: str) -> None:
        self.leases.remove(device)
        self.leases.register(phone(device, *LABELS[device]))

    @rule(seconds=st.sampled_from([1.0, 4.0, 12.0, 35.0, 70.0]))
    def pass_time(self, seconds: float) -> None:
        self.clock.time += seconds

    @rule()
    def restart(self) -> None:
        before = [lease.id for lease in self.leases.live()], self.leases.waiting(), self.leases.floors()
        self.leases.close()
        self.leases = self._open()
        assert ([lease.id for lease in self.leases.live()], self.leases.waiting(), self.leases.floors()) == before

    @rule(statement=st.integers(0, 12), priority=st.integers(0, 3))
    def crash_while_asking(self, statement: int, priority: int) -> None:
        name = f"r{next(self.count)}"
        before = {lease.id for lease in self.leases.live()}
        answers: list[DeviceLease | LeaseWaiting] = []
        self._crash_in(lambda: answers.append(self.leases.ask(ask(name, priority))), statement)
        after = {lease.id for lease in self.leases.live()}
        whole = {lease.id for lease in self.leases.live() if lease.request == name}
        gone = before - after
        assert len(whole) <= 1 and len(gone) <= len(whole)  # nothing, or a grant with its preemption
        self._note(self.leases.ask(ask(name, priority)))  # the holder asks again, as after a lost answer

    @precondition(lambda self: any(name not in self.ended for name in self.known))
    @rule(statement=st.integers(0, 12), number=st.integers(0, 50))
    def crash_while_releasing(self, statement: int, number: int) -> None:
        lease = self._any(number)
        assert lease is not None
        others = {found.id for found in self.leases.live()} - {lease.id}
        self._crash_in(lambda: self.leases.release(lease.id, lease.fence), statement)
        assert others <= {found.id for found in self.leases.live()}
        if self.leases.lease(lease.id).state != "live":
            self.ended.add(lease.id)

    @invariant()
    def laws(self) -> None:
        if not hasattr(self, "leases"):
            return
        live = self.leases.live()
        assert len({lease.device for lease in live}) == len(live)
        for lease in live:
            assert lease.id not in self.ended
            self.known[lease.id] = lease
            assert lease.fence >= self.fences[lease.device]
            self.fences[lease.device] = lease.fence
        names = {lease.id for lease in live}
        self.ended.update(name for name in self.known if name not in names)
        _, floors = self.leases.floors()
        for state in self.leases.devices():
            assert state.fence >= self.fences[state.record.id]
            held = next((lease for lease in live if lease.device == state.record.id), None)
            assert state.lease == (held.id if held else None)
            assert floors[state.record.id] == (held.fence if held else state.floor)
            assert all(
                lease.fence < floors[lease.device]
                for lease in self.known.values()
                if lease.id in self.ended and lease.device == state.record.id
            )
            if held is None and state.health != "down" and not state.quarantined:
                suits = [
                    request for request in self.leases.waiting() if set(request.labels) <= set(state.record.labels)
                ]
                assert suits == []

    def teardown(self) -> None:
        if hasattr(self, "leases"):
            self.leases.close()
            shutil.rmtree(self.folder)


TestLeaseMachine = LeaseMachine.TestCase
TestLeaseMachine.settings = settings(max_examples=20, stateful_step_count=30, deadline=None)
