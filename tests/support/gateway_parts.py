"""Real parts that gateway tests put together: echo devices, an authority and nodes as processes of their own, and the
smallest driver there is (lines over raw TCP)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from generators.devices.device import DeviceEndpoint, DeviceError
from generators.devices.protocols.tunnel import open_tunnel
from generators.tasks.world_interface import Observation
from schemas.actions import Action
from schemas.actions import format as format_action

ROOT = Path(__file__).parents[2]
SECRET = "a secret that is long enough for tests"
ADMIN, CLIENT, OTHER, NODE = (
    "admin-key-of-tests-0",
    "client-key-of-tests-",
    "other-key-of-tests--",
    "node-key-of-tests---",
)
KEYS = [
    {"name": "admin", "key": ADMIN, "roles": ["admin"], "max_priority": 100},
    {"name": "anna", "key": CLIENT, "roles": ["client"], "max_priority": 10},
    {"name": "bert", "key": OTHER, "roles": ["client"], "max_priority": 5},
    {"name": "nodes", "key": NODE, "roles": ["node"]},
]
_RUN = (
    "import json, sys; from generators.devices import config as c; "
    "from generators.devices.{module} import serve_{kind}; "
    "serve_{kind}(c.{kind}_config(json.loads(sys.stdin.readline())))"
)


@dataclass
class Process:
    """A server in a process of its own. `address` = what it printed when it was ready."""

    process: subprocess.Popen[str]
    address: str

    def stop(self, number: signal.Signals = signal.SIGKILL) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(15)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        return code


def start(kind: str, module: str, values: Mapping[str, Any]) -> Process:
    """Start `serve_<kind>` of a module with a config; wait until it says where it listens."""
    process = subprocess.Popen(
        [sys.executable, "-c", _RUN.format(kind=kind, module=module)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(json.dumps(values) + "\n")
    process.stdin.flush()
    ready, _, _ = select.select([process.stdout], [], [], 30)
    line = process.stdout.readline() if ready else ""
    if not line:
        process.kill()
        raise AssertionError(f"{kind} didn't start")
    return Process(process, line.split()[-1])


@dataclass
class Gateway:
    """An authority and its nodes, by name."""

    folder: Path
    rules: dict[str, float] = field(default_factory=dict)
    authority: Process | None = None
    nodes: dict[str, Process] = field(default_factory=dict)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start_authority(self, **more: Any) -> None:
        values = {
            "database": str(self.folder / "leases.sqlite"),
            "secret": SECRET,
            "keys": KEYS,
            "port": self.port,
            "rules": self.rules,
            **more,
        }
        self.authority = start("authority", "authority.server", values)
        self.port = int(self.authority.address.rpartition(":")[2])

    def start_node(self, name: str, **more: Any) -> tuple[str, int]:
        values = {"id": name, "authority_url": self.url, "api_key": NODE, "secret": SECRET, "port": 0, **more}
        self.nodes[name] = start("node", "gateway.node", values)
        return self.at(name)

    def at(self, name: str) -> tuple[str, int]:
        host, _, port = self.nodes[name].address.rpartition(":")
        return host, int(port)

    def stop(self) -> None:
        for process in (*self.nodes.values(), *([self.authority] if self.authority else [])):
            process.stop()

    def call(self, method: str, path: str, key: str = ADMIN, **body: Any) -> tuple[int, dict[str, Any]]:
        """One call of the authority's API: status and JSON."""
        import httpx

        headers = {"Authorization": f"Bearer {key}"}
        reply = httpx.request(method, self.url + path, headers=headers, json=body or None, timeout=30)
        return reply.status_code, reply.json()

    def register(self, device: str, port: int, protocol: str = "ssh", **more: Any) -> None:
        status, said = self.call(
            "POST", "/v1/devices", id=device, protocol=protocol, host="127.0.0.1", port=port, **more
        )
        assert status == 200, said

    def metric(self, node: str, name: str) -> float:
        """A metric of a node, its labels in the name; 0 if it isn't there."""
        import httpx

        host, port = self.at(node)
        text = httpx.get(f"http://{host}:{port}/metrics").text
        return sum(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.rpartition(" ")[0] == name)

    def until_nodes(self, count: int) -> None:
        """Wait until every node knows of so many nodes."""
        until(lambda: all(self.metric(name, "vesper_gateway_nodes") == count for name in self.nodes))


