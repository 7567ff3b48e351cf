"""The ADB driver against the emulated phone: every action, byte-exact text, auth, tunnel, server, and broken peers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recording_phone import AdbClient, LoopThread, RecordingPhone, served

from generators.devices.device import AsyncDevice, DeviceEndpoint, DeviceError, LeaseLost
from generators.devices.drivers.adb import AdbDevice, AdbOptions, connect
from generators.devices.drivers.adb_apps import PACKAGES, pick_package
from generators.devices.drivers.frames import read_options
from generators.devices.protocols import adb_auth
from generators.devices.protocols.adb_harness import ADB_KEYBOARD
from generators.tasks.world_interface import UnsupportedAction, WorldError
from generators.worlds.android.adbd import Adbd, HostKeys, serve_adb
from generators.worlds.android.emulated_phone import LATIN_KEYBOARD, EmulatedPhone
from generators.worlds.android.uiautomator import UiAutomatorNode
from schemas import actions

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200)
NASTY = [  # the first: a family joined by zero-width joiners, a flag of two letters
    "👩‍👩‍👧‍👦🇨🇭 你好,世界",
    "';rm -rf / #",
    '"`$(reboot)`" && exit 1 || a\\b',
    "%s %%s %d",
    "line\nline\r\n\ttab\0nul",
    " leading and trailing ",
    "-d --es msg",
    "é" * 5000,
    "x" * 32767 + "😀" * 9000,
]


def endpoint(port: int, **options: Any) -> DeviceEndpoint:
    return DeviceEndpoint("adb", "127.0.0.1", port, options={"call_s": 10.0, "wait_s": 0.01, **options})


@asynccontextmanager
async def phone(backend: RecordingPhone, **options: Any) -> AsyncIterator[tuple[AdbDevice, Adbd]]:
    """An emulated phone and the driver on it."""
    async with serve_adb(EmulatedPhone(backend)) as adbd, connect(endpoint(adbd.port, **options)) as device:
        yield device, adbd


def run(work: Coroutine[Any, Any, Any]) -> Any:
    async def limited() -> Any:
        async with asyncio.timeout(60):
            return await work

    return asyncio.run(limited())


def test_every_action_where_it_exists() -> None:
    async def work() -> None:
        backend = RecordingPhone()
        async with phone(backend, apps={"My clock": "org.example.clock/.MainActivity"}) as (device, adbd):
            assert isinstance(device, AsyncDevice) and device.size_px == (360, 640)
            for action, done in (
                (actions.Click((0, 0)), ("tap", 0, 0)),
                (actions.Click((1000, 1000)), ("tap", 359, 639)),
                (actions.LongPress((500, 500)), ("swipe", 180, 320, 180, 320, 800)),
                (actions.Drag((0, 500), (1000, 500)), ("swipe", 0, 320, 359, 320, 1000)),
                (actions.Scroll((500, 750), (500, 250)), ("swipe", 180, 480, 180, 160, 300)),
                (actions.Scroll(direction="down"), ("swipe", 180, 448, 180, 192, 300)),
                (actions.PressBack(), ("key", "KEYCODE_BACK")),
                (actions.PressHome(), ("key", "KEYCODE_HOME")),
                (actions.PressEnter(), ("key", "KEYCODE_ENTER")),
                (actions.PressRecent(), ("key", "KEYCODE_APP_SWITCH")),
                (actions.Launch(app="clock"), ("start", "org.example.clock/.MainActivity", "")),
                (actions.Launch(app="My clock"), ("start", "org.example.clock/.MainActivity", "")),
                (actions.Launch(app="org.example.shop"), ("start", "org.example.shop/.Front", "")),
                (actions.Launch(url="shop://a?b='c'&d"), ("start", "", "shop://a?b='c'&d")),
                (actions.Type("ab"), ("text", 2)),
            ):
                backend.done.clear()
                await device.act(action)
                assert backend.done == [done], action
            backend.done.clear()
            for quiet in (actions.Finished("x"), actions.CallUser("y"), actions.TakeNote("z"), actions.Type("")):
                await device.act(quiet)
            assert backend.done == []
            await device.act(actions.Wait())
            assert backend.done == [("wait", 0.01)]
            beside = (actions.RightClick((1, 1)), actions.SelectOption((1, 1), "a"), actions.GetUrl())  # which v2 has
            for missing in (*beside, actions.Hover((1, 1)), actions.DoubleClick((1, 1)), actions.Hotkey(("ctrl",))):
                with pytest.raises(UnsupportedAction, match=type(missing).__name__):
                    await device.act(missing)
            for nothing in (
                actions.Launch(app="Nonsense"),
                actions.Launch(url="other://x"),
                actions.Launch(url="a\0b"),
            ):
                with pytest.raises(WorldError, match="Launch"):
                    await device.act(nothing)
            assert adbd.faults == []

    run(work())


def test_observation_and_truth() -> None:
    async def work() -> None:
        backend = RecordingPhone()
        backend.nodes += [
            UiAutomatorNode(
                (0, 64, 360, 128), "android.widget.EditText", text="<&>\"'\n", resource_id="a:id/row", focused=True
            ),
            UiAutomatorNode(
                (0, 128, 360, 192), "android.widget.TextView", text="two", description="second", resource_id="a:id/row"
            ),
            UiAutomatorNode((0, 700, 360, 800), "android.widget.TextView", text="below the screen"),
            UiAutomatorNode((0, 0, 360, 640), "android.view.View"),
        ]
        async with phone(backend) as (device, _):
            seen = await device.observe()
            assert [(element.role, element.text, element.name, element.key) for element in seen.elements] == [
                ("button", "OK", "OK", "ok"),
                ("textbox", "<&>\"'\n", "<&>\"'\n", "row"),
                ("text", "two", "second", "row#2"),
            ]
            assert seen.elements[0].box == (0, 0, 250, 100) and seen.elements[0].clickable
            start = {"seed": 3, "text": "'; rm -rf / \u2028 😀", "deep": [[{}]]}
            await device.reset(start)
            backend.refused = "no such seed"
            with pytest.raises(WorldError, match="no such seed"):
                await device.reset({"seed": -1})
            state = await device.state()
            assert state["start"] == start and state["odd"] == "é\u2028😀"
        async with phone(backend, tree=False) as (device, _):
            assert (await device.observe()).elements == ()

    run(work())


def test_a_stock_phone_is_reset_by_apps() -> None:
    async def work() -> None:
        backend = RecordingPhone()
        stock = EmulatedPhone(backend, harness=False)
        async with serve_adb(stock) as adbd, connect(endpoint(adbd.port)) as device:
            assert await device.state() == {}
            await device.reset({"stop": ["org.example.shop"], "app": "Clock"})
            assert ("key", "KEYCODE_HOME") in backend.done
            assert backend.done[-1] == ("start", "org.example.clock/.MainActivity", "")
            for wrong in ({"seed": 1}, {"stop": ["a; reboot"]}):
                with pytest.raises(WorldError, match="reset|snapshot"):
                    await device.reset(wrong)

    run(work())


@pytest.fixture(scope="module")
def typist() -> Iterator[tuple[LoopThread, RecordingPhone, AdbDevice]]:
    backend = RecordingPhone()
    with served(backend) as (loop, adbd):
        context = connect(endpoint(adbd.port))
        device = loop(context.__aenter__())
        yield loop, backend, device
        loop(context.__aexit__(None, None, None))


@settings(max_examples=60)
@given(text=TEXTS)
def test_any_text_arrives_byte_for_byte(typist: tuple[LoopThread, RecordingPhone, AdbDevice], text: str) -> None:
    loop, backend, device = typist
    backend.typed = b""
    loop(device.act(actions.Type(text)))
    assert backend.typed == text.encode()


@pytest.mark.parametrize("text", NASTY, ids=range(len(NASTY)))
def test_nasty_text_arrives_byte_for_byte(typist: tuple[LoopThread, RecordingPhone, AdbDevice], text: str) -> None:
    loop, backend, device = typist
    backend.typed = b""
    loop(device.act(actions.Type(text)))
    assert backend.typed == text.encode()


@settings(max_examples=60)
@given(text=st.text(st.sampled_from("%s ab'\"$`\\;&|#~-\t"), min_size=1, max_size=40))
def test_keys_type_plain_text_or_nothing(typist: tuple[LoopThread, RecordingPhone, AdbDevice], text: str) -> None:
    """Without ADBKeyboard: exact where keys can type it, an error before the first character where they can't."""
    loop, backend, device = typist
    keys = AdbDevice(device._transport, "phone", AdbOptions(keyboard="keys"))
    backend.typed = b""
    if "\t" in text:
        with pytest.raises(DeviceError, match="no key types this text"):
            loop(keys.act(actions.Type(text)))
        assert backend.typed == b""
    else:
        loop(keys.act(actions.Type(text)))
        assert backend.typed == text.encode()


