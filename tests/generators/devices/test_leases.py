"""The lease authority's state machine by example."""

from __future__ import annotations

import shutil
import statistics
import time
from dataclasses import replace
from pathlib import Path

import pytest
from lease_parts import RULES, Clock, ask, granted, phone

from generators.devices import records
from generators.devices.authority.lease_tables import AlreadyRunning
from generators.devices.authority.leases import Leases


def test_a_device_is_leased_released_and_leased_again_with_a_greater_fence(leases: Leases) -> None:
    leases.register(phone("p1"))
    first = granted(leases.ask(ask("r1")))
    assert granted(leases.ask(ask("r1"))) == first  # a lost answer, asked for again
    assert leases.ask(ask("r2")) == records.LeaseWaiting("r2", 0)
    leases.release(first.id, first.fence)
    second = granted(leases.ask(ask("r2")))
    assert second.fence > first.fence
    with pytest.raises(records.LeaseEnded, match="given back"):
        leases.heartbeat(first.id, first.fence)
    with pytest.raises(records.LeaseEnded):
        leases.ask(ask("r1"))


def test_labels_protocol_and_name_decide_what_suits(leases: Leases) -> None:
    leases.register(phone("p1", "lang=zh"))
    leases.register(phone("p2", "lang=zh", "android=14"))
    assert granted(leases.ask(ask("r1", labels=("android=14", "lang=zh")))).device == "p2"
    with pytest.raises(records.Unknown, match="no registered device has adb, root"):
        leases.ask(ask("r2", labels=("root",)))
    assert granted(leases.ask(ask("r3", device="p1"))).device == "p1"
    with pytest.raises(records.Unknown, match="no registered device has cdp"):
        leases.ask(records.LeaseRequest("r4", "anna", "cdp"))


def test_higher_priority_takes_the_lowest_and_the_loser_hears_at_its_heartbeat(leases: Leases) -> None:
    leases.register(phone("p1"))
    leases.register(phone("p2"))
    low, middle = granted(leases.ask(ask("low", 1))), granted(leases.ask(ask("middle", 2)))
    assert isinstance(leases.ask(ask("equal", 1)), records.LeaseWaiting)
    high = granted(leases.ask(ask("high", 3)))
    assert high.device == low.device and high.fence > low.fence
    with pytest.raises(records.LeaseEnded, match="priority 3") as lost:
        leases.heartbeat(low.id, low.fence)
    assert lost.value.state == "preempted"
    leases.heartbeat(middle.id, middle.fence)


def test_a_holder_hears_that_another_with_fewer_devices_waits_for_one_like_its_own(leases: Leases) -> None:
    def theirs(name: str, priority: int = 1) -> records.LeaseRequest:
        return replace(ask(name, priority, labels=("phone",)), holder="bert")

    for name in ("p1", "p2", "p3"):
        leases.register(phone(name, "phone"))
    leases.register(phone("tv", "tv"))
    mine = [granted(leases.ask(ask(f"mine-{n}", 1, labels=("phone",)))) for n in range(3)]
    tv = granted(leases.ask(ask("mine-tv", 1, labels=("tv",))))
    leases.ask(ask("own", 1))
    leases.ask(theirs("lower", 0))
    assert not any(
        leases.is_wanted(lease.id) for lease in (*mine, tv)
    )  # its own requests, and lower ones, move nothing
    leases.withdraw("own", "anna")
    leases.ask(theirs("first"))
    assert [leases.is_wanted(lease.id) for lease in (*mine, tv)] == [True, True, True, False]
    leases.release(mine[0].id, mine[0].fence)
    first = granted(leases.ask(theirs("first")))
    leases.ask(theirs("second"))
    assert leases.is_wanted(mine[1].id)  # three to one, the TV counts
    leases.release(mine[1].id, mine[1].fence)
    leases.ask(theirs("third"))
    assert not leases.is_wanted(mine[2].id)  # two to two
    assert not leases.is_wanted(first.id)
    with pytest.raises(records.Unknown):
        leases.is_wanted("no-such-lease")


def test_the_queue_goes_by_priority_then_by_age(leases: Leases) -> None:
    leases.register(phone("p1"))
    held = granted(leases.ask(ask("held", 9)))
    for name, priority in (("a", 1), ("b", 5), ("c", 5), ("d", 9)):
        assert isinstance(leases.ask(ask(name, priority)), records.LeaseWaiting)
    assert [request.id for request in leases.waiting()] == ["d", "b", "c", "a"]
    assert leases.ask(ask("a", 1)) == records.LeaseWaiting("a", 3)
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
    with pytest.raises(records.LeaseEnded) as ended:
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
    with pytest.raises(records.LeaseEnded, match="2 infrastructure failures in a row, the last: no picture"):
        leases.heartbeat(second.id, second.fence)
    with pytest.raises(records.LeaseEnded):
        leases.fail("p1", "spite", second.id, second.fence)
    assert isinstance(leases.ask(ask("r3")), records.LeaseWaiting)
    leases.readmit("p1")
    assert [lease.request for lease in leases.live()] == ["r3"]


