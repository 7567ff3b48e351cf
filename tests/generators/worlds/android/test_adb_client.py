"""The emulated phone under Debian's own adb, on real Chromium: the commands people type, and their exit codes."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from recording_phone import AdbClient, LoopThread, RecordingPhone, served

from generators.worlds.android.adbd import Adbd


@pytest.fixture(scope="module")
def phone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Adbd, RecordingPhone]]:
    """(adb bound to the phone, the daemon, the backend)."""
    adb = AdbClient(tmp_path_factory.mktemp("home"))
    backend = RecordingPhone()
    with served(backend) as (_, adbd):
        serial = f"127.0.0.1:{adbd.port}"
        try:
            assert b"connected" in adb("connect", serial).stdout
            yield lambda *words, **more: adb("-s", serial, *words, **more), adbd, backend
            assert adbd.faults == []
        finally:
            adb.close()


def test_the_line_from_the_manual(phone: tuple[Any, Adbd, RecordingPhone]) -> None:
    """adb connect 127.0.0.1:PORT && adb shell input tap 100 200 && adb exec-out screencap -p > x.png"""
    from PIL import Image

    adb, _, backend = phone
    backend.done.clear()
    assert adb("shell", "input", "tap", "100", "200").returncode == 0
    assert backend.done == [("tap", 100, 200)]
    png = adb("exec-out", "screencap", "-p").stdout
    with Image.open(io.BytesIO(png)) as picture:
        picture.load()
        assert picture.size == backend.size_px


def test_exit_codes_and_both_streams(phone: tuple[Any, Adbd, RecordingPhone]) -> None:
    adb, _, _ = phone
    missing = adb("shell", "frobnicate --all")
    assert missing.returncode == 127 and b"frobnicate" in missing.stderr and b"not found" in missing.stderr
    assert adb("shell", "exit 42").returncode == 42
    assert adb("shell", "false || echo other && exit 7").stdout == b"other\n"
    both = adb("shell", "echo out; cat /nowhere")
    assert (both.returncode, both.stdout) == (1, b"out\n") and b"/nowhere: No such file" in both.stderr


def test_the_line_is_expanded_and_filtered_as_on_a_phone(phone: tuple[Any, Adbd, RecordingPhone]) -> None:
    adb, _, _ = phone
    ran = adb("shell", "frobnicate; echo code $? $((6 * 7)) $(getprop ro.build.version.sdk) | head -n 1 | wc -w")
    assert (ran.stdout, ran.returncode) == (b"4\n", 0) and b"frobnicate: inaccessible or not found" in ran.stderr
    focus = adb("shell", "dumpsys window displays | grep -E 'mCurrentFocus|mFocusedApp' | head -n 1").stdout
    assert b"org.example" in focus


def test_what_asks_for_another_adbd_is_answered_as_on_a_sold_phone(phone: tuple[Any, Adbd, RecordingPhone]) -> None:
    adb, adbd, _ = phone
    assert b"cannot run as root in production builds" in adb("root").stdout
    assert b"not running as root" in adb("unroot").stdout
    assert b"Not running as root" in (ran := adb("remount")).stdout + ran.stderr
    assert adb("get-state").stdout == b"device\n" and adb("wait-for-device").returncode == 0
    assert adb("reverse", "tcp:8081", "tcp:9000").returncode == 0
    assert adb("reverse", "tcp:0", "tcp:9001").stdout.strip() == b"40000"
    assert adb("reverse", "--list").stdout.split() == [b"host-1", b"tcp:8081", b"tcp:9000"] + [
        b"host-1",
        b"tcp:40000",
        b"tcp:9001",
    ]
    taken = adb("reverse", "--no-rebind", "tcp:8081", "tcp:1")
    assert taken.returncode != 0 and b"cannot bind listener 'tcp:8081'" in taken.stderr
    gone = adb("reverse", "--remove", "tcp:7")
    assert gone.returncode != 0 and b"listener 'tcp:7' not found" in gone.stderr
    assert adb("reverse", "--remove-all").returncode == 0 and adbd.phone.reversed == {}
    for words in (("logcat", "-d"), ("bugreport",), ("install", __file__), ("sideload", __file__)):
        refused = adb(*words)
        assert refused.returncode != 0 and refused.stdout + refused.stderr, words


def test_a_reboot_ends_connections_and_comes_back(phone: tuple[Any, Adbd, RecordingPhone]) -> None:
    adb, adbd, backend = phone
    for words in (("reboot",), ("shell", "reboot")):
        adb("shell", "echo stays > /sdcard/stays")
        boots, backend.done = adbd.phone.boots, []
        adb(*words)
        assert adbd.phone.boots == boots + 1 and backend.done == [("key", "KEYCODE_HOME")]
        adb("connect", f"127.0.0.1:{adbd.port}")
        assert adb("wait-for-device").returncode == 0
        assert adb("shell", "cat /sdcard/stays").stdout == b"stays\n"


def test_push_pull_list_and_remove(phone: tuple[Any, Adbd, RecordingPhone], tmp_path: Path) -> None:
    adb, _, _ = phone
    for size in (0, 1, 65_536, 3_000_001):
        (tmp_path / "there").write_bytes(data := os.urandom(size))
        assert adb("push", str(tmp_path / "there"), "/sdcard/Download/it.bin").returncode == 0
        assert adb("pull", "/sdcard/Download/it.bin", str(tmp_path / "back")).returncode == 0
        assert (tmp_path / "back").read_bytes() == data
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a é.txt").write_text("a")
    assert adb("push", str(folder), "/sdcard/").returncode == 0
    assert adb("pull", "/sdcard/folder", str(tmp_path / "again")).returncode == 0
    assert (tmp_path / "again" / "a é.txt").read_text() == "a"
    assert b"it.bin" in adb("shell", "ls", "/sdcard/Download").stdout
    assert adb("shell", "rm", "/sdcard/Download/it.bin").returncode == 0
    gone = adb("pull", "/sdcard/Download/it.bin", str(tmp_path / "gone"))
    assert gone.returncode == 1 and b"No such file" in gone.stdout + gone.stderr


def test_a_piped_shell_reads_lines(phone: tuple[Any, Adbd, RecordingPhone]) -> None:
    adb, _, _ = phone
    ran = adb("shell", stdin=b"echo one\nfoo\necho two\nexit 5\necho never\n")
    assert ran.stdout == b"one\ntwo\n" and b"foo" in ran.stderr and ran.returncode == 5


def test_text_from_the_wire_reaches_no_real_path(phone: tuple[Any, Adbd, RecordingPhone], tmp_path: Path) -> None:
    adb, _, _ = phone
    (tmp_path / "secret").write_text("real")
    up = "/".join([".."] * 20)
    for path in (str(tmp_path / "secret"), f"{up}{tmp_path}/secret", "/etc/passwd"):
        assert b"real" not in adb("shell", "cat", path).stdout and b"root:" not in adb("shell", "cat", path).stdout
        assert adb("pull", path, str(tmp_path / "stolen")).returncode != 0
    pushed = adb("push", str(tmp_path / "secret"), f"{up}{tmp_path}/planted")
    assert pushed.returncode == 1 and b"Read-only file system" in pushed.stdout + pushed.stderr
    assert not (tmp_path / "planted").exists()
    for line in (f"echo $(touch {tmp_path}/made); echo `touch {tmp_path}/made`", f"echo x > {tmp_path}/made"):
        adb("shell", line)
    assert not (tmp_path / "made").exists()


@pytest.fixture(scope="module")
def screen() -> Iterator[tuple[LoopThread, Any]]:
    """A loop and a phone in Chromium."""
    from generators.devices.browser import BrowserMissing, find_chromium
    from generators.worlds.android.phone_screen import open_phone_screen

    try:
        find_chromium()
    except BrowserMissing as missing:
        pytest.skip(str(missing))
    run = LoopThread()
    context = open_phone_screen()
    try:
        yield run, run(context.__aenter__())
        run(context.__aexit__(None, None, None))
    finally:
        run.close()


def test_an_agent_s_turn_on_chromium(screen: tuple[LoopThread, Any]) -> None:
    """Reset, look, tap what the tree names, type, scroll, go home: all by the driver, checked by the phone's truth."""
    from generators.devices.device import DeviceEndpoint
    from generators.devices.drivers.adb import connect
    from generators.tasks.world_interface import WorldError
    from generators.worlds.android.adbd import serve_adb
    from generators.worlds.android.emulated_phone import EmulatedPhone
    from schemas.actions import Click, Launch, PressBack, PressHome, Scroll, Type, Wait

    run, backend = screen

    async def work() -> None:
        async with (
            serve_adb(EmulatedPhone(backend)) as adbd,
            connect(DeviceEndpoint("adb", "127.0.0.1", adbd.port)) as device,
        ):
            await device.reset({"seed": 5})
            home = await device.observe()
            icon = next(element for element in home.elements if element.name == "Notes")
            assert device.size_px == backend.size_px and icon.clickable
            await device.act(Click(icon.centre))
            assert (await device.state())["ui"]["front"] == "notes"
            await device.act(PressHome())
            assert (await device.state())["ui"]["front"] == "home"
            await device.act(Launch(app="Contacts"))
            seen = (await device.observe()).elements
            field = next(element for element in seen if element.role in ("textbox", "searchbox"))
            await device.act(Click(field.centre))
            text = "买牛奶 🥛 'quoted'; rm -rf / %s"
            await device.act(Type(text))
            assert text in json.dumps(await device.state(), ensure_ascii=False)
            await device.act(PressBack())
            before = (await device.state())["now"]["sec"]
            await device.act(Wait())
            assert (await device.state())["now"]["sec"] == before + 2
            await device.reset({"seed": 5, "open": "vesper://contacts"})
            seen = await device.observe()
            await device.act(Scroll(direction="down"))
            assert (await device.observe()).sha256 != seen.sha256
            await device.act(Launch(url="vesper://clock"))
            assert (await device.state())["ui"]["front"] == "clock"
            with pytest.raises(WorldError, match="could not start"):
                await device.act(Launch(url="vesper://nowhere"))
            for wrong in ({"seed": -1}, {"sees": 1}, {"seed": 1, "open": "vesper://nowhere"}):
                with pytest.raises(WorldError, match="reset"):
                    await device.reset(wrong)
            await device.reset({"seed": 5})
            assert (await device.observe()).sha256 == home.sha256
            assert adbd.faults == []

    run(work())


