"""The device side of ADB over TCP: what `adbd` is on a phone, in front of an emulated one.

    async with serve_adb(EmulatedPhone(backend)) as adbd:
        ...  # adb connect 127.0.0.1:{adbd.port}

Services: `shell:`, `shell,v2:`, `exec:` (see `shell_commands`), `sync:`, and those of `device_services`; any other is
refused. Standard input is read by an interactive shell only; a command that stands in the service gets none.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from generators.devices.protocols import adb_auth, adb_wire
from generators.worlds.android import device_services
from generators.worlds.android.backend import BackendError
from generators.worlds.android.emulated_phone import EmulatedPhone
from generators.worlds.android.shell_commands import run_line
from generators.worlds.android.shell_expansion import ShellSession
from generators.worlds.android.shell_output import Output
from generators.worlds.android.sync_protocol import serve_sync
from pipelines.ports import named_port

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

FEATURES = "shell_v2,stat_v2,fixed_push_mkdir"
MIN_PAYLOAD = 256
HOST = "127.0.0.1"
MAX_CONNECTIONS = 64
MAX_LINE = 1 << 20
PACKET = 32 << 10
PROMPT = b"vesper:/ $ "


@dataclass
class HostKeys:
    """Whose keys open the phone. `accept_new` = the owner taps Allow for a key seen the first time."""

    known: list[RSAPublicKey] = field(default_factory=list)
    accept_new: bool = False


@dataclass
class AdbLimits:
    """Seconds that a handshake and a command may take."""

    handshake_s: float = 10.0
    command_s: float = 120.0


class Adbd:
    """Serves connections; all of them act on one phone. `faults` says why the last hundred connections that broke the
    protocol were closed."""

    def __init__(self, phone: EmulatedPhone, keys: HostKeys | None = None, limits: AdbLimits | None = None) -> None:
        self.phone = phone
        self.port = 0
        self.faults: list[str] = []
        self._keys, self._limits = keys, limits or AdbLimits()
        self._served: set[asyncio.Task[None]] = set()
        self._boots = phone.boots

    def banner(self) -> bytes:
        """What the phone says of itself in CNXN."""
        known = self.phone.properties()
        named = "".join(
            f"{name}={known[name]};" for name in ("ro.product.name", "ro.product.model", "ro.product.device")
        )
        return f"device::{named}features={FEATURES}".encode()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, from its handshake to its end; never raises."""
        task = asyncio.current_task()
        assert task is not None
        self._served.add(task)
        try:
            # Counted before anything is read: a flood of connections costs no memory.
            if len(self._served) > MAX_CONNECTIONS:
                raise adb_wire.WireError(f"ADB: more than {MAX_CONNECTIONS} connections")
            # The handshake alone is limited; a connection may last.
            async with asyncio.timeout(self._limits.handshake_s):
                connection = await self._handshake(reader, writer)
            await connection.run()
            self._note(connection.error)
        except (adb_wire.WireError, OSError, TimeoutError) as error:
            self._note(error)
        except asyncio.CancelledError:
            pass  # the server closes
        finally:
            self._served.discard(task)
            writer.close()

    def _note(self, error: Exception | None) -> None:
        # A peer that closes between two messages simply went away.
        if error is not None and "between two messages" not in str(error):  # that end is an ordinary one
            self.faults = [*self.faults[-99:], str(error) or "handshake took too long"]

    async def close(self) -> None:
        """End all connections."""
        for task in self._served:
            task.cancel()
        await asyncio.gather(*self._served, return_exceptions=True)

    async def _handshake(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> adb_wire.AdbConnection:
        hello = await adb_wire.read_message(reader, adb_wire.HANDSHAKE_PAYLOAD, sums=False)
        # Less payload than this couldn't carry the messages of the protocol.
        if hello.command != adb_wire.CNXN or hello.arg1 < MIN_PAYLOAD:
            raise adb_wire.WireError(
                f"ADB: expected CNXN with at least {MIN_PAYLOAD} bytes of payload, found "
                f"{adb_wire.name_of(hello.command)} with {hello.arg1}"
            )
        if self._keys is not None:
            await self._authenticate(reader, writer, self._keys)
        writer.write(
            adb_wire.encode(adb_wire.Message(adb_wire.CNXN, adb_wire.VERSION, adb_wire.MAX_PAYLOAD, self.banner()))
        )
        await writer.drain()
        return adb_wire.AdbConnection(
            reader,
            writer,
            # The lower of both sides, as the protocol says.
            version=min(hello.arg0, adb_wire.VERSION),
            max_payload=min(hello.arg1, adb_wire.MAX_PAYLOAD),
            on_open=self._open,
        )

    async def _authenticate(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, keys: HostKeys) -> None:
        """Tokens out until a signature fits a known key. A new key waits for its owner's leave, as on a phone."""
        while True:
            # A new token for each try: a signature is good for one connection's challenge only.
            token = secrets.token_bytes(adb_auth.TOKEN_BYTES)
            writer.write(adb_wire.encode(adb_wire.Message(adb_wire.AUTH, adb_auth.TOKEN, 0, token)))
            while True:
                answer = await adb_wire.read_message(reader, adb_wire.HANDSHAKE_PAYLOAD, sums=False)
                if answer.command != adb_wire.AUTH:
                    raise adb_wire.WireError(f"ADB: expected AUTH, found {adb_wire.name_of(answer.command)}")
                if answer.arg0 == adb_auth.SIGNATURE:
                    if any(adb_auth.verify(key, token, answer.data) for key in keys.known):
                        return
                    # No known key: another token goes out, and the host tries its next key.
                    break
                if answer.arg0 == adb_auth.PUBLIC_KEY and keys.accept_new:
                    try:
                        keys.known.append(adb_auth.read_public(answer.data))
                    except adb_auth.BadKey as error:
                        raise adb_wire.WireError(str(error)) from error
                    return

    async def _open(self, stream: adb_wire.AdbStream, service: str) -> None:
        kind, _, argument = service.partition(":")
        words = kind.split(",")
        if words[0] not in ("shell", "exec", "sync", *device_services.NAMES):
            await stream.refuse()
            return
        # Accepted before the service runs: its output may come at once.
        await stream.accept()
        try:
            await self._serve_service(stream, words, argument)
            await stream.flush()
        finally:  # also after a breach inside the service: only its stream ends
            if not stream.closed:
                await stream.close()
            # Every connection sees the restart, not only the one that asked for it.
            if self.phone.boots != self._boots:  # it was started again: every connection is gone
                self._boots = self.phone.boots
                for task in self._served:
                    task.cancel()

    async def _serve_service(self, stream: adb_wire.AdbStream, words: list[str], argument: str) -> None:
        if words[0] == "sync":
            await serve_sync(stream, self.phone.files)
        elif words[0] in device_services.NAMES:
            with contextlib.suppress(BackendError):  # the stream ends early, which every client reports
                await device_services.serve_service(stream, self.phone, words[0], argument)
        elif words[0] == "shell" and not argument:
            await self._interactive(stream, v2="v2" in words, echo="pty" in words)
        else:
            output = await self._run(argument)
            await self._answer(stream, output, v2="v2" in words)
            if "v2" in words:
                # The exit code has one byte.
                await stream.write(adb_wire.shell_packet(adb_wire.EXIT, bytes([output.code & 0xFF])))

    async def _run(self, line: str, session: ShellSession | None = None) -> Output:
        """A line under the time limit."""
        try:
            async with asyncio.timeout(self._limits.command_s):
                return await run_line(self.phone, line, session)
        except TimeoutError:
            return Output().fail(f"/system/bin/sh: killed after {self._limits.command_s:g} s", 137)

    async def _answer(self, stream: adb_wire.AdbStream, output: Output, *, v2: bool, newline: bytes = b"\n") -> None:
        for kind, data in ((adb_wire.STDOUT, bytes(output.out)), (adb_wire.STDERR, bytes(output.err))):
            # A terminal wants carriage returns; a pipe doesn't.
            data = data.replace(b"\n", newline) if newline != b"\n" else data
            if data:
                await stream.write(_packets(kind, data) if v2 else data)

    async def _interactive(self, stream: adb_wire.AdbStream, *, v2: bool, echo: bool) -> None:
        """A prompt (with a terminal) and one line after another until `exit` or the end of the input."""
        # Its own state over lines: variables that were set, and the last exit code.
        packets, line, code, session = adb_wire.ShellPackets(), bytearray(), 0, ShellSession()
        newline = b"\r\n" if echo else b"\n"

        async def say(data: bytes) -> None:
            if data and echo:
                await stream.write(_packets(adb_wire.STDOUT, data) if v2 else data)

        await say(PROMPT)
        ended = False
        while not ended:
            data = await stream.read()
            ended = not data
            typed = data
            if v2:
                # Version 2 wraps input in packets, which may be cut anywhere.
                found = packets.feed(data)
                typed = b"".join(part for kind, part in found if kind == adb_wire.STDIN)
                ended = ended or any(kind == adb_wire.CLOSE_STDIN for kind, _ in found)
            # Return keys send CR; lines end with LF here.
            line += typed.replace(b"\r", b"\n")
            await say(typed.replace(b"\r", b"\r\n"))
            if len(line) > MAX_LINE:
                raise adb_wire.WireError(f"ADB shell: expected a line of at most {MAX_LINE} bytes")
            # At the end of the input an unfinished line counts as well.
            while line and not stream.closed and (b"\n" in line or ended):
                text, _, rest = bytes(line).partition(b"\n")
                line[:] = rest
                output = await self._run(text.decode("utf-8", "replace"), session)
                code = output.code
                await self._answer(stream, output, v2=v2, newline=newline)
                if output.exits:
                    ended = True
                    break
                await say(PROMPT)
        if v2 and not stream.closed:
            await stream.write(adb_wire.shell_packet(adb_wire.EXIT, bytes([code & 0xFF])))


def _packets(kind: int, data: bytes) -> bytes:
    return b"".join(adb_wire.shell_packet(kind, data[at : at + PACKET]) for at in range(0, len(data), PACKET))


@asynccontextmanager
async def serve_adb(
    phone: EmulatedPhone, *, port: int = 0, keys: HostKeys | None = None, limits: AdbLimits | None = None
) -> AsyncIterator[Adbd]:
    """A phone that listens on loopback; `port` 0 takes a free one, `Adbd.port` says which. Without `keys` any host may
    connect, as on an emulator."""
    adbd = Adbd(phone, keys, limits)
    with named_port(HOST, port):
        server = await asyncio.start_server(adbd.serve, HOST, port)
    # One socket: one host, one port.
    sockets: Sequence = server.sockets
    adbd.port = sockets[0].getsockname()[1]
    try:
        yield adbd
    finally:
        server.close()
        await adbd.close()
