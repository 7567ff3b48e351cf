"""The other processes of `bench/gateway.py`: an echo server, bare relays, and holders of many connections.

python bench/gateway_roles.py echo | relay PORT | streams PORT | hold PORT COUNT NODES PREFIX
"""

import argparse
import asyncio
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]
AT_ONCE = 64
"""Connections that a holder opens or speaks over at the same time."""


class Role:
    """This file in a process of its own."""

    def __init__(self, *arguments: Any) -> None:
        command = [sys.executable, str(Path(__file__)), *map(str, arguments)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = 0 if arguments[0] == "hold" else int(self.hear("port"))

    def hear(self, word: str) -> str:
        assert self.process.stdout is not None
        said = self.process.stdout.readline().split()
        assert said and said[0] == word, f"{word}: the process said {said}"
        return said[1]

    def say(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()


@contextlib.contextmanager
def role(*arguments: Any) -> Iterator[Role]:
    """One of them, until the end."""
    made = Role(*arguments)
    try:
        yield made
    finally:
        made.process.kill()
        made.process.wait(10)
        for pipe in (made.process.stdin, made.process.stdout):
            if pipe is not None:
                pipe.close()


def token_for(device: str, port: int) -> str:
    """What opens a device of that port at the nodes, for an hour."""
    import gateway_parts as parts

    from generators.devices.tokens import Access, Tokens

    return Tokens(parts.SECRET).sign(Access(device, "ssh", "127.0.0.1", port, 1, time.time() + 3600))


def run(work: Any) -> Any:
    """On uvloop where it is installed, like the nodes."""
    try:
        import uvloop

        factory: Any = uvloop.new_event_loop
    except ImportError:
        factory = None
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(work)


class _Echo(asyncio.Protocol):
    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


class _Pipe(asyncio.Protocol):
    """A bare relay: what one side says the other gets, with no bounds and no rules."""

    def __init__(self, port: int = 0, peer: Any = None) -> None:
        self.port, self.peer, self.early = port, peer, b""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        if self.peer is None:
            self.task = asyncio.get_running_loop().create_task(self.reach())

    async def reach(self) -> None:
        loop = asyncio.get_running_loop()
        _, self.peer = await loop.create_connection(lambda: _Pipe(peer=self), "127.0.0.1", self.port)
        self.peer.transport.write(self.early)

    def data_received(self, data: bytes) -> None:
        if self.peer is None:
            self.early += data
        else:
            self.peer.transport.write(data)

    def connection_lost(self, error: Exception | None) -> None:
        if self.peer is not None:
            self.peer.transport.close()


async def _serve(make: Callable[[], asyncio.Protocol]) -> None:
    server = await asyncio.get_running_loop().create_server(make, "127.0.0.1", 0, backlog=4096)
    print("port", server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def _serve_streams(port: int) -> None:
    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()

    kept: set[Any] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        kept.add(asyncio.current_task())
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(pump(reader, up_writer), pump(up_reader, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=4096)
    print("port", server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def _hold(echo_port: int, count: int, nodes: dict[str, tuple[str, int]], prefix: str) -> None:
    """Open connections, a few at once, each to its device's owner (or straight to a port); say so; on a word speak over
    each and say how many answered."""
    from generators.devices.device import DeviceEndpoint
    from generators.devices.protocols.tunnel import open_tunnel
    from generators.devices.rendezvous import rank

    gate, began = asyncio.Semaphore(AT_ONCE), time.perf_counter()

    async def connect(k: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        async with gate:
            if not nodes:
                return await open_tunnel(DeviceEndpoint("ssh", "127.0.0.1", echo_port), 60)
            device = f"{prefix}{k}"
            host, port = nodes[rank(device, nodes)[0]]
            return await open_tunnel(DeviceEndpoint("ssh", host, port, device, token_for(device, echo_port)), 60)

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        async with gate:
            writer.write(b"still here")
            return await asyncio.wait_for(reader.readexactly(10), 60) == b"still here"

    streams = await asyncio.gather(*(connect(k) for k in range(count)))
    print("connected", time.perf_counter() - began, flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    print("spoken", sum(await asyncio.gather(*(speak(*stream) for stream in streams))), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)


def main() -> None:
    """Be one of them."""
    parser = argparse.ArgumentParser(description="A process of the gateway's figures.")
    parser.add_argument("role", choices=("echo", "relay", "streams", "hold"))
    parser.add_argument("rest", nargs="*")
    options = parser.parse_args()
    if options.role == "echo":
        run(_serve(_Echo))
    elif options.role == "relay":
        port = int(options.rest[0])
        run(_serve(lambda: _Pipe(port)))
    elif options.role == "streams":
        run(_serve_streams(int(options.rest[0])))
    else:
        port, count, nodes, prefix = options.rest
        at = {name: (host, number) for name, (host, number) in json.loads(nodes).items()}
        run(_hold(int(port), int(count), at, prefix))


if __name__ == "__main__":
    main()
