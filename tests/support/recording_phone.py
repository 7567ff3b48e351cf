"""A phone without a screen: a backend that keeps what was done to it, for tests of what stands in front of it."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import shutil
import subprocess
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from ports import free_port

from generators.worlds.android.adbd import Adbd, serve_adb
from generators.worlds.android.backend import App, BackendError
from generators.worlds.android.emulated_phone import EmulatedPhone
from generators.worlds.android.uiautomator import UiAutomatorNode, dump_xml


class RecordingPhone:
    """A `PhoneBackend`; `done` lists every call, `typed` joins all text. `broken` makes every call fail, and `refused`
    every reset."""

    density = 160

    def __init__(self, size_px: tuple[int, int] = (360, 640)) -> None:
        self.size_px = size_px
        self.apps = (App("Clock", "org.example.clock"), App("Shop", "org.example.shop", ".Front"))
        self.done: list[tuple[Any, ...]] = []
        self.typed = b""
        self.nodes: list[UiAutomatorNode] = [
            UiAutomatorNode(
                (0, 0, 90, 64),
                "android.widget.Button",
                text="OK",
                clickable=True,
                resource_id="org.example.clock:id/ok",
            )
        ]
        self.broken = self.refused = ""
        self.screencap_s = 0.0
        self._front = "org.example.home/.Home"
        self._start: dict[str, Any] = {}

    def _note(self, *call: Any) -> None:
        if self.broken:
            raise BackendError(self.broken)
        self.done.append(call)

    async def tap(self, x: int, y: int) -> None:
        self._note("tap", x, y)

    async def swipe(self, x1: int, y1: int, x2: int, y2: int, ms: int) -> None:
        self._note("swipe", x1, y1, x2, y2, ms)

    async def text(self, data: bytes) -> None:
        self._note("text", len(data))
        self.typed += data

    async def key(self, name: str) -> None:
        self._note("key", name)
        if name == "KEYCODE_HOME":
            self._front = "org.example.home/.Home"

    async def wait(self, seconds: float) -> None:
        self._note("wait", seconds)
        await asyncio.sleep(seconds)

    async def start(self, component: str = "", link: str = "") -> str | None:
        self._note("start", component, link)
        if link and not component:
            component = "org.example.shop/.Front" if link.startswith("shop://") else ""
        self._front = component or self._front
        return component or None

    async def focused(self) -> str:
        return self._front

    async def screencap(self) -> bytes:
        from PIL import Image

        self._note("screencap")
        await asyncio.sleep(self.screencap_s)
        out = io.BytesIO()
        Image.effect_noise(self.size_px, 60).convert("RGB").save(out, "PNG")
        return out.getvalue()

    async def dump(self) -> bytes:
        return dump_xml(self.nodes, self.size_px, "org.example.clock")

    async def state(self) -> dict[str, Any]:
        return {
            "start": self._start,
            "front": self._front,
            "odd": "é\u2028\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"),
        }

    async def reset(self, start: Mapping[str, Any]) -> None:
        self._note("reset")
        if self.refused:
            raise ValueError(self.refused)
        self._start = dict(start)


class LoopThread:
    """An event loop in a thread, for tests that are not coroutines (hypothesis)."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()

    def __call__(self, work: Coroutine[Any, Any, Any], limit_s: float = 60) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(limit_s)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


@contextlib.contextmanager
def served(backend: Any, **options: Any) -> Iterator[tuple[LoopThread, Adbd]]:
    """A listening phone with its loop in a thread."""
    run = LoopThread()
    context: contextlib.AbstractAsyncContextManager[Adbd] = serve_adb(EmulatedPhone(backend), **options)
    try:
        adbd = run(context.__aenter__())
        try:
            yield run, adbd
        finally:
            run(context.__aexit__(None, None, None))
    finally:
        run.close()


class AdbClient:
    """Debian's adb with a server of its own, which `close` ends."""

    def __init__(self, home: Path) -> None:
        program = shutil.which("adb")
        if program is None:
            pytest.skip("no adb on PATH (Debian: apt-get install adb)")
        self.port = free_port()
        self._program = program
        self._env = {**os.environ, "HOME": str(home), "ANDROID_ADB_SERVER_PORT": str(self.port), "TMPDIR": str(home)}

    def __call__(self, *words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run([self._program, *words], env=self._env, input=stdin, capture_output=True, timeout=60)

    def close(self) -> None:
        self("kill-server")


@contextlib.asynccontextmanager
async def relay(port: int, *, cut_after: int | None = None) -> AsyncIterator[int]:
    """A port that leads to another and breaks off after so many bytes towards the client."""
    tasks: set[asyncio.Task[None]] = set()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limit: int | None) -> None:
        sent = 0
        with contextlib.suppress(OSError):
            while data := await reader.read(1024):
                data = data if limit is None else data[: limit - sent]
                writer.write(data)
                await writer.drain()
                sent += len(data)
                if limit is not None and sent >= limit:
                    break
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port)
        for work in (pump(reader, back, None), pump(there, writer, cut_after)):
            task = asyncio.ensure_future(work)
            tasks.add(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
