"""Broken ways to a phone: cut connections, hung phones, peers that lie about lengths, pictures and trees."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
from recording_phone import RecordingPhone, relay

from generators.devices.device import DeviceEndpoint, DeviceError
from generators.devices.drivers.adb import AdbDevice, connect
from generators.devices.protocols.adb_transport import Ran
from generators.devices.protocols.adb_wire import AUTH, CNXN, HEADER, MAX_PAYLOAD, STLS, VERSION, Message, encode
from generators.worlds.android.adbd import Adbd, serve_adb
from generators.worlds.android.emulated_phone import EmulatedPhone
from schemas.actions import Click


def endpoint(port: int, **options: Any) -> DeviceEndpoint:
    return DeviceEndpoint("adb", "127.0.0.1", port, options={"call_s": 10.0, "wait_s": 0.01, **options})


@asynccontextmanager
async def phone(backend: RecordingPhone, **options: Any) -> AsyncIterator[tuple[AdbDevice, Adbd]]:
    """An emulated phone and the driver on it."""
    async with serve_adb(EmulatedPhone(backend)) as adbd, connect(endpoint(adbd.port, **options)) as device:
        yield device, adbd


def run(work: Coroutine[Any, Any, Any]) -> Any:
    async def limited() -> Any:
        async with asyncio.timeout(60):
            return await work

    return asyncio.run(limited())


async def _open_once(where: DeviceEndpoint) -> None:
    async with connect(where) as device:
        await device.observe()


@pytest.mark.parametrize("cut_after", [10, 24, 150, 700, 20_000, 100_000])
def test_a_connection_cut_anywhere_is_told(cut_after: int) -> None:
    async def work() -> None:
        backend = RecordingPhone((400, 400))
        async with serve_adb(EmulatedPhone(backend)) as adbd, relay(adbd.port, cut_after=cut_after) as port:
            with pytest.raises(DeviceError, match="ended|broke|closed"):
                await _open_once(endpoint(port))

    run(work())


def test_a_hung_phone_is_told_and_the_connection_goes_on() -> None:
    async def work() -> None:
        backend = RecordingPhone()
        async with phone(backend, call_s=2.0) as (device, _):
            backend.screencap_s = 30
            with pytest.raises(DeviceError, match="screencap took longer than 2 s"):
                await device.observe()
            backend.screencap_s = 0
            assert (await device.observe()).png
            backend.broken = "its browser is gone"
            with pytest.raises(DeviceError, match="its browser is gone"):
                await device.act(Click((5, 5)))

    run(work())


def _header(command: int, length: int, magic: int | None = None) -> bytes:
    return HEADER.pack(command, VERSION, MAX_PAYLOAD, length, 0, command ^ 0xFFFFFFFF if magic is None else magic)


PNG = b"\x89PNG\r\n\x1a\n"
BANNER = b"device::features=shell_v2"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"", "handshake"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n" + b" " * 40, "expected the header of a message"),
        (_header(CNXN, 0xFFFFFFFF), "at most 4096 bytes"),
        (_header(CNXN, 4000) + b"x" * 100, "ended after 100 of 4000"),
        (_header(CNXN, 0, magic=1), "with magic 0x1"),
        (encode(Message(CNXN, VERSION, 0, BANNER)), "takes 4096 bytes"),
        (encode(Message(STLS, VERSION, 0)), "asks for TLS"),
        (encode(Message(AUTH, 9, 0, b"x" * 20)), "a token, found AUTH 9"),
        (encode(Message(CNXN, VERSION, MAX_PAYLOAD, BANNER)) + _header(CNXN, 0), "expected OPEN, OKAY"),
        (encode(Message(CNXN, VERSION, MAX_PAYLOAD, BANNER)) + _header(0x45545257, 1 << 30), "at most 1048576 bytes"),
    ],
)
def test_peers_that_lie(answer: bytes, message: str) -> None:
    async def work() -> None:
        async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readexactly(24)
            writer.write(answer)
            await writer.drain()
            await asyncio.sleep(0.2 if answer else 2)
            writer.close()

        server = await asyncio.start_server(peer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(DeviceError, match=message):
            await _open_once(endpoint(port, call_s=10.0 if answer else 0.6))
        server.close()

    run(work())


class _Scripted:
    """A transport whose phone is too old for exit codes: one stream, all output in it."""

    features: frozenset[str] = frozenset()
    max_service = 4095

    def __init__(self, answer: Callable[[str], bytes]) -> None:
        self._answer, self._left = answer, b""

    async def open(self, service: str) -> _Scripted:
        self._left = self._answer(service)
        return self

    async def read(self) -> bytes:
        data, self._left = self._left[:7], self._left[7:]
        return data

    async def write(self, data: bytes) -> None:
        raise AssertionError("nothing is written")

    async def close(self) -> None: ...

    def drop(self) -> None: ...


def test_phones_without_exit_codes() -> None:
    from generators.devices.protocols.adb_transport import run as run_command

    def old(service: str) -> bytes:
        assert service.startswith("exec:false; echo '<")
        return b"out\n" + service.partition("'")[2].partition("'")[0].encode() + b"1\n"

    assert run(run_command(_Scripted(old), "false", limit_bytes=1000)) == Ran(b"out\n", b"", 1)
    for answer, limit, message in ((b"out", 1000, "broke off"), (b"x" * 100, 50, "at most 50")):
        with pytest.raises(ConnectionError, match=message):
            run(run_command(_Scripted(lambda _, answer=answer: answer), "false", limit_bytes=limit))
    with pytest.raises(ConnectionError, match="without NUL"):
        run(run_command(_Scripted(lambda _: b""), "a\0b", limit_bytes=1))


@pytest.mark.parametrize(
    ("png", "message"),
    [
        (b"", "screencap printed nothing: the screen is off"),
        (b"Error: no such display\n", "found 23 bytes: 'Error: no such display'"),
        (b"\xff\x00" * 4_000_000, "found 8000000 bytes"),
        (b"[Warning] two displays\n" + PNG + b"\0" * 40, "expected a whole PNG"),
        (PNG + b"\0" * 40, "expected a whole PNG"),
        (
            b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", 1 << 31, 5) + b"\0" * 20 + b"IEND\xaeB`\x82",
            "pixels a side",
        ),
    ],
)
def test_pictures_that_lie(png: bytes, message: str) -> None:
    async def work() -> None:
        backend = RecordingPhone()

        async def screencap() -> bytes:
            return png

        async with phone(backend) as (device, _):
            backend.screencap = screencap  # type: ignore[method-assign]
            with pytest.raises(DeviceError, match=message):
                await device.observe()

    run(work())


WARNING = b"[Warning] Multiple displays were found, but no display id was specified! Defaulting to the first display.\n"


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r\r\n"])
@pytest.mark.parametrize(
    ("before", "after"), [(b"", b""), (WARNING, b""), (WARNING * 2, b"done\n"), (b"\r\n", b"\r\n")]
)
def test_a_picture_is_found_in_what_the_phone_prints(line_end: bytes, before: bytes, after: bytes) -> None:
    async def work() -> None:
        backend = RecordingPhone((64, 48))
        taken = await backend.screencap()
        assert b"\n" in taken[8:], "line ends inside the picture, too"

        async def screencap() -> bytes:
            return (before + taken + after).replace(b"\n", line_end)

        async with phone(backend) as (device, _):
            backend.screencap = screencap  # type: ignore[method-assign]
            assert (await device.observe()).png == taken and device.size_px == (64, 48)

    run(work())


def test_trees_that_lie() -> None:
    async def work() -> None:
        backend = RecordingPhone()
        answers = [
            b"ERROR: could not get idle state.",
            b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY x "y">]></hierarchy>',
        ]

        async def dump() -> bytes:
            return answers[0]

        async with phone(backend) as (device, _):
            backend.dump = dump  # type: ignore[method-assign]
            assert (await device.observe()).elements == () and device.trees_missed == 1
            answers.pop(0)
            with pytest.raises(DeviceError, match="UI tree can't be read"):
                await device.observe()

    run(work())
