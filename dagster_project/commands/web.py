"""`vesper web`: Dagster's UI behind the guard of our servers, alone or with all that it needs on this machine.

Dagster's own web server answers any page that a browser opens: mutations by GET, by a form, from any Origin, under any
Host. It has no setting for that; it is a Starlette application, so the guard is a middleware of it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from dagster_project.assets.runbook_page import PAGE, runbook_page
from dagster_project.settings import dagster_home
from pipelines.extras import require
from pipelines.http_guard import FRAMING, LOOPBACK, Guard
from pipelines.ports import named_port
from pipelines.processes import end_process

MODULE, LOCATION = "dagster_project.definitions", "vesper"
HOSTS = "VESPER_WEB_HOSTS"
START_S = 180.0
"""Seconds for the code location to load: some 3 on a free core."""


def configure(command: str, parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.epilog = "example: vesper web --port 3000\nbehind a proxy: VESPER_WEB_HOSTS=vesper.example.org vesper web …"
    add = parser.add_argument
    add("--host", default="127.0.0.1", help="where to listen (127.0.0.1)")
    add("--port", type=int, default=3000, help="(3000)")
    add(
        "--workspace",
        type=Path,
        metavar="FILE",
        help="a workspace.yaml that says where the code location is: then the web server runs alone. Without it, code "
        "location and daemon run beside it",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Serve until Ctrl+C or SIGTERM."""
    require("dagster", "dagster_webserver")
    dagster_home.prepare()
    if options.workspace is not None:
        serve_guarded(options.host, options.port, options.workspace)
        return 0
    # Before anything is started, so that a taken port is said at once.
    _refuse_taken(options.host, options.port)
    with _everything(options.host, options.port) as parts:
        # Until the first of them ends: none is of use without the others.
        ended = next(name for name, code in _ends(parts) if code is not None)
    raise RuntimeError(f"the {ended} ended by itself; what it wrote above says why")


def hosts() -> list[str]:
    """Names that the UI is asked for by: the loopback's, and those of $VESPER_WEB_HOSTS (apart by commas)."""
    more = [name.strip() for name in os.environ.get(HOSTS, "").split(",")]
    return [*LOOPBACK, *filter(None, more)]


def serve_guarded(host: str, port: int, workspace: Path) -> None:
    """Dagster's web server with the guard as the first of its middleware, until it is told to stop."""
    from dagster_webserver import app, cli
    from starlette.middleware import Middleware
    from starlette.responses import HTMLResponse
    from starlette.routing import Route

    class GuardedWebserver(app.DagsterWebserver):
        def build_middleware(self) -> list[Middleware]:
            guard: Any = Guard
            how = {"hosts": hosts(), "entrance": _is_page, "executes": _is_graphql, "headers": FRAMING}
            return [Middleware(guard, **how), *super().build_middleware()]

        def build_routes(self) -> list[Any]:
            # Before Dagster's own, the last of which takes every path.
            return [Route(PAGE, lambda request: HTMLResponse(runbook_page())), *super().build_routes()]

    app.DagsterWebserver = GuardedWebserver  # type: ignore[misc]  # what its command makes an application of
    cli.cli.main(["--host", host, "--port", str(port), "--workspace", str(workspace)], prog_name="vesper web")


def _is_graphql(path: str) -> bool:
    return path.rstrip("/").endswith("/graphql")


def _is_page(path: str) -> bool:
    """All but what answers with data is a page of the UI, to which links from elsewhere lead."""
    return not _is_graphql(path) and path.split("/")[1] not in ("logs", "download_debug", "notebook")


def _refuse_taken(host: str, port: int) -> None:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        # As the server sets it, or a port that was just freed would count as taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with named_port(host, port):
            probe.bind((host, port))


@contextmanager
def _everything(host: str, port: int) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """Code location, daemon and web server as children, each leading a group; all end when the block does."""
    parts: dict[str, subprocess.Popen[bytes]] = {}
    # Children end before the folder of their socket goes: the last that is entered is left first.
    with ExitStack() as stack, _told_by_signals():
        room = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vesper-web-")))
        code, workspace = room / "code.sock", room / "workspace.yaml"
        workspace.write_text(
            f"load_from:\n  - grpc_server: {{socket: {code}, host: localhost, location_name: {LOCATION}}}\n"
        )

        def start(name: str, *command: str) -> None:
            # A group of its own: Ctrl+C reaches this process alone, which then ends them in order.
            parts[name] = subprocess.Popen(command, start_new_session=True)
            stack.callback(end_process, parts[name], signals=(signal.SIGINT, signal.SIGKILL), group=True)

        python = (sys.executable, "-m")
        served = ("-m", MODULE, "--location-name", LOCATION, "--use-python-environment-entry-point")
        start("code location", *python, "dagster", "code-server", "start", "--socket", str(code), *served)
        # The others ask it for its assets when they start.
        _wait(lambda: _listens(code), parts)
        start("daemon", _beside_python("dagster-daemon"), "run", "--workspace", str(workspace))
        web = ("--host", host, "--port", str(port), "--workspace", str(workspace))
        start("web server", *python, "dagster_project.cli", "web", *web)
        yield parts


def _beside_python(name: str) -> str:
    """A program of this environment, which need not be the shell's."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        raise ValueError(f"expected the program {name} beside {sys.executable}, found none: is Dagster installed?")
    return found


@contextmanager
def _told_by_signals() -> Iterator[None]:
    """SIGTERM ends it as Ctrl+C does, so that no child is left."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        # So that a caller in the same process keeps its own.
        signal.signal(signal.SIGTERM, before)


def _ends(parts: dict[str, subprocess.Popen[bytes]]) -> Iterator[tuple[str, int | None]]:
    while True:
        for name, process in parts.items():
            yield name, process.poll()
        time.sleep(0.3)


def _wait(ready: Callable[[], bool], parts: dict[str, subprocess.Popen[bytes]]) -> None:
    deadline = time.monotonic() + START_S
    for name, code in _ends(parts):
        if code is not None:
            raise RuntimeError(f"the {name} ended with code {code}; what it wrote above says why")
        if ready():
            return
        if time.monotonic() > deadline:
            raise RuntimeError(f"the {name} wasn't ready within {START_S:g} s")


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True
