"""The way to a device as a raw byte stream: straight to it, or through a gateway node by HTTP CONNECT.

Drivers of ADB and SSH, and the local port of `generators.devices.client.forward`, all come this way.
"""

import asyncio
import re

from generators.devices.device import DeviceEndpoint, DeviceError, LeaseLost
from generators.devices.protocols.http_head import END, BadHead, read_head, write_head

CONNECT_S = 10.0
_NAME = re.compile(r"[A-Za-z0-9._:-]{1,200}")
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{1,8192}")


class GatewayRefused(DeviceError):
    """The gateway answered, but not with a tunnel; `status` is its HTTP status (502 and 504: the device can't be
    reached, 503: this node has no room or is going)."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def authorization(endpoint: DeviceEndpoint) -> dict[str, str]:
    """The header that a gateway requires; none without a token. Raises `DeviceError` on a token that is no header."""
    if endpoint.token is None:
        return {}
    # characters that would end the header, or begin another one
    if not _TOKEN.fullmatch(endpoint.token):
        raise DeviceError(f"device {endpoint.device!r}: its token holds characters that no header may have")
    return {"Authorization": f"Bearer {endpoint.token}"}


async def open_tunnel(
    endpoint: DeviceEndpoint, limit_s: float = CONNECT_S
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connected stream to the device of an endpoint; a plain connection to host and port where there is no token.

    Raises `LeaseLost` where the gateway refuses the token, `GatewayRefused` where it refuses otherwise, `DeviceError`
    where nothing answers in `limit_s` seconds.
    """
    where = f"device {endpoint.device or endpoint.protocol!r} at {endpoint.host}:{endpoint.port}"
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(limit_s):
            reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
            if endpoint.token is not None:
                await _connect(reader, writer, endpoint, where)
            return reader, writer
    except TimeoutError as error:
        reason: Exception = DeviceError(f"{where}: no connection within {limit_s:g} s")
        reason.__cause__ = error
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, BadHead) as error:
        reason = DeviceError(f"{where}: no connection ({error})")
        reason.__cause__ = error
    except DeviceError as error:
        reason = error
    # closed on every way out but the one that gives it away
    if writer is not None:
        writer.close()
    raise reason


async def _connect(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, endpoint: DeviceEndpoint, where: str
) -> None:
    # it stands in the request line
    if not _NAME.fullmatch(endpoint.device):
        raise DeviceError(f"{where}: expected a name of letters, digits and . _ : -, found {endpoint.device!r}")
    headers = [("Host", f"{endpoint.host}:{endpoint.port}"), *authorization(endpoint).items()]
    writer.write(write_head(f"CONNECT {endpoint.device} HTTP/1.1", headers))
    await writer.drain()
    head = read_head(await reader.readuntil(END))
    status = int(head.start[1]) if head.start[1].isdecimal() else 0
    if status == 200:
        return
    said = (await reader.read(500)).decode("utf-8", "replace").strip()
    # the same request would be refused again: only a new lease helps
    if status in (401, 403, 409, 410):
        raise LeaseLost(f"{where}: the gateway refuses the token (status {status}: {said}); take a new lease")
    raise GatewayRefused(f"{where}: expected status 200 from the gateway, found {head.start[1]} {said}", status)
