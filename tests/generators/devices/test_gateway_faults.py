"""Real processes killed with -9 under load: clients recover, and no device ever serves two leases at once."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from pathlib import Path

import gateway_parts as parts
import pytest

from generators.devices.client.sdk import Client, Session
from generators.devices.device import DeviceError, LeaseLost
from schemas.actions import Type, parse

pytestmark = pytest.mark.slow

LINES = {"ssh": parts.connect_lines}
RULES = {"heartbeat_s": 0.3, "dead_s": 3.0, "ttl_s": 60.0}
WORKERS, DEVICES, LEASES, STEPS = 6, 3, 4, 5


async def _register(gateway: parts.Gateway, stack: contextlib.AsyncExitStack, count: int) -> list[parts.EchoDevice]:
    devices = [await stack.enter_async_context(parts.echo_device()) for _ in range(count)]
    for k, device in enumerate(devices):
        await asyncio.to_thread(gateway.register, f"d{k}", device.port)
    return devices


def _fences(device: parts.EchoDevice) -> list[int]:
    """The fence written in each action that reached a device, in order. A line cut short is left out."""
    found = []
    for line in bytes(device.seen).decode().splitlines():
        if "Type(" in line:
            with contextlib.suppress(ValueError):
                action = parse(line[line.index("Type(") :])
                assert isinstance(action, Type)
                found.append(int(action.content))
    return found


def test_nodes_and_authority_killed_under_load_hold_no_lease_twice(tmp_path: Path) -> None:
    with parts.gateway(tmp_path, 3, RULES) as gateway:
        held: dict[tuple[str, int], str] = {}
        lost = [0]

        async def use(session: Session, name: str) -> None:
            assert held.setdefault((session.device, session.fence), name) == name  # a fence is given once
            for _ in range(STEPS):
                with contextlib.suppress(DeviceError):  # a step in flight may be lost, and no more than that
                    await session.act(Type(str(session.fence)))
                await asyncio.sleep(0.02)

        async def worker(client: Client, number: int) -> None:
            done = 0
            while done < LEASES:
                try:
                    async with client.lease("ssh", priority=number % 2, wait_s=30) as session:
                        await use(session, f"{number}-{done}")
                        await session.observe()
                    done += 1
                except LeaseLost:  # preempted: once more
                    lost[0] += 1

        async def killer() -> None:
            await asyncio.sleep(0.5)
            gateway.nodes["n0"].stop(signal.SIGKILL)
            await asyncio.sleep(0.7)
            assert gateway.authority is not None
            await asyncio.to_thread(gateway.authority.stop, signal.SIGKILL)
            await asyncio.to_thread(gateway.start_node, "n0")
            await asyncio.to_thread(gateway.start_authority)
            await asyncio.sleep(0.5)
            gateway.nodes["n1"].stop(signal.SIGKILL)

        async def work() -> None:
            async with asyncio.timeout(90), contextlib.AsyncExitStack() as stack:
                devices = await _register(gateway, stack, DEVICES)
                async with Client(gateway.url, parts.CLIENT, LINES) as client:
                    await asyncio.gather(killer(), *(worker(client, number) for number in range(WORKERS)))
                    # a release that found no authority is made good by the lease's death
                    async with asyncio.timeout(30):
                        after = await client.devices()
                        while any(state["holder"] for state in after):
                            await asyncio.sleep(0.2)
                            after = await client.devices()
                for k, device in enumerate(devices):
                    fences = _fences(device)
                    assert fences == sorted(fences), k  # nothing of an older lease after something of a newer one
                    assert max(fences) <= after[k]["fence"]
                assert sum(len(_fences(device)) for device in devices) > WORKERS * LEASES * STEPS // 2

        asyncio.run(work())
        assert len(held) >= WORKERS * LEASES


def test_with_the_authority_down_leases_live_on_even_over_new_nodes(tmp_path: Path) -> None:
    with parts.gateway(tmp_path, 1, {"heartbeat_s": 0.3, "dead_s": 3.0}) as gateway:

        async def work() -> None:
            async with asyncio.timeout(60), contextlib.AsyncExitStack() as stack:
                await _register(gateway, stack, 1)
                client = await stack.enter_async_context(Client(gateway.url, parts.CLIENT, LINES))
                async with client.lease("ssh", ttl_s=100) as session:
                    await session.act(Type(str(session.fence)))
                    assert gateway.authority is not None
                    gateway.authority.stop(signal.SIGKILL)
                    down = time.monotonic()
                    with pytest.raises(DeviceError, match="no device within 0.5 s; lease authority at"):
                        async with client.lease("ssh", wait_s=0.5):
                            pass
                    gateway.nodes["n0"].stop(signal.SIGKILL)  # a node that never heard the authority serves, too
                    await asyncio.to_thread(gateway.start_node, "n0", port=gateway.at("n0")[1])
                    await session.observe()
                    await asyncio.sleep(max(0.0, 3.2 - (time.monotonic() - down)))
                    await session.act(Type(str(session.fence)))  # silent for longer than kills, yet alive
                    await asyncio.to_thread(gateway.start_authority)
                    assert await asyncio.to_thread(gateway.authority.stop, signal.SIGTERM) == 0  # in good order, too
                    await asyncio.to_thread(gateway.start_authority)
                    [listed] = await client.devices()
                    assert (listed["holder"], listed["fence"]) == ("anna", session.fence)
                    await session.observe()
                async with client.lease("ssh") as after:
                    await after.observe()
                    assert after.fence > session.fence

        asyncio.run(work())


def test_with_the_authority_down_a_lease_ends_with_its_ttl(tmp_path: Path) -> None:
    with parts.gateway(tmp_path, 1, RULES) as gateway:

        async def work() -> None:
            async with asyncio.timeout(60), contextlib.AsyncExitStack() as stack:
                [device] = await _register(gateway, stack, 1)
                client = await stack.enter_async_context(Client(gateway.url, parts.CLIENT, LINES))
                async with client.lease("ssh", ttl_s=2) as session:
                    began = time.monotonic()
                    await session.open()
                    assert gateway.authority is not None
                    gateway.authority.stop(signal.SIGKILL)
                    while device.open:  # the node itself cuts the connection
                        await asyncio.sleep(0.05)
                    assert time.monotonic() - began > 1.5
                    with pytest.raises(LeaseLost):
                        await session.observe()

        asyncio.run(work())


def test_a_holder_killed_in_its_sleep_loses_its_lease_to_the_next(tmp_path: Path) -> None:
    with parts.gateway(tmp_path, 1, {"heartbeat_s": 0.2, "dead_s": 1.0}) as gateway:

        async def work() -> None:
            async with asyncio.timeout(30), contextlib.AsyncExitStack() as stack:
                [device] = await _register(gateway, stack, 1)
                client = await stack.enter_async_context(Client(gateway.url, parts.CLIENT, LINES))
                async with client.lease("ssh") as silent:
                    await silent.act(Type(str(silent.fence)))
                    silent._heart.cancel()
                    async with client.lease("ssh", wait_s=10) as session:
                        await session.act(Type(str(session.fence)))
                        with pytest.raises(LeaseLost):
                            await silent.act(Type(str(silent.fence)))
                        await session.act(Type(str(session.fence)))
                assert _fences(device) == [silent.fence, session.fence, session.fence]

        asyncio.run(work())