def test_a_phone_as_a_process_of_its_own(tmp_path: Path, screen: tuple[LoopThread, Any]) -> None:
    """adb connect 127.0.0.1:PORT && adb shell input tap 100 200 && adb exec-out screencap -p > x.png"""
    from PIL import Image

    adb = AdbClient(tmp_path)
    process = subprocess.Popen(
        [sys.executable, "-m", "dagster_project.cli", "devices", "phone", "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[4],
    )
    try:
        assert process.stdout is not None
        serial = process.stdout.readline().removeprefix("phone on ").strip()
        assert b"connected" in adb("connect", serial).stdout
        assert adb("-s", serial, "shell", "input", "tap", "100", "200").returncode == 0
        png = adb("-s", serial, "exec-out", "screencap", "-p").stdout
        with Image.open(io.BytesIO(png)) as picture:
            picture.load()
            assert picture.size == screen[1].size_px
        assert adb("-s", serial, "shell", "am start -n org.vesper.notes/.MainActivity").returncode == 0
        assert b"org.vesper.notes/.MainActivity" in adb("-s", serial, "shell", "dumpsys window").stdout
        refused = adb("-s", serial, "shell", "input text 'café'")
        assert refused.returncode == 255 and b"NullPointerException" in refused.stderr
    finally:
        adb.close()
        process.terminate()
        assert process.wait(20) == 0
        assert process.stdout is not None
        process.stdout.close()
