"""ADB's file service (`sync:`): push, pull, stat and list over the emulated phone's virtual files.

Source: `SYNC.TXT` and `file_sync_protocol.h` of the Android Open Source Project. A request is four letters and a
little-endian length with that many bytes.
"""

import struct

from generators.devices.protocols.adb_wire import AdbStream, WireError
from generators.worlds.android.virtual_files import MAX_FILE, MAX_PATH, FileEntry, FileError, VirtualFiles

MAX_DATA = 64 << 10
NOT_FOUND = 2  # ENOENT


class _Bytes:
    """Exact reads from a stream."""

    def __init__(self, stream: AdbStream) -> None:
        self._stream, self._held = stream, bytearray()

    async def exactly(self, count: int) -> bytes:
        # Requests may be cut anywhere by the stream.
        while len(self._held) < count:
            more = await self._stream.read()
            if not more:
                raise WireError(f"ADB sync: expected {count} bytes, the stream ended after {len(self._held)}")
            self._held += more
        data = bytes(self._held[:count])
        del self._held[:count]
        return data


async def serve_sync(stream: AdbStream, files: VirtualFiles) -> None:
    """Answers requests until QUIT or the end of the stream. A request that breaks the protocol ends it with FAIL."""
    source = _Bytes(stream)
    while True:
        name, length = struct.unpack("<4sI", await source.exactly(8))
        if name == b"QUIT":
            return
        # 16 more than a path: SEND adds a comma and a mode.
        if length > MAX_PATH + 16:
            await stream.write(_fail(f"expected a path of at most {MAX_PATH} bytes, found {length}"))
            return
        # Any bytes may be a path; they survive the round trip.
        path = (await source.exactly(length)).decode("utf-8", "surrogateescape")
        if name == b"SEND":
            await _receive(stream, source, files, path)
        elif name in _ANSWERS:
            await stream.write(_ANSWERS[name](files, path))
        else:
            await stream.write(_fail(f"unknown request {name!r}"))
            return


def _fail(reason: str) -> bytes:
    text = reason.encode("utf-8", "replace")
    return struct.pack("<4sI", b"FAIL", len(text)) + text


def _look(files: VirtualFiles, path: str) -> FileEntry | None:
    try:
        return files.stat(path)
    except FileError:
        return None


def _stat(files: VirtualFiles, path: str) -> bytes:
    found = _look(files, path)
    # All zeros: what the protocol says of a file that isn't there.
    fields = (found.mode, found.size, found.mtime) if found else (0, 0, 0)
    return struct.pack("<4s3I", b"STAT", *fields)


def _stat2(kind: bytes, files: VirtualFiles, path: str) -> bytes:
    found = _look(files, path)
    if found is None:
        # ENOENT and zeros in the wider form.
        return struct.pack("<4sI2Q4IQ3q", kind, NOT_FOUND, *([0] * 10))
    mtime = found.mtime
    return struct.pack("<4sI2Q4IQ3q", kind, 0, 1, 1, found.mode, 1, 2000, 2000, found.size, mtime, mtime, mtime)


def _list(files: VirtualFiles, path: str) -> bytes:
    try:
        entries = files.list(path)
    except FileError:
        entries = []
    made = bytearray()
    for entry in entries:
        name = entry.name.encode("utf-8", "surrogateescape")
        made += struct.pack("<4s4I", b"DENT", entry.mode, entry.size, entry.mtime, len(name)) + name
    # An entry of zeros ends the list.
    return bytes(made) + struct.pack("<4s4I", b"DONE", 0, 0, 0, 0)


def _read(files: VirtualFiles, path: str) -> bytes:
    try:
        data = files.read(path)
    except FileError as error:
        return _fail(str(error))
    # In pieces of at most 64 KiB, as the protocol limits them.
    parts = [data[at : at + MAX_DATA] for at in range(0, len(data), MAX_DATA)]
    return b"".join(struct.pack("<4sI", b"DATA", len(part)) + part for part in parts) + struct.pack("<4sI", b"DONE", 0)


_ANSWERS = {
    b"STAT": _stat,
    b"STA2": lambda files, path: _stat2(b"STA2", files, path),
    b"LST2": lambda files, path: _stat2(b"LST2", files, path),
    b"LIST": _list,
    b"RECV": _read,
}


async def _receive(stream: AdbStream, source: _Bytes, files: VirtualFiles, target: str) -> None:
    """A pushed file: `path,mode`, DATA packets, DONE with the time. All is read even if it can't be kept."""
    path, comma, mode = target.rpartition(",")
    data = bytearray()
    # Nine digits hold every mode; the rest of the request is read all the same.
    reason = "" if comma and mode.isascii() and mode.isdigit() and len(mode) <= 9 else "expected path,mode"
    while True:
        name, length = struct.unpack("<4sI", await source.exactly(8))
        if name == b"DONE":
            break
        if name != b"DATA" or length > MAX_DATA:
            # Out of step with the sender: the stream can't be understood from here on.
            raise WireError(f"ADB sync: expected DATA of at most {MAX_DATA} bytes, found {name!r} of {length}")
        part = await source.exactly(length)
        # Still read to the end, so that the answer comes when the host waits for it.
        if len(data) + length > MAX_FILE:
            reason = "No space left on device"
        if not reason:
            data += part
    try:
        if reason:
            raise FileError(reason)
        # A push makes the folders above, as on a phone.
        files.write(path, bytes(data), int(mode), length, parents=True)
    except FileError as error:
        await stream.write(_fail(f"couldn't create file: {error}"))
        return
    await stream.write(struct.pack("<4sI", b"OKAY", 0))
