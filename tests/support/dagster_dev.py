"""A `vesper web` as `make dev` starts it, a Chromium that reaches nothing but it, and an end to all its processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ports import free_port

from dagster_project.settings import dagster_home
from generators.devices.browser import FLAGS, find_chromium

ROOT = Path(__file__).parents[2]
READY_S = 180.0


@contextmanager
def running(home: Path, environment: Mapping[str, str] | None = None) -> Iterator[str]:
    """The address of a web server (with its daemon) over a $VESPER_HOME; `environment`: what else its processes are
    told. Its output is `server.log` there."""
    port, given = free_port(), os.environ.pop("DAGSTER_HOME", None)
    try:
        folder = dagster_home.prepare(home)
    finally:
        if given is not None:
            os.environ["DAGSTER_HOME"] = given
    told = {
        **os.environ,
        "VESPER_HOME": str(home),
        "DAGSTER_HOME": str(folder),
        "DAGSTER_DISABLE_TELEMETRY": "1",
        "VESPER_NIGHTLY_CRON": "0 0 29 2 *",
        "PYTHONUNBUFFERED": "1",
        **(environment or {}),
    }
    command = [sys.executable, "-m", "dagster_project.cli", "web", "--port", str(port)]
    with (home / "server.log").open("wb") as log:
        server = subprocess.Popen(command, cwd=ROOT, env=told, stdout=log, stderr=log, start_new_session=True)
    address = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + READY_S
        while not _answers(f"{address}/server_info"):
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"vesper web doesn't answer: {(home / 'server.log').read_text()[-3000:]}")
            time.sleep(0.2)
        yield address
    finally:
        _stop(server, home)


@contextmanager
def page_of(url: str, width: int = 1500, height: int = 900) -> Iterator[Any]:
    """A page of a Chromium with a new profile, from which nothing but the server is reached."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=list(FLAGS))
        try:
            made = browser.new_page(viewport={"width": width, "height": height})
            made.route(lambda address: not address.startswith(url), lambda route: route.abort())
            yield made
        finally:
            browser.close()


def graphql(page: Any, query: str, **variables: Any) -> Any:
    """Ask as the page itself does, from within it."""
    reply = page.evaluate(
        "([query, variables]) => fetch('/graphql', {method: 'POST', headers: {'Content-Type': 'application/json'},"
        " body: JSON.stringify({query, variables})}).then(reply => reply.json())",
        [query, variables],
    )
    assert "errors" not in reply, reply["errors"]
    return reply["data"]


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=2) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False


def _ours(home: Path) -> list[int]:
    """Processes that were given this $VESPER_HOME, whatever group or session they are in."""
    mark, found = f"VESPER_HOME={home}\0".encode(), []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:  # gone, or not ours to look at
            continue
    return [pid for pid in found if pid != os.getpid()]


def _stop(server: subprocess.Popen[bytes], home: Path) -> None:
    """End the server's group, then whatever of its children leads a group of its own."""
    server.send_signal(signal.SIGINT)
    try:
        server.wait(2)
    except subprocess.TimeoutExpired:
        pass
    for _ in range(50):
        for pid in _ours(home):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if server.poll() is not None and not _ours(home):
            return
        time.sleep(0.1)
    raise AssertionError(f"still running: {_ours(home)}")
