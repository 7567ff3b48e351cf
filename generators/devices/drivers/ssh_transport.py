"""SSH over the stream that `protocols.tunnel` opens: straight to the desktop or through a gateway."""

import asyncio
from collections.abc import Callable
from typing import Any

from generators.devices.device import DeviceEndpoint
from generators.devices.protocols.tunnel import open_tunnel


class StreamTransport(asyncio.Transport):
    """A connected pair of streams as the transport that asyncssh writes to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, protocol: Any) -> None:
        super().__init__()
        self._reader, self._writer, self._protocol = reader, writer, protocol
        self._task = asyncio.get_running_loop().create_task(self._pump())

    async def _pump(self) -> None:
        error: Exception | None = None
        try:
            while data := await self._reader.read(1 << 16):
                self._protocol.data_received(data)
        except OSError as failed:
            error = failed
        finally:
            self._writer.close()
        if error is None:
            # in this order: asyncssh tells an end in good order from a broken connection
            self._protocol.eof_received()
        self._protocol.connection_lost(error)

    def write(self, data: Any) -> None:
        self._writer.write(data)

    def close(self) -> None:
        self._writer.close()

    def abort(self) -> None:
        self._writer.transport.abort()

    def is_closing(self) -> bool:
        return self._writer.is_closing()

    def get_extra_info(self, name: str, default: object = None) -> object:
        return self._writer.get_extra_info(name, default)


class Tunnel:
    """What asyncssh takes as `tunnel`."""

    def __init__(self, endpoint: DeviceEndpoint, limit_s: float) -> None:
        self._endpoint, self._limit_s = endpoint, limit_s

    async def create_connection(
        self, factory: Callable[[], Any], host: str, port: int
    ) -> tuple[StreamTransport, object]:
        """Raises what `open_tunnel` does."""
        reader, writer = await open_tunnel(self._endpoint, self._limit_s)
        protocol = factory()
        transport = StreamTransport(reader, writer, protocol)
        protocol.connection_made(transport)
        return transport, protocol

    def close(self) -> None:
        pass

    async def wait_closed(self) -> None:
        pass
