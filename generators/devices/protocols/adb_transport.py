"""Running commands on a phone: over the ADB transport protocol straight to it, or through a running adb server.

Both give the same `AdbTransport`; `run` and the drivers know no other difference.
"""

import asyncio
import contextlib
import re
import secrets
from dataclasses import dataclass
from typing import Protocol

from generators.devices.protocols import adb_auth
from generators.devices.protocols.adb_wire import (
    AUTH,
    CNXN,
    EXIT,
    HANDSHAKE_PAYLOAD,
    MAX_PAYLOAD,
    STDERR,
    STDOUT,
    STLS,
    VERSION,
    AdbConnection,
    Message,
    ShellPackets,
    WireError,
    encode,
    name_of,
    read_message,
)

# what this host speaks; a phone uses those that both name
HOST_FEATURES = "shell_v2,cmd,stat_v2"
_BANNER_FEATURES = re.compile(r"features=([\w,]*)")
# it goes into a request that has no quoting
_SERIAL = re.compile(r"[\w.:\[\]%-]{1,200}")


class ByteStream(Protocol):
    """What a service's stream gives."""

    async def read(self) -> bytes: ...

    async def write(self, data: bytes) -> None: ...

    async def close(self) -> None: ...

    def drop(self) -> None: ...


class AdbTransport(Protocol):
    """`features` as the phone names them; `max_service` = bytes that the name of a service may have."""

    features: frozenset[str]
    max_service: int

    async def open(self, service: str) -> ByteStream:
        """Raises `WireError` where the phone has no such service or is gone."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command gave. A phone too old to tell the two streams apart puts both into `out`."""

    out: bytes
    err: bytes
    code: int

    @property
    def said(self) -> str:
        """Both as text, for messages: cut to a line's length."""
        return (self.out + self.err)[:2000].decode("utf-8", "replace").strip()[:300]


class DirectTransport:
    """One connection to a phone's adbd, many streams in it."""

    def __init__(self, connection: AdbConnection, features: frozenset[str]) -> None:
        self._connection, self.features = connection, features
        # a zero ends the name of a service
        self.max_service = connection.max_payload - 1
        self._reading = asyncio.ensure_future(connection.run())

    async def open(self, service: str) -> ByteStream:
        return await self._connection.open(service)

    async def close(self) -> None:
        self._connection.abort()
        self._reading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reading


async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, key_file: str | None) -> DirectTransport:
    """The host's side of the handshake; `key_file` = private key for phones that ask for a signature.

    Raises `WireError`, also for a phone that asks and there is no key, and `BadKey`. A phone that shows its owner the
    question "Allow debugging?" answers when it was answered: the caller's time limit ends the waiting.
    """
    writer.write(encode(Message(CNXN, VERSION, MAX_PAYLOAD, b"host::features=" + HOST_FEATURES.encode())))
    key = adb_auth.load_key(key_file) if key_file else None
    asked = 0
    while True:
        answer = await read_message(reader, HANDSHAKE_PAYLOAD, sums=False)
        if answer.command == CNXN:
            break
        if answer.command == STLS:
            raise WireError(
                "ADB: the phone asks for TLS (wireless debugging): reach it by serial, through an adb server"
            )
        if answer.command != AUTH or answer.arg0 != adb_auth.TOKEN:
            raise WireError(f"ADB: expected CNXN or a token, found {name_of(answer.command)} {answer.arg0}")
        if key is None:
            raise WireError("ADB: the phone asks for a signature: name a private key in the option key_file")
        # asked a third time: neither signature nor public key was accepted
        if len(answer.data) != adb_auth.TOKEN_BYTES or asked > 1:
            raise WireError("ADB: the phone does not accept this host's key")
        # first a signature of the token; a phone that doesn't know the
        # key asks again, and gets the key itself
        if asked == 0:
            writer.write(encode(Message(AUTH, adb_auth.SIGNATURE, 0, adb_auth.sign(key, answer.data))))
        else:
            public = adb_auth.write_public(key.public_key(), "vesper@host")
            writer.write(encode(Message(AUTH, adb_auth.PUBLIC_KEY, 0, public)))
        asked += 1
    if answer.arg1 < HANDSHAKE_PAYLOAD:
        raise WireError(f"ADB: expected a phone that takes {HANDSHAKE_PAYLOAD} bytes of payload, found {answer.arg1}")
    named = _BANNER_FEATURES.search(answer.data.decode("utf-8", "replace"))
    features = frozenset(named[1].split(",")) if named else frozenset()
    connection = AdbConnection(
        # the older version and the smaller payload of the two
        reader,
        writer,
        version=min(answer.arg0, VERSION),
        max_payload=min(answer.arg1, MAX_PAYLOAD),
    )
    return DirectTransport(connection, features)


