"""Who has no token, or one that ended, takes nothing from those who have one."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import stat
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import gateway_parts as parts
import pytest

from generators.devices.config import ApiKey
from generators.devices.device import DeviceEndpoint, DeviceError
from generators.devices.gateway.fence_file import LEAST_LINES, FenceFile
from generators.devices.protocols.tunnel import open_tunnel
from generators.devices.tokens import Access, Tokens

TOKENS = Tokens(parts.SECRET)


def token(device: str, port: int, fence: int = 1) -> str:
    return TOKENS.sign(Access(device, "ssh", "127.0.0.1", port, fence, time.time() + 60))


@contextlib.contextmanager
def strangers(at: tuple[str, int], count: int, says: bytes) -> Iterator[list[socket.socket]]:
    """So many connections that show no token and never end what they say."""
    with contextlib.ExitStack() as stack:
        opened = []
        for _ in range(count):
            one = stack.enter_context(socket.create_connection(at, timeout=10))
            one.sendall(says)
            opened.append(one)
        yield opened


@pytest.mark.parametrize("says", [b"", b"CONNECT d HTTP/1.1\r\nAuthorization: Bearer "])
def test_connections_without_a_token_push_no_holder_out(says: bytes, tmp_path: Path) -> None:
    with parts.gateway(tmp_path, 1, max_connections=20) as gateway:

        async def work() -> None:
            async with parts.echo_device() as device:
                leave = DeviceEndpoint("ssh", *gateway.at("n0"), "d", token("d", device.port))
                early = await open_tunnel(leave)
                with strangers(gateway.at("n0"), 1500, says):
                    served = [await open_tunnel(leave) for _ in range(19)]
                    for reader, _ in (*served, early):
                        assert await asyncio.wait_for(reader.readline(), 10) == b"SSH-2.0-echo\r\n"
                    with pytest.raises(DeviceError, match="503 this node holds its 20 connections"):
                        await open_tunnel(leave)

        asyncio.run(work())


@pytest.mark.parametrize(
    ("says", "wait_s"),
    # the first stands longer than a connection may that shows no key (`KEY_S`)
    [(b"", 12.0), (b"GET /healthz HTTP/1.1\r\n", 3.0), (b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n", 3.0)],
)
def test_connections_without_a_key_keep_nobody_from_the_authority(says: bytes, wait_s: float, tmp_path: Path) -> None:
    """More of them than the process has descriptors; a holder's long poll that stands meanwhile is answered."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    gateway = parts.Gateway(tmp_path)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (512, limits[1]))  # the authority inherits it
        gateway.start_authority(probe_s=0)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        gateway.register("d", 9)
        _, lease = gateway.call("POST", "/v1/leases", parts.CLIENT, request="r", protocol="ssh")
        with ThreadPoolExecutor(1) as pool:
            wait = {"request": "o", "protocol": "ssh", "wait_s": wait_s}
            standing = pool.submit(gateway.call, "POST", "/v1/leases", parts.OTHER, **wait)
            with strangers(("127.0.0.1", gateway.port), 900, says):
                for _ in range(3):
                    beat = gateway.call(
                        "POST", f"/v1/leases/{lease['lease']}/heartbeat", parts.CLIENT, fence=lease["fence"]
                    )
                    assert beat[0] == 200
                assert standing.result(30)[0] == 202
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        gateway.stop()


def test_who_shows_no_key_is_let_go(tmp_path: Path) -> None:
    gateway = parts.Gateway(tmp_path)
    try:
        gateway.start_authority(probe_s=0)
        with strangers(("127.0.0.1", gateway.port), 3, b"GET / HTTP/1.1\r\n") as opened:
            began = time.monotonic()
            for one in opened:
                one.settimeout(20)
                with contextlib.suppress(ConnectionResetError):
                    assert one.recv(100) == b""
            assert time.monotonic() - began < 15
    finally:
        gateway.stop()


def test_a_node_started_anew_without_the_authority_refuses_what_was_given_back(tmp_path: Path) -> None:
    kept = {"fences": str(tmp_path / "n0.fences")}
    with parts.gateway(tmp_path, 1, **kept) as gateway:

        async def work() -> None:
            async with parts.echo_device() as device:
                gateway.register("d", device.port)
                _, given = gateway.call("POST", "/v1/leases", parts.CLIENT, request="r", protocol="ssh")
                gateway.register("e", device.port)
                _, living = gateway.call("POST", "/v1/leases", parts.CLIENT, request="s", protocol="ssh", device="e")

                async def opens(lease: dict[str, str]) -> None:
                    at = gateway.at("n0")
                    _, writer = await open_tunnel(DeviceEndpoint("ssh", *at, lease["device"], lease["token"]))
                    writer.close()

                await opens(given)
                gateway.call("POST", f"/v1/leases/{given['lease']}/release", parts.CLIENT, fence=given["fence"])
                mark = f" {given['device']}"
                await asyncio.to_thread(
                    parts.until,
                    lambda: any(
                        line.endswith(mark) and int(line.split()[0]) > int(given["fence"])
                        for line in Path(kept["fences"]).read_text().splitlines()
                    ),
                )
                assert gateway.authority is not None
                gateway.authority.stop()
                gateway.nodes["n0"].stop()
                await asyncio.to_thread(gateway.start_node, "n0", **kept)
                with pytest.raises(DeviceError, match="its lease has ended"):
                    await opens(given)
                await opens(living)

        asyncio.run(work())


def test_a_new_authority_is_believed_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "n0.fences"
    path.write_text("9000000000000000 d\n")
    with parts.gateway(tmp_path, 1, fences=str(path)) as gateway:

        async def work() -> None:
            async with parts.echo_device() as device:
                await asyncio.to_thread(parts.until, lambda: path.read_text() == "")  # it has heard of no device
                leave = token("d", device.port, fence=1_000_000_000)
                _, writer = await open_tunnel(DeviceEndpoint("ssh", *gateway.at("n0"), "d", leave))
                writer.close()

        asyncio.run(work())


