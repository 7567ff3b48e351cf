"""SDK, local ports and the Gymnasium environment over a real gateway."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import gateway_parts as parts
import httpx
import pytest
from gymnasium.utils.env_checker import check_env

from generators.devices.client.authority_client import AuthorityRefused
from generators.devices.client.forward import forward
from generators.devices.client.gym_env import ActionText, DeviceEnv
from generators.devices.client.sdk import DRIVERS, Client
from generators.devices.client.sync_sdk import SyncClient
from generators.devices.device import AsyncDevice, DeviceEndpoint, DeviceError, Driver, LeaseLost
from generators.devices.drivers.cdp import CdpOptions
from generators.devices.drivers.frames import read_options
from generators.tasks.world_interface import World
from schemas.actions import SPACES, Click, Type, parse

LINES: dict[str, str | Driver] = {"ssh": parts.connect_lines}
TEXT = "😀 中文 \"'; rm -rf / \\n" + "x" * 10_000


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[parts.Gateway]:
    rules = {"heartbeat_s": 0.3, "dead_s": 5.0, "quarantine_after": 2, "quarantine_holders": 1}
    with parts.gateway(tmp_path_factory.mktemp("sdk"), 2, rules) as gateway:
        yield gateway


def run(gateway: parts.Gateway, name: str, work: Callable[[Client, parts.EchoDevice], Awaitable[None]]) -> None:
    """Run a coroutine with a client beside an echo device that is registered under a name."""

    async def both() -> None:
        async with asyncio.timeout(40), parts.echo_device() as device:
            await asyncio.to_thread(gateway.register, name, device.port, labels=[name])
            try:
                async with Client(gateway.url, parts.CLIENT, LINES) as client:
                    await work(client, device)
            finally:
                await asyncio.to_thread(gateway.call, "DELETE", f"/v1/devices/{name}")

    asyncio.run(both())


def test_a_session_resets_acts_observes_and_gives_the_device_back(two: parts.Gateway) -> None:
    async def work(client: Client, device: parts.EchoDevice) -> None:
        async with client.lease("ssh", ["a"]) as session:
            await session.reset({"seed": 1})
            await session.act(Click((1, 2)))
            await session.act(Type(TEXT))
            assert (await session.observe()).png == parts.picture(2)
            assert parse((await session.state())["done"][1]) == Type(TEXT)
            assert session.platform == "desktop" and session.size_px == (4, 2)
            [listed] = await client.devices()
            assert listed["holder"] == "anna" and listed["fence"] == session.fence
        assert [listed["holder"] for listed in await client.devices()] == [None]
        with pytest.raises(LeaseLost, match="released"):
            await session.observe()
        assert device.connections == 1

    run(two, "a", work)


def test_the_loser_of_a_preemption_hears_of_it_and_is_cut_off(two: parts.Gateway) -> None:
    async def work(client: Client, device: parts.EchoDevice) -> None:
        async with client.lease("ssh", ["b"], priority=1) as low:
            await low.act(Click((1, 1)))
            async with client.lease("ssh", ["b"], priority=2) as high:
                await high.act(Click((2, 2)))
                with pytest.raises(LeaseLost, match="priority 2"):
                    for _ in range(200):
                        await low.observe()
                        await asyncio.sleep(0.02)
                assert low.fence < high.fence
                await high.observe()

    run(two, "b", work)


def test_a_call_in_flight_ends_when_the_lease_is_lost(two: parts.Gateway) -> None:
    class Stuck(parts.LineDevice):
        async def observe(self) -> Any:
            await asyncio.sleep(60)

    @contextlib.asynccontextmanager
    async def connect(endpoint: DeviceEndpoint) -> AsyncIterator[AsyncDevice]:
        async with parts.connect_lines(endpoint) as device:
            device.__class__ = Stuck
            yield device

    async def work(_: Client, device: parts.EchoDevice) -> None:
        async with Client(two.url, parts.CLIENT, {"ssh": connect}) as client, client.lease("ssh", ["c"]) as session:
            await session.open()
            call = asyncio.create_task(session.observe())
            await asyncio.sleep(0.2)
            await asyncio.to_thread(two.call, "DELETE", "/v1/devices/c")
            began = time.monotonic()
            with pytest.raises(LeaseLost):
                await call
            assert time.monotonic() - began < 10
        await asyncio.to_thread(two.register, "c", device.port)

    run(two, "c", work)


def test_a_call_that_is_given_up_leaves_no_half_answer_behind(two: parts.Gateway) -> None:
    async def work(client: Client, device: parts.EchoDevice) -> None:
        async with client.lease("ssh", ["j"]) as session:
            await session.open()
            call = asyncio.create_task(session.act(Click((1, 1))))
            await asyncio.sleep(0)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await session.reset({"after": 1})
            assert await session.state() == {"done": []}
            stuck = asyncio.create_task(session.act(Click((2, 2))))
            await asyncio.sleep(0)
            await session.release()
            with contextlib.suppress(LeaseLost):  # it may have been done just before
                await stuck
        assert (await client.devices())[0]["holder"] is None

    run(two, "j", work)


def test_waiting_ends_when_a_device_comes_free_or_time_is_up(two: parts.Gateway) -> None:
    async def work(client: Client, device: parts.EchoDevice) -> None:
        async with client.lease("ssh", ["d"]):
            with pytest.raises(DeviceError, match="no device within 0.3 s; 0 requests stand before"):
                async with client.lease("ssh", ["d"], wait_s=0.3):
                    pass
            waiting = client.lease("ssh", ["d"])
            entering = asyncio.create_task(waiting.__aenter__())
            await asyncio.sleep(0.3)
            assert not entering.done()
        session = await asyncio.wait_for(entering, 5)
        await session.observe()
        await waiting.__aexit__(None, None, None)

    run(two, "d", work)


def test_a_session_hears_that_its_device_is_wanted_by_who_has_fewer(two: parts.Gateway) -> None:
    async def work(client: Client, device: parts.EchoDevice) -> None:
        async with Client(two.url, parts.OTHER, LINES) as other:
            async with client.lease("ssh", ["w"]) as session:
                assert not session.wanted
                waiting = other.lease("ssh", ["w"])
                entering = asyncio.create_task(waiting.__aenter__())
                while not session.wanted:  # within a heartbeat
                    await asyncio.sleep(0.05)
                assert not entering.done()  # nobody made it
            taken = await asyncio.wait_for(entering, 5)
            assert taken.device == "w"
            await waiting.__aexit__(None, None, None)

    run(two, "w", work)


def test_a_device_that_fails_lease_after_lease_is_quarantined(two: parts.Gateway) -> None:
    async def work(client: Client, device: parts.EchoDevice) -> None:
        device.server.close()
        for _ in range(2):
            async with client.lease("ssh", ["e"]) as session:
                with pytest.raises((DeviceError, LeaseLost)):
                    await session.observe()
        [listed] = await client.devices()
        assert "2 infrastructure failures in a row" in listed["quarantined"]
        status, _ = await asyncio.to_thread(two.call, "POST", "/v1/devices/e/readmit", parts.CLIENT)
        assert status == 403
        _, listed = await asyncio.to_thread(two.call, "POST", "/v1/devices/e/readmit")
        assert listed["quarantined"] == ""

    run(two, "e", work)


def test_a_request_that_is_given_up_takes_no_device_later(two: parts.Gateway) -> None:
    async def work(client: Client, device: parts.EchoDevice) -> None:
        async def holders() -> list[str | None]:
            return [listed["holder"] for listed in await client.devices()]

        async def wait_in_line() -> None:
            async with client.lease("ssh", ["k"]):
                pass

        async with client.lease("ssh", ["k"]):
            waiting = asyncio.create_task(wait_in_line())
            await asyncio.sleep(0.5)
            waiting.cancel()  # its poll goes on at the authority, which hears of this by the withdrawal alone
            with pytest.raises(asyncio.CancelledError):
                await waiting
        for _ in range(10):
            assert await holders() == [None]
            await asyncio.sleep(0.05)

    run(two, "k", work)


def test_a_long_poll_ends_before_its_silence_counts(two: parts.Gateway) -> None:
    async def work(client: Client, device: parts.EchoDevice) -> None:
        wish = {"request": "quiet", "protocol": "ssh", "labels": ["l"], "wait_s": 20}
        async with client.lease("ssh", ["l"]):
            began = time.monotonic()
            status, said = await asyncio.to_thread(two.call, "POST", "/v1/leases", parts.OTHER, **wish)
            assert (status, said["state"]) == (202, "waiting") and time.monotonic() - began < 4  # dead_s is 5
        status, said = await asyncio.to_thread(two.call, "POST", "/v1/leases", parts.OTHER, **wish)
        assert (status, said["state"]) == (200, "granted")
        await asyncio.to_thread(two.call, "DELETE", "/v1/requests/quiet", parts.OTHER)

    run(two, "l", work)


def test_a_device_registered_with_wrong_options_fails_by_its_name_and_is_put_away(two: parts.Gateway) -> None:
    @contextlib.asynccontextmanager
    async def connect(endpoint: DeviceEndpoint) -> AsyncIterator[AsyncDevice]:
        read_options(CdpOptions, endpoint.options, "cdp")
        async with parts.connect_lines(endpoint) as device:
            yield device

    async def work(_: Client, device: parts.EchoDevice) -> None:
        await asyncio.to_thread(two.register, "m", device.port, labels=["m"], options={"colour": 1})
        async with Client(two.url, parts.CLIENT, {"ssh": connect}) as client:
            for _ in range(2):
                async with client.lease("ssh", ["m"]) as session:
                    with pytest.raises(DeviceError, match="^device m: cdp options: expected names of .*'colour'"):
                        await session.open()
            [listed] = await client.devices()
            assert "'colour'" in listed["quarantined"]

    run(two, "m", work)


@pytest.mark.parametrize(
    ("key", "wish", "says"),
    [
        ("not a key that exists", {}, "missing or unknown"),
        (parts.NODE, {}, "expected a role of client, admin"),
        (parts.OTHER, {"priority": 9}, "priority up to 5"),
        (parts.CLIENT, {"labels": ["nowhere"]}, "no registered device"),
        (parts.CLIENT, {"labels": ["a b"]}, "label: expected"),
        (parts.CLIENT, {"ttl_s": -1}, "ttl_s: expected seconds"),
    ],
)
def test_what_the_authority_refuses_says_why(two: parts.Gateway, key: str, wish: dict[str, Any], says: str) -> None:
    async def work() -> None:
        async with Client(two.url, key, LINES) as client:
            with pytest.raises(ValueError, match="a protocol of ssh, found 'vnc'"):
                await client.lease("vnc").__aenter__()
            with pytest.raises(AuthorityRefused, match=says):
                async with client.lease("ssh", **wish):
                    pass

    asyncio.run(work())


def test_only_its_holder_beats_and_releases_a_lease(two: parts.Gateway) -> None:
    async def work(client: Client, device: parts.EchoDevice) -> None:
        async with client.lease("ssh", ["f"]) as session:
            path = session._path
            for verb in ("heartbeat", "release", "failure"):
                body = {"fence": session.fence, "reason": "spite"}
                assert (await asyncio.to_thread(two.call, "POST", f"{path}/{verb}", parts.OTHER, **body))[0] == 404
            for fence, status in ((session.fence + 1, 404), (10**30, 404), ("1", 400)):
                assert (await asyncio.to_thread(two.call, "POST", f"{path}/release", fence=fence))[0] == status
            await session.observe()

    run(two, "f", work)


def test_what_a_node_sends_wrongly_is_an_error_of_its_own(two: parts.Gateway) -> None:
    me = {"node": "n0", "host": "127.0.0.1", "port": 1, "leaving": True}
    status, said = two.call("POST", "/v1/fences", parts.NODE, **me)
    assert status == 200 and {node["id"] for node in said["nodes"]} == {"n0", "n1"}
    assert two.call("POST", "/v1/fences", parts.NODE, **me, epoch=said["epoch"], after=10**30)[0] == 400
    assert two.call("POST", "/v1/fences", parts.CLIENT, **me)[0] == 403
    header = {"Authorization": f"Bearer {parts.ADMIN}"}
    device = '{"id": "x", "protocol": "ssh", "host": "h", "port": %s, "options": {"a": "%s"}}'
    long = json.dumps({"a": "x" * 2_000_000})
    for wrong in (device % (1, "\\ud800"), device % ("NaN", ""), device % ("1.5", ""), "[1]", "{", long):
        reply = httpx.post(f"{two.url}/v1/devices", headers=header, content=wrong)
        assert reply.status_code == 400 and reply.json()["error"], wrong[:80]
    assert two.call("DELETE", "/v1/devices/x")[0] == 404


def test_a_node_that_leaves_waits_for_news_as_others_do(two: parts.Gateway) -> None:
    me = {"node": "n9", "host": "127.0.0.1", "port": 1, "nodes": ["n0", "n1", "n9"]}
    status, said = two.call("POST", "/v1/fences", parts.NODE, **me)
    assert status == 200 and [node["id"] for node in said["nodes"]] == me["nodes"]
    more = {"epoch": said["epoch"], "after": said["change"], "wait_s": 0.8}
    for leaving in ({}, {"leaving": True}):  # told or not that it goes, and then not listed any more
        began = time.monotonic()
        status, said = two.call("POST", "/v1/fences", parts.NODE, **me, **more, **leaving)
        assert status == 200 and time.monotonic() - began >= 0.7
        two.call("POST", "/v1/nodes/retire", parts.NODE, node="n9")
    began = time.monotonic()
    two.call("POST", "/v1/fences", parts.NODE, **{**me, "nodes": ["n0", "n9"]}, **more, leaving=True)
    assert time.monotonic() - began < 0.7  # another node that came is news


def test_a_local_port_leads_to_the_device_and_ends_with_the_lease(two: parts.Gateway) -> None:
    async def work(client: Client, device: parts.EchoDevice) -> None:
        async with client.lease("ssh", ["g"]) as session, forward(session) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            assert await reader.readline() == b"SSH-2.0-echo\r\n"
            writer.write(TEXT.encode())
            writer.write_eof()
            assert await reader.read() == TEXT.encode()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            await reader.readline()
            await asyncio.to_thread(two.call, "DELETE", "/v1/devices/g")
            with contextlib.suppress(ConnectionError):
                assert await asyncio.wait_for(reader.read(), 10) == b""
            with pytest.raises(LeaseLost):  # the gateway cut it off; the next heartbeat says so
                for _ in range(100):
                    session.endpoints()
                    await asyncio.sleep(0.05)
        await asyncio.to_thread(two.register, "g", device.port)

    run(two, "g", work)


def test_the_sync_client_is_a_world_and_a_gymnasium_environment(two: parts.Gateway) -> None:
    async def serve() -> None:
        async with parts.echo_device() as device:
            await asyncio.to_thread(two.register, "h", device.port, labels=["h"])
            await asyncio.to_thread(drive)
            await asyncio.to_thread(two.call, "DELETE", "/v1/devices/h")

    def drive() -> None:
        with SyncClient(two.url, parts.CLIENT, LINES) as client, client.lease("ssh", ["h"]) as session:
            assert isinstance(session, World) and session.name == "h"
            environment = DeviceEnv(session, {"seed": 0}, max_steps=3, render_mode="rgb_array")
            check_env(environment)
            first, _ = environment.reset(seed=1)
            assert first.shape == (2, 4, 3) and tuple(first[0, 0]) == (0, 7, 7)
            pixels, reward, over, cut, _ = environment.step("Type(content='a')")
            assert (int(pixels[0, 0, 0]), reward, over, cut) == (1, 0.0, False, False)
            assert environment.step("Finished(content='')")[2:4] == (True, False)
            assert environment.step("Wait()")[3]
            with pytest.raises(ValueError, match="unknown name"):
                environment.step("Fly()")
            assert len(client.devices()) == 1

    asyncio.run(serve())


def test_samples_of_the_action_space_are_legal_and_of_every_type() -> None:
    for name, types in SPACES.items():
        space = ActionText(name, seed=3)
        samples = [space.sample() for _ in range(400)]
        assert all(space.contains(sample) for sample in samples)
        assert {type(parse(sample)).__name__ for sample in samples} == set(types)
        assert space == ActionText(name) and space.contains("GetUrl()") is (name == "v2")
    assert not space.contains("Click( box=(1,2))") and not space.contains(7)


def test_every_protocol_has_a_driver_in_view() -> None:
    assert set(DRIVERS) == {"cdp", "adb", "ssh"}


def test_a_session_survives_the_death_of_its_node(tmp_path: Path) -> None:
    with parts.gateway(tmp_path, 2, {"heartbeat_s": 0.3, "dead_s": 5.0}) as gateway:

        async def work(client: Client, device: parts.EchoDevice) -> None:
            async with client.lease("ssh", ["i"]) as session:
                await session.observe()
                owner = session._nodes[0]["id"]
                gateway.nodes[owner].stop()
                await session.observe()  # tried again over the other node
                await asyncio.to_thread(gateway.start_node, owner)
                assert (await session.state())["done"] == []
                await session.act(Click((3, 3)))
                assert device.connections == 2

        run(gateway, "i", work)