class _Socket:
    """A stream that an adb server handed over: the socket is the service's."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def read(self) -> bytes:
        try:
            return await self._reader.read(64 << 10)
        except OSError as error:
            raise WireError(f"adb server: the connection broke ({error})") from error

    async def write(self, data: bytes) -> None:
        try:
            self._writer.write(data)
            await self._writer.drain()
        except OSError as error:
            raise WireError(f"adb server: the connection broke ({error})") from error

    async def close(self) -> None:
        self._writer.close()

    def drop(self) -> None:
        self._writer.close()


class ServerTransport:
    """A phone by its serial through an adb server, which holds the connection (USB too) and the keys."""

    max_service = 32 << 10  # the server takes 65535, an old phone less

    def __init__(self, host: str, port: int, serial: str) -> None:
        if not _SERIAL.fullmatch(serial):
            raise WireError(f"adb server: expected a serial as `adb devices` lists them, found {serial[:80]!r}")
        self._host, self._port, self._serial = host, port, serial
        self.features: frozenset[str] = frozenset()

    async def begin(self) -> None:
        """Ask for the phone's features; fails where the server or the phone is not there."""
        socket = await self._ask(f"host-serial:{self._serial}:features")
        data = b""
        while part := await socket.read():
            data += part
        await socket.close()
        # four hex digits of length stand before the list
        self.features = frozenset(data[4:].decode("ascii", "replace").split(","))

    async def open(self, service: str) -> ByteStream:
        return await self._ask(f"host:transport:{self._serial}", service)

    async def close(self) -> None:
        """Nothing is held between commands."""

    async def _ask(self, *requests: str) -> _Socket:
        try:
            reader, writer = await asyncio.open_connection(self._host, self._port)
        except OSError as error:
            raise WireError(
                f"adb server at {self._host}:{self._port}: {error}; start it with `adb start-server`"
            ) from error
        try:
            for request in requests:
                # a request is its length in four hex digits, then its text
                data = request.encode()
                writer.write(f"{len(data):04x}".encode() + data)
                answer = await reader.readexactly(4)
                if answer == b"FAIL":
                    reason = await reader.readexactly(int(await reader.readexactly(4), 16))
                    raise WireError(f"adb server: {reason.decode('utf-8', 'replace')}")
                if answer != b"OKAY":
                    raise WireError(f"adb server: expected OKAY or FAIL, found {answer!r}")
        except BaseException as error:
            writer.close()
            if isinstance(error, asyncio.IncompleteReadError | OSError | ValueError) and not isinstance(
                error, WireError
            ):
                raise WireError(f"adb server: the answer to {requests[-1][:60]!r} broke off ({error})") from error
            raise
        return _Socket(reader, writer)


async def run(transport: AdbTransport, command: str, *, limit_bytes: int) -> Ran:
    """A command line → output and exit code. The line goes to the phone's shell as it is: quote what isn't yours.

    Raises `WireError` where the output ends early or is over `limit_bytes`. Cancelled, it leaves no stream behind.
    """
    if "\0" in command or len(command.encode()) > transport.max_service - 64:
        raise WireError(f"ADB: expected a command without NUL of at most {transport.max_service - 64} bytes")
    if "shell_v2" in transport.features:
        return await _run_v2(transport, command, limit_bytes)
    # random, so that no output can hold it by chance or by intent
    mark = f"<{secrets.token_hex(8)}>"
    # old phones give no exit code: the shell prints it behind the mark
    stream = await transport.open(f"exec:{command}; echo '{mark}'$?")
    out = bytearray()
    try:
        while data := await stream.read():
            out += data
            _check_size(len(out), limit_bytes)
    finally:
        stream.drop()
    text, found, code = bytes(out).rpartition(mark.encode())
    if not found or not code.strip().isdigit():
        raise WireError(f"ADB: the output of {command[:60]!r} broke off after {len(out)} bytes")
    return Ran(text, b"", int(code))


async def _run_v2(transport: AdbTransport, command: str, limit_bytes: int) -> Ran:
    stream = await transport.open(f"shell,v2,raw:{command}")
    packets, out = ShellPackets(), {STDOUT: bytearray(), STDERR: bytearray()}
    try:
        while data := await stream.read():
            for kind, part in packets.feed(data):
                if kind == EXIT:
                    return Ran(bytes(out[STDOUT]), bytes(out[STDERR]), part[0] if part else 0)
                if kind in out:
                    out[kind] += part
                    _check_size(len(out[STDOUT]) + len(out[STDERR]), limit_bytes)
    finally:
        stream.drop()
    raise WireError(f"ADB: the output of {command[:60]!r} broke off after {len(out[STDOUT])} bytes")


def _check_size(count: int, limit: int) -> None:
    if count > limit:
        raise WireError(f"ADB: expected at most {limit} bytes of output, found more")
