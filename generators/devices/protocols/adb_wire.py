"""The ADB transport protocol, both sides: messages, the multiplexer of streams, and the shell v2 packets inside one.

A message is six little-endian 32-bit words (command, arg0, arg1, length, checksum, magic) and `length` bytes. Source:
`packages/modules/adb/protocol.txt` and `types.h` of the Android Open Source Project.
"""

import asyncio
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

CNXN, AUTH, OPEN, OKAY, WRTE, CLSE, STLS = (
    int.from_bytes(word, "little") for word in (b"CNXN", b"AUTH", b"OPEN", b"OKAY", b"WRTE", b"CLSE", b"STLS")
)
COMMANDS = frozenset((CNXN, AUTH, OPEN, OKAY, WRTE, CLSE, STLS))
VERSION = 0x01000001
"""From this version on nobody computes or checks the sum of the payload."""
HANDSHAKE_PAYLOAD = 4096
MAX_PAYLOAD = 1 << 20
MAX_STREAMS = 128
HEADER = struct.Struct("<6I")


class WireError(ConnectionError):
    """The peer broke the protocol or went away; the message says what was expected and found."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message; `command` is one of COMMANDS."""

    command: int
    arg0: int
    arg1: int
    data: bytes = b""


def name_of(command: int) -> str:
    """`CNXN`, or the hexadecimal number of an unknown command."""
    return command.to_bytes(4, "little").decode() if command in COMMANDS else f"{command:#x}"


def encode(message: Message, *, sums: bool = True) -> bytes:
    """Header and payload; `sums` = write the payload's sum, which is 0 between peers that don't check it."""
    total = sum(message.data) & 0xFFFFFFFF if sums else 0
    numbers = (message.command, message.arg0, message.arg1, len(message.data), total, message.command ^ 0xFFFFFFFF)
    return HEADER.pack(*numbers) + message.data


async def read_message(reader: asyncio.StreamReader, limit: int, *, sums: bool) -> Message:
    """The next message of at most `limit` payload bytes; `sums` = check its sum.

    Raises `WireError` on an unknown command, a wrong magic or sum, a length over the limit, or an end in the middle.
    A length is checked before a byte of the payload is read, so a lying one costs no memory.
    """
    try:
        command, arg0, arg1, length, total, magic = HEADER.unpack(await reader.readexactly(HEADER.size))
        if command not in COMMANDS or magic != command ^ 0xFFFFFFFF:
            raise WireError(f"ADB: expected the header of a message, found command {command:#x} with magic {magic:#x}")
        if length > limit:
            raise WireError(f"ADB {name_of(command)}: expected at most {limit} bytes of payload, found {length}")
        data = await reader.readexactly(length)
    except asyncio.IncompleteReadError as cut:
        where = f"after {len(cut.partial)} of {cut.expected} bytes" if cut.partial else "between two messages"
        raise WireError(f"ADB: the connection ended {where}") from cut
    except OSError as error:
        # a WireError is an OSError: it says what was wrong already
        raise error if isinstance(error, WireError) else WireError(f"ADB: the connection broke ({error})") from error
    if sums and sum(data) & 0xFFFFFFFF != total:
        raise WireError(f"ADB {name_of(command)}: the payload's sum is {sum(data)}, the header says {total}")
    return Message(command, arg0, arg1, data)


