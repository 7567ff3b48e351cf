"""The lease authority's state machine: by example, and against a model with crashes at every statement."""

from __future__ import annotations

import itertools
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from generators.daas.lease_tables import AlreadyRunning
from generators.daas.leases import Leases
from generators.daas.records import DeviceRecord, Lease, LeaseEnded, LeaseRequest, NodeRecord, Rules, Unknown, Waiting

RULES = Rules(ttl_s=100, max_ttl_s=1000, idle_s=60, quarantine_after=2)


class Clock:
    def __init__(self) -> None:
        self.time = 1_000_000.0

    def __call__(self) -> float:
        return self.time


def ask(name: str, priority: int = 0, labels: tuple[str, ...] = (), **more: object) -> LeaseRequest:
    return LeaseRequest(name, "anna", "adb", labels, priority=priority, **more)  # type: ignore[arg-type]


def phone(name: str, *labels: str) -> DeviceRecord:
    return DeviceRecord(name, "adb", "127.0.0.1", 5555, labels)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def leases(clock: Clock) -> Leases:
    return Leases(":memory:", RULES, clock)


def granted(found: Lease | Waiting) -> Lease:
    assert isinstance(found, Lease)
    return found


def test_a_device_is_leased_released_and_leased_again_with_a_greater_fence(leases: Leases) -> None:
    leases.register(phone("p1"))
    first = granted(leases.ask(ask("r1")))
    assert granted(leases.ask(ask("r1"))) == first  # a lost answer, asked for again
    assert leases.ask(ask("r2")) == Waiting("r2", 0)
    leases.release(first.id, first.fence)
    second = granted(leases.ask(ask("r2")))
    assert second.fence > first.fence
    with pytest.raises(LeaseEnded, match="given back"):
        leases.heartbeat(first.id, first.fence)
    with pytest.raises(LeaseEnded):
        leases.ask(ask("r1"))


def test_labels_protocol_and_name_decide_what_suits(leases: Leases) -> None:
    leases.register(phone("p1", "lang=zh"))
    leases.register(phone("p2", "lang=zh", "android=14"))
    assert granted(leases.ask(ask("r1", labels=("android=14", "lang=zh")))).device == "p2"
    with pytest.raises(Unknown, match="no registered device has adb, root"):
        leases.ask(ask("r2", labels=("root",)))
    assert granted(leases.ask(ask("r3", device="p1"))).device == "p1"
    with pytest.raises(Unknown, match="no registered device has cdp"):
        leases.ask(LeaseRequest("r4", "anna", "cdp"))


def test_higher_priority_takes_the_lowest_and_the_loser_hears_at_its_heartbeat(leases: Leases) -> None:
    leases.register(phone("p1"))
    leases.register(phone("p2"))
    low, middle = granted(leases.ask(ask("low", 1))), granted(leases.ask(ask("middle", 2)))
    assert isinstance(leases.ask(ask("equal", 1)), Waiting)
    high = granted(leases.ask(ask("high", 3)))
    assert high.device == low.device and high.fence > low.fence
    with pytest.raises(LeaseEnded, match="priority 3") as lost:
        leases.heartbeat(low.id, low.fence)
    assert lost.value.state == "preempted"
    leases.heartbeat(middle.id, middle.fence)


def test_the_queue_goes_by_priority_then_by_age(leases: Leases) -> None:
    leases.register(phone("p1"))
    held = granted(leases.ask(ask("held", 9)))
    for name, priority in (("a", 1), ("b", 5), ("c", 5), ("d", 9)):
        assert isinstance(leases.ask(ask(name, priority)), Waiting)
    assert [request.id for request in leases.waiting()] == ["d", "b", "c", "a"]
    assert leases.ask(ask("a", 1)) == Waiting("a", 3)
    order = []
    while leases.waiting():
        leases.release(held.id, held.fence)
        held = next(iter(leases.live()))
        order.append(held.request)
    assert order == ["d", "b", "c", "a"]


@pytest.mark.parametrize(
    ("beats", "unused", "after", "state"),
    [(False, False, 30, "dead"), (True, True, 60, "idle"), (True, False, 100, "expired")],
)
def test_leases_end_by_silence_disuse_and_age(
    leases: Leases, clock: Clock, beats: bool, unused: bool, after: int, state: str
) -> None:
    leases.register(phone("p1"))
    lease = granted(leases.ask(ask("r1")))
    began = clock.time
    while beats and clock.time + 10 < began + after:
        clock.time += 10
        leases.heartbeat(lease.id, lease.fence, clock.time - began if unused else 0)
    clock.time = began + after
    with pytest.raises(LeaseEnded) as ended:
        leases.heartbeat(lease.id, lease.fence)
    assert ended.value.state == state
    assert leases.live() == []


