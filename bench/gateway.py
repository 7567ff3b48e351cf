"""Figures of the gateway: what a hop adds, what an idle connection holds, how long an allocation takes.

Latency: 64 bytes to an echo server and back, over all paths in turn, so that whatever else runs meets all alike. The
peer is a bare TCP relay on the same event loop (or two, for two hops). What a path adds is its percentile less that of
the direct path. Idle connections: all are spoken over once at the end, so a dead one is found; memory is what the node
processes grew by (the kernel's buffers are not in it). Allocation: on the disk of the temporary folder, written as the
authority writes (`synchronous=NORMAL`, see `lease_tables.py` of the authority), 900 of 1,000 devices being held; its
peer is one bare commit of a row to SQLite with that setting, there. Over HTTP all devices are free, and the peer is the
same server's empty answer.
"""

import argparse
import contextlib
import json
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from bench.gateway_roles import role, run, token_for  # noqa: E402
from bench.timing import result  # noqa: E402

PINGS, SIZE = 4000, 64
IDLE, NODES, ENDS = 20_000, 4, 2
DEVICES, LEASES = 1000, 1000


def rows(small: int = 1) -> Iterator[dict[str, Any]]:
    """Added latency, idle connections, allocation."""
    yield from _latency(max(PINGS // small, 200))
    yield from _idle(max(IDLE // small, 400))
    yield from _allocation(max(LEASES // small, 200))


# -- latency ----------------------------------------------------------------------------------------------------------


def _latency(count: int) -> Iterator[dict[str, Any]]:
    import gateway_parts as parts

    from generators.devices.rendezvous import rank

    with tempfile.TemporaryDirectory() as folder, parts.gateway(Path(folder), 2) as gateway, role("echo") as echo:
        owner, other = rank("bench", gateway.nodes)
        with role("relay", echo.port) as one, role("relay", one.port) as two:
            token = token_for("bench", echo.port)
            paths: dict[str, tuple[tuple[str, int], str | None]] = {
                "direct": (("127.0.0.1", echo.port), None),
                "relay": (("127.0.0.1", one.port), None),
                "relays": (("127.0.0.1", two.port), None),
                "node": (gateway.at(owner), token),
                "nodes": (gateway.at(other), token),
            }
            found = run(_ping(paths, count))
    for hops, ours, bare in (("one node", "node", "relay"), ("two nodes", "nodes", "relays")):
        for name, at in (("p50", 49), ("p99", 98)):
            ours_us, bare_us = (_cut(found[path], at) - _cut(found["direct"], at) for path in (ours, bare))
            peer = "bare TCP relay" if bare == "relay" else "two bare TCP relays"
            yield result(f"gateway, added latency {name}, {hops}", ours_us, "us", peer, bare_us)


def _cut(times: list[float], at: int) -> float:
    return statistics.quantiles(times, n=100)[at] * 1e6


async def _ping(paths: dict[str, tuple[tuple[str, int], str | None]], count: int) -> dict[str, list[float]]:
    from generators.devices.device import DeviceEndpoint
    from generators.devices.protocols.tunnel import open_tunnel

    streams, message = {}, bytes(SIZE)
    for name, ((host, port), token) in paths.items():
        streams[name] = await open_tunnel(DeviceEndpoint("ssh", host, port, "bench", token))
    times: dict[str, list[float]] = {name: [] for name in paths}
    for turn in range(count + 100):  # the first hundred warm up
        for name, (reader, writer) in streams.items():
            began = time.perf_counter()
            writer.write(message)
            await reader.readexactly(SIZE)
            if turn >= 100:
                times[name].append(time.perf_counter() - began)
    for _, writer in streams.values():
        writer.close()
    return times


# -- idle connections -------------------------------------------------------------------------------------------------


def _idle(count: int) -> Iterator[dict[str, Any]]:
    import gateway_parts as parts

    each = count // ENDS
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        gateway = stack.enter_context(parts.gateway(Path(folder), NODES))
        _warm(gateway)
        before = [parts.resident_bytes(node.process.pid) for node in gateway.nodes.values()]
        holders = []
        for k in range(ENDS):
            echo = stack.enter_context(role("echo"))
            at = {name: gateway.at(name) for name in gateway.nodes}
            holders.append(stack.enter_context(role("hold", echo.port, each, json.dumps(at), f"end{k}-")))
        began = time.perf_counter()
        connected_s = max(float(holder.hear("connected")) for holder in holders)
        time.sleep(2)
        after = [parts.resident_bytes(node.process.pid) for node in gateway.nodes.values()]
        standing = sum(gateway.metric(name, "vesper_gateway_connections") - 1 for name in gateway.nodes)  # not this one
        for holder in holders:
            holder.say("speak")
        spoken = sum(int(holder.hear("spoken")) for holder in holders)
        held_s = time.perf_counter() - began
    if not spoken == standing == each * ENDS:
        raise AssertionError(f"idle connections: {each * ENDS} wanted, {standing:g} stood, {spoken} answered")
    grown = sum(after) - sum(before)
    yield result(
        f"gateway, idle connections held over {NODES} nodes, all alive",
        spoken,
        "connections",
        "wanted",
        each * ENDS,
        digits=0,
    )
    bare = _bare_memory(each)
    yield result(
        "gateway, memory per idle connection", grown / spoken, "bytes", "bare asyncio streams relay", bare, digits=0
    )
    print(f"  ({connected_s:.1f} s to connect, held {held_s:.1f} s)", file=sys.stderr)


def _warm(gateway: Any) -> None:
    """A few connections over each node, so that memory counts none of what is loaded once."""
    at = {name: gateway.at(name) for name in gateway.nodes}
    with role("echo") as echo, role("hold", echo.port, 200, json.dumps(at), "warm") as holder:
        holder.hear("connected")
    for name in gateway.nodes:
        while gateway.metric(name, "vesper_gateway_connections") > 1:
            time.sleep(0.05)


def _bare_memory(count: int) -> float:
    """Bytes a connection of a relay over asyncio's own streams, the way one would first write it."""
    import gateway_parts as parts

    with role("echo") as echo, role("streams", echo.port) as relay:
        with role("hold", relay.port, 50, "{}", "") as holder:
            holder.hear("connected")
        before = parts.resident_bytes(relay.process.pid)
        with role("hold", relay.port, min(count, 5000), "{}", "") as holder:
            holder.hear("connected")
            time.sleep(1)
            return (parts.resident_bytes(relay.process.pid) - before) / min(count, 5000)


# -- allocation -------------------------------------------------------------------------------------------------------


def _allocation(count: int) -> Iterator[dict[str, Any]]:
    import gateway_parts as parts

    with tempfile.TemporaryDirectory() as folder:
        bare = _commits(Path(folder) / "bare.sqlite", count)
        core = _core_times(Path(folder) / "leases.sqlite", count)
        gateway = parts.Gateway(Path(folder))  # the same database, all devices free
        try:
            gateway.start_authority(probe_s=0)
            served, empty = run(_served_times(gateway.url, parts.CLIENT, count))
        finally:
            gateway.stop()
    for name, at in (("p50", 49), ("p99", 98)):
        what = f"{name}, {DEVICES} devices, synchronous=NORMAL"
        yield result(
            f"lease allocation {what}",
            _cut(core, at) / 1000,
            "ms",
            "bare SQLite commit",
            _cut(bare, at) / 1000,
            digits=3,
        )
        yield result(
            f"lease allocation over HTTP {what}",
            _cut(served, at) / 1000,
            "ms",
            "empty answer over HTTP",
            _cut(empty, at) / 1000,
            digits=3,
        )


def _commits(path: Path, count: int) -> list[float]:
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=NORMAL")
    db.execute("CREATE TABLE t (id TEXT PRIMARY KEY, value TEXT)")
    times = _times(count, lambda k: db.execute("INSERT INTO t VALUES (?, ?)", (f"k{k}", "x" * 100)))
    db.close()
    return times


def _core_times(path: Path, count: int) -> list[float]:
    """Asks while 900 of 1,000 devices are held, by labels, each lease given back before the next."""
    from generators.devices.authority.leases import Leases
    from generators.devices.records import DeviceLease, DeviceRecord, LeaseRequest

    leases, held, first = Leases(path), [], []
    for k in range(DEVICES):
        leases.register(DeviceRecord(f"d{k}", "ssh", "127.0.0.1", 1 + k, (f"rack={k % 10}",)))
    for k in range(DEVICES * 9 // 10):
        first.append(leases.ask(LeaseRequest(f"h{k}", "anna", "ssh")))

    def ask(k: int) -> None:
        found = leases.ask(LeaseRequest(f"r{k}", "anna", "ssh", (f"rack={k % 10}",), priority=1))
        if not isinstance(found, DeviceLease):
            raise AssertionError("allocation: a free device wasn't given")
        held.append(found)

    times = _times(count, ask, lambda: leases.release(held[-1].id, held[-1].fence))
    for lease in first:
        if isinstance(lease, DeviceLease) and leases.lease(lease.id).state == "live":
            leases.release(lease.id, lease.fence)
    leases.close()
    return times


async def _served_times(url: str, key: str, count: int) -> tuple[list[float], list[float]]:
    """Times of allocations, and of an answer of the same server that does nothing, in turn."""
    from generators.devices.client.authority_client import AuthorityClient

    times, empty = [], []
    async with AuthorityClient(url, key) as authority:
        for k in range(count):
            body = {"request": f"s{k}", "protocol": "ssh", "labels": [f"rack={k % 10}"]}
            began = time.perf_counter()
            said = await authority.call("POST", "/v1/leases", body)
            times.append(time.perf_counter() - began)
            began = time.perf_counter()
            await authority.call("GET", "/healthz")
            empty.append(time.perf_counter() - began)
            if said["state"] != "granted":
                raise AssertionError("allocation: a free device wasn't given")
            await authority.call("POST", f"/v1/leases/{said['lease']}/release", {"fence": said["fence"]})
    return times, empty


def _times(count: int, work: Callable[[int], Any], after: Callable[[], Any] = lambda: None) -> list[float]:
    times = []
    for k in range(count):
        began = time.perf_counter()
        work(k)
        times.append(time.perf_counter() - began)
        after()
    return times


def main() -> None:
    """The figures."""
    argparse.ArgumentParser(description="Gateway figures.", epilog="example: python bench/gateway.py").parse_args()
    for row in rows():
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