def test_the_former_keyboard_comes_back() -> None:
    async def work() -> None:
        emulated = EmulatedPhone(RecordingPhone())
        async with serve_adb(emulated) as adbd:
            async with connect(endpoint(adbd.port)) as device:
                assert emulated.input_method == LATIN_KEYBOARD
                await device.act(actions.Type("x"))
                assert emulated.input_method == ADB_KEYBOARD
            assert emulated.input_method == LATIN_KEYBOARD

    run(work())


def test_many_calls_at_once_on_one_connection() -> None:
    async def work() -> None:
        backend = RecordingPhone()
        async with phone(backend) as (device, adbd):
            seen = await asyncio.gather(
                *(device.observe() for _ in range(10)), *(device.act(actions.Click((5, 5))) for _ in range(20))
            )
            assert all(item.png for item in seen[:10])
            assert sum(call[0] == "tap" for call in backend.done) == 20 and adbd.faults == []

    run(work())


# -- keys -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def key_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from cryptography.hazmat.primitives import serialization as to
    from cryptography.hazmat.primitives.asymmetric import rsa

    path = tmp_path_factory.mktemp("keys") / "adbkey"
    key = rsa.generate_private_key(65537, 2048)
    path.write_bytes(key.private_bytes(to.Encoding.PEM, to.PrivateFormat.PKCS8, to.NoEncryption()))
    return path