def test_a_device_that_fails_in_a_row_is_put_away_until_readmitted(leases: Leases) -> None:
    leases.register(phone("p1"))
    first = granted(leases.ask(ask("r1")))
    assert not leases.fail("p1", "no picture", first.id, first.fence)
    leases.release(first.id, first.fence)
    between = granted(leases.ask(ask("well")))
    leases.release(between.id, between.fence)  # a lease that ends well clears the count
    third = granted(leases.ask(ask("again")))
    assert not leases.fail("p1", "no picture", third.id, third.fence)
    leases.release(third.id, third.fence)  # one that doesn't, doesn't
    second = granted(leases.ask(ask("r2")))
    assert leases.fail("p1", "no picture", second.id, second.fence)
    with pytest.raises(LeaseEnded, match="2 infrastructure failures in a row, the last: no picture"):
        leases.heartbeat(second.id, second.fence)
    with pytest.raises(LeaseEnded):
        leases.fail("p1", "spite", second.id, second.fence)
    assert isinstance(leases.ask(ask("r3")), Waiting)
    leases.readmit("p1")
    assert [lease.request for lease in leases.live()] == ["r3"]


def test_a_device_that_is_down_is_not_given_out_and_goes_to_the_queue_once_up(leases: Leases) -> None:
    leases.register(phone("p1"))
    leases.set_health("p1", False, "refused")
    assert isinstance(leases.ask(ask("r1")), Waiting)
    assert leases.device("p1").health_reason == "refused"
    leases.set_health("p1", True)
    assert [lease.request for lease in leases.live()] == ["r1"]


def test_removing_and_moving_end_leases_and_fences_are_remembered(leases: Leases) -> None:
    leases.register(phone("p1"))
    first = granted(leases.ask(ask("r1")))
    leases.register(phone("p1", "new"))  # labels alone change nothing
    leases.heartbeat(first.id, first.fence)
    leases.register(DeviceRecord("p1", "adb", "127.0.0.2", 5555))
    with pytest.raises(LeaseEnded, match="moved"):
        leases.heartbeat(first.id, first.fence)
    second = granted(leases.ask(ask("r2")))
    leases.remove("p1")
    with pytest.raises(Unknown, match="not registered"):
        leases.device("p1")
    leases.register(phone("p1"))
    assert granted(leases.ask(ask("r3"))).fence > second.fence > first.fence


def test_only_the_holder_touches_its_request_and_lease(leases: Leases) -> None:
    leases.register(phone("p1"))
    lease = granted(leases.ask(ask("r1")))
    with pytest.raises(Unknown, match="isn't yours"):
        leases.ask(LeaseRequest("r1", "bert", "adb"))
    with pytest.raises(Unknown, match="unknown"):
        leases.release(lease.id, lease.fence + 1)
    leases.ask(ask("r2"))
    leases.withdraw("r2", "bert")
    assert [request.id for request in leases.waiting()] == ["r2"]
    leases.withdraw("r2", "anna")
    leases.withdraw("r1", "anna")
    assert not leases.waiting() and not leases.live()


def test_nodes_learn_which_fences_are_cut_off(leases: Leases) -> None:
    leases.register(phone("p1"))
    lease = granted(leases.ask(ask("r1")))
    change, floors = leases.floors()
    assert floors == {"p1": lease.fence} and leases.floors(change)[1] == {}
    leases.release(lease.id, lease.fence)
    assert leases.floors(change)[1] == {"p1": lease.fence + 1}


def test_nodes_that_fall_silent_are_forgotten(leases: Leases, clock: Clock) -> None:
    leases.announce(NodeRecord("n1", "127.0.0.1", 7001))
    clock.time += 20
    leases.announce(NodeRecord("n2", "127.0.0.1", 7002))
    clock.time += 20
    assert [node.id for node in leases.nodes()] == ["n2"]
    leases.retire("n2")
    assert leases.nodes() == []


