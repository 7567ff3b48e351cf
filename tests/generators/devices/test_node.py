"""Gateway nodes as processes of their own: relays byte for byte, backpressure, refusals, owners, cuts, drain."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import gateway_parts as parts
import pytest

from generators.devices.device import DeviceEndpoint, DeviceError, LeaseLost
from generators.devices.protocols.http_head import END, BadHead, HttpHead, read_head, write_head
from generators.devices.protocols.tunnel import GatewayRefused, open_tunnel
from generators.devices.rendezvous import rank
from generators.devices.tokens import Access, Tokens

pytestmark = pytest.mark.slow

TOKENS = Tokens(parts.SECRET)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[parts.Gateway]:
    """Three nodes that tests share; each test has devices of its own."""
    with parts.gateway(tmp_path_factory.mktemp("gateway"), 3) as gateway:
        yield gateway


def token(device: str, port: int, fence: int = 1, seconds: float = 60, protocol: str = "ssh") -> str:
    return TOKENS.sign(Access(device, protocol, "127.0.0.1", port, fence, time.time() + seconds))


def endpoint(gateway: parts.Gateway, node: str, device: str, leave: str) -> DeviceEndpoint:
    return DeviceEndpoint("ssh", *gateway.at(node), device, leave)


async def cut_off(reader: asyncio.StreamReader) -> None:
    """Wait until a stream ends, by whatever means."""
    with contextlib.suppress(ConnectionError):
        while await reader.read(65_536):
            pass


def run(work: Callable[[parts.EchoDevice], Awaitable[None]]) -> None:
    """Run a coroutine beside an echo device."""

    async def both() -> None:
        async with asyncio.timeout(30), parts.echo_device() as device:
            await work(device)

    asyncio.run(both())


def test_bytes_pass_both_ways_whole_and_unchanged_with_half_close(three: parts.Gateway) -> None:
    async def work(device: parts.EchoDevice) -> None:
        sent = random.Random(1).randbytes(3_000_000)
        for node in three.nodes:  # the owner and the others
            reader, writer = await open_tunnel(endpoint(three, node, "bytes", token("bytes", device.port)))

            async def say(writer: asyncio.StreamWriter = writer) -> None:
                writer.write(sent)
                await writer.drain()
                writer.write_eof()

            _, found = await asyncio.gather(say(), reader.read())
            assert found == b"SSH-2.0-echo\r\n" + sent
            writer.close()
        assert bytes(device.seen) == sent * 3

    run(work)


def test_a_slow_reader_stops_the_writer_and_costs_no_memory(three: parts.Gateway) -> None:
    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                writer.write(bytes(1 << 20))
                await writer.drain()
                written.append(1 << 20)
        except OSError:
            writer.close()

    written: list[int] = []

    async def work() -> None:
        server = await asyncio.start_server(flood, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        node = next(name for name in three.nodes if name != rank("flood", three.nodes)[0])
        owner = rank("flood", three.nodes)[0]
        pids = {name: three.nodes[name].process.pid for name in (node, owner)}
        before = {name: parts.resident_bytes(pid) for name, pid in pids.items()}
        raw = socket.create_connection(three.at(node))
        raw.sendall(write_head("CONNECT flood HTTP/1.1", [("Authorization", f"Bearer {token('flood', port)}")]))
        stalled, last = 0, -1
        while stalled < 10:  # until half a second has brought nothing more
            await asyncio.sleep(0.05)
            stalled, last = (stalled + 1, last) if len(written) == last else (0, len(written))
        assert 0 < sum(written) < 64 << 20  # kernel buffers of five sockets; a relay without bounds takes all
        for name, pid in pids.items():
            assert parts.resident_bytes(pid) - before[name] < 8 << 20, name
        stood = len(written)
        raw.setblocking(False)
        got, end = 0, time.monotonic() + 15
        while got < sum(written[:stood]) + (8 << 20) and time.monotonic() < end:
            got += len(await asyncio.get_running_loop().sock_recv(raw, 1 << 20))
        assert len(written) > stood  # read from again, it flows again
        raw.close()
        server.close()

    asyncio.run(work())


def test_every_connection_of_a_device_stands_at_its_owner(three: parts.Gateway) -> None:
    async def work(device: parts.EchoDevice) -> None:
        name = "owned"
        owner = rank(name, three.nodes)[0]
        others = [node for node in three.nodes if node != owner]
        metric = 'vesper_gateway_relays_total{protocol="ssh",to="%s"}'
        loop = asyncio.get_running_loop()

        async def relays(node: str, to: str) -> float:
            return await loop.run_in_executor(None, three.metric, node, metric % to)

        at_owner = await relays(owner, "device")
        before = [await relays(node, "device") for node in others]
        for node in three.nodes:
            reader, writer = await open_tunnel(endpoint(three, node, name, token(name, device.port)))
            await reader.readline()
            writer.close()
        assert await relays(owner, "device") == at_owner + 3
        assert [await relays(node, "device") for node in others] == before

    run(work)


def _broken(text: str) -> str:
    head, body, signature = text.split(".")
    return ".".join([head, body, ("A" if signature[0] != "A" else "B") + signature[1:]])


@pytest.mark.parametrize(
    ("leave", "error", "says"),
    [
        (lambda port: "x", LeaseLost, "malformed"),
        (lambda port: token("t1", port, seconds=-1), LeaseLost, "expired"),
        (lambda port: _broken(token("t1", port)), LeaseLost, "not signed"),
        (
            lambda port: Tokens("another secret that is long enough").sign(
                Access("t1", "ssh", "127.0.0.1", port, 1, time.time() + 60)
            ),
            LeaseLost,
            "not signed",
        ),
        (lambda port: token("t2", port), LeaseLost, "another device"),
    ],
)
def test_missing_expired_tampered_foreign_and_wrong_tokens_reach_no_device(
    three: parts.Gateway, leave: Callable[[int], str], error: type[DeviceError], says: str
) -> None:
    async def work(device: parts.EchoDevice) -> None:
        for node in three.nodes:
            with pytest.raises(error, match=says):
                await open_tunnel(endpoint(three, node, "t1", leave(device.port)))
        assert device.connections == 0

    run(work)


def test_a_greater_fence_cuts_the_lower_one_off(three: parts.Gateway) -> None:
    async def work(device: parts.EchoDevice) -> None:
        old, _ = await open_tunnel(endpoint(three, "n0", "fenced", token("fenced", device.port, 4)))
        await old.readline()
        new, writer = await open_tunnel(endpoint(three, "n1", "fenced", token("fenced", device.port, 5)))
        await new.readline()
        await cut_off(old)
        owner = rank("fenced", three.nodes)[0]
        with pytest.raises(LeaseLost, match="its lease has ended"):
            await open_tunnel(endpoint(three, owner, "fenced", token("fenced", device.port, 4)))
        writer.write(b"still here")
        assert await new.readexactly(10) == b"still here"

    run(work)


def test_a_relay_ends_with_its_token(three: parts.Gateway) -> None:
    async def work(device: parts.EchoDevice) -> None:
        reader, _ = await open_tunnel(endpoint(three, "n0", "short", token("short", device.port, seconds=1)))
        began = time.monotonic()
        await cut_off(reader)
        assert 0.5 < time.monotonic() - began < 5

    run(work)


def test_a_device_that_is_not_there_is_said_so(three: parts.Gateway) -> None:
    async def work() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            with pytest.raises(GatewayRefused, match="device away: .*refused") as refused:
                await open_tunnel(endpoint(three, "n0", "away", token("away", taken.getsockname()[1])))
            assert refused.value.status == 502

    asyncio.run(work())


def _talk(at: tuple[str, int], raw: bytes) -> bytes:
    with socket.create_connection(at, timeout=15) as connection:
        connection.sendall(raw)
        out = b""
        while data := connection.recv(65_536):
            out += data
        return out


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 401),
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nA : b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nAuthorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n", 400),
        (b"GET /" + b"x" * 20_000, 431),
        (b"\x16\x03\x01" + END, 400),
        (b"GET /healthz HTTP/1.1\r\n\r\n", 200),
    ],
)
def test_what_is_no_request_gets_a_clear_answer(three: parts.Gateway, raw: bytes, status: int) -> None:
    assert _talk(three.at("n0"), raw).startswith(f"HTTP/1.1 {status} ".encode())


def test_metrics_are_prometheus_text(three: parts.Gateway) -> None:
    head, _, body = _talk(three.at("n0"), b"GET /metrics HTTP/1.1\r\n\r\n").partition(END)
    assert read_head(head + END).get("Content-Type") == "text/plain; version=0.0.4; charset=utf-8"
    names = [line.split()[2] for line in body.decode().splitlines() if line.startswith("# TYPE ")]
    assert len(set(names)) == len(names) > 8
    for line in body.decode().splitlines():
        if not line.startswith("#"):
            float(line.rpartition(" ")[2])
            assert line.startswith(tuple(names))


def test_caps_idle_limits_and_slow_heads(tmp_path: Path) -> None:
    limits = {"max_connections": 3, "idle_s": 0.7, "head_s": 0.7}
    with parts.gateway(tmp_path, 1, **limits) as gateway:

        async def work(device: parts.EchoDevice) -> None:
            leave = token("d", device.port)
            kept = [await open_tunnel(endpoint(gateway, "n0", "d", leave)) for _ in range(3)]
            with pytest.raises(GatewayRefused, match="503 this node holds its 3 connections; try another"):
                await open_tunnel(endpoint(gateway, "n0", "d", leave))
            began = time.monotonic()
            while time.monotonic() - began < 1.4:  # one speaks and lives, the silent are let go
                kept[0][1].write(b"x")
                await asyncio.sleep(0.1)
            for reader, _ in kept[1:]:
                await cut_off(reader)
            assert len(await kept[0][0].readexactly(16)) == 16
            loop = asyncio.get_running_loop()
            assert b" 408 " in await loop.run_in_executor(None, _talk, gateway.at("n0"), b"GET / HT")

        run(work)


def test_drain_lets_relays_end_and_refuses_new_ones(tmp_path: Path) -> None:
    with parts.gateway(tmp_path, 2, drain_s=15) as gateway:

        async def work(device: parts.EchoDevice) -> None:
            name = next(f"d{k}" for k in range(99) if rank(f"d{k}", gateway.nodes)[0] == "n0")
            leave = token(name, device.port)
            reader, writer = await open_tunnel(endpoint(gateway, "n0", name, leave))
            await reader.readline()
            process = gateway.nodes["n0"].process
            process.send_signal(signal.SIGTERM)
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(None, parts.until, lambda: gateway.metric("n1", "vesper_gateway_nodes") == 1)
            with pytest.raises(DeviceError):
                await open_tunnel(endpoint(gateway, "n0", name, leave))
            other, second = await open_tunnel(endpoint(gateway, "n1", name, leave))  # the next in line serves
            await other.readline()
            writer.write(b"unhurried")
            assert await reader.readexactly(9) == b"unhurried"
            assert process.poll() is None
            writer.close()
            second.close()
            await loop.run_in_executor(None, lambda: process.wait(10))
            assert process.returncode == 0

        run(work)


def test_heads_are_read_strictly() -> None:
    raw = write_head("GET /a HTTP/1.1", [("Host", "h"), ("X", "1"), ("x", "2")])
    head = read_head(raw)
    assert head == HttpHead(("GET", "/a", "HTTP/1.1"), (("Host", "h"), ("X", "1"), ("x", "2")))
    assert head.get("host") == "h" and head.get("none") == "" and head.without("X") == [("Host", "h")]
    with pytest.raises(BadHead, match="expected once, found 2"):
        head.get("X")
    for bad in (b"GET /a\r\n\r\n", b"GET /a HTTP/1.1\r\n b: c\r\n\r\n", b"GET /a HTTP/1.1\r\nb: \x00\r\n\r\n", b"GET"):
        with pytest.raises(BadHead):
            read_head(bad)