def test_a_phone_that_asks_for_a_signature(key_file: Path) -> None:
    async def work() -> None:
        public = adb_auth.load_key(key_file).public_key()
        assert (
            adb_auth.read_public(adb_auth.write_public(public, "me@here")).public_numbers() == public.public_numbers()
        )
        for keys in (HostKeys(known=[public]), HostKeys(accept_new=True)):
            async with serve_adb(EmulatedPhone(RecordingPhone()), keys=keys) as adbd:
                async with connect(endpoint(adbd.port, key_file=str(key_file))) as device:
                    await device.act(actions.Click((5, 5)))
                assert len(keys.known) == 1
        async with serve_adb(EmulatedPhone(RecordingPhone()), keys=HostKeys()) as adbd:
            for options, message in (
                ({}, "asks for a signature"),
                ({"key_file": str(key_file)}, "handshake took longer"),
            ):
                with pytest.raises(DeviceError, match=message):
                    async with connect(endpoint(adbd.port, **{"call_s": 1.0 if options else 10.0, **options})):
                        pass
        with pytest.raises(DeviceError, match="private key in PEM"):
            async with serve_adb(EmulatedPhone(RecordingPhone())) as adbd:
                await _open_once(endpoint(adbd.port, key_file=__file__))

    run(work())


def test_the_real_client_passes_the_same_question(tmp_path: Path) -> None:
    keys = HostKeys(accept_new=True)
    adb = AdbClient(tmp_path)
    with served(RecordingPhone(), keys=keys) as (_, adbd):
        try:
            adb("connect", f"127.0.0.1:{adbd.port}")  # it says "failed to authenticate" while the owner is asked
            for _ in range(100):
                if adb("-s", f"127.0.0.1:{adbd.port}", "shell", "true").returncode == 0:
                    break
                time.sleep(0.05)
            assert adb("-s", f"127.0.0.1:{adbd.port}", "shell", "echo in").stdout == b"in\n"
            assert len(keys.known) == 1
        finally:
            adb.close()