def test_one_authority_a_database_and_a_restart_grants_grace(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "leases.sqlite"
    leases = Leases(path, RULES, clock)
    with pytest.raises(AlreadyRunning, match="stop that one first"):
        Leases(path, RULES, clock)
    leases.register(phone("p1"))
    lease = granted(leases.ask(ask("r1")))
    leases.close()
    clock.time += 50  # longer than a silence that kills, shorter than the TTL
    leases = Leases(path, RULES, clock)
    assert leases.heartbeat(lease.id, lease.fence).expires_at == lease.expires_at
    leases.close()
    clock.time += 51
    leases = Leases(path, RULES, clock)
    with pytest.raises(LeaseEnded, match="its time of 100 s is over"):
        leases.heartbeat(lease.id, lease.fence)
    leases.close()


def test_a_power_cut_may_forget_leases_but_gives_no_fence_twice(tmp_path: Path, clock: Clock) -> None:
    leases = Leases(tmp_path / "l", RULES, clock)
    leases.register(phone("p1"))
    first = granted(leases.ask(ask("r1")))
    (tmp_path / "cut").mkdir()
    for file in tmp_path.glob("l*"):  # what the disk had when the power went
        shutil.copy(file, tmp_path / "cut" / file.name)
    leases.release(first.id, first.fence)
    forgotten = granted(leases.ask(ask("r2")))
    leases.close()
    leases = Leases(tmp_path / "cut" / "l", RULES, clock)
    with pytest.raises(Unknown):
        leases.heartbeat(forgotten.id, forgotten.fence)
    leases.release(first.id, first.fence)
    assert granted(leases.ask(ask("r3"))).fence > forgotten.fence
    leases.close()


def test_the_log_is_copied_while_leases_are_given(tmp_path: Path) -> None:
    leases = Leases(tmp_path / "l", RULES)
    leases.register(phone("p1"))
    lease = granted(leases.ask(ask("r1")))
    before = (tmp_path / "l").stat().st_size
    leases.copy_log()
    assert (tmp_path / "l").stat().st_size > before
    leases.release(lease.id, lease.fence)
    leases.close()


def test_a_clock_set_back_brings_nothing_back(tmp_path: Path, clock: Clock) -> None:
    leases = Leases(tmp_path / "l", RULES, clock)
    leases.register(phone("p1"))
    lease = granted(leases.ask(ask("r1")))
    clock.time += 200
    assert leases.live() == []
    leases.close()
    clock.time -= 1000
    leases = Leases(tmp_path / "l", RULES, clock)
    with pytest.raises(LeaseEnded):
        leases.heartbeat(lease.id, lease.fence)
    assert granted(leases.ask(ask("r2"))).granted_at >= lease.granted_at + 200
    leases.close()


@pytest.mark.parametrize("bad", [
    lambda: DeviceRecord("a b", "adb", "h", 1), lambda: DeviceRecord("a", "vnc", "h", 1),
    lambda: DeviceRecord("a", "adb", "h/../x", 1), lambda: DeviceRecord("a", "adb", "h", 70_000),
    lambda: DeviceRecord("a", "adb", "h", 1, ("x y",)), lambda: LeaseRequest("r", "h", "adb", priority=101),
    lambda: LeaseRequest("r", "h", "adb", ttl_s=-1), lambda: LeaseRequest("r\n", "h", "adb"),
    lambda: NodeRecord("n", "", 1), lambda: Rules(heartbeat_s=40),
])  # fmt: skip
def test_bad_records_are_refused(bad: object) -> None:
    with pytest.raises(ValueError, match="expected"):
        bad()  # type: ignore[operator]


def test_allocation_at_1000_devices_stays_under_5_ms(tmp_path: Path) -> None:
    """CPU time, in SQLite's memory: the work, and not what else runs or the disk does (bench/gateway.py has that)."""
    leases = Leases(":memory:", RULES)
    for k in range(1000):
        leases.register(phone(f"p{k}", f"rack={k % 10}", "android"))
    for k in range(900):
        leases.ask(ask(f"first{k}", 1))
    times = []
    for k in range(200):
        began = time.thread_time()
        granted(leases.ask(ask(f"then{k}", 2, (f"rack={k % 10}", "android"))))
        times.append(time.thread_time() - began)
    assert statistics.quantiles(times, n=100)[-1] < 0.005
    leases.close()


# -- against a model --------------------------------------------------------------------------------------------------

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
        self.known: dict[str, Lease] = {}  # every lease that was ever told to a holder, or seen live
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

    def _note(self, found: Lease | Waiting) -> None:
        if isinstance(found, Lease):
            self.known[found.id] = found

    def _any(self, number: int) -> Lease | None:
        names = sorted(self.known)
        return self.known[names[number % len(names)]] if names else None

    @rule(
        priority=st.integers(0, 3), labels=st.sampled_from([(), ("x",), ("x", "y")]), ttl=st.sampled_from([5.0, 100.0])
    )
    def ask(self, priority: int, labels: tuple[str, ...], ttl: float) -> None:
        found = self.leases.ask(ask(f"r{next(self.count)}", priority, labels, ttl_s=ttl))
        if isinstance(found, Lease):
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
        answers: list[Lease | Waiting] = []
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
                lease.fence < floors[lease.device] for lease in self.known.values()
                if lease.id in self.ended and lease.device == state.record.id
            )  # fmt: skip
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
