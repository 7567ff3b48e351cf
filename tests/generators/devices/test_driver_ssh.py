"""The SSH driver on a real desktop: sshd, X server, calculator and editor; broken hosts, hung commands, bad options."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Coroutine, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from generators.devices.device import AsyncDevice, DeviceEndpoint, DeviceError
from generators.tasks.world_interface import UnsupportedAction, WorldError
from schemas import actions

pytest.importorskip("asyncssh", reason="needs the extra devices (asyncssh)")
from generators.devices.drivers.ssh import SshDevice, SshOptions, connect
from generators.devices.drivers.ssh_keys import keysym
from generators.worlds.desktop.session import DesktopMissing, find_missing, open_desktop

pytestmark = pytest.mark.slow

NASTY = [
    "👩‍👩‍👧‍👦🇨🇭 你好,世界",
    "';rm -rf / #",
    '"`touch /tmp/owned`" $(reboot) && exit 1 || a\\b\\n%s',
    "line\nline\n\n\ttab  \n trailing ",
    "-i --help",
    "é😀'" * 2000 + "end",
]


@pytest.fixture(scope="module")
def desktop() -> Iterator[DeviceEndpoint]:
    try:
        with open_desktop((1024, 768)) as endpoint:
            yield endpoint
    except DesktopMissing as missing:
        pytest.skip(str(missing))


def changed(endpoint: DeviceEndpoint, **options: Any) -> DeviceEndpoint:
    return replace(endpoint, options={**(endpoint.options or {}), **options})


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def log_of(endpoint: DeviceEndpoint) -> Path:
    assert endpoint.options is not None
    return Path(endpoint.options["home"]).with_name("session.log")


def test_a_calculator_counts_what_is_clicked(desktop: DeviceEndpoint) -> None:
    async def go() -> None:
        async with connect(desktop) as device:
            assert isinstance(device, AsyncDevice) and device.size_px == (1024, 768)
            await device.reset({})
            await device.act(actions.Launch(app="Calculator"))
            seen = await device.observe()
            buttons = {element.name: element.centre for element in seen.elements if element.role == "toggle button"}
            for name in ("7", "*", "8", "="):
                await device.act(actions.Click(buttons[name]))
            said = (await device.state())["window"]["texts"]
            assert "56" in [item["text"] for item in said if item["role"] == "text"]
            assert (await device.observe()).png != seen.png

    run(go())


def test_text_arrives_byte_for_byte(desktop: DeviceEndpoint) -> None:
    async def go() -> None:
        async with connect(desktop) as device:
            await device.reset({"files": {"a.txt": ""}, "program": "mousepad", "open": "a.txt"})
            for text in (f"{nasty}\n" for nasty in NASTY):
                await device.act(actions.Hotkey(("ctrl", "a")))
                await device.act(actions.Type(text))
                await device.act(actions.Hotkey(("ctrl", "s")))
                [file] = (await device.state())["files"]
                assert file["sha256"] == hashlib.sha256(text.encode()).hexdigest(), text[:40]
                assert file["path"] == "a.txt"

    run(go())
    assert not Path("/tmp/owned").exists()


def test_pointer_wheel_and_keys(desktop: DeviceEndpoint) -> None:
    async def go() -> None:
        async with connect(changed(desktop, settle_s=0.3)) as device:
            lines = "\n".join(f"line {number}" for number in range(300))
            await device.reset({"files": {"a.txt": lines}, "program": "mousepad", "open": "a.txt"})
            first = await device.observe()
            [area] = [one for one in first.elements if one.role == "text" and one.text.startswith("line 0")]
            await device.act(actions.Click(area.centre))
            before = (await device.observe()).png
            await device.act(actions.Scroll(area.centre, (area.centre[0], max(0, area.centre[1] - 200))))
            assert (await device.observe()).png != before
            await device.act(actions.Scroll(direction="up"))
            await device.act(actions.Hotkey(("ctrl", "home")))
            await device.act(actions.PressEnter())
            await device.act(actions.Type("first"))
            await device.act(actions.Hotkey(("ctrl", "s")))
            assert (await device.state())["files"][0]["text"].startswith("\nfirstline 0\n")
            await device.act(actions.DoubleClick(area.centre))
            for action in (
                actions.Hover((10, 10)),
                actions.LongPress(area.centre),
                actions.Drag((300, 400), (500, 450)),
                actions.PressBack(),
                actions.Wait(),
                actions.Finished(),
                actions.CallUser("?"),
            ):
                await device.act(action)
            where = await device.do("xdotool", "getmouselocation")
            assert where.startswith(b"x:512 y:345")

    run(go())


def test_a_right_click_opens_a_programs_menu(desktop: DeviceEndpoint) -> None:
    async def go() -> None:
        async with connect(changed(desktop, settle_s=0.6)) as device:
            await device.reset({"files": {"a.txt": "word"}, "program": "mousepad", "open": "a.txt"})
            seen = await device.observe()
            [area] = [one for one in seen.elements if one.role == "text" and one.text.startswith("word")]
            await device.act(actions.Click(area.centre))
            plain = await device.observe()
            await device.act(actions.TakeNote("what the menu says"))
            await device.act(actions.RightClick(area.centre))
            opened = await device.observe()
            came = {one.name for one in opened.elements} - {one.name for one in plain.elements}
            assert {"Cut", "Copy", "Paste"} <= came
            await device.act(actions.Hotkey(("esc",)))

    run(go())


@pytest.mark.parametrize(
    ("action", "error"),
    [
        (actions.PressHome(), UnsupportedAction),
        (actions.PressRecent(), UnsupportedAction),
        (actions.SelectOption((1, 1), "a"), UnsupportedAction),
        (actions.GetUrl(), UnsupportedAction),
        (actions.Launch(url="file:///"), UnsupportedAction),
        (actions.Launch(app="xterm; reboot"), WorldError),
        (actions.Hotkey(("ctrl", "a;reboot")), WorldError),
        (actions.Type("a\0b"), WorldError),
    ],
)
def test_what_a_desktop_has_not_is_an_error(desktop: DeviceEndpoint, action: Any, error: type[Exception]) -> None:
    async def go() -> None:
        async with connect(desktop) as device:
            await device.act(action)

    with pytest.raises(error):
        run(go())


def test_a_host_with_another_key_is_refused(desktop: DeviceEndpoint, tmp_path: Path) -> None:
    async def enter(endpoint: DeviceEndpoint) -> tuple[int, int]:
        async with connect(endpoint) as device:
            return device.size_px

    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "k")], check=True)
    other = " ".join((tmp_path / "k.pub").read_text().split()[:2])
    with pytest.raises(DeviceError, match="host key"):
        run(enter(changed(desktop, host_key=other)))
    (tmp_path / "known").write_text("")
    with pytest.raises(DeviceError, match="host key"):
        run(enter(changed(desktop, host_key="", known_hosts=str(tmp_path / "known"))))
    assert desktop.options is not None
    (tmp_path / "known").write_text(f"[desk]:{desktop.port} {desktop.options['host_key']}\n")
    known = changed(desktop, host_key="", known_hosts=str(tmp_path / "known"), host_alias="desk")
    assert run(enter(known)) == (1024, 768)
    with pytest.raises(DeviceError, match="handshake"):
        run(enter(changed(desktop, key_file=str(tmp_path / "k"))))


async def _hang(device: SshDevice) -> None:
    await device.do("sleep", "60")


def test_a_hung_command_meets_its_time_limit(desktop: DeviceEndpoint) -> None:
    async def go() -> None:
        async with connect(changed(desktop, call_s=1.5)) as device:
            begin = time.monotonic()
            with pytest.raises(DeviceError, match=r"sleep took longer than 1\.5 s"):
                await _hang(device)
            assert time.monotonic() - begin < 30
            await device.begin()  # the connection goes on

    run(go())


def test_a_command_may_end_before_it_is_given_anything(
    desktop: DeviceEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def go() -> None:
        async with connect(desktop) as device:
            begin = device._connection.create_process

            async def late(*words: Any, **options: Any) -> Any:
                process = await begin(*words, **options)
                await asyncio.wait_for(process.wait_closed(), 10)
                return process

            monkeypatch.setattr(device._connection, "create_process", late)
            assert await device.do("echo", "done", given=b"nobody reads this") == b"done\n"
            with pytest.raises(DeviceError, match="code 3"):
                await device.do("sh", "-c", "exit 3")

    run(go())


def test_a_killed_sshd_is_a_device_error(desktop: DeviceEndpoint) -> None:
    async def go() -> None:
        async with connect(desktop) as device:
            task = asyncio.ensure_future(_hang(device))
            await asyncio.sleep(0.5)
            parent = int(await device.do("sh", "-c", "ps -o ppid= -p $PPID || echo 0"))  # shell, timeout, then sshd
            command = (await device.do("ps", "-o", "args=", "-p", str(parent))).decode()
            while "sshd" not in command:
                parent = int(await device.do("ps", "-o", "ppid=", "-p", str(parent)))
                command = (await device.do("ps", "-o", "args=", "-p", str(parent))).decode()
            os.kill(parent, signal.SIGKILL)
            with pytest.raises(DeviceError, match="SSH connection|Connection reset"):
                async with asyncio.timeout(5):
                    await task
            with pytest.raises(DeviceError):
                await device.observe()

    run(go())


def test_nobody_listening_is_a_device_error(desktop: DeviceEndpoint) -> None:
    async def go() -> None:
        async with connect(replace(desktop, port=1)):
            pass

    with pytest.raises(DeviceError, match="no connection"):
        run(go())


@pytest.mark.parametrize("bad", [{"display": ":0; reboot"}, {"home": "/x y"}, {"colour": 1}, {"host_key": "x"}])
def test_bad_options_are_refused(bad: dict[str, Any]) -> None:
    async def go() -> None:
        async with connect(DeviceEndpoint("ssh", "127.0.0.1", 1, options=bad)):
            pass

    with pytest.raises(ValueError, match="ssh option"):
        run(go())


def test_only_a_disposable_home_is_emptied(desktop: DeviceEndpoint, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("x")

    async def go() -> None:
        async with connect(changed(desktop, home=str(tmp_path))) as device:
            await device.reset({"files": {}})

    with pytest.raises(WorldError, match="disposable"):
        run(go())
    assert (tmp_path / "precious").read_text() == "x"


def test_a_session_leaves_no_process_even_when_killed(tmp_path: Path) -> None:
    code = (
        "import sys,time\nfrom generators.worlds.desktop.session import open_desktop\n"
        "with open_desktop() as e: print(e.options['home'], flush=True); time.sleep(60)"
    )
    if missing := find_missing():
        pytest.skip(f"not installed: {missing}")
    owner = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, env={**os.environ, "TMPDIR": str(tmp_path)}
    )
    assert owner.stdout is not None
    folder = str(Path(owner.stdout.readline().decode().strip()).parent)
    owner.kill()
    owner.wait()
    owner.stdout.close()
    end = time.monotonic() + 8
    while left := [*_processes_of(folder), *([folder] if Path(folder).exists() else [])]:
        assert time.monotonic() < end, f"still running: {left}"
        time.sleep(0.1)


def _processes_of(folder: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if folder.encode() in path.read_bytes():
                found.append(path.parent.name)
        except OSError:
            continue
    return found


def test_keys_have_keysyms() -> None:
    assert [keysym(name) for name in ("Ctrl", "A", "f5", "pgdn", "win", ";", "enter", "F12", "nokey")] == [
        "ctrl",
        "a",
        "F5",
        "Next",
        "super",
        "semicolon",
        "Return",
        "F12",
        None,
    ]
    assert SshOptions(display=":3").environment() == ["DISPLAY=:3"]