def test_a_device_that_is_down_is_not_given_out_and_goes_to_the_queue_once_up(leases: Leases) -> None:
    leases.register(phone("p1"))
    leases.set_health("p1", False, "refused")
    assert isinstance(leases.ask(ask("r1")), records.LeaseWaiting)
    assert leases.device("p1").health_reason == "refused"
    leases.set_health("p1", True)
    assert [lease.request for lease in leases.live()] == ["r1"]


def test_removing_and_moving_end_leases_and_fences_are_remembered(leases: Leases) -> None:
    leases.register(phone("p1"))
    first = granted(leases.ask(ask("r1")))
    leases.register(phone("p1", "new"))  # labels alone change nothing
    leases.heartbeat(first.id, first.fence)
    leases.register(records.DeviceRecord("p1", "adb", "127.0.0.2", 5555))
    with pytest.raises(records.LeaseEnded, match="moved"):
        leases.heartbeat(first.id, first.fence)
    second = granted(leases.ask(ask("r2")))
    leases.remove("p1")
    with pytest.raises(records.Unknown, match="not registered"):
        leases.device("p1")
    leases.register(phone("p1"))
    assert granted(leases.ask(ask("r3"))).fence > second.fence > first.fence


def test_only_the_holder_touches_its_request_and_lease(leases: Leases) -> None:
    leases.register(phone("p1"))
    lease = granted(leases.ask(ask("r1")))
    with pytest.raises(records.Unknown, match="isn't yours"):
        leases.ask(records.LeaseRequest("r1", "bert", "adb"))
    with pytest.raises(records.Unknown, match="unknown"):
        leases.release(lease.id, lease.fence + 1)
    leases.ask(ask("r2"))
    leases.withdraw("r2", "bert")
    assert [request.id for request in leases.waiting()] == ["r2"]
    leases.withdraw("r2", "anna")
    leases.withdraw("r1", "anna")
    assert not leases.waiting() and not leases.live()


def test_a_look_at_a_request_asks_for_nothing(leases: Leases, clock: Clock) -> None:
    leases.register(phone("p1"))
    assert leases.look(ask("r1")) is None and not leases.live()  # free as the device is
    lease = granted(leases.ask(ask("r1")))
    assert leases.look(ask("r1")) == lease
    leases.ask(ask("r2"))
    with pytest.raises(records.Unknown, match="isn't yours"):
        leases.look(records.LeaseRequest("r2", "bert", "adb"))
    clock.time += 20
    assert isinstance(leases.look(ask("r2")), records.LeaseWaiting)
    clock.time += 20  # nobody has asked for it since
    assert leases.look(ask("r2")) is None and not leases.waiting()


def test_nodes_learn_which_fences_are_cut_off(leases: Leases) -> None:
    leases.register(phone("p1"))
    lease = granted(leases.ask(ask("r1")))
    change, floors = leases.floors()
    assert floors == {"p1": lease.fence} and leases.floors(change)[1] == {}
    leases.release(lease.id, lease.fence)
    assert leases.floors(change)[1] == {"p1": lease.fence + 1}


def test_nodes_that_fall_silent_are_forgotten(leases: Leases, clock: Clock) -> None:
    leases.announce(records.NodeRecord("n1", "127.0.0.1", 7001))
    clock.time += 20
    leases.announce(records.NodeRecord("n2", "127.0.0.1", 7002))
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
    with pytest.raises(records.LeaseEnded, match="its time of 100 s is over"):
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
    with pytest.raises(records.Unknown):
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
    with pytest.raises(records.LeaseEnded):
        leases.heartbeat(lease.id, lease.fence)
    assert granted(leases.ask(ask("r2"))).granted_at >= lease.granted_at + 200
    leases.close()


@pytest.mark.parametrize(
    "bad",
    [
        lambda: records.DeviceRecord("a b", "adb", "h", 1),
        lambda: records.DeviceRecord("a", "vnc", "h", 1),
        lambda: records.DeviceRecord("a", "adb", "h/../x", 1),
        lambda: records.DeviceRecord("a", "adb", "h", 70_000),
        lambda: records.DeviceRecord("a", "adb", "h", 1, ("x y",)),
        lambda: records.LeaseRequest("r", "h", "adb", priority=101),
        lambda: records.LeaseRequest("r", "h", "adb", ttl_s=-1),
        lambda: records.LeaseRequest("r\n", "h", "adb"),
        lambda: records.NodeRecord("n", "", 1),
        lambda: records.Rules(heartbeat_s=40),
        lambda: records.Rules(node_dead_s=0),
    ],
)
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


def test_one_holder_s_reports_count_where_the_probe_fails_too(tmp_path: Path) -> None:
    leases = Leases(tmp_path / "leases.sqlite", replace(RULES, quarantine_holders=2))
    leases.register(phone("p1"))
    for name in ("r1", "r2", "r3"):
        lease = granted(leases.ask(ask(name)))
        assert not leases.fail("p1", "no picture", lease.id, lease.fence)
        leases.release(lease.id, lease.fence)
    last = granted(leases.ask(ask("r4")))
    leases.set_health("p1", False, "no answer within 5 s")
    assert leases.fail("p1", "no picture", last.id, last.fence)
    leases.close()
