"""Whatever of a session is killed, nothing of it stays: no process, no X server, no folder."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from generators.devices.device import DeviceEndpoint
from generators.worlds.desktop.desktop_world import DesktopWorld
from generators.worlds.desktop.session import DesktopMissing, open_desktop

pytestmark = pytest.mark.slow


def processes(mark: str) -> dict[int, str]:
    """Process id → command of those that have the mark in their environment."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                if mark.encode() in (entry / "environ").read_bytes():
                    found[int(entry.name)] = (entry / "comm").read_text().strip()
            except OSError:
                continue  # it has ended
    return found


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def victim(home: str, kind: str) -> int:
    """The X server, or the keeper, which started it."""
    server = next(pid for pid, name in processes(home).items() if name == "Xvfb")
    return server if kind == "Xvfb" else parent(server)


@pytest.mark.parametrize("kind", ["Xvfb", "keeper"])
def test_a_killed_session_leaves_nothing(kind: str) -> None:
    endpoint: DeviceEndpoint | None = None
    try:
        with open_desktop((640, 480)) as endpoint:
            options = dict(endpoint.options or {})
            with DesktopWorld(endpoint) as world:
                world.reset({"program": "text editor", "files": {"a.txt": "x"}, "open": "a.txt"})
                os.kill(victim(options["home"], kind), signal.SIGKILL)
            end = time.monotonic() + 10
            while processes(options["home"]) and time.monotonic() < end:
                time.sleep(0.1)
            assert processes(options["home"]) == {}
    except DesktopMissing as missing:
        pytest.skip(str(missing))
    assert endpoint is not None and not Path(options["home"]).exists()
    assert not Path(f"/tmp/.X11-unix/X{options['display'].removeprefix(':')}").exists()


def below(pid: int) -> set[int]:
    """A process and all that it started, as this machine numbers them."""
    found, todo = {pid}, [pid]
    while todo:
        above = todo.pop()
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal() and int(entry.name) not in found:
                try:
                    if parent(int(entry.name)) == above:
                        found.add(int(entry.name))
                        todo.append(int(entry.name))
                except (OSError, IndexError, ValueError):
                    continue  # it has ended
    return found


def living(pids: set[int]) -> set[int]:
    return {pid for pid in pids if Path(f"/proc/{pid}/exe").exists()}


@pytest.mark.parametrize("kind", ["Xvfb", "seal"])
def test_a_killed_session_that_is_sealed_off_leaves_nothing(kind: str) -> None:
    """Its processes have numbers of their own inside, so they are found from the seal (bubblewrap) downwards."""
    before = below(os.getpid())
    try:
        with open_desktop((640, 480), sealed=True) as endpoint, DesktopWorld(endpoint) as world:
            key_file = Path(str((endpoint.options or {})["key_file"]))
            world.reset({"program": "text editor", "files": {"a.txt": "x"}, "open": "a.txt"})
            started = below(os.getpid()) - before
            names = {pid: Path(f"/proc/{pid}/comm").read_text().strip() for pid in started}
            assert "mousepad" in names.values() and "Xvfb" in names.values()
            wanted = "Xvfb" if kind == "Xvfb" else "bwrap"
            os.kill(min(pid for pid, name in names.items() if name == wanted), signal.SIGKILL)
            end = time.monotonic() + 20
            while living(started) and time.monotonic() < end:
                time.sleep(0.1)
            assert living(started) == set()
    except DesktopMissing as missing:
        pytest.skip(str(missing))
    assert not key_file.parent.exists()