class AdbStream:
    """One stream of a connection: bytes both ways. A peer may have one write in flight; it is acknowledged when the
    bytes before it were taken, so a slow reader holds its writer back and memory stays at one payload a stream."""

    def __init__(self, connection: "AdbConnection", local: int, remote: int = 0) -> None:
        self.local, self.remote = local, remote
        self._connection = connection
        self._ready = asyncio.Event()  # the peer has taken our last write
        self._filled = asyncio.Event()
        self._inbox = b""
        self._owed = False  # an OKAY for what is in the inbox
        self.closed = False

    async def read(self) -> bytes:
        """The next bytes; b"" at the end of the stream. Raises `WireError` if the connection broke."""
        while not self._inbox:
            if self.closed:
                if self._connection.error is not None:
                    raise WireError(str(self._connection.error))
                return b""
            self._filled.clear()
            await self._filled.wait()
        data, self._inbox = self._inbox, b""
        # owed only once the bytes are taken: that is what holds the peer back
        if self._owed and not self.closed:
            self._owed = False
            await self._connection.send(Message(OKAY, self.local, self.remote))
        return data

    async def write(self, data: bytes) -> None:
        """Send bytes in as many messages as they need, each after the peer took the one before."""
        view = memoryview(data)
        for start in range(0, len(view), self._connection.max_payload):
            await self._wait_ready()
            self._ready.clear()
            part = bytes(view[start : start + self._connection.max_payload])
            await self._connection.send(Message(WRTE, self.local, self.remote, part))

    async def flush(self) -> None:
        """Until the peer has taken all that was written (or closed)."""
        if not self.closed:
            await self._wait_ready()

    async def _wait_ready(self) -> None:
        await self._ready.wait()
        if self.closed:
            raise WireError(str(self._connection.error or "ADB: the other side closed the stream"))

    async def accept(self) -> None:
        """Report to the peer that its stream is open."""
        await self._connection.send(Message(OKAY, self.local, self.remote))

    async def refuse(self) -> None:
        """Report to the peer that there is no such service."""
        self._connection.forget(self)
        await self._connection.send(Message(CLSE, 0, self.remote))

    async def close(self) -> None:
        """Report the end to the peer; twice is harmless."""
        # before the answer, so that a message which crosses it finds no stream
        if not self.closed:
            self._connection.forget(self)
            await self._connection.send(Message(CLSE, self.local, self.remote))

    def drop(self) -> None:
        """Close without waiting, for a peer that may not read any more."""
        if not self.closed:
            self._connection.forget(self)
            self._connection.send_soon(Message(CLSE, self.local, self.remote))

    def take(self, data: bytes) -> None:
        """From the connection: bytes arrived."""
        # one write in flight a stream: more would be buffered without bound
        if self._owed:
            raise WireError(f"ADB WRTE: stream {self.local} wrote again before its last write was taken")
        if not data:  # nothing to read, so nothing would ever acknowledge it
            self._connection.send_soon(Message(OKAY, self.local, self.remote))
            return
        self._inbox, self._owed = data, True
        self._filled.set()

    def okay(self) -> None:
        """From the connection: the peer took our last write."""
        self._ready.set()

    def end(self) -> None:
        """From the connection: no more bytes either way."""
        self.closed = True
        self._ready.set()
        self._filled.set()


OnOpen = Callable[[AdbStream, str], Awaitable[None]]
"""Serves a stream that the peer opened: `accept` or `refuse` first. It lets no exception out but `WireError`."""