@contextlib.contextmanager
def gateway(folder: Path, nodes: int = 1, rules: Mapping[str, float] | None = None, **node: Any) -> Iterator[Gateway]:
    """A gateway of so many nodes, n0, n1, …; all of it stops at the end."""
    parts = Gateway(folder, dict(rules or {}))
    try:
        parts.start_authority()
        with ThreadPoolExecutor(max(1, nodes)) as pool:
            list(pool.map(lambda k: parts.start_node(f"n{k}", **node), range(nodes)))
        parts.until_nodes(nodes)
        yield parts
    finally:
        parts.stop()


def until(true: Any, limit_s: float = 20.0) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def resident_bytes(pid: int) -> int:
    """Memory that a process holds now (Linux)."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class EchoDevice:
    """A device that speaks first like SSH does, then sends back what it gets. It remembers what it saw."""

    def __init__(self) -> None:
        self.connections = 0
        self.open = 0
        self.seen = bytearray()
        self.server: asyncio.Server

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        try:
            writer.write(b"SSH-2.0-echo\r\n")
            while data := await reader.read(65_536):
                self.seen += data
                writer.write(data)
                await writer.drain()
            writer.write_eof()
        except (ConnectionError, OSError):
            pass
        finally:
            self.open -= 1
            writer.close()

    @property
    def port(self) -> int:
        return int(self.server.sockets[0].getsockname()[1])


@contextlib.asynccontextmanager
async def echo_device() -> AsyncIterator[EchoDevice]:
    """An echo device in this process."""
    device = EchoDevice()
    device.server = await asyncio.start_server(device._serve, "127.0.0.1", 0)
    try:
        yield device
    finally:
        device.server.close()


class LineDevice:
    """A driver over raw TCP: each action goes as a line and comes back from an echo device."""

    platform = "desktop"
    size_px = (4, 2)

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, where: str) -> None:
        self._reader, self._writer, self._where = reader, writer, where
        self.done: list[str] = []

    async def _say(self, text: str) -> str:
        try:
            self._writer.write(text.encode() + b"\n")
            async with asyncio.timeout(10):
                line = await self._reader.readline()
        except (OSError, TimeoutError) as error:
            raise DeviceError(f"{self._where}: {error or 'no answer'}") from None
        if line.decode() != text + "\n":
            raise DeviceError(f"{self._where}: closed the connection")
        return line.decode().rstrip("\n")

    async def observe(self) -> Observation:
        await self._say("observe")
        return Observation(picture(len(self.done)), ())

    async def act(self, action: Action) -> None:
        self.done.append(await self._say(format_action(action)))

    async def reset(self, start: Mapping[str, Any]) -> None:
        await self._say("reset " + json.dumps(dict(start)))
        self.done.clear()

    async def state(self) -> dict[str, Any]:
        return {"done": list(self.done)}

    async def close(self) -> None:
        self._writer.close()


@contextlib.asynccontextmanager
async def connect_lines(endpoint: DeviceEndpoint) -> AsyncIterator[LineDevice]:
    """Driver of a `LineDevice`."""
    reader, writer = await open_tunnel(endpoint)
    try:
        banner = await asyncio.wait_for(reader.readline(), 10)
    except (OSError, TimeoutError) as error:
        raise DeviceError(f"{endpoint.device}: {error}") from None
    if not banner.startswith(b"SSH-2.0"):
        writer.close()
        raise DeviceError(f"{endpoint.device}: expected a banner, found {banner[:40]!r}")
    device = LineDevice(reader, writer, endpoint.device)
    try:
        yield device
    finally:
        await device.close()


def picture(shade: int) -> bytes:
    """A small PNG of one shade."""
    import io

    from PIL import Image

    out = io.BytesIO()
    Image.new("RGB", (4, 2), (shade % 256, 7, 7)).save(out, "PNG")
    return out.getvalue()
