"""Two connections joined into one: bytes go through as they come, with no more than a bounded buffer in between.

Zero copies in Python: the object that a read gave is the one that is written. A side whose peer can't take more stops
reading, so a slow reader slows the writer at the far end down and costs no memory here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

LINGER_S = 30.0


@dataclass(slots=True, eq=False)
class Relay:
    """A running relay. `last` = loop time of the last byte; `done` gets how it ended: closed, reset, or the reason
    given to `cut`. `count(bytes, up)` is called for all that passes."""

    protocol: str
    fence: int
    expires_at: float
    forwarded: bool
    done: asyncio.Future[str]
    count: Callable[[int, bool], None]
    last: float = 0.0
    sides: list[Side] = field(default_factory=list)

    def join(self, client: HeadReader, upstream: Still, buffer: int) -> None:
        """Take over both connections, what they have said so far first, and let bytes flow."""
        down, up = Side(self, client.transport, True), Side(self, upstream.transport, False)
        down.peer, up.peer = up, down
        self.sides = [down, up]
        self.last = self.done.get_loop().time()
        # before a byte flows: from then on the loop reads as fast as the other side takes
        for side in self.sides:
            side.transport.set_write_buffer_limits(high=buffer)
            side.transport.set_protocol(side)
        for side in self.sides:
            if side.transport.is_closing():  # it broke while it was being set up: no event will come
                self._end("reset")
                return
        for side, rest, ended in ((down, client.rest, client.ended), (up, upstream.rest, upstream.ended)):
            if rest:
                side.data_received(rest)
            if ended:
                side.eof_received()
            # a side whose peer couldn't take what was said already stays stopped
            elif not side.held:
                side.transport.resume_reading()

    def cut(self, reason: str) -> None:
        """End it now: what is still in buffers reaches nobody."""
        if not self.done.done():
            self.done.set_result(reason)
        for side in self.sides:
            side.transport.abort()

    def _end(self, how: str) -> None:
        if not self.done.done():
            self.done.set_result(how)
        for side in self.sides:
            # a broken side ends the other at once: half a message is of no use to anyone
            if how == "reset":
                side.transport.abort()
            else:
                close_soon(side.transport)


def close_soon(transport: asyncio.Transport) -> None:
    """Close once what waits in its buffer has gone out, or after `LINGER_S`: who doesn't read holds no descriptor."""
    waits = not transport.is_closing() and transport.get_write_buffer_size()
    transport.close()
    if waits:
        asyncio.get_running_loop().call_later(LINGER_S, transport.abort)


class Side(asyncio.Protocol):
    """One end of a relay."""

    # slots: there are two of these for every connection that stands open
    __slots__ = ("relay", "transport", "peer", "up", "ended", "held")
    peer: Side

    def __init__(self, relay: Relay, transport: asyncio.Transport, up: bool) -> None:
        self.relay, self.transport, self.up = relay, transport, up
        self.ended = False  # whether it has said all it will say
        self.held = False  # whether its reading waits for the peer

    def data_received(self, data: bytes) -> None:
        relay = self.relay
        relay.last = relay.done.get_loop().time()
        relay.count(len(data), self.up)
        if not self.peer.transport.is_closing():
            self.peer.transport.write(data)

    def pause_writing(self) -> None:
        self.peer.held = True
        # backpressure: who can't be written to stops the reading of the other side
        if not self.peer.transport.is_closing():
            self.peer.transport.pause_reading()

    def resume_writing(self) -> None:
        self.peer.held = False
        if not self.peer.transport.is_closing() and not self.peer.ended:
            self.peer.transport.resume_reading()

    def eof_received(self) -> bool:
        self.ended = True
        if self.peer.ended:
            self.relay._end("closed")
            return False
        if not self.peer.transport.is_closing():
            self.peer.transport.write_eof()
        return True  # the other direction may still have something to say

    def connection_lost(self, exc: Exception | None) -> None:
        self.relay._end("reset" if exc is not None else "closed")


class HeadReader(asyncio.Protocol):
    """The beginning of a connection: reads one head (`http_head`), stops reading, and calls `ready`.

    `ready` gets the head's bytes, or None if the connection ended or the head is too long (`too_long`). What came after
    the head is in `rest`.
    """

    __slots__ = ("transport", "ready", "rest", "ended", "too_long", "_buffer", "_limit", "_on_made", "_end")

    def __init__(self, limit: int, end: bytes, on_made: Callable[[HeadReader], None] | None = None) -> None:
        self.ready: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
        self.rest, self.too_long, self.ended = b"", False, False
        self._buffer, self._limit, self._end = b"", limit, end
        self._on_made = on_made

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        if self._on_made is not None:
            self._on_made(self)

    def data_received(self, data: bytes) -> None:
        if self.ready.done():
            self.rest += data
            return
        self._buffer += data
        at = self._buffer.find(self._end)
        if at < 0 and len(self._buffer) <= self._limit:
            return
        # what comes behind the head belongs to the relay, which isn't there yet
        self.transport.pause_reading()
        at += len(self._end)
        if len(self._end) <= at <= self._limit:
            head, self.rest = self._buffer[:at], self._buffer[at:]
        else:
            head, self.too_long = None, True
        self._buffer = b""
        self.ready.set_result(head)

    def eof_received(self) -> bool:
        if not self.ready.done():
            self.ready.set_result(None)
            return False
        self.ended = True
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ready.done():
            self.ready.set_result(None)


class Still(asyncio.Protocol):
    """A connection just made that nobody reads from yet. A loop may read once before it stops: `rest` keeps that."""

    __slots__ = ("transport", "rest", "ended")

    def __init__(self) -> None:
        self.rest, self.ended = b"", False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        # stopped at once, so that nothing is lost before the relay takes over
        self.transport.pause_reading()

    def data_received(self, data: bytes) -> None:
        self.rest += data
        self.transport.pause_reading()

    def eof_received(self) -> bool:
        self.ended = True
        return True
