"""A port that is taken: the error names it, who holds it, and the way out."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import native
import pytest

from pipelines.ports import named_port


def test_a_taken_port_is_named_with_its_holder() -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
        with (
            pytest.raises(OSError, match=rf"port {port} of 127.0.0.1: it is taken by process {os.getpid()} .* --port"),
            named_port("127.0.0.1", port),
        ):
            socket.create_server(("127.0.0.1", port))
    with pytest.raises(OSError, match="no such address"), named_port("203.0.113.9", 0):
        socket.create_server(("203.0.113.9", 0))
    with pytest.raises(ValueError, match="expected 0 to 65535, found 99999"), named_port("127.0.0.1", 99999):
        socket.create_server(("127.0.0.1", 99999))
    with pytest.raises(FileNotFoundError), named_port("127.0.0.1", 1):
        raise FileNotFoundError("x")


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("devices", "phone", "--port", "{port}"),
        ("devices", "sites", "--port", "{port}"),
        ("review", "serve", "--from", "{folder}", "--port", "{port}"),
        ("web", "--port", "{port}"),
    ],
)
def test_every_server_that_a_command_starts_says_so_in_one_line(words: tuple[str, ...], tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
        if "review" in words:
            unify(tmp_path)
        command = [word.format(port=port, folder=tmp_path) for word in words]
        begun = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "dagster_project.cli", *command],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 2 and f"port {port} of 127.0.0.1: it is taken" in last and "--port" in last, done.stderr
    assert "Traceback" not in done.stderr and time.monotonic() - begun < 100


def unify(folder: Path) -> None:
    native.fixture("aitz").write(folder / "raw")
    command = ["unify", "aitz", "--raw", str(folder / "raw"), "--out", str(folder)]
    subprocess.run([sys.executable, "-m", "dagster_project.cli", *command], check=False, capture_output=True)
