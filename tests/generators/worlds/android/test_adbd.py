"""The daemon's wire: peers that break the protocol end cleanly, streams run side by side, slow readers hold writers."""

from __future__ import annotations

import asyncio
import io
import struct
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from recording_phone import RecordingPhone

from generators.devices.protocols.adb_wire import (
    AUTH,
    CLSE,
    CNXN,
    COMMANDS,
    HEADER,
    MAX_PAYLOAD,
    OKAY,
    OPEN,
    STDIN,
    STDOUT,
    VERSION,
    WRTE,
    Message,
    ShellPackets,
    WireError,
    encode,
    read_message,
    shell_packet,
)
from generators.worlds.android.adbd import Adbd, AdbLimits, serve_adb
from generators.worlds.android.emulated_phone import EmulatedPhone

VERSION_CHECKSUMS = 0x01000000


def run(work: Coroutine[Any, Any, Any]) -> Any:
    async def limited() -> Any:
        async with asyncio.timeout(30):
            return await work

    return asyncio.run(limited())


class Peer:
    """A host that can say anything."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.sums = True

    def send(self, *messages: Message | bytes) -> None:
        for message in messages:
            self.writer.write(message if isinstance(message, bytes) else encode(message))

    async def read(self) -> Message:
        return await read_message(self.reader, MAX_PAYLOAD, sums=self.sums)

    async def ended(self) -> bool:
        """Whether the daemon closed the connection, and said nothing more but what was under way."""
        try:
            while await self.reader.read(65536):
                pass
        except ConnectionError:
            pass
        return self.reader.at_eof() or self.reader.exception() is not None


async def greeted(adbd: Adbd, version: int = VERSION, payload: int = MAX_PAYLOAD) -> Peer:
    peer = Peer(*await asyncio.open_connection("127.0.0.1", adbd.port))
    peer.send(Message(CNXN, version, payload, b"host::"))
    answer = await peer.read()
    assert answer.command == CNXN and answer.data.startswith(b"device::") and b"shell_v2" in answer.data
    peer.sums = version < VERSION
    return peer


def _header(command: int, length: int, magic: int | None = None) -> bytes:
    return HEADER.pack(command, 1, 0, length, 0, command ^ 0xFFFFFFFF if magic is None else magic)


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "expected the header"),
        (_header(CNXN, 5000), "at most 4096"),
        (_header(CNXN, 0, magic=7), "magic 0x7"),
        (encode(Message(OPEN, 1, 0, b"shell:ls\0")), "expected CNXN"),
        (encode(Message(CNXN, VERSION, 0, b"host::")), "at least 256"),
        (encode(Message(CNXN, VERSION, MAX_PAYLOAD, b"host::"))[:20], "ended after 20 of 24"),
    ],
)
def test_bad_greetings_end_the_connection(said: bytes, fault: str) -> None:
    async def work() -> None:
        async with serve_adb(EmulatedPhone(RecordingPhone())) as adbd:
            peer = Peer(*await asyncio.open_connection("127.0.0.1", adbd.port))
            peer.send(said)
            peer.writer.write_eof()
            assert await peer.ended() and fault in adbd.faults[0]
            await greeted(adbd)  # and the next one is served

    run(work())


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        (_header(WRTE, MAX_PAYLOAD + 1), "at most 1048576"),
        (_header(0x12345678, 0), "command 0x12345678"),
        (encode(Message(CNXN, VERSION, MAX_PAYLOAD, b"host::")), "expected OPEN, OKAY"),
        (encode(Message(AUTH, 1, 0, b"x" * 20)), "expected OPEN, OKAY"),
    ],
)
def test_bad_messages_end_the_connection(said: bytes, fault: str) -> None:
    async def work() -> None:
        async with serve_adb(EmulatedPhone(RecordingPhone())) as adbd:
            peer = await greeted(adbd)
            peer.send(said)
            assert await peer.ended() and fault in adbd.faults[0]

    run(work())


def test_sums_count_for_old_hosts_only() -> None:
    async def work() -> None:
        async with serve_adb(EmulatedPhone(RecordingPhone())) as adbd:
            wrong = bytearray(encode(Message(OPEN, 5, 0, b"shell:true\0")))
            wrong[16] ^= 1
            new, old = await greeted(adbd), await greeted(adbd, VERSION_CHECKSUMS, 4096)
            new.send(bytes(wrong))
            assert (await new.read()).command == OKAY
            old.send(Message(OPEN, 4, 0, b"shell:echo sums\0"))
            assert [(await old.read()).data for _ in range(2)] == [b"", b"sums\n"]  # with sums that are right
            old.send(bytes(wrong))
            assert await old.ended() and "sum" in adbd.faults[0]

    run(work())


def test_no_greeting_in_time_ends_the_connection() -> None:
    async def work() -> None:
        async with serve_adb(EmulatedPhone(RecordingPhone()), limits=AdbLimits(handshake_s=0.1)) as adbd:
            peer = Peer(*await asyncio.open_connection("127.0.0.1", adbd.port))
            peer.send(b"CNX")
            assert await peer.ended() and adbd.faults == ["handshake took too long"]

    run(work())


def test_streams_run_side_by_side() -> None:
    async def work() -> None:
        async with serve_adb(EmulatedPhone(RecordingPhone())) as adbd:
            peer = await greeted(adbd)
            peer.send(Message(OPEN, 7, 0, b"shell:sleep 0.3; echo slow\0"), Message(OPEN, 8, 0, b"shell:echo quick\0"))
            said, ends = [], []
            while len(ends) < 2:
                message = await peer.read()
                if message.command == WRTE:
                    said.append((message.arg1, message.data))
                    peer.send(Message(OKAY, message.arg1, message.arg0))
                elif message.command == CLSE:
                    ends.append(message.arg1)
            assert said == [(8, b"quick\n"), (7, b"slow\n")] and ends == [8, 7]

    run(work())


def test_a_slow_reader_holds_its_writer() -> None:
    """No second write before the first was taken, and each within the payload that the host offered."""

    async def work() -> None:
        async with serve_adb(EmulatedPhone(RecordingPhone())) as adbd:
            peer = await greeted(adbd, payload=4096)
            peer.send(Message(OPEN, 7, 0, b"exec:screencap -p\0"))
            opened = await peer.read()
            data, remote = b"", opened.arg0
            assert opened.command == OKAY
            while True:
                message = await peer.read()
                if message.command == CLSE:
                    break
                assert message.command == WRTE and len(message.data) <= 4096
                data += message.data
                if len(data) < 10_000:
                    with pytest.raises(TimeoutError):
                        async with asyncio.timeout(0.02):
                            await peer.reader.read(1)
                peer.send(Message(OKAY, 7, remote))
            assert data.startswith(b"\x89PNG") and data.endswith(b"IEND\xaeB`\x82")

    run(work())


def test_a_host_that_writes_without_waiting_is_cut() -> None:
    async def work() -> None:
        async with serve_adb(EmulatedPhone(RecordingPhone())) as adbd:
            peer = await greeted(adbd)
            peer.send(Message(OPEN, 7, 0, b"shell:sleep 20\0"))
            remote = (await peer.read()).arg0
            peer.send(Message(WRTE, 7, remote, b"a"), Message(WRTE, 7, remote, b"b"))
            assert await peer.ended() and "wrote again" in adbd.faults[0]

    run(work())


def test_too_many_streams_and_unknown_services_are_refused() -> None:
    async def work() -> None:
        async with serve_adb(EmulatedPhone(RecordingPhone())) as adbd:
            peer = await greeted(adbd)
            for service in (b"tcp:80", b"localabstract:x", b"jdwp", b"", b"\xff\xfe"):
                peer.send(Message(OPEN, 3, 0, service + b"\0"))
                answer = await peer.read()
                assert (answer.command, answer.arg0, answer.arg1) == (CLSE, 0, 3)
            peer.send(*(Message(OPEN, local, 0, b"shell:sleep 20\0") for local in range(10, 150)))
            answers = [await peer.read() for _ in range(140)]
            assert sum(answer.command == OKAY for answer in answers) == 128
            assert all(answer.command in (OKAY, CLSE) for answer in answers)

    run(work())


async def asked(adbd: Adbd, service: bytes) -> bytes:
    """All that a service says until it ends its stream."""
    peer, said = await greeted(adbd), b""
    peer.send(Message(OPEN, 7, 0, service + b"\0"))
    while (answer := await peer.read()).command != CLSE:
        if answer.command == WRTE:
            said += answer.data
            peer.send(Message(OKAY, 7, answer.arg0))
    return said


def test_the_frame_buffer_is_the_screen_in_plain_pixels() -> None:
    """As adbutils reads it: version, bits a pixel, bytes, width, height, then offset and length of each colour."""

    async def work() -> None:
        backend = RecordingPhone((30, 20))
        picture = Image.effect_noise(backend.size_px, 60).convert("RGB")
        encoded = io.BytesIO()
        picture.save(encoded, "PNG")

        async def screencap() -> bytes:
            return encoded.getvalue()

        backend.screencap = screencap  # type: ignore[method-assign]
        async with serve_adb(EmulatedPhone(backend)) as adbd:
            said = await asked(adbd, b"framebuffer:")
            head, pixels = struct.unpack("<13I", said[:52]), said[52:]
            assert head == (1, 32, 30 * 20 * 4, 30, 20, 0, 8, 16, 8, 8, 8, 24, 8)
            assert Image.frombytes("RGBA", (30, 20), pixels).convert("RGB").tobytes() == picture.tobytes()
            assert await asked(adbd, b"exec:screencap") == struct.pack("<4I", 30, 20, 1, 1) + pixels
            del backend.screencap  # type: ignore[method-assign]
            backend.broken = "its browser is gone"
            assert await asked(adbd, b"framebuffer:") == b"" and await asked(adbd, b"reboot:") == b""

    run(work())


def test_reversed_ports_are_listed_and_bounded() -> None:
    async def work() -> None:
        async with serve_adb(EmulatedPhone(RecordingPhone())) as adbd:
            for service, said in (
                (b"reverse:list-forward", b"0000"),
                (b"reverse:forward:tcp:1;tcp:2", b"OKAY"),
                (b"reverse:forward:localabstract:scrcpy;tcp:3", b"OKAY"),
                (b"reverse:forward:tcp:1;tcp:4", b"OKAY"),
                (b"reverse:forward:norebind:tcp:1;tcp:5", b"FAIL001ccannot bind listener 'tcp:1'"),
                (b"reverse:list-forward", b"host-1 tcp:1 tcp:4\nhost-1 localabstract:scrcpy tcp:3\n"),
                (b"reverse:killforward:tcp:1", b"OKAY"),
                (b"reverse:killforward:tcp:1", b"listener 'tcp:1' not found"),
                (b"reverse:forward:x", b"bad reverse forward"),
                (b"reverse:forward:tcp:1;tcp:2\n", b"bad reverse forward"),
                (b"reverse:killforward-all", b"OKAY"),
                (b"reverse:list-forward", b"0000"),
            ):
                assert said in await asked(adbd, service), service
            for number in range(80):
                await asked(adbd, f"reverse:forward:tcp:{number};tcp:1".encode())
            assert len(adbd.phone.reversed) == 64

    run(work())


def test_messages_for_streams_that_are_gone_do_no_harm() -> None:
    async def work() -> None:
        async with serve_adb(EmulatedPhone(RecordingPhone())) as adbd:
            peer = await greeted(adbd)
            peer.send(Message(OKAY, 1, 99), Message(CLSE, 1, 99), Message(WRTE, 1, 99, b"late"))
            answer = await peer.read()
            assert (answer.command, answer.arg1) == (CLSE, 1)
            peer.send(Message(OPEN, 5, 0, b"shell:echo on\0"))
            assert [(await peer.read()).command for _ in range(2)] == [OKAY, WRTE]
            assert adbd.faults == []

    run(work())


@pytest.mark.parametrize(
    "request_bytes",
    [
        struct.pack("<4sI", b"XXXX", 0),
        struct.pack("<4sI", b"STAT", 0xFFFFFFFF),
        struct.pack("<4sI", b"SEND", 9) + b"/sdcard/x" + struct.pack("<4sI", b"DATA", 1 << 31),
    ],
)
def test_a_broken_file_request_ends_its_stream_only(request_bytes: bytes) -> None:
    async def work() -> None:
        async with serve_adb(EmulatedPhone(RecordingPhone())) as adbd:
            peer = await greeted(adbd)
            peer.send(Message(OPEN, 5, 0, b"sync:\0"))
            remote = (await peer.read()).arg0
            peer.send(Message(WRTE, 5, remote, request_bytes))
            while (message := await peer.read()).command != CLSE:
                if message.command == WRTE:
                    assert message.data.startswith(b"FAIL")
                    peer.send(Message(OKAY, 5, remote))
            peer.send(Message(OPEN, 6, 0, b"shell:echo on\0"))
            assert [(await peer.read()).command for _ in range(2)] == [OKAY, WRTE]

    run(work())


def test_a_terminal_shows_what_is_typed() -> None:
    async def work() -> None:
        async with serve_adb(EmulatedPhone(RecordingPhone())) as adbd:
            peer = await greeted(adbd)
            peer.send(Message(OPEN, 5, 0, b"shell,v2,TERM=xterm,pty:\0"))
            remote = (await peer.read()).arg0
            peer.send(Message(WRTE, 5, remote, shell_packet(STDIN, b"echo hi\rexit 3\r")))
            packets, shown, code = ShellPackets(), b"", None
            while (message := await peer.read()).command != CLSE:
                if message.command == WRTE:
                    peer.send(Message(OKAY, 5, remote))
                    for kind, data in packets.feed(message.data):
                        shown, code = (shown + data, code) if kind == STDOUT else (shown, data)
            assert b"echo hi\r\n" in shown and b"hi\r\n" in shown.split(b"exit 3")[1] and code == b"\x03"

    run(work())


MESSAGES = st.builds(
    lambda command, one, two, data: encode(Message(command, one, two, data)),
    st.sampled_from(sorted(COMMANDS)),
    st.integers(0, 3),
    st.integers(0, 3),
    st.binary(max_size=40),
)


@settings(max_examples=25)
@given(noise=st.lists(st.one_of(st.binary(max_size=60), MESSAGES), max_size=12))
def test_no_noise_harms_the_daemon(noise: list[bytes]) -> None:
    async def work() -> None:
        phone = EmulatedPhone(RecordingPhone())
        async with serve_adb(phone) as adbd:
            peer = await greeted(adbd)
            peer.send(*noise)
            peer.writer.write_eof()
            assert await peer.ended()
            await greeted(adbd)
            assert phone.backend.done == []  # type: ignore[attr-defined]

    run(work())


@given(data=st.binary(max_size=200), cut=st.integers(0, 224))
def test_every_message_reads_back_and_no_part_of_one_does(data: bytes, cut: int) -> None:
    async def work() -> None:
        whole = encode(Message(WRTE, 3, 4, data))
        reader = asyncio.StreamReader()
        reader.feed_data(whole + whole[:cut][: len(whole) - 1])
        reader.feed_eof()
        assert await read_message(reader, 200, sums=True) == Message(WRTE, 3, 4, data)
        with pytest.raises(WireError, match="ended"):
            await read_message(reader, 200, sums=True)

    asyncio.run(work())


@given(parts=st.lists(st.tuples(st.integers(0, 5), st.binary(max_size=50))), size=st.integers(1, 20))
def test_shell_packets_survive_any_cutting(parts: list[tuple[int, bytes]], size: int) -> None:
    stream = b"".join(shell_packet(kind, data) for kind, data in parts)
    packets = ShellPackets()
    found = [packet for at in range(0, len(stream), size) for packet in packets.feed(stream[at : at + size])]
    assert found == parts
    with pytest.raises(WireError, match="kind 9"):
        ShellPackets().feed(shell_packet(9, b""))
