"""A web app as a server process of its own on a free loopback port, which ends with the world that started it."""

import http.client
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from generators.tasks.world_interface import WorldError
from pipelines.processes import end_process

START_S, STOP_S, CALL_S, START_ATTEMPTS = 60.0, 5.0, 20.0, 3
"""Limits: until the app answers for the first time, until it has ended by itself, one request to its API; ports."""
MOST_BYTES = 16 << 20
"""Largest answer that is read from an app."""
_KEPT = ("PATH", "LANG", "LC_ALL", "TMPDIR", "PYTHONPATH", "SYSTEMROOT", "LD_LIBRARY_PATH")
"""All that an app sees of our environment: no tokens, no proxies."""


class AppMissing(RuntimeError):
    """The app's package isn't installed; the message says how to get it."""


def need(package: str, extra: str = "webapps") -> None:
    """Raises `AppMissing` where a package isn't there."""
    if importlib.util.find_spec(package) is None:
        raise AppMissing(f"package {package!r} isn't installed; get it with `pip install 'vesper[{extra}]'`")


@dataclass
class WebAppServer:
    """A running app. `port` on 127.0.0.1; `folder` holds its data and its log; `ready` is an address that it answers
    (with any status below 500) whenever it is well."""

    name: str
    port: int
    folder: Path
    process: subprocess.Popen[bytes]
    ready: str

    @property
    def origin(self) -> str:
        # Never `localhost`, which may be another address.
        return f"http://127.0.0.1:{self.port}"

    def condition(self) -> str:
        """For messages: whether it still runs, and the end of what it printed, on one line."""
        path = self.folder / "server.log"
        text = path.read_text("utf-8", "replace") if path.is_file() else ""
        lives = "it runs" if self.process.poll() is None else f"it ended with {self.process.returncode}"
        # Its last lines: why a server ended stands there.
        return f"{lives}; it said: {' | '.join(text.split(chr(10))[-6:]).strip()[-600:]}"

    def call(
        self,
        path: str,
        *,
        method: str = "GET",
        body: bytes | None = None,
        limit_s: float = CALL_S,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, bytes]:
        """(status, body) of a request to the app. Raises `WorldError` where it doesn't answer."""
        wire = http.client.HTTPConnection("127.0.0.1", self.port, timeout=limit_s)
        try:
            wire.request(method, path, body, dict(headers or {}))
            answer = wire.getresponse()
            # Bounded: an app that answers without end must not fill the memory.
            return answer.status, answer.read(MOST_BYTES)
        except (OSError, http.client.HTTPException) as error:
            said = f"{type(error).__name__} {error}"[:120]
            raise WorldError(f"{self.name}: {path[:80]!r} wasn't answered ({said}): {self.condition()}") from None
        finally:
            wire.close()

    def check(self, limit_s: float = CALL_S) -> None:
        """Raises `WorldError` where the app isn't well. One that is, and still answers an address with an error, has
        been requested something that it doesn't have: that is the request's fault, not the app's."""
        status, _ = self.call(self.ready, limit_s=limit_s)
        if status >= 500:
            raise WorldError(f"{self.name}: {self.ready} was answered with {status}: {self.condition()}")


@contextmanager
def start_server(app: str, folder: Path, *, ready: str = "/") -> Iterator[WebAppServer]:
    """Run `serve.APPS[app]` over `folder` until the block ends. The port is bound before the process starts, so nobody
    else can take it. Raises `WorldError` where the app doesn't answer `ready` in time."""
    # Bound here and passed on: the child inherits the very socket.
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        port, descriptor = listener.getsockname()[1], listener.fileno()
        command = ["-m", "generators.worlds.webapps.serve", app, str(descriptor), str(folder)]
        process = _start(command, folder, {}, descriptor)
    with _running(WebAppServer(app, port, folder, process, ready)) as server:
        yield server


@contextmanager
def start_command(
    app: str, folder: Path, module: Sequence[str], environment: Mapping[str, str], *, ready: str = "/"
) -> Iterator[WebAppServer]:
    """As `start_server`, for an app that opens its own port: `python -m module… -p PORT`. A port that somebody took in
    between shows as a server that ends at once, and another is tried."""
    # Another try takes another port.
    for attempt in range(START_ATTEMPTS):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        command = [sys.executable, "-m", *module, "-p", str(port)]
        process = _start(["-m", "generators.worlds.webapps.guard", *command], folder, environment)
        try:
            with _running(WebAppServer(app, port, folder, process, ready)) as server:
                yield server
            return
        except _EndedAtOnce:
            # After the last one the error stands.
            if attempt == START_ATTEMPTS - 1:
                raise


class _EndedAtOnce(WorldError):
    """The server's process ended before it answered for the first time."""


def _start(command: Sequence[str], folder: Path, more: Mapping[str, str], *kept: int) -> subprocess.Popen[bytes]:
    with (folder / "server.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, *command],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            pass_fds=kept,
            # A group of its own, so that everything it started can be ended with it.
            start_new_session=True,
            env=environment_of(folder, more),
            cwd=folder,
        )


@contextmanager
def _running(server: WebAppServer) -> Iterator[WebAppServer]:
    try:
        _wait_ready(server)
        yield server
    finally:
        _stop(server.process)


def environment_of(folder: Path, more: Mapping[str, str]) -> dict[str, str]:
    """What an app's process sees: its folder as home, and little of ours."""
    # No tokens, no proxies: an app sees only what it needs.
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {**kept, "HOME": str(folder), "PYTHONUNBUFFERED": "1", "TZ": "UTC", **more}


def _wait_ready(server: WebAppServer) -> None:
    """The socket takes connections from the start, so the first request simply waits for the app."""
    end = time.monotonic() + START_S
    while True:
        try:
            # The time that is left, at least a second.
            server.check(max(1.0, end - time.monotonic()))
            return
        except WorldError as error:
            if server.process.poll() is not None or time.monotonic() > end:
                # Told apart: a port that was taken ends the server at once, and another port helps.
                kind = WorldError if server.process.poll() is None else _EndedAtOnce
                raise kind(f"{server.name}: the server didn't start: {error}") from None
        time.sleep(0.1)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """The end of its standard input ends the app; what is left of its process group is killed."""
    if process.stdin is not None:
        process.stdin.close()
    end_process(process, wait_s=STOP_S, signals=(signal.SIGKILL,), grace_s=STOP_S, group=True)


def json_of(server: WebAppServer, status: int, body: bytes, what: str) -> Any:
    """The JSON of an answer. Raises `WorldError` for any status but 200 and for what isn't JSON."""
    import json

    if status != 200:
        raise WorldError(f"{server.name}: {what[:80]}: expected status 200, found {status}: {body[:200]!r}")
    try:
        return json.loads(body)
    except ValueError:
        raise WorldError(f"{server.name}: {what[:80]}: expected JSON, found {body[:80]!r}") from None