def test_the_file_holds_the_last_floors_and_stays_small(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "n.fences"
    file = FenceFile(path)
    for fence in range(LEAST_LINES + 50):
        file.add("d", fence)
    file.add("e", 7)
    assert path.read_text().count("\n") < 100
    with path.open("a") as stream:
        stream.write("88888888 d\nnonsense\n12")
    assert FenceFile(path).floors == {"d": 88888888, "e": 7}
    assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0


def test_a_key_has_at_most_so_many_leases(tmp_path: Path) -> None:
    few = [{**key, "max_leases": 2} if key["name"] == "anna" else key for key in parts.KEYS]
    gateway = parts.Gateway(tmp_path)
    try:
        gateway.start_authority(keys=few, probe_s=0)
        for number in range(3):
            gateway.register(f"d{number}", 9 + number)

        def ask(request: str, key: str = parts.CLIENT) -> int:
            return gateway.call("POST", "/v1/leases", key, request=request, protocol="ssh")[0]

        assert [ask("a"), ask("b"), ask("a")] == [200, 200, 200]
        status, said = gateway.call("POST", "/v1/leases", parts.CLIENT, request="c", protocol="ssh")
        assert status == 400 and "may have 2 at a time" in said["error"]
        assert [ask("c", parts.OTHER), ask("d", parts.OTHER)] == [200, 202]
    finally:
        gateway.stop()
    with pytest.raises(ValueError, match="max_leases"):
        ApiKey("a", "k" * 16, max_leases=-1)


def test_deep_json_is_bad_input_and_the_database_is_private(tmp_path: Path) -> None:
    import httpx

    gateway = parts.Gateway(tmp_path)
    try:
        gateway.start_authority(probe_s=0)
        for body in (b"[" * 200_000, b'{"a":' * 100_000, b'{"id": ' + b"[" * 5_000 + b"]" * 5_000 + b"}"):
            reply = httpx.post(
                f"{gateway.url}/v1/devices", headers={"Authorization": f"Bearer {parts.ADMIN}"}, content=body
            )
            assert reply.status_code == 400, reply.text
        gateway.register("d", 9)
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.glob("leases.sqlite*")}
        assert len(modes) >= 3 and set(modes.values()) == {0o600}, modes
    finally:
        gateway.stop()


def test_one_holder_reports_one_failure_a_lease(tmp_path: Path) -> None:
    gateway = parts.Gateway(tmp_path)
    try:
        gateway.start_authority(probe_s=0)
        gateway.register("d", 9)
        _, lease = gateway.call("POST", "/v1/leases", parts.CLIENT, request="r", protocol="ssh")
        for _ in range(5):
            status, said = gateway.call(
                "POST", f"/v1/leases/{lease['lease']}/failure", parts.CLIENT, fence=lease["fence"], reason="none"
            )
            assert (status, said) == (200, {"quarantined": False})
        [listed] = gateway.call("GET", "/v1/devices")[1]["devices"]
        assert (listed["failures"], listed["quarantined"], listed["holder"]) == (1, "", "anna")
    finally:
        gateway.stop()


class Reporter:
    """Leases a device, reports a failure and gives it back, again and again."""

    def __init__(self, gateway: parts.Gateway) -> None:
        self.gateway, self.count = gateway, 0

    def __call__(self, key: str, times: int) -> dict[str, object]:
        """The device as it is listed after so many reports."""
        for _ in range(times):
            self.count += 1
            _, lease = self.gateway.call("POST", "/v1/leases", key, request=f"r{self.count}", protocol="ssh")
            if lease["state"] != "granted":
                self.gateway.call("DELETE", f"/v1/requests/r{self.count}", key)
                break
            for what, more in (("failure", {"reason": "no picture"}), ("release", {})):
                self.gateway.call("POST", f"/v1/leases/{lease['lease']}/{what}", key, fence=lease["fence"], **more)
        [listed] = self.gateway.call("GET", "/v1/devices")[1]["devices"]
        return listed


def test_what_one_holder_reports_takes_no_device_from_the_others(tmp_path: Path) -> None:
    gateway = parts.Gateway(tmp_path)
    try:
        gateway.start_authority(probe_s=0)
        gateway.register("d", 9)
        report = Reporter(gateway)
        listed = report(parts.CLIENT, 10)
        assert (listed["failures"], listed["quarantined"]) == (10, "")
        assert gateway.call("POST", "/v1/leases", parts.OTHER, request="o", protocol="ssh")[0] == 200, "others have it"
        gateway.call("DELETE", "/v1/requests/o", parts.OTHER)
        assert report(parts.CLIENT, 2)["quarantined"] == ""
        assert "3 infrastructure failures" in str(report(parts.OTHER, 1)["quarantined"]), "two holders agree"
        gateway.call("POST", "/v1/devices/d/readmit")
        assert report(parts.CLIENT, 3)["quarantined"] == ""
        assert gateway.call("POST", "/v1/devices/d/failure", reason="seen by its owner")[1] == {"quarantined": True}
    finally:
        gateway.stop()


def test_where_only_one_holder_can_be_its_word_is_enough(tmp_path: Path) -> None:
    gateway = parts.Gateway(tmp_path)
    try:
        gateway.start_authority(probe_s=0, keys=[key for key in parts.KEYS if key["name"] != "bert"])
        gateway.register("d", 9)
        assert "3 infrastructure failures" in str(Reporter(gateway)(parts.CLIENT, 3)["quarantined"])
    finally:
        gateway.stop()
