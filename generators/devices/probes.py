"""Whether a device answers as its protocol does. Every probe has a time limit, its connection included."""

import asyncio
import json
import os
import struct

from generators.devices.protocols.http_head import END, read_head, write_head
from generators.devices.records import DeviceRecord

_A_CNXN, _A_AUTH, _A_STLS = b"CNXN", b"AUTH", b"STLS"
_BANNER = b"host::\x00"


async def probe(device: DeviceRecord, limit_s: float) -> str:
    """ "" if the device is up, else what went wrong, in one line."""
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(limit_s):
            reader, writer = await asyncio.open_connection(device.host, device.port)
            return await PROBES[device.protocol](device, reader, writer)
    except TimeoutError:
        return f"no answer within {limit_s:g} s"
    except asyncio.IncompleteReadError:
        return "closed the connection"
    except (OSError, ValueError, asyncio.LimitOverrunError) as error:
        number = getattr(error, "errno", None)
        return (os.strerror(number) if number else str(error))[:200]
    finally:
        if writer is not None:
            # as by a person who has gone: a half-open device mustn't hold the authority up
            writer.transport.abort()


async def _cdp(device: DeviceRecord, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
    # a browser answers only who calls it by the name of its own machine
    headers = [("Host", f"localhost:{device.port}"), ("Connection", "close")]
    writer.write(write_head("GET /json/version HTTP/1.1", headers))
    head = read_head(await reader.readuntil(END))
    if head.start[1] != "200":
        return f"/json/version: expected status 200, found {head.start[1][:20]!r}"
    length = head.get("Content-Length")
    # bounded, since the device may send anything
    body = await (reader.readexactly(min(int(length), 65_536)) if length else reader.read(65_536))
    found = json.loads(body)
    return "" if isinstance(found, dict) and "webSocketDebuggerUrl" in found else "/json/version: no browser in it"


async def _adb(device: DeviceRecord, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
    """ADB's first message (AOSP, adb/protocol.txt): command, two arguments, length, checksum, magic."""
    command = struct.unpack("<I", _A_CNXN)[0]
    # version, largest payload, then lengths and checksums; the magic is the command inverted
    head = struct.pack("<6I", command, 0x01000001, 4096, len(_BANNER), sum(_BANNER), command ^ 0xFFFFFFFF)
    writer.write(head + _BANNER)
    found = (await reader.readexactly(24))[:4]
    return "" if found in (_A_CNXN, _A_AUTH, _A_STLS) else f"expected CNXN, AUTH or STLS, found {found!r}"


async def _ssh(device: DeviceRecord, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
    """RFC 4253, 4.2: lines may come before the version."""
    # a device may send a banner first; after twenty lines it is no SSH server
    for _ in range(20):
        line = await reader.readline()
        if line.startswith(b"SSH-2.0-") or line.startswith(b"SSH-1.99-"):
            return ""
        if not line:
            break
    return "expected SSH-2.0-…, found none"


PROBES = {"cdp": _cdp, "adb": _adb, "ssh": _ssh}
