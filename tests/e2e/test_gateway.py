"""The gateway from the command line: serve, register an emulated phone, forward it, Debian's adb on the local port."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ports import free_port

from dagster_project.cli import main
from generators.devices.browser import BrowserMissing, find_chromium

Start = Callable[..., str]


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Of the processes that are started; of this one, too."""
    for name, value in (("VESPER_HOME", str(tmp_path / "home")), ("HOME", str(tmp_path)), ("PYTHONUNBUFFERED", "1")):
        monkeypatch.setenv(name, value)
    return dict(os.environ)


@pytest.fixture
def start(environment: dict[str, str]) -> Iterator[Start]:
    """Start a command and give the port at the end of the line that holds a text."""
    started: list[subprocess.Popen[str]] = []

    def begin(*words: str, says: str) -> str:
        process = subprocess.Popen(
            [sys.executable, "-m", "dagster_project.cli", *words],
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        started.append(process)
        assert process.stdout is not None
        told = []
        for line in process.stdout:
            told.append(line)
            if says in line:
                return line.strip().rpartition(":")[2]
        raise AssertionError(f"{words} ended: {''.join(told)}")

    yield begin
    for process in reversed(started):
        process.send_signal(signal.SIGTERM)
    for process in started:
        assert process.wait(20) in (0, -signal.SIGTERM)


def vesper(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a command that is done at once prints, in this process: four out of five seconds were Python's start."""
    assert main(list(words)) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def test_adb_reaches_a_leased_phone_through_the_gateway(
    environment: dict[str, str], start: Start, tmp_path: Path, unused_port: int, capsys: pytest.CaptureFixture[str]
) -> None:
    if shutil.which("adb") is None:
        pytest.skip("no adb here (Debian: apt-get install adb)")
    try:
        find_chromium()
    except BrowserMissing as missing:
        pytest.skip(str(missing))
    start("gateway", "serve", "--authority-port", "0", "--node-port", "0", says="gateway node")
    phone = start("devices", "phone", "--port", "0", says="phone on")
    assert "no devices are registered" in vesper(capsys, "devices", "list")
    vesper(capsys, "devices", "add", "phone1", "--protocol", "adb", "--address", f"127.0.0.1:{phone}")
    local = start("devices", "forward", "adb", "--device", "phone1", says="device phone1 on")
    assert "held by client" in vesper(capsys, "devices", "list")

    client = {**environment, "ANDROID_ADB_SERVER_PORT": str(unused_port)}

    def adb(*words: str) -> bytes:
        return subprocess.run(["adb", *words], env=client, check=True, capture_output=True, timeout=30).stdout

    try:
        assert b"connected" in adb("connect", f"127.0.0.1:{local}")
        before = adb("exec-out", "screencap", "-p")
        adb("shell", "input", "tap", "100", "200")
        after = adb("exec-out", "screencap", "-p")
        assert before[:8] == after[:8] == b"\x89PNG\r\n\x1a\n" and before != after
    finally:
        adb("kill-server")
    secrets = list((tmp_path / "home" / "gateway").glob("*.json"))
    assert len(secrets) == 3 and all(path.stat().st_mode & 0o077 == 0 for path in secrets)


@pytest.fixture
def unused_port() -> int:
    return free_port()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("devices", "list"), "no authority is known; run `vesper gateway serve`"),
        (("devices", "add", "x", "--protocol", "adb", "--address", "nowhere"), "--address: expected HOST:PORT"),
        (("devices", "list", "--authority", "http://127.0.0.1:9"), "lease authority at http://127.0.0.1:9"),
        (("gateway", "authority", "--config", "missing.json"), "expected a JSON file"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(
    environment: dict[str, str], capsys: pytest.CaptureFixture[str], words: tuple[str, ...], why: str
) -> None:
    assert main(list(words)) == 2
    said = capsys.readouterr().err
    assert why in said and len(said.strip().splitlines()) == 1, said