class AdbConnection:
    """A connection after its handshake. `run()` reads until it ends; `on_open` serves streams that the peer opens
    (None: they are refused)."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        version: int,
        max_payload: int,
        on_open: OnOpen | None = None,
    ) -> None:
        self._reader, self._writer, self._on_open = reader, writer, on_open
        self._sums = version < VERSION
        self.max_payload = max_payload
        self._streams: dict[int, AdbStream] = {}
        self._next = 1
        self._tasks: set[asyncio.Task[None]] = set()
        self.error: Exception | None = None
        self.ended = False

    async def open(self, service: str) -> AdbStream:
        """A stream to a service such as `shell:ls`. Raises `WireError` if the peer refuses it."""
        if self.ended:
            raise WireError(str(self.error or "ADB: the connection is closed"))
        stream = self._new()
        await self.send(Message(OPEN, stream.local, 0, service.encode() + b"\0"))
        await stream.flush()
        return stream

    def _new(self, remote: int = 0) -> AdbStream:
        stream = AdbStream(self, self._next, remote)
        self._streams[stream.local] = stream
        # never 0, which means that no stream is there yet
        self._next = self._next % 0xFFFFFFFF + 1
        return stream

    async def send(self, message: Message) -> None:
        """One message; waits while the socket's buffer is full. Raises `WireError` if the connection is gone."""
        if self.ended:
            raise WireError(str(self.error or "ADB: the connection is closed"))
        try:
            self._writer.write(encode(message, sums=self._sums))
            await self._writer.drain()
        except OSError as error:
            raise WireError(f"ADB: the connection broke ({error})") from error

    def send_soon(self, message: Message) -> None:
        """One short message without waiting (answers from the read loop)."""
        if not self.ended:
            self._writer.write(encode(message, sums=self._sums))

    def forget(self, stream: AdbStream) -> None:
        self._streams.pop(stream.local, None)
        stream.end()

    async def run(self) -> None:
        """Read and dispatch messages until the connection ends; the reason stays in `error`."""
        try:
            while True:
                # the peer may still send what it sent before the handshake's end
                limit = max(self.max_payload, HANDSHAKE_PAYLOAD)
                self._dispatch(await read_message(self._reader, limit, sums=self._sums))
                await self._writer.drain()  # a peer that does not read its answers gets no more of them
        except (WireError, OSError) as error:
            self.error = error
        finally:
            self.abort()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def abort(self) -> None:
        """Close the socket and end all streams."""
        self.ended = True
        # a copy: `forget` takes from it
        for stream in list(self._streams.values()):
            self.forget(stream)
        self._writer.close()

    def _dispatch(self, message: Message) -> None:
        if message.command == OPEN:
            return self._opened(message)
        if message.command not in (OKAY, WRTE, CLSE):
            raise WireError(f"ADB: expected OPEN, OKAY, WRTE or CLSE, found {name_of(message.command)}")
        stream = self._streams.get(message.arg1)
        # an answer for a stream whose other end is another one
        if stream is None or stream.remote not in (0, message.arg0):
            if message.command == WRTE:  # late for a stream that is gone
                self.send_soon(Message(CLSE, 0, message.arg0))
            return None
        if message.command == CLSE:
            self.forget(stream)
        elif message.command == OKAY:
            stream.remote = message.arg0
            stream.okay()
        else:
            stream.take(message.data)
        return None

    def _opened(self, message: Message) -> None:
        service = message.data.split(b"\0", 1)[0].decode("utf-8", "replace")
        # refused, not queued: a peer can't make this side hold any number of streams
        if message.arg0 == 0 or self._on_open is None or len(self._streams) >= MAX_STREAMS:
            return self.send_soon(Message(CLSE, 0, message.arg0))
        stream = self._new(message.arg0)
        stream.okay()
        task = asyncio.ensure_future(self._on_open(stream, service))
        self._tasks.add(task)
        task.add_done_callback(self._served)
        return None

    def _served(self, task: asyncio.Future[None]) -> None:
        self._tasks.discard(task)  # type: ignore[arg-type]
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, WireError):  # a fault of ours: the peer must not wait for ever
            self.error = WireError(f"ADB: a service failed: {error!r}")
            self.abort()


STDIN, STDOUT, STDERR, EXIT, CLOSE_STDIN, WINDOW_SIZE = range(6)
"""Kinds of shell v2 packets: one byte of kind, four of length, then the bytes."""


def shell_packet(kind: int, data: bytes) -> bytes:
    return struct.pack("<BI", kind, len(data)) + data


class ShellPackets:
    """Cuts a byte stream into shell v2 packets. Raises `WireError` on an unknown kind or a packet over `limit`."""

    def __init__(self, limit: int = MAX_PAYLOAD) -> None:
        self._buffer = bytearray()
        self._limit = limit

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """Bytes in, the packets that they complete out."""
        self._buffer += data
        found = []
        while len(self._buffer) >= 5:
            kind, length = struct.unpack_from("<BI", self._buffer)
            if kind > WINDOW_SIZE or length > self._limit:
                raise WireError(
                    f"ADB shell: expected a packet of at most {self._limit} bytes, found kind {kind} of {length}"
                )
            if len(self._buffer) < 5 + length:
                break
            found.append((kind, bytes(self._buffer[5 : 5 + length])))
            del self._buffer[: 5 + length]
        return found