# -- other ways to the phone ------------------------------------------------------------------------------------------


def test_by_serial_through_an_adb_server(tmp_path: Path) -> None:
    adb = AdbClient(tmp_path)
    backend = RecordingPhone()
    with served(backend) as (loop, adbd):
        try:
            serial = f"127.0.0.1:{adbd.port}"
            assert b"connected" in adb("connect", serial).stdout

            async def work() -> None:
                async with connect(endpoint(adb.port, serial=serial)) as device:
                    assert len((await device.observe()).elements) == 1
                    await device.act(actions.Click((500, 500)))
                    for text in NASTY:
                        backend.typed = b""
                        await device.act(actions.Type(text))
                        assert backend.typed == text.encode()
                with pytest.raises(DeviceError, match="not found"):
                    async with connect(endpoint(adb.port, serial="nobody")):
                        pass
                with pytest.raises(DeviceError, match="serial as"):
                    async with connect(endpoint(adb.port, serial="x;y z")):
                        pass

            loop(work())
        finally:
            adb.close()
    with pytest.raises(DeviceError, match="start-server"):
        run(_open_once(endpoint(adb.port, serial="nobody")))


async def _open_once(where: DeviceEndpoint) -> None:
    async with connect(where) as device:
        await device.observe()


def test_through_a_gateway() -> None:
    async def work() -> None:
        heads: list[bytes] = []
        status = b"200 Connection established"

        async def gateway(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(b"HTTP/1.1 " + status + b"\r\n\r\n")
            if status.startswith(b"200"):
                there, back = await asyncio.open_connection("127.0.0.1", adbd.port)

                async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
                    while data := await source.read(65536):
                        target.write(data)
                    target.close()

                await asyncio.gather(pump(reader, back), pump(there, writer), return_exceptions=True)
            writer.close()

        async with serve_adb(EmulatedPhone(RecordingPhone())) as adbd:
            server = await asyncio.start_server(gateway, "127.0.0.1", 0)
            port = server.sockets[0].getsockname()[1]
            there = DeviceEndpoint("adb", "127.0.0.1", port, device="phone-1", token="a.b.c")
            async with connect(there) as device:
                assert (await device.observe()).png
            assert (
                heads[0].startswith(b"CONNECT phone-1 HTTP/1.1\r\n")
                and b"\r\nAuthorization: Bearer a.b.c\r\n" in heads[0]
            )
            status = b"401 Unauthorized"
            with pytest.raises(LeaseLost, match="refuses the token"):
                await _open_once(there)
            status = b"502 Bad Gateway"
            with pytest.raises(DeviceError, match="502"):
                await _open_once(there)
            for odd in (
                DeviceEndpoint("adb", "127.0.0.1", port, "a\r\nb", "t"),
                DeviceEndpoint("adb", "127.0.0.1", port, "a", "t\r\nx"),
            ):
                with pytest.raises(DeviceError, match="expected a name|characters"):
                    await _open_once(odd)
            server.close()

    run(work())


def test_names_of_apps() -> None:
    installed = ["com.android.deskclock", "org.a.notes", "com.b.notes.pro", "a.mail", "b.mail", "org.x.play.store"]
    expected = {
        "Clock": "com.android.deskclock",
        "NOTES": "org.a.notes",
        "mail": "",
        "a.mail": "a.mail",
        "x": "org.x.play.store",
        "no such": "",
    }
    assert {name: pick_package(name, installed, PACKAGES) for name in expected} == expected
    with pytest.raises(ValueError, match="expected names of"):
        read_options(AdbOptions, {"colour": 1}, "adb")
    with pytest.raises(ValueError, match="auto, adb or keys"):
        read_options(AdbOptions, {"keyboard": "qwerty"}, "adb")
